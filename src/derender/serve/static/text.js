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

/** A sentence about the doubtful places of all blocks. */
export function doubtSentence(blocks) {
  const count = blocks.reduce((sum, block) => sum + block.doubtful, 0);
  if (!count) return "No place is doubtful.";
  return `${count} doubtful ${count === 1 ? "character is" : "characters are"} underlined; point at one to see how sure it is.`;
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
  if (block.doubtful) made.append(spoken(made, block.doubtful));
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

/** What underlining says to those who see it. */
function spoken(block, count) {
  const marks = [...block.querySelectorAll("mark.doubt")].map((m) => `“${m.textContent}”, ${m.title}`);
  const note = document.createElement("span");
  note.className = "hidden";
  const more = count > 8 ? ", and more" : "";
  note.textContent = `Doubtful here: ${marks.slice(0, 8).join("; ") || `${count} places`}${more}.`;
  return note;
}

