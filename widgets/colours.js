// How strong a colour is, and how wide a line. The hues themselves are in
// live.css, where dark mode can change them: here only sign and strength.
import { setAttribute, setStyle } from "./writing.js";

/**
 * 0 for |x| up to 1e-5, 1 from |x| = 1 on, straight on a log scale between.
 * Gradients span many powers of ten: on a linear scale all but one would be white.
 * @param {number} x
 * @returns {number}
 */
export function strength(x) {
  const size = Math.abs(x);
  if (!(size > 0)) return 0;
  return Math.min(1, Math.max(0, (Math.log10(size) + 5) / 5));
}

/**
 * Line width in points: 1 for no gradient, 4 for a gradient norm of 1 or more.
 * @param {number} gradient
 * @returns {number}
 */
export function lineWidth(gradient) {
  return 1 + 3 * strength(gradient);
}

/**
 * Colour `element` by a mean: the hue says its sign, the strength its size. A mean
 * that is only rounding noise around 0 gets no hue, however large the numbers are.
 * @param {SVGElement | HTMLElement} element
 * @param {number} mean
 */
export function tint(element, mean) {
  const size = strength(mean);
  setAttribute(element, "data-sign", size === 0 ? "none" : mean < 0 ? "negative" : "positive");
  setStyle(element, "--strength", `${Math.round(25 + 75 * size)}%`);
}
