// How sure a reading is, as a band with a name. Colour is never the only sign: bands have words and line styles, too.

export const DOUBTFUL = 0.8; // the service marks tokens below it
export const SURE = 0.95;

export function band(confidence) {
  if (confidence === null || confidence === undefined) return "own";
  return confidence >= SURE ? "high" : confidence >= DOUBTFUL ? "mid" : "low";
}

export const percent = (confidence) => `${Math.floor(100 * confidence)}%`;

/** For people: where a region's text comes from and how sure it is. */
export function origin(region) {
  if (region.source === "text_layer") return "the PDF’s own words";
  if (region.source === "none") return "kept as a picture";
  return region.confidence === undefined ? "read from the picture" : `read from the picture, ${percent(region.confidence)} sure`;
}
