// HTML of the service as nodes. The service escapes and cleans it already; this is the second lock: only elements and
// attributes listed here pass, and pictures only from data: URLs. Text of documents never takes another way into markup.

const HTML = new Set(
  "a b blockquote br caption code del em h1 h2 h3 h4 h5 h6 hr i img li mark ol p pre s span strong sub sup table tbody td tfoot th thead tr u ul".split(" "),
);
const MATH = new Set(
  "math menclose merror mfenced mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none".split(" "),
);
const ATTRIBUTES = new Set(
  "accent accentunder alt class colspan columnalign columnspacing columnspan depth display displaystyle fence form height linethickness lspace mathvariant maxsize minsize movablelimits notation rowspacing rowspan rspace scope scriptlevel separator stretchy symmetric title voffset width".split(" "),
);
const DROPPED = "script, style, template, iframe, object, embed, svg, annotation, annotation-xml";

/** A fragment of the allowed part of `html`. Elements that are not allowed give way to their contents. */
export function safeFragment(html) {
  const body = new DOMParser().parseFromString(html, "text/html").body; // inert: nothing in it loads or runs
  for (const element of body.querySelectorAll(DROPPED)) element.remove();
  const fragment = document.createDocumentFragment();
  for (const child of body.childNodes) fragment.append(...copy(child));
  for (const table of fragment.querySelectorAll("table")) scrollable(table);
  return fragment;
}

function copy(node) {
  if (node.nodeType === Node.TEXT_NODE) return [document.createTextNode(node.data)];
  if (node.nodeType !== Node.ELEMENT_NODE) return [];
  const children = [...node.childNodes].flatMap(copy);
  const math = node.namespaceURI === "http://www.w3.org/1998/Math/MathML";
  if (!(math ? MATH : HTML).has(node.localName)) return children;
  if (node.localName === "img" && !/^data:image\/(png|jpeg);base64,/.test(node.getAttribute("src") ?? "")) {
    return [document.createTextNode(`[picture${node.alt ? `: ${node.alt}` : ""}]`)];
  }
  const made = document.createElementNS(node.namespaceURI, node.localName);
  for (const { name, value } of node.attributes) {
    if (ATTRIBUTES.has(name)) made.setAttribute(name, value);
  }
  if (node.localName === "img") made.src = node.getAttribute("src");
  if (node.localName === "a" && /^https?:/.test(node.getAttribute("href") ?? "")) {
    made.href = node.getAttribute("href");
    made.rel = "noopener noreferrer";
    made.target = "_blank";
  }
  made.append(...children);
  return [made];
}

/** A wide table scrolls by itself, also by keyboard, and never makes the page wider than the screen. */
function scrollable(table) {
  const frame = document.createElement("div");
  frame.className = "table-frame";
  frame.tabIndex = 0;
  frame.setAttribute("role", "region");
  frame.setAttribute("aria-label", "Table");
  table.replaceWith(frame);
  frame.append(table);
}
