// The time of a replay, as numbers: which forward has been made at a moment, and what each place of the text then is.
// Knows no page; replay.js draws it.

export const SHORTEST = 2.5; // seconds that the slower side is shown for, at least and at most
export const LONGEST = 9;

/** The factor by which real seconds are stretched so that `slowest` can be watched; one factor for both sides. */
export function stretch(slowest, tokens) {
  const shown = Math.min(LONGEST, SHORTEST + tokens / 80);
  return slowest > 0 ? shown / slowest : 1;
}

/** Forwards made after `seconds` of decoding, spread evenly over the reading's own seconds. */
export function forwardsAt(replay, seconds) {
  if (seconds >= replay.seconds) return replay.forwards;
  return Math.floor((seconds / replay.seconds) * replay.forwards);
}

/** For each token its state after `forward` forwards: "ahead", "masked", "fresh" or "settled". Masked are the places that
 * the next forward works on: from the first open place, as many as the window holds; a block ends where it ends. */
export function states(replay, forward) {
  const { tokens, window, mode } = replay;
  const open = tokens.findIndex((token) => token.step > forward);
  const first = open < 0 ? tokens.length : open;
  const end = mode === "block" ? (Math.floor(first / window) + 1) * window : first + window;
  return tokens.map((token, i) => {
    if (token.step < forward || (token.step === forward && forward >= replay.forwards)) return "settled";
    if (token.step === forward) return "fresh";
    return i < end && mode !== "ar" ? "masked" : "ahead";
  });
}

/** The measured comparison in words. */
export function measured(one, ar, factor) {
  const ratio = ar.seconds / one.seconds;
  const far = Math.max(ratio, 1 / ratio) >= 1.05;
  const times = !far ? "about as fast as" : ratio > 1 ? `${round(ratio)} times as fast as` : `${round(1 / ratio)} times slower than`;
  const same = one.text === ar.text ? "Both texts are the same, letter for letter." : "The two texts differ.";
  const speed = factor >= 1 ? `${round(factor)} times slower` : `${round(1 / factor)} times faster`;
  return (
    `Measured here: ${one.mode} took ${one.forwards} forwards and ${seconds(one.seconds)}, one at a time ` +
    `${ar.forwards} forwards and ${seconds(ar.seconds)}: ${one.mode} is ${times} one at a time. ${same} ` +
    `With looking at the picture: ${seconds(one.whole)} and ${seconds(ar.whole)}. Shown ${speed} than real.`
  );
}

export const seconds = (value) => (value < 1 ? `${Math.round(1000 * value)} ms` : `${value.toFixed(2)} s`);
const round = (value) => (value < 10 ? value.toFixed(1) : String(Math.round(value)));
