// The document beside its pages: blocks as they were read, with doubtful places marked. Cannot be edited (editor.js).

import { safeFragment } from "./safe_html.js";

/** Fills `root`. onOpen(regionId, button) is called when a block is to be watched, canOpen(regionId) says whether it can. */
export function showBlocks(root, blocks, canOpen, onOpen, onHint) {
  let page = 0;
  const made = [];
  for (const block of blocks) {
    if (block.page !== page) {
      page = block.page;
      made.push(mark(page));
    }
    made.push(article(block, canOpen, onOpen, onHint));
  }
  root.replaceChildren(...made);
  if (!made.length) root.textContent = "No text was found.";
}

/** A sentence about the doubtful places of all blocks, `root` being where they are shown. */
export function doubtSentence(root, blocks) {
  const count = blocks.reduce((sum, block) => sum + block.doubtful, 0);
  if (!count) return "No place is doubtful.";
  const seen = root.querySelectorAll("mark.doubt").length;
  const said = [];
  if (seen) said.push(`${seen} doubtful ${seen === 1 ? "place is" : "places are"} underlined; point at one, or tap it, to see how sure it is.`);
  if (count > seen) said.push(`${count - seen} ${seen ? "more " : "doubtful places "}could not be underlined (in formulas, for one); their blocks say so.`);
  return said.join(" ");
}

export function markBlocks(root, id) {
  for (const block of root.querySelectorAll(".block")) {
    block.classList.toggle("marked", id !== null && block.dataset.regions.split(" ").includes(id));
  }
}

function mark(page) {
  const line = document.createElement("p");
  line.className = "page-mark";
  line.textContent = `Page ${page}`;
  return line;
}

function article(block, canOpen, onOpen, onHint) {
  const made = document.createElement("div");
  made.className = "block";
  made.dataset.regions = block.regions.join(" ");
  made.append(safeFragment(block.html));
  if (block.doubtful) made.append(...doubts(made, block.doubtful));
  if (canOpen(block.region)) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "watch";
    button.textContent = "Watch";
    button.setAttribute("aria-label", `Watch this ${block.type} being read`);
    button.addEventListener("click", () => onOpen(block.region, button));
    made.append(button);
  }
  made.addEventListener("pointerenter", () => onHint(block.regions));
  made.addEventListener("pointerleave", () => onHint([]));
  made.addEventListener("focusin", () => onHint(block.regions));
  return made;
}

/** What underlining says to those who see it, in words; and how many places it could not be put under. */
function doubts(block, count) {
  const marks = [...block.querySelectorAll("mark.doubt")].map((m) => `“${m.textContent}”, ${m.title}`);
  const notes = [];
  if (marks.length) notes.push(note("hidden", `Doubtful here: ${marks.slice(0, 8).join("; ")}${marks.length > 8 ? "; and more" : ""}.`));
  const rest = count - marks.length;
  if (rest > 0) notes.push(note("hint rest", `${rest} ${marks.length ? "more " : ""}doubtful ${rest === 1 ? "place" : "places"} here, not underlined.`));
  return notes;
}

function note(className, text) {
  const made = document.createElement("p");
  made.className = className;
  made.textContent = text;
  return made;
}
