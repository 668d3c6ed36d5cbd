// The graph: Graphviz's SVG made safe, and the numbers of each step written into it.
import { formatNumber, formatSize, formatWhole, isFew, sizeOf } from "./numbers.js";
import { lineWidth, tint } from "./colours.js";
import { setStyle, write } from "./writing.js";

/** @typedef {import("./protocol.js").Picture} Picture */
/** @typedef {import("./protocol.js").PictureNode} PictureNode */
/** @typedef {import("./protocol.js").Patch} Patch */
/** @typedef {import("./numbers.js").NodeNumbers} NodeNumbers */
/** @typedef {import("./numbers.js").EdgeNumbers} EdgeNumbers */
/** @typedef {{nodes: Map<string, NodeNumbers>, edges: Map<string, EdgeNumbers>}} Named */
/** @typedef {{left: number, top: number, right: number, bottom: number}} Box */
/** @typedef {{text: SVGElement, chip: SVGElement}} Row */
/** @typedef {{group: SVGElement, told: PictureNode, value: Row | null, gradient: Row | null, box: Box}} DrawnNode */
/** @typedef {{group: SVGElement, label: SVGElement | null, source: string, target: string}} DrawnEdge */

const SVG = "http://www.w3.org/2000/svg";
const UNKNOWN = "—";
const LIFT = 1.5;
// The lines of a node, in Graphviz's order of <text> elements.
const LINES = ["name", "shape", "value", "gradient"];

// Names in the picture come from the user's code. Nothing is copied but shapes,
// geometry and text: no links, handlers, styles or colours get through.
const SAFE_ELEMENTS = new Set(["svg", "g", "path", "polygon", "polyline", "ellipse", "text"]);
const SAFE_ATTRIBUTES = ["d", "points", "cx", "cy", "rx", "ry", "x", "y", "text-anchor", "transform", "viewBox"];
const SAFE_CLASSES = new Set(["graph", "cluster", "node", "edge"]);

/**
 * @param {string} name
 * @param {Record<string, string | number>} [attributes]
 * @returns {SVGElement}
 */
export function svgElement(name, attributes = {}) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

/**
 * A safe copy of the SVG in `text`, and its groups by the id they had. The copy
 * has no ids, so two pictures on one page cannot be taken for each other.
 * @param {string} text
 * @returns {{svg: SVGElement, groups: Map<string, SVGElement>}}
 */
export function safeSvg(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (parsed.localName !== "svg" || parsed.namespaceURI !== SVG) throw new Error("the picture is not SVG");
  /** @type {Map<string, SVGElement>} */
  const groups = new Map();
  return { svg: /** @type {SVGElement} */ (safeCopy(parsed, groups)), groups };
}

/**
 * @param {Element} element
 * @param {Map<string, SVGElement>} groups
 * @returns {SVGElement | null}
 */
function safeCopy(element, groups) {
  if (element.namespaceURI !== SVG || !SAFE_ELEMENTS.has(element.localName)) return null;
  const copy = svgElement(element.localName);
  for (const name of SAFE_ATTRIBUTES) {
    const value = element.getAttribute(name);
    if (value !== null) copy.setAttribute(name, value);
  }
  copy.classList.add(...[...element.classList].filter((name) => SAFE_CLASSES.has(name)));
  if (element.id) groups.set(element.id, copy);
  if (element.localName === "text") {
    copy.textContent = element.textContent;
    return copy;
  }
  for (const child of element.children) {
    const safe = safeCopy(child, groups);
    if (safe) copy.append(safe);
  }
  return copy;
}

