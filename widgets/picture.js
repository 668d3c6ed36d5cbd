// The graph: Graphviz's SVG made safe, and the numbers of each step written into it.
import { formatNumber, formatSize, formatWhole, isFew, shapeText, sizeOf } from "./numbers.js";
import { CUT, MARK_SHAPES, lineWidth, roleOf, tint } from "./colours.js";
import { setStyle, write } from "./dom.js";

/** @typedef {import("./protocol.js").Picture} Picture */
/** @typedef {import("./protocol.js").PictureNode} PictureNode */
/** @typedef {import("./protocol.js").Patch} Patch */
/** @typedef {import("./numbers.js").NodeNumbers} NodeNumbers */
/** @typedef {import("./numbers.js").EdgeNumbers} EdgeNumbers */
/** @typedef {{nodes: Map<string, NodeNumbers>, edges: Map<string, EdgeNumbers>}} Named */
/** @typedef {{left: number, top: number, right: number, bottom: number}} Box */
/** @typedef {{group: SVGElement, told: PictureNode, value: SVGElement | null, gradient: SVGElement | null, box: Box, slot: Box | null}} DrawnNode */
/** @typedef {{group: SVGElement, label: SVGElement | null, source: string, target: string, cut: boolean}} DrawnEdge */

const SVG = "http://www.w3.org/2000/svg";
const UNKNOWN = "—";
const LIFT = 1.5;
// The lines of a node, in Graphviz's order of <text> elements.
const LINES = ["name", "shape", "value", "gradient"];
const CLEAR = 4; // around a small picture in its box
const LOWEST = 10; // and so high it is at least

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

/** Where the point (0, 0) of the nodes' coordinates is in the picture. @param {SVGElement} svg */
function originOf(svg) {
  const moved = svg.querySelector("g.graph")?.getAttribute("transform") ?? "";
  const [, x, y] = moved.match(/translate\(([-\d.]+)[ ,]+([-\d.]+)\)/) ?? [];
  const [left, top] = (svg.getAttribute("viewBox") ?? "").split(/[\s,]+/).map(Number);
  return { x: Number(x ?? 0) - (left || 0), y: Number(y ?? 0) - (top || 0) };
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
    this.origin = originOf(svg);
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
    for (const { id, source, target, kind } of picture.edges) {
      const group = groups.get(id);
      if (!group) continue;
      const label = group.querySelector("text");
      const cut = kind === "cut";
      if (label && !cut) label.setAttribute("y", String(Number(label.getAttribute("y")) - LIFT)); // off a wide line
      if (label && cut) write(label, CUT);
      if (cut || kind === "kept") group.classList.add(kind);
      this.edges.set(id, { group, label, source, target, cut });
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
      if (node.value) write(node.value, valueText(numbers, told, patch.tiny[id], bad.has(id)));
      if (node.gradient) write(node.gradient, gradientText(numbers, told, patch.tinyGrad[id], bad.has(id)));
    }
    for (const [id, edge] of this.edges) {
      const numbers = named.edges.get(id);
      if (numbers && !edge.cut && (shown.has(edge.source) || shown.has(edge.target))) writeEdge(edge, numbers, this.nodes.get(edge.source)?.told);
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
  group.dataset.role = roleOf(node);
  group.setAttribute("role", "img");
  group.setAttribute("tabindex", "-1");
  const where = node.module ? ` in ${node.module}` : "";
  const inside = node.inside ? `, ${node.inside} nodes inside` : "";
  const marks = node.marks.map((mark) => `, ${mark}`).join("");
  const written = node.version ? `, version ${node.version + 1}` : "";
  group.setAttribute("aria-label", `${node.kind} ${node.label}${where}${inside}, shape ${shapeText(node, " by ") || node.dtype}${marks}${written}`);
  const lines = /** @type {SVGElement[]} */ ([...group.children].filter((child) => child.localName === "text"));
  if (node.kind === "constant") {
    lines[0]?.classList.add("name", "value");
    return { group, told: node, value: lines[0] ?? null, gradient: null, box, slot: null };
  }
  lines.forEach((line, index) => line.classList.add(LINES[index] ?? "more"));
  node.marks.forEach((mark, place) => {
    const at = `translate(${box.right - 12 * (place + 1)},${box.top + 3})`;
    group.append(svgElement("path", { class: "mark", d: MARK_SHAPES[mark], transform: at }));
  });
  const gradient = node.differentiable ? lines[3] : null;
  return { group, told: node, value: lines[2] ?? null, gradient: gradient ?? null, box, slot: slotIn(box, lines) };
}

/**
 * The room for a small picture, below the lines of a box; null: there is none.
 * @param {Box} box
 * @param {SVGElement[]} lines
 * @returns {Box | null}
 */
function slotIn(box, lines) {
  const last = lines[lines.length - 1];
  const top = Number(last?.getAttribute("y") ?? box.bottom) + CLEAR;
  const slot = { left: box.left + 2 * CLEAR, top, right: box.right - 2 * CLEAR, bottom: box.bottom - CLEAR };
  return slot.bottom - slot.top >= LOWEST ? slot : null;
}

const CORNERS = { op: 10, output: 10, leaf: 2, parameter: 2, buffer: 2, constant: 2, group: 10, gradient: 10, failed: 0 };
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
  if (kind === "constant") return box; // there is only its number
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
  if (node.kind === "constant") return tiny ?? formatWhole([numbers.mean], true);
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

/**
 * An edge tells how large its gradient is; only a scalar's has a sign.
 * @param {EdgeNumbers} numbers
 * @param {PictureNode | undefined} source
 */
export function flowText({ gradient, sign }, source) {
  if (Number.isNaN(gradient)) return "";
  if (source && sizeOf(source) === 1) return (sign < 0 ? "-" : "+") + formatSize(gradient);
  return formatSize(gradient);
}

/** @param {DrawnEdge} edge @param {EdgeNumbers} numbers @param {PictureNode | undefined} source */
function writeEdge(edge, numbers, source) {
  const unknown = Number.isNaN(numbers.gradient);
  setStyle(edge.group, "--width", unknown ? "1" : lineWidth(numbers.gradient).toFixed(2));
  tint(edge.group, numbers.gradient);
  if (edge.label) write(edge.label, flowText(numbers, source));
}
