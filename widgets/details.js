// What is known about the chosen node: its numbers and its derivative formulas.
import { formatNumber, formatSize, formatWhole, shapeText, sizeOf } from "./numbers.js";
import { formula } from "./formula.js";
import { write } from "./dom.js";

/** @typedef {import("./protocol.js").PictureNode} PictureNode */
/** @typedef {import("./numbers.js").NodeNumbers} NodeNumbers */

/** @typedef {import("./protocol.js").Thumbnail} Thumbnail */

const NOT_KNOWN = "—";

/** @type {[string, (numbers: NodeNumbers, thumbnail: Thumbnail | undefined) => string][]} */
const NUMBERS = [
  ["value", (numbers) => formatWhole([numbers.mean], true)],
  ["mean", (numbers) => formatNumber(numbers.mean)],
  ["std", (_, thumbnail) => (thumbnail ? formatSize(thumbnail.std) : NOT_KNOWN)],
  ["min", (_, thumbnail) => (thumbnail ? formatNumber(thumbnail.low) : NOT_KNOWN)],
  ["max", (_, thumbnail) => (thumbnail ? formatNumber(thumbnail.high) : NOT_KNOWN)],
  ["gradient norm", (numbers) => (Number.isNaN(numbers.gradient) ? NOT_KNOWN : formatSize(numbers.gradient))],
];

// The mean of class labels tells nobody anything: integers stand in the box, the first of them.
const OF_MANY = ["mean", "std", "min", "max"];

/** Two to four numbers stand in the box. @param {number} size */
const namesOf = (size) => (size === 1 ? ["value"] : size <= 4 ? ["mean"] : OF_MANY);

/** The panel below the graph. */
export class Details {
  constructor() {
    this.element = document.createElement("div");
    this.element.className = "edutorch-details";
    this.element.hidden = true;
    /** @type {Map<string, HTMLElement>} */
    this.fields = new Map();
    /** @type {PictureNode | null} */
    this.node = null;
  }

  /** @param {PictureNode | null} node */
  choose(node) {
    this.node = node;
    this.fields.clear();
    this.element.replaceChildren();
    this.element.hidden = node === null;
    if (!node) return;
    const title = child(this.element, "strong", node.variable ? `${node.variable} = ${node.label}` : node.label);
    title.className = "name";
    const shape = shapeText(node);
    const written = node.version ? `version ${node.version + 1}` : "";
    const grey = node.differentiable ? "" : "no gradient";
    child(this.element, "span", [node.kind, node.module, shape, node.dtype, written, ...node.marks, grey].filter(Boolean).join(" · "));
    const names = shape && node.dtype.includes("float") ? namesOf(sizeOf(node)) : [];
    for (const name of node.differentiable ? [...names, "gradient norm"] : names) {
      const field = child(this.element, "label", name);
      this.fields.set(name, child(field, "output", NOT_KNOWN));
    }
    if (node.line) child(this.element, "code", node.line).className = "line";
    if (node.saved.length > 0) {
      const bytes = node.saved.map(([name, size]) => `${name} ${byteText(size)}`).join(", ");
      child(this.element, "span", `keeps for backward: ${bytes}`);
    }
    for (const [input, latex] of Object.entries(node.formulas)) {
      const rule = child(this.element, "span", "");
      rule.className = "rule";
      child(rule, "span", `gradient of ${input} = `);
      rule.append(formula(latex));
    }
  }

  /** @param {NodeNumbers | undefined} numbers @param {Thumbnail} [thumbnail] what is known beyond these */
  show(numbers, thumbnail) {
    if (!numbers) return;
    for (const [name, text] of NUMBERS) {
      const field = this.fields.get(name);
      if (field) write(field, text(numbers, thumbnail));
    }
  }
}

/** @param {number} bytes */
export function byteText(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const power = bytes < 1e6 ? 1 : bytes < 1e9 ? 2 : 3;
  return `${(bytes / 1000 ** power).toPrecision(3)} ${"kMG"[power - 1]}B`;
}

/**
 * @param {HTMLElement} parent
 * @param {string} name
 * @param {string} text
 * @returns {HTMLElement}
 */
function child(parent, name, text) {
  const element = document.createElement(name);
  element.textContent = text;
  parent.append(element);
  return element;
}