/** One drawn picture. A new structure needs a new Graph; each step only `apply`. */
export class Graph {
  /** @param {Picture} picture */
  constructor(picture) {
    const { svg, groups } = safeSvg(picture.svg);
    this.svg = svg;
    this.picture = picture;
    const [, , width, height] = (svg.getAttribute("viewBox") ?? "").split(/[\s,]+/).map(Number);
    this.width = width || 100;
    this.height = height || 100;
    /** @type {Map<string, DrawnNode>} */
    this.nodes = new Map();
    /** @type {Map<string, DrawnEdge>} */
    this.edges = new Map();
    for (const node of picture.nodes) {
      const group = groups.get(node.id);
      if (group) this.nodes.set(node.id, drawnNode(group, node));
    }
    /** @type {Map<string, SVGElement>} */
    this.frames = new Map();
    for (const { id } of picture.frames) {
      const group = groups.get(id);
      if (group) this.frames.set(id, group);
    }
    for (const { id, source, target } of picture.edges) {
      const group = groups.get(id);
      if (!group) continue;
      const label = group.querySelector("text");
      label?.setAttribute("y", String(Number(label.getAttribute("y")) - LIFT)); // off a wide line
      this.edges.set(id, { group, label, source, target });
    }
    // The background that Graphviz draws would hide the page's own colour.
    svg.querySelector("g.graph > polygon")?.remove();
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", `Graph of ${this.nodes.size} nodes`);
  }

  /**
   * Write one step's numbers into the nodes and edges inside `visible`.
   * @param {Patch} patch
   * @param {Named} named
   * @param {Box | null} visible null: everything
   */
  apply(patch, named, visible) {
    const bad = new Set(patch.bad);
    const shown = new Set();
    for (const [id, node] of this.nodes) {
      if (visible && !overlaps(node.box, visible)) continue;
      shown.add(id);
      const numbers = named.nodes.get(id);
      if (!numbers) continue;
      node.group.classList.toggle("bad", bad.has(id));
      const { told } = node;
      if (node.value) writeRow(node.value, valueText(numbers, told, patch.tiny[id], bad.has(id)), numbers.mean);
      if (node.gradient) {
        const text = gradientText(numbers, told, patch.tinyGrad[id], bad.has(id));
        writeRow(node.gradient, text, typical(numbers, told));
      }
    }
    for (const [id, edge] of this.edges) {
      const numbers = named.edges.get(id);
      if (numbers && (shown.has(edge.source) || shown.has(edge.target))) writeEdge(edge, numbers, this.nodes.get(edge.source)?.told);
    }
  }
}

/**
 * @param {SVGElement} group
 * @param {PictureNode} node
 * @returns {DrawnNode}
 */
function drawnNode(group, node) {
  const box = replaceShapes(group, node.kind);
  group.dataset.kind = node.kind;
  group.setAttribute("role", "img");
  group.setAttribute("tabindex", "-1");
  const where = node.module ? ` in ${node.module}` : "";
  const inside = node.inside ? `, ${node.inside} nodes inside` : "";
  group.setAttribute("aria-label", `${node.kind} ${node.label}${where}${inside}, shape ${node.shape.join(" by ") || "scalar"}`);
  const lines = /** @type {SVGElement[]} */ ([...group.children].filter((child) => child.localName === "text"));
  lines.forEach((line, index) => line.classList.add(LINES[index] ?? "more"));
  return { group, told: node, value: numberRow(lines[2], box), gradient: numberRow(lines[3], box), box };
}

const CORNERS = { op: 10, output: 10, leaf: 2, parameter: 2, buffer: 2, constant: 2, group: 6, gradient: 10, failed: 0 };
const DOUBLE = new Set(["parameter", "group"]);

/**
 * One rectangle instead of Graphviz's shapes: what was given has square corners,
 * what was computed has round ones. Borders (live.css) tell the kinds apart, and
 * a parameter and a closed group have two.
 * @param {SVGElement} group
 * @param {PictureNode["kind"]} kind
 * @returns {Box}
 */
function replaceShapes(group, kind) {
  const shapes = group.querySelectorAll("path, polygon, polyline, ellipse");
  const box = extent([...shapes]);
  shapes.forEach((shape) => shape.remove());
  const borders = DOUBLE.has(kind) ? ["card", "inner"] : ["card"];
  const rectangles = borders.map((name, inset) =>
    svgElement("rect", {
      class: name,
      x: box.left + 2.5 * inset,
      y: box.top + 2.5 * inset,
      width: box.right - box.left - 5 * inset,
      height: box.bottom - box.top - 5 * inset,
      rx: CORNERS[kind] ?? 2,
    }),
  );
  group.prepend(...rectangles);
  return box;
}

