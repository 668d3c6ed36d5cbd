// What the colours and marks in a picture say. `edutorch/viz/render/legend.py` draws the same into files.
import { CUT, FLOW_BOUNDS, MARK_SHAPES, roleOf } from "./colours.js";
import { svgElement } from "./picture.js";

/** @typedef {import("./protocol.js").Picture} Picture */
/** @typedef {import("./protocol.js").Thumbnail} Thumbnail */

/** In the order in which it is shown. @type {Record<string, string>} */
export const WORDS = {
  parameter: "parameter",
  op: "op",
  data: "data",
  derivative: "derivative",
  grey: "no gradient",
  signs: "below 0, above 0",
  arrow: "norm of the gradient that flows back",
  trouble: "trouble",
  cut: "detached here",
  kept: "kept for backward",
  frozen: "frozen",
  hook: "hook",
  version: "written in place",
};
export const RAMP = ["<0.001", "", "", "", "", "≥10"];

/** Below a graph: one entry for each thing that is to be seen in it. */
export class Legend {
  constructor() {
    this.element = document.createElement("ul");
    this.element.className = "edutorch-legend";
    /** @type {Picture | null} */
    this.picture = null;
    this.keys = "";
    this.signs = false; // there is a heat map of numbers below and above 0
  }

  /** @param {Picture} picture @param {Record<string, Thumbnail>} thumbs what is drawn in it */
  notice(picture, thumbs) {
    const signs = Object.values(thumbs).some(({ kind }) => kind === "weights");
    this.signs = signs || (this.signs && this.picture === picture);
    this.picture = picture;
  }

  /**
   * @param {Picture} picture
   * @param {boolean} [troubled] something in it is wrong
   * @param {number | null} [drawn] the small pictures are of this earlier step
   */
  show(picture, troubled = false, drawn = null) {
    // What was drawn stays in a picture that stays.
    const keys = legendKeys(picture, troubled, this.signs && picture === this.picture);
    const shown = `${keys.join()} ${drawn}`;
    if (shown === this.keys) return;
    this.keys = shown;
    this.element.replaceChildren(...keys.map(entry));
    if (drawn === null) return;
    const note = document.createElement("li");
    note.textContent = `pale pictures: of step ${drawn}`;
    this.element.append(note);
  }
}

/**
 * The keys of `WORDS` for what is to be seen in a picture.
 * @param {Picture} picture
 * @param {boolean} troubled
 * @param {boolean} [signs]
 */
export function legendKeys({ nodes, edges }, troubled, signs = false) {
  const found = new Set(nodes.filter((node) => node.kind !== "constant").map(roleOf));
  for (const node of nodes) {
    for (const mark of node.marks) found.add(mark);
    if (node.version) found.add("version");
  }
  for (const { kind } of edges) if (kind === "cut" || kind === "kept") found.add(kind);
  const flows = edges.some(({ kind }) => kind === "forward" || kind === "backward");
  if (flows && nodes.some((node) => node.differentiable)) found.add("arrow");
  if (troubled) found.add("trouble");
  if (signs) found.add("signs");
  return Object.keys(WORDS).filter((key) => found.has(key));
}

/** @param {string} key */
function entry(key) {
  const item = document.createElement("li");
  item.dataset.key = key;
  if (key === "arrow") item.append(RAMP[0], ramp(), RAMP[RAMP.length - 1]);
  else item.append(sample(key));
  const words = document.createElement("span");
  words.textContent = WORDS[key];
  item.append(words);
  return item;
}

/** @param {string} key */
function sample(key) {
  const mark = { version: "v2", cut: `- ${CUT} -`, kept: "···○" }[key];
  if (mark) {
    const text = document.createElement("b");
    text.textContent = mark;
    return text;
  }
  const shape = MARK_SHAPES[/** @type {"frozen" | "hook"} */ (key)];
  if (shape) {
    const icon = svgElement("svg", { viewBox: "0 0 10 10", class: "mark", "aria-hidden": "true" });
    icon.append(svgElement("path", { d: shape }));
    return icon;
  }
  const box = document.createElement("i");
  box.className = "sample";
  box.dataset.role = key;
  return box;
}

/** From a small gradient to a large one. */
function ramp() {
  const svg = svgElement("svg", { viewBox: "0 0 66 8", class: "ramp", "aria-hidden": "true" });
  const colours = FLOW_BOUNDS.length + 1;
  for (let place = 0; place < colours; place++) {
    const height = 1 + (3 * place) / (colours - 1);
    svg.append(svgElement("rect", { x: 11 * place, y: 4 - height / 2, width: 11, height, "data-size": place }));
  }
  return svg;
}
