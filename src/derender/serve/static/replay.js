// The dialog in which one region is read again, step by step, beside decoding one character at a time.

import { postJson } from "./api.js";
import { origin } from "./confidence.js";
import { Lane } from "./lane.js";
import { pictureOf } from "./pages.js";
import { measured, stretch } from "./timeline.js";

const $ = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class ReplayDialog {
  constructor() {
    this.dialog = $("replay");
    this.cache = new Map(); // job, region, mode -> replays
    this.lanes = [];
    this.reset();
    $("replay-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("close", () => this.closed());
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close(); // beside it
    });
    $("play").addEventListener("click", () => this.toggle());
    $("restart").addEventListener("click", () => this.restart());
    $("scrub").addEventListener("input", () => this.seek(Number($("scrub").value) / 1000));
    $("decode").addEventListener("change", () => this.fetch());
  }

  /** Opens it on a region; focus returns to `opener`. */
  open(job, region, page, opener) {
    Object.assign(this, { job, region, page, opener });
    $("replay-title").textContent = `${region.type[0].toUpperCase()}${region.type.slice(1)} on page ${page.number}`;
    $("replay-about").textContent = about(region);
    this.dialog.showModal();
    this.crop();
    return this.fetch();
  }

  async fetch() {
    this.reset();
    const mode = $("decode").value;
    const key = `${this.job}/${this.region.id}/${mode}`;
    $("replay-status").textContent = "The region is being read again, twice in each way …";
    this.dialog.setAttribute("aria-busy", "true");
    this.wanted = key;
    try {
      if (!this.cache.has(key)) {
        this.abort = new AbortController();
        const body = { region: this.region.id, modes: [mode, "ar"] };
        const made = await postJson(`/v1/jobs/${this.job}/replay`, body, { signal: this.abort.signal });
        this.cache.set(key, made);
      }
      if (this.wanted === key && this.dialog.open) this.show(this.cache.get(key));
    } catch (error) {
      if (error.name !== "AbortError" && this.wanted === key) $("replay-status").textContent = error.message;
    } finally {
      if (this.wanted === key) this.dialog.removeAttribute("aria-busy");
    }
  }

  show(replays) {
    const failed = replays.find((replay) => !replay.tokens.length);
    if (failed) {
      $("replay-status").textContent = failed.errors[0] ?? "No letter was seen in this region.";
      return;
    }
    const formula = this.region.type === "formula";
    this.length = Math.max(...replays.map((replay) => replay.seconds));
    this.factor = stretch(this.length, Math.max(...replays.map((replay) => replay.tokens.length)));
    this.lanes = replays.map((replay) => new Lane(replay, formula));
    $("lanes").replaceChildren(...this.lanes.map((lane) => lane.root));
    $("replay-measured").textContent = measured(replays[0], replays[1], this.factor);
    for (const id of ["play", "restart", "scrub"]) $(id).disabled = false;
    if (calm.matches) {
      this.seek(1);
      $("replay-status").textContent = "The end is shown. Press Play again, or move through time by the slider.";
    } else {
      this.restart();
    }
  }

  restart() {
    this.time = 0;
    this.play();
  }

  toggle() {
    if (this.frame) this.pause();
    else if (this.time >= this.length) this.restart();
    else this.play();
  }

  play() {
    cancelAnimationFrame(this.frame);
    $("play").textContent = "Pause";
    $("replay-status").textContent = "Decoding …";
    let last = performance.now();
    const step = (now) => {
      this.draw(this.time + (now - last) / 1000 / this.factor);
      last = now;
      if (this.time < this.length) {
        this.frame = requestAnimationFrame(step);
      } else {
        this.pause();
        this.say();
      }
    };
    this.frame = requestAnimationFrame(step);
  }

  pause() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    $("play").textContent = this.time >= this.length ? "Play again" : "Play";
    if (this.time < this.length) $("replay-status").textContent = "Paused.";
  }

  /** Goes to a share of the whole time, and stays there. */
  seek(share) {
    this.pause();
    this.draw(share * this.length);
    this.pause(); // again: what it says depends on the time
    if (this.time >= this.length) this.say();
  }

  draw(time) {
    this.time = Math.min(this.length, Math.max(0, time));
    for (const lane of this.lanes) lane.draw(this.time);
    const share = this.length ? this.time / this.length : 0;
    $("scrub").value = String(Math.round(1000 * share));
    if (this.frame && this.time < this.length) return; // who hears the slider's value hears it when it stands
    $("scrub").setAttribute("aria-valuetext", this.lanes.map((lane) => `${lane.replay.mode}: ${lane.count.textContent}`).join("; "));
  }

  say() {
    $("replay-status").textContent = "Both have ended.";
  }

  reset() {
    this.abort?.abort();
    this.dialog.removeAttribute("aria-busy");
    cancelAnimationFrame(this.frame);
    Object.assign(this, { frame: 0, time: 0, length: 0, lanes: [] });
    $("lanes").replaceChildren();
    $("replay-measured").textContent = "";
    $("scrub").value = "0";
    $("play").textContent = "Play";
    for (const id of ["play", "restart", "scrub"]) $(id).disabled = true;
  }

  closed() {
    this.wanted = "";
    this.reset();
    this.opener?.focus();
  }

  /** Gives back what was read of the document before. */
  forget() {
    this.opener = null;
    this.cache.clear();
    this.dialog.close();
  }

  /** The region cut out of the page's picture. */
  async crop() {
    const canvas = $("crop");
    const { region, page } = this;
    canvas.width = canvas.height = 0;
    try {
      const picture = new Image();
      picture.src = await pictureOf(page.number);
      await picture.decode();
      if (region !== this.region) return;
      const k = picture.naturalWidth / page.width;
      const [x0, y0, x1, y1] = region.box.map((v) => v * k);
      const margin = 4;
      canvas.width = Math.ceil(x1 - x0 + 2 * margin);
      canvas.height = Math.ceil(y1 - y0 + 2 * margin);
      canvas.style.maxWidth = `${Math.max(120, canvas.width)}px`;
      canvas.getContext("2d").drawImage(picture, margin - x0, margin - y0);
    } catch {
      // The picture is a help, the text is what is asked for.
    }
  }
}

function about(region) {
  const parts = [`In the document: ${origin(region)}.`];
  if (region.source === "text_layer") parts.push("Here it is read from the picture.");
  if (region.type === "table") parts.push("Here a table is read as lines of text; in the document, cell by cell.");
  if (region.type === "formula") parts.push("What is decoded is its LaTeX.");
  return parts.join(" ");
}
