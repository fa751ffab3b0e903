// Markdown to edit, with a preview rendered by the service, and copies of it.

import { getBlob, postJson } from "./api.js";
import { safeFragment } from "./safe_html.js";

const PAUSE = 400; // ms of no typing before the preview is asked for

/** parts: area, preview, revert, note (elements); onError(error). */
export class Editor {
  constructor(parts, onError) {
    Object.assign(this, parts);
    this.onError = onError;
    this.read = "";
    this.timer = 0;
    this.asked = 0;
    this.area.addEventListener("input", () => this.changed());
    this.revert.addEventListener("click", () => {
      this.area.value = this.read;
      this.changed();
      this.area.focus();
    });
  }

  load(markdown) {
    this.read = markdown;
    this.area.value = markdown;
    this.revert.disabled = true;
    this.preview.replaceChildren();
    this.shown = null;
  }

  get edited() {
    return this.area.value !== this.read;
  }

  changed() {
    this.revert.disabled = !this.edited;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.render(), PAUSE);
  }

  /** Brings the preview up to date. */
  async render() {
    const text = this.area.value;
    if (text === this.shown) return;
    const number = ++this.asked;
    try {
      const { html } = await postJson("/v1/markdown", { text });
      if (number !== this.asked) return; // typed on meanwhile
      this.preview.replaceChildren(safeFragment(html));
      this.shown = text;
    } catch (error) {
      this.onError(error);
    }
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(this.area.value);
    } catch {
      // Without a secure origin there is no clipboard to write to; the old way needs a selection.
      const before = document.activeElement;
      const area = document.createElement("textarea");
      area.value = this.area.value;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      before?.focus();
      if (!done) {
        this.note.textContent = "The browser did not allow copying; select the text under Edit instead.";
        return;
      }
    }
    this.note.textContent = this.edited ? "Markdown copied, with your changes." : "Markdown copied.";
  }

  /** Saves the document in one of the service's formats; Markdown as it stands in the editor. */
  async download(job, name, format) {
    try {
      const blob =
        format === "md"
          ? new Blob([this.area.value], { type: "text/markdown;charset=utf-8" })
          : await getBlob(`/v1/jobs/${job}/result?format=${format}`);
      save(blob, `${name}.${format}`);
      this.note.textContent = `${name}.${format} was handed to the browser.`;
    } catch (error) {
      this.onError(error);
    }
  }
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
