// Small pictures of tensors: an image, a matrix as a heat map, a histogram. Drawn as paths, since
// a strict page loads no images. `edutorch/viz/tensors/thumbnails.py` draws the same into files.
import { svgElement } from "./picture.js";

/** @typedef {import("./protocol.js").Thumbnail} Thumbnail */
/** @typedef {import("./protocol.js").Patch} Patch */
/** @typedef {import("./picture.js").Graph} Graph */
/** @typedef {import("./picture.js").Box} Box */
/** @typedef {[number, number, number]} Colour */

const LEVELS = 32;
/** @type {[Colour, Colour, Colour]} Of weights: far below 0, 0, far above 0. */
const [BELOW, MIDDLE, ABOVE] = [[33, 82, 153], [247, 247, 247], [176, 84, 5]];
/** @type {[Colour, Colour]} Of attention: 0, and the largest. */
const [LOW, HIGH] = [[247, 250, 252], [24, 46, 110]];
// Colours of a photograph are rounded to so many steps: each colour is a path of its own.
const STEPS = 7;

/**
 * Draw what a message brings into the boxes. While a loop runs, most bring nothing: then what is
 * there is older than the numbers, and pale. Where it stands still, it would be wrong.
 * @param {Graph} graph
 * @param {Patch} patch
 */
export function showThumbnails(graph, { thumbs = {}, state, step, thumbsStep = step }) {
  const running = state === "running";
  const found = Object.keys(thumbs).length > 0;
  graph.svg.classList.toggle("old-thumbnails", found ? thumbsStep !== step : running);
  if (running && !found) return;
  for (const [id, { group, slot }] of graph.nodes) {
    group.querySelector(".thumbnail")?.remove();
    if (thumbs[id] && slot) group.append(drawThumbnail(thumbs[id], slot));
  }
}

/**
 * The picture of a tensor as a group.
 * @param {Thumbnail} thumbnail
 * @param {Box} box where there is room
 * @returns {SVGElement}
 */
export function drawThumbnail(thumbnail, box) {
  const group = svgElement("g", { class: `thumbnail ${thumbnail.kind}` });
  if (thumbnail.bars) group.append(...histogram(thumbnail.bars, box));
  else group.append(...pixelMap(thumbnail, box));
  return group;
}

/** @param {number[]} counts @param {Box} box */
function histogram(counts, { left, top, right, bottom }) {
  const width = (right - left) / counts.length;
  const peak = Math.max(...counts, 1);
  const path = counts.map((count, place) => {
    if (!count) return "";
    const height = Math.max(0.8, ((bottom - top) * count) / peak).toFixed(1);
    return `M${(left + place * width).toFixed(1)} ${bottom.toFixed(1)}v-${height}h${(width - 0.6).toFixed(1)}v${height}Z`;
  });
  const axis = svgElement("path", { class: "axis", d: `M${left.toFixed(1)} ${bottom.toFixed(1)}H${right.toFixed(1)}` });
  return [svgElement("path", { class: "bars", d: path.join("") }), axis];
}

/** @param {Thumbnail} thumbnail @param {Box} box */
function pixelMap(thumbnail, { left, top, right, bottom }) {
  const { width = 1, height = 1 } = thumbnail;
  const scale = Math.min((right - left) / width, (bottom - top) / height);
  const [x, y] = [(left + right - width * scale) / 2, (top + bottom - height * scale) / 2];
  const pixels = svgElement("g", { transform: `translate(${x.toFixed(2)},${y.toFixed(2)}) scale(${scale.toFixed(4)})`, "shape-rendering": "crispEdges" });
  for (const [colour, path] of runs(thumbnail)) pixels.append(svgElement("path", { d: path, fill: colour }));
  const frame = svgElement("path", {
    class: "around",
    d: `M${x.toFixed(2)} ${y.toFixed(2)}h${(width * scale).toFixed(2)}v${(height * scale).toFixed(2)}h-${(width * scale).toFixed(2)}Z`,
  });
  return [pixels, frame];
}

/**
 * For each colour a path through its pixels, those beside each other as one.
 * @param {Thumbnail} thumbnail
 * @returns {Map<string, string>}
 */
function runs(thumbnail) {
  const { width = 1, height = 1, channels = 1, pixels = "", kind, low, high } = thumbnail;
  const bytes = Uint8Array.from(atob(pixels), (letter) => letter.charCodeAt(0));
  const colours = channels === 3 ? [] : palette(kind, low, high).map(hex);
  /** @param {number} place */
  const colourAt = (place) => (channels === 3 ? photo(bytes, 3 * place) : colours[Math.round((bytes[place] / 255) * (LEVELS - 1))]);
  /** @type {Map<string, string>} */
  const found = new Map();
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; ) {
      const colour = colourAt(row * width + column);
      let end = column + 1;
      while (end < width && colourAt(row * width + end) === colour) end++;
      found.set(colour, `${found.get(colour) ?? ""}M${column} ${row}h${end - column}v1H${column}Z`);
      column = end;
    }
  }
  return found;
}

/** @param {Uint8Array} bytes @param {number} at */
function photo(bytes, at) {
  const step = 255 / (STEPS - 1);
  const [red, green, blue] = [0, 1, 2].map((channel) => Math.round(Math.round(bytes[at + channel] / step) * step));
  return hex([red, green, blue]);
}

/**
 * A colour for each level between the smallest and the largest number.
 * @param {Thumbnail["kind"]} kind
 * @param {number} low
 * @param {number} high
 * @returns {Colour[]}
 */
export function palette(kind, low, high) {
  const shares = Array.from({ length: LEVELS }, (_, level) => level / (LEVELS - 1));
  if (kind === "image") {
    return shares.map((share) => {
      const grey = Math.round(255 * share);
      return [grey, grey, grey];
    });
  }
  if (kind === "attention") return shares.map((share) => between(LOW, HIGH, share));
  const reach = Math.max(Math.abs(low), Math.abs(high)) || 1;
  return shares.map((share) => {
    const value = (low + (high - low) * share) / reach;
    return between(MIDDLE, value > 0 ? ABOVE : BELOW, Math.abs(value));
  });
}

/** @param {Colour} one @param {Colour} other @param {number} share @returns {Colour} */
function between(one, other, share) {
  const [red, green, blue] = one.map((part, channel) => Math.floor(part + (other[channel] - part) * share + 0.5));
  return [red, green, blue];
}

/** @param {Colour} colour */
function hex(colour) {
  return `#${colour.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}
