// What a box is, and how large a gradient is. The hues themselves are in live.css, where dark mode
// can change them; `edutorch/viz/render/style.py` has the same tables: tests/golden/style.json.
import { setAttribute } from "./dom.js";

/** @typedef {import("./protocol.js").PictureNode} PictureNode */

/** @type {Record<PictureNode["kind"], string>} */
export const ROLES = {
  parameter: "parameter",
  op: "op",
  output: "op",
  group: "op",
  leaf: "data",
  buffer: "data",
  gradient: "derivative",
  failed: "trouble",
  constant: "grey",
};

// Norms at which the colour of an arrow changes.
export const FLOW_BOUNDS = [1e-3, 1e-2, 1e-1, 1, 10];
// From 1e-4 on an arrow becomes wider, six decades long.
const SMALLEST = -4;
const DECADES = 6;

/** Each ten points large: no font has both. @type {Record<"frozen" | "hook", string>} */
export const MARK_SHAPES = {
  frozen: "M1 4.6H9V10H1ZM2.2 4.8V3a2.8 2.8 0 0 1 5.6 0V4.8H6.5V3a1.5 1.5 0 0 0 -3 0V4.8Z",
  hook: "M3 0H7V1L6.2 1.8V4.4L8 6V7H5.6L5 10.4L4.4 7H2V6L3.8 4.4V1.8L3 1Z",
};

export const CUT = "✂";

/**
 * What a node is; "grey" for all that has no gradient.
 * @param {{kind: PictureNode["kind"], differentiable: boolean}} node
 */
export function roleOf({ kind, differentiable }) {
  const role = ROLES[kind];
  return differentiable || role === "trouble" || role === "derivative" ? role : "grey";
}

/**
 * Which of the colours of arrows a gradient of this norm has: 0 to 5.
 * @param {number} norm
 */
export function sizeClass(norm) {
  return FLOW_BOUNDS.filter((bound) => norm >= bound).length;
}

/**
 * 0 for a norm up to 1e-4, 1 from 100 on, straight on a log scale between.
 * Gradients span many powers of ten: on a linear scale all but one would be white.
 * @param {number} norm
 * @returns {number}
 */
export function strength(norm) {
  if (!(norm > 0)) return 0;
  return Math.min(1, Math.max(0, (Math.log10(norm) - SMALLEST) / DECADES));
}

/**
 * Line width in points: from 1 for no gradient to 4.
 * @param {number} norm
 * @returns {number}
 */
export function lineWidth(norm) {
  return 1 + 3 * strength(norm);
}

/**
 * Colour an arrow by the norm of its gradient; NaN: none is known.
 * @param {SVGElement} element
 * @param {number} norm
 */
export function tint(element, norm) {
  setAttribute(element, "data-size", Number.isNaN(norm) ? "none" : String(sizeClass(norm)));
}