/**
 * A line of numbers, with a strip behind it that can be tinted.
 * @param {SVGElement | undefined} text
 * @param {Box} box
 * @returns {Row | null}
 */
function numberRow(text, box) {
  if (!text) return null;
  const baseline = Number(text.getAttribute("y"));
  const width = Math.max(0, box.right - box.left - 12);
  const chip = svgElement("rect", { class: "chip", x: box.left + 6, y: baseline - 8.6, width, height: 11.6, rx: 3 });
  text.before(chip);
  return { text, chip };
}

/**
 * The box around paths and polygons, from the coordinates in their text.
 * @param {Element[]} shapes
 * @returns {Box}
 */
function extent(shapes) {
  const text = shapes.map((shape) => shape.getAttribute("d") ?? shape.getAttribute("points")).join(" ");
  const values = (text.match(/-?[0-9]+(?:\.[0-9]+)?/g) ?? []).map(Number);
  if (values.length < 4) return { left: 0, top: 0, right: 0, bottom: 0 };
  const xs = values.filter((_, index) => index % 2 === 0);
  const ys = values.filter((_, index) => index % 2 === 1);
  return { left: Math.min(...xs), top: Math.min(...ys), right: Math.max(...xs), bottom: Math.max(...ys) };
}

/** @param {Box} a @param {Box} b */
export function overlaps(a, b) {
  return a.left <= b.right && b.left <= a.right && a.top <= b.bottom && b.top <= a.bottom;
}

/**
 * @param {NodeNumbers} numbers
 * @param {PictureNode} node
 * @param {string | undefined} tiny
 * @param {boolean} bad
 */
export function valueText(numbers, node, tiny, bad) {
  if (tiny !== undefined) return `value ${tiny}`;
  const known = bad || !numbers.few.every(Number.isNaN);
  if (isFew(node) && numbers.few.length > 0) return `value ${known ? formatWhole(numbers.few, node.shape.length === 0) : UNKNOWN}`;
  return Number.isNaN(numbers.mean) && !bad ? `value ${UNKNOWN}` : `mean  ${formatNumber(numbers.mean)}`;
}

/**
 * @param {NodeNumbers} numbers
 * @param {PictureNode} node
 * @param {string | undefined} tiny
 * @param {boolean} bad
 */
export function gradientText(numbers, node, tiny, bad) {
  const { gradient, sign, fewGradients } = numbers;
  if (tiny !== undefined) return `grad  ${tiny}`;
  if (Number.isNaN(gradient) && !bad) return `grad  ${UNKNOWN}`;
  if (!isFew(node) || numbers.few.length === 0) return `grad  ${formatSize(gradient)}`;
  const few = sizeOf(node) > 1 ? fewGradients : [sign < 0 ? -gradient : gradient];
  return `grad  ${formatWhole(few, node.shape.length === 0)}`;
}

/** An edge tells how large its gradient is, and the sign of the mean. @param {EdgeNumbers} numbers */
export function flowText({ gradient, sign }) {
  if (Number.isNaN(gradient)) return "";
  return (sign < 0 ? "-" : "+") + formatSize(gradient);
}

/**
 * The size of a mean gradient, as far as norm and sign tell: its root mean square.
 * @param {{gradient: number, sign: number}} numbers
 * @param {PictureNode | undefined} node
 */
function typical({ gradient, sign }, node) {
  return (sign * gradient) / Math.sqrt(Math.max(1, node ? sizeOf(node) : 1));
}

/**
 * @param {Row} row
 * @param {string} text
 * @param {number} mean
 */
function writeRow(row, text, mean) {
  write(row.text, text);
  tint(row.chip, mean);
}

/** @param {DrawnEdge} edge @param {EdgeNumbers} numbers @param {PictureNode | undefined} source */
function writeEdge(edge, numbers, source) {
  const unknown = Number.isNaN(numbers.gradient);
  edge.group.classList.toggle("quiet", unknown);
  setStyle(edge.group, "--width", unknown ? "1" : lineWidth(numbers.gradient).toFixed(2));
  tint(edge.group, typical(numbers, source));
  if (edge.label) write(edge.label, flowText(numbers));
}
