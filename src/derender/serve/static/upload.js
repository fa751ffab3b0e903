// Files from the button, from a drop anywhere on the page, or from the clipboard. Sends nothing itself.

/** onFile(file): called with one file; onProblem(sentence) where what came is no single file. */
export function listenForFiles(input, onFile, onProblem) {
  const take = (files) => {
    if (files.length === 1) onFile(files[0]);
    else onProblem(files.length ? "Drop one file at a time." : "That is no file.");
  };
  input.addEventListener("change", () => {
    if (input.files.length) take([...input.files]);
    input.value = ""; // so that the same file can be chosen again
  });
  let depth = 0; // of nested elements entered
  const over = (on) => document.body.classList.toggle("dragging", on);
  // Text is dragged inside the page, too, and is not meant here.
  const files = (listener) => (event) => {
    if (event.dataTransfer.types.includes("Files")) listener(event);
  };
  addEventListener("dragenter", files(() => over(++depth > 0)));
  addEventListener("dragleave", files(() => over(--depth > 0)));
  addEventListener("dragover", files((event) => event.preventDefault()));
  addEventListener("drop", files((event) => {
    event.preventDefault();
    depth = 0;
    over(false);
    take([...event.dataTransfer.files]);
  }));
  addEventListener("paste", (event) => {
    // What is copied from a word processor holds text and a picture of it: in a field, the text is meant.
    if (event.target.closest?.("input, textarea")) return;
    if (event.clipboardData.files.length) take([...event.clipboardData.files]);
  });
}
