"""Checks of accessibility as scripts for a browser: each returns a list of faults, empty when all is well. They cover
what can be computed: language, headings, labels, ids, alternatives, sizes, contrast. They hear no screen reader."""

from __future__ import annotations

AXE = """
const faults = [];
const shown = (e) => e.checkVisibility({ visibilityProperty: true });
if (document.documentElement.lang !== "en") faults.push("no language");
if (!document.title) faults.push("no title");
if (document.querySelectorAll("h1").length < 1) faults.push("no h1");
if (document.querySelectorAll("main").length !== 1) faults.push("not one main");
const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
if (new Set(ids).size !== ids.length) faults.push("an id twice");
for (const e of document.querySelectorAll("[aria-labelledby], [aria-controls]"))
  for (const name of ["aria-labelledby", "aria-controls"])
    for (const id of (e.getAttribute(name) ?? "").split(" ").filter(Boolean))
      if (!document.getElementById(id)) faults.push(`${name} leads nowhere: ${id}`);
for (const e of document.querySelectorAll("input, select, textarea"))
  if (shown(e) && !e.labels.length && !e.ariaLabel) faults.push(`no label: ${e.id}`);
for (const e of document.querySelectorAll("img")) if (!e.hasAttribute("alt")) faults.push("a picture without alt");
for (const e of document.querySelectorAll("[onclick], div[tabindex]:not([role])"))
  faults.push(`no button: ${e.className}`);
for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) faults.push("a tabindex above 0");
for (const e of document.querySelectorAll("[aria-hidden=true]"))
  if (e.querySelector("button, input, select, textarea, a[href], [tabindex='0']"))
    faults.push("hidden, but in the tab order");
for (const e of document.querySelectorAll("button:not(.region), select, input[type=range]")) {
  const { width, height } = e.getBoundingClientRect();
  if (shown(e) && (width < 24 || height < 24)) faults.push(`small: ${e.id || e.className} ${width}x${height}`);
}
return faults;
"""

CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgba = (color) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const ground = (e) => {
  const layers = [];
  for (let n = e; n; n = n.parentElement) {
    const color = rgba(getComputedStyle(n).backgroundColor);
    layers.push(color);
    if (color[3] === 1) break;
  }
  const over = (below, [r, g, b, a]) => [r, g, b].map((v, i) => a * v + (1 - a) * below[i]);
  return layers.reverse().reduce(over, [255, 255, 255]);
};
const faults = [];
for (const e of (document.querySelector("dialog[open]") ?? document.body).querySelectorAll("*")) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  if (!own || !e.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
  if (e.closest(":disabled, .hidden, .region, noscript, option, .skip")) continue;
  const style = getComputedStyle(e);
  const color = rgba(style.color);
  if (color[3] === 0) continue; // a masked place
  const size = parseFloat(style.fontSize);
  const need = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
  const found = ratio(color, ground(e));
  if (found < need) faults.push(`${e.localName}.${e.className} ${e.textContent.slice(0, 20)}: ${found.toFixed(2)}`);
}
return faults;
"""
