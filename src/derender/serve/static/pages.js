// The pages: pictures, fetched when they come near the screen, and over them one button for each region.

import { call } from "./api.js";
import { band, origin, percent } from "./confidence.js";

const BODY = ["title", "text", "list", "table", "formula", "figure", "caption", "footnote", "reference"];
const pictures = new Map(); // page number -> promise of a blob's URL
let job = "";
let observer = null;

/** Whether the region can be decoded again: it has lines of text, or is a formula. */
export const readable = (region) => region.type === "formula" || (region.lines?.length ?? 0) > 0;

/** Fills `root`. onOpen(region, page) is called when a region is chosen, onHint(region or null) when it is looked at. */
export function showPages(root, id, parsed, onOpen, onHint) {
  forget();
  job = id;
  observer = new IntersectionObserver(load, { rootMargin: "600px 0px" });
  root.replaceChildren(...parsed.pages.map((page) => figure(page, onOpen, onHint)));
  for (const frame of root.querySelectorAll(".page-frame")) observer.observe(frame);
}

/** Gives the pictures of the document before back. */
export function forget() {
  observer?.disconnect();
  for (const url of pictures.values()) url.then(URL.revokeObjectURL, () => {});
  pictures.clear();
}

/** The page's picture as a URL; fetched once. */
export function pictureOf(number) {
  if (!pictures.has(number)) {
    const made = call(`/v1/jobs/${job}/pages/${number}`).then(async (r) => URL.createObjectURL(await r.blob()));
    made.catch(() => pictures.delete(number)); // so that it is tried again
    pictures.set(number, made);
  }
  return pictures.get(number);
}

export function markRegions(root, ids) {
  for (const button of root.querySelectorAll(".region")) button.classList.toggle("marked", ids.includes(button.dataset.region));
}

function figure(page, onOpen, onHint) {
  const made = document.createElement("figure");
  made.className = "page";
  const frame = document.createElement("div");
  frame.className = "page-frame";
  frame.dataset.page = page.number;
  frame.style.aspectRatio = `${page.width} / ${page.height}`;
  const picture = document.createElement("img");
  picture.alt = `Page ${page.number}`;
  picture.hidden = true;
  frame.append(picture);
  const regions = page.regions.filter((region) => BODY.includes(region.type) || readable(region));
  regions.sort((a, b) => a.order - b.order);
  frame.append(...regions.map((region) => regionButton(region, page, onOpen, onHint)));
  const caption = document.createElement("figcaption");
  caption.textContent = [`Page ${page.number}`, ...(page.errors ?? []), ...(page.warnings ?? [])].join(" · ");
  made.append(frame, caption);
  return made;
}

function regionButton(region, page, onOpen, onHint) {
  const button = document.createElement("button");
  const [x0, y0, x1, y1] = region.box;
  button.type = "button";
  button.className = `region ${region.source === "ocr" ? band(region.confidence) : "own"}`;
  button.dataset.region = region.id;
  Object.assign(button.style, {
    left: `${(100 * x0) / page.width}%`,
    top: `${(100 * y0) / page.height}%`,
    width: `${(100 * (x1 - x0)) / page.width}%`,
    height: `${(100 * (y1 - y0)) / page.height}%`,
    // Small ones lie on top, so that none is out of reach below another.
    zIndex: String(1000 - Math.min(999, Math.round((1000 * (x1 - x0) * (y1 - y0)) / (page.width * page.height)))),
  });
  const start = (region.text || region.latex || "").replace(/\s+/g, " ").slice(0, 60);
  button.setAttribute("aria-label", `${region.type}, ${origin(region)}${start ? `: ${start}` : ""}`);
  const label = document.createElement("span");
  label.className = "tag";
  label.setAttribute("aria-hidden", "true");
  label.textContent = region.source === "ocr" && region.confidence !== undefined ? `${region.type} ${percent(region.confidence)}` : region.type;
  button.append(label);
  button.addEventListener("click", () => onOpen(region, page, button));
  for (const name of ["pointerenter", "focus"]) button.addEventListener(name, () => onHint(region));
  for (const name of ["pointerleave", "blur"]) button.addEventListener(name, () => onHint(null));
  return button;
}

function load(entries) {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    observer.unobserve(target);
    const picture = target.querySelector("img");
    pictureOf(Number(target.dataset.page)).then(
      (url) => {
        picture.src = url;
        picture.hidden = false;
      },
      (error) => {
        target.dataset.problem = error.message;
        target.classList.add("no-picture");
      },
    );
  }
}
