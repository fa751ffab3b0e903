// One side of a replay: a heading with its counters, and the text place by place. Draws what timeline.js says.

import { band, percent } from "./confidence.js";
import { forwardsAt, seconds, states } from "./timeline.js";

const NAMES = { ar: "One at a time (ar)", block: "Block by block (block)", sliding: "Moving window (sliding)", exact: "Checked draft (exact)" };

export class Lane {
  constructor(replay, formula) {
    this.replay = replay;
    this.drawn = -1;
    this.root = document.createElement("section");
    this.root.className = "lane";
    this.root.dataset.mode = replay.mode;
    const title = document.createElement("h3");
    title.textContent = NAMES[replay.mode] ?? replay.mode;
    title.id = `lane-${replay.mode}`;
    this.root.setAttribute("aria-labelledby", title.id);
    this.count = document.createElement("p");
    this.count.className = "count";
    this.bar = document.createElement("div");
    this.bar.className = "lane-bar";
    this.bar.append(document.createElement("span"));
    this.text = document.createElement("div");
    this.text.className = "lane-text";
    this.text.tabIndex = 0; // it scrolls
    this.text.setAttribute("role", "group");
    this.text.setAttribute("aria-label", "Text, place by place");
    // Seen place by place; those who hear it get the whole text once, from the paragraph below.
    const places = document.createElement("div");
    places.setAttribute("aria-hidden", "true");
    this.spans = replay.tokens.map((token, i) => {
      const span = document.createElement("span");
      const next = replay.tokens[i + 1];
      span.textContent = formula && next ? `${token.text} ` : token.text;
      span.title = `${percent(token.confidence)} sure, forward ${token.step}`;
      return span;
    });
    places.append(...this.spans);
    this.text.append(places);
    this.spoken = document.createElement("p");
    this.spoken.className = "hidden";
    this.root.append(title, this.count, this.bar, this.text, this.spoken);
  }

  get ended() {
    return this.drawn >= this.replay.forwards;
  }

  /** Shows the reading after `time` seconds of decoding. */
  draw(time) {
    const { replay } = this;
    const forward = forwardsAt(replay, time);
    const spent = Math.min(time, replay.seconds);
    this.count.textContent = `Forward ${forward} of ${replay.forwards} · ${seconds(spent)}`;
    this.bar.firstChild.style.width = `${(100 * forward) / Math.max(1, replay.forwards)}%`;
    if (forward === this.drawn) return;
    this.drawn = forward;
    states(replay, forward).forEach((state, i) => {
      const span = this.spans[i];
      if (span.dataset.state === state) return;
      span.dataset.state = state;
      span.className = state === "settled" || state === "fresh" ? `t ${state} ${band(replay.tokens[i].confidence)}` : `t ${state}`;
    });
    this.root.dataset.ended = this.ended;
    this.spoken.textContent = this.ended ? replay.text : "";
    this.keepInView();
  }

  /** Long texts scroll along with their front, inside the lane only. */
  keepInView() {
    const front = this.spans.findIndex((span) => span.dataset.state === "masked" || span.dataset.state === "ahead");
    const span = this.spans[front < 0 ? this.spans.length - 1 : front];
    if (!span) return;
    const below = span.offsetTop + span.offsetHeight - this.text.clientHeight * 0.8;
    this.text.scrollTop = Math.max(0, below);
  }
}
