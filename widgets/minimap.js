// The whole graph in a corner, with a frame around what the window shows: to see where one is, and to go elsewhere.
import { svgElement } from "./picture.js";
import { setAttribute } from "./dom.js";

/** @typedef {import("./picture.js").Graph} Graph */
/** @typedef {import("./picture.js").Box} Box */

const WIDEST = 190; // CSS pixels
const TALLEST = 110;
const LEAST = 3; // CSS pixels: a box is never smaller, a picture never lower
const STRIDE = 0.5; // of the window, for each press of an arrow

export class Minimap {
  /**
   * @param {(x: number, y: number) => void} centre move the window to a point of the picture
   * @param {() => void} settle called when it has been moved
   * @param {() => void} fit show all of it
   */
  constructor(centre, settle, fit) {
    this.centre = centre;
    this.settle = settle;
    this.fit = fit;
    this.element = document.createElement("div");
    this.element.className = "edutorch-minimap";
    this.element.hidden = true;
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", "Overview: arrows move the window, Enter shows the whole graph");
    this.frame = svgElement("rect", { class: "window", "vector-effect": "non-scaling-stroke" });
    /** @type {Graph | null} */
    this.graph = null;
    /** @type {SVGElement | null} */
    this.svg = null;
    /** @type {Box | null} */
    this.window = null;
    this.element.addEventListener("pointerdown", (event) => this.drag(event));
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  /** It is drawn when it is first to be seen. @param {Graph} graph */
  show(graph) {
    this.graph = graph;
    this.svg = null;
    this.hide();
  }

  hide() {
    setAttribute(this.element, "hidden", true);
  }

  /** Frame what the window shows. @param {Box | null} box in the coordinates of the nodes */
  mark(box) {
    const { graph } = this;
    if (!graph || !box) return this.hide();
    const { x, y } = graph.origin;
    const whole = { left: -x, top: -y, right: graph.width - x, bottom: graph.height - y };
    const part = box.left > whole.left || box.top > whole.top || box.right < whole.right || box.bottom < whole.bottom;
    setAttribute(this.element, "hidden", !part);
    if (!part) return;
    this.window = box;
    if (!this.svg) this.paint(graph);
    const left = Math.max(box.left, whole.left);
    const top = Math.max(box.top, whole.top);
    setAttribute(this.frame, "x", String(left));
    setAttribute(this.frame, "y", String(top));
    setAttribute(this.frame, "width", String(Math.max(0, Math.min(box.right, whole.right) - left)));
    setAttribute(this.frame, "height", String(Math.max(0, Math.min(box.bottom, whole.bottom) - top)));
  }

  /** @param {Graph} graph */
  paint(graph) {
    const { width, height, origin } = graph;
    const scale = Math.min(WIDEST / width, TALLEST / height);
    const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", preserveAspectRatio: "none" });
    svg.style.width = `${Math.max(LEAST * 4, width * scale)}px`;
    svg.style.height = `${Math.max(LEAST * 4, height * scale)}px`;
    const layer = svgElement("g", { transform: `translate(${origin.x} ${origin.y})` });
    /** @param {Box} box */
    const rectangle = ({ left, top, right, bottom }) =>
      `M${left},${top}H${Math.max(right, left + LEAST / scale)}V${Math.max(bottom, top + LEAST / scale)}H${left}Z`;
    const boxes = [...graph.nodes.values()].map(({ box }) => rectangle(box)).join("");
    layer.append(svgElement("path", { class: "boxes", d: boxes }), this.frame);
    svg.append(layer);
    this.svg = svg;
    this.element.replaceChildren(svg);
  }

  /** @param {PointerEvent} event */
  drag(event) {
    if (event.button !== 0) return;
    event.preventDefault();
    this.element.focus({ preventScroll: true });
    this.go(event);
    /** @param {PointerEvent} at */
    const move = (at) => this.go(at);
    const end = () => {
      this.settle();
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", end);
      window.removeEventListener("pointercancel", end);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", end);
    window.addEventListener("pointercancel", end);
  }

  /** @param {PointerEvent} at */
  go(at) {
    const rect = this.svg?.getBoundingClientRect();
    if (!this.graph || !rect?.width || !rect.height) return;
    this.centre(((at.clientX - rect.left) / rect.width) * this.graph.width, ((at.clientY - rect.top) / rect.height) * this.graph.height);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    /** @type {Record<string, [number, number]>} */
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!this.graph || !this.window || !(ways[event.key] || event.key === "Enter")) return;
    event.preventDefault();
    if (event.key === "Enter") return this.fit();
    const [across, down] = ways[event.key];
    const { left, right, top, bottom } = this.window;
    const { x, y } = this.graph.origin;
    this.centre((left + right) / 2 + x + across * STRIDE * (right - left), (top + bottom) / 2 + y + down * STRIDE * (bottom - top));
    this.settle();
  }
}
