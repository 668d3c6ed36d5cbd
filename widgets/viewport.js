// The window onto the graph: fit to width, zoom, drag, and what is on screen.
import { button } from "./controls.js";
import { overlaps } from "./picture.js";

/** @typedef {import("./protocol.js").Command} Command */
/** @typedef {import("./picture.js").Graph} Graph */
/** @typedef {import("./picture.js").Box} Box */

const READABLE = 0.75; // CSS pixels per point: below this the numbers are too small to read.
const LARGEST = 1.6;
const ZOOM_STEP = 1.25;
const FIT_ICON = "M2,2h5v2h-3v3h-2zM9,2h5v5h-2v-3h-3zM2,9h2v3h3v2h-5zM12,9h2v5h-5v-2h3z";
const PLUS_ICON = "M7,3h2v4h4v2h-4v4h-2v-4h-4v-2h4z";
const MINUS_ICON = "M3,7h10v2h-10z";
// Around what is on screen, so that a short scroll does not uncover old numbers.
const MARGIN = 100;

export class Viewport {
  /** @param {() => void} moved called when other nodes may have come on screen */
  constructor(moved) {
    this.element = document.createElement("div");
    this.element.className = "edutorch-viewport";
    this.scroller = document.createElement("div");
    this.scroller.className = "scroller";
    this.tools = document.createElement("div");
    this.tools.className = "edutorch-zoom";
    const fit = button("fit", "", "Fit the graph to the width", FIT_ICON);
    const larger = button("larger", "", "Zoom in", PLUS_ICON);
    const smaller = button("smaller", "", "Zoom out", MINUS_ICON);
    fit.onclick = () => this.fit();
    larger.onclick = () => this.zoom(ZOOM_STEP);
    smaller.onclick = () => this.zoom(1 / ZOOM_STEP);
    this.tools.append(smaller, fit, larger);
    this.element.append(this.scroller);
    this.scale = 1;
    this.fitted = true;
    /** @type {Graph | null} */
    this.graph = null;
    this.scroller.addEventListener("scroll", moved, { passive: true });
    this.scroller.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.scroller.addEventListener("pointerdown", (event) => this.drag(event));
    this.moved = moved;
    this.resized = typeof ResizeObserver === "function" ? new ResizeObserver(() => this.fitted && this.fit()) : null;
    this.resized?.observe(this.scroller);
  }

  /** @param {Graph} graph */
  show(graph) {
    this.graph = graph;
    // The width is asked for before the graph is in the page: the browser lays it out only once.
    if (this.fitted) this.fit();
    else this.resize(this.scale);
    this.scroller.replaceChildren(graph.svg);
  }

  /** As wide as the page, but never so small that it cannot be read: then it scrolls. */
  fit() {
    if (!this.graph) return;
    const wanted = (this.scroller.clientWidth - 24) / this.graph.width;
    this.resize(Math.min(LARGEST, Math.max(READABLE, wanted || 1)));
    this.fitted = true;
  }

  /** @param {number} factor */
  zoom(factor) {
    const { scroller } = this;
    const before = this.scale;
    this.resize(Math.min(4, Math.max(0.1, before * factor)));
    this.fitted = false;
    // Keep what is in the middle in the middle.
    const ratio = this.scale / before;
    scroller.scrollLeft = (scroller.scrollLeft + scroller.clientWidth / 2) * ratio - scroller.clientWidth / 2;
    scroller.scrollTop = (scroller.scrollTop + scroller.clientHeight / 2) * ratio - scroller.clientHeight / 2;
  }

  /** @param {number} scale */
  resize(scale) {
    if (!this.graph) return;
    this.scale = scale;
    this.graph.svg.style.width = `${this.graph.width * scale}px`;
    this.graph.svg.style.height = `${this.graph.height * scale}px`;
    this.moved();
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return; // A plain wheel scrolls the notebook.
    event.preventDefault();
    this.zoom(event.deltaY < 0 ? ZOOM_STEP : 1 / ZOOM_STEP);
  }

  /** @param {PointerEvent} event */
  drag(event) {
    if (event.button !== 0 || event.pointerType === "touch") return;
    const { scroller } = this;
    let [x, y] = [event.clientX, event.clientY];
    /** @param {PointerEvent} at */
    const move = (at) => {
      scroller.scrollBy(x - at.clientX, y - at.clientY);
      [x, y] = [at.clientX, at.clientY];
    };
    const end = () => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", end);
      window.removeEventListener("pointercancel", end);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", end);
    window.addEventListener("pointercancel", end);
  }

  /**
   * The part of the graph on screen, in the coordinates of its nodes; null where
   * the browser cannot tell.
   * @returns {Box | null}
   */
  visible() {
    const layer = /** @type {SVGGraphicsElement | null} */ (this.graph?.svg.querySelector("g.graph") ?? null);
    const matrix = layer?.getScreenCTM?.();
    const { left, top, right, bottom } = this.scroller.getBoundingClientRect();
    if (!matrix || !matrix.a || !matrix.d || right <= left) return null;
    return {
      left: (Math.max(left, 0) - matrix.e) / matrix.a - MARGIN,
      top: (Math.max(top, 0) - matrix.f) / matrix.d - MARGIN,
      right: (Math.min(right, window.innerWidth) - matrix.e) / matrix.a + MARGIN,
      bottom: (Math.min(bottom, window.innerHeight) - matrix.f) / matrix.d + MARGIN,
    };
  }

  dispose() {
    this.resized?.disconnect();
  }
}

// So many times as wide and high as the window is what Python is told of: a scroll stays inside.
const TOLD = 2;
// A window so much smaller than what was told of is told of anew.
const SHRUNK = 4;
let views = 0;

/** Tells Python which nodes are on screen: it computes the numbers of no others. */
export class OnScreen {
  /** @param {(command: Command) => void} send */
  constructor(send) {
    this.send = send;
    this.view = `${Date.now()}-${views++}`;
    this.structure = "";
    /** @type {Box | null} */
    this.told = null;
    /** @type {string | undefined} */
    this.chosen = undefined;
  }

  /**
   * @param {Graph} graph
   * @param {Box | null} box what `Viewport.visible` says
   * @param {string} [chosen] the node whose details are shown, wherever it is
   */
  tell(graph, box, chosen) {
    // A view that is scrolled away will come back.
    if (!box || box.left >= box.right || box.top >= box.bottom) return;
    const { structure, nodes } = graph.picture;
    if (structure === this.structure && chosen === this.chosen && this.holds(box)) return;
    const [beside, above] = [((box.right - box.left) * (TOLD - 1)) / 2, ((box.bottom - box.top) * (TOLD - 1)) / 2];
    const told = { left: box.left - beside, right: box.right + beside, top: box.top - above, bottom: box.bottom + above };
    Object.assign(this, { structure, chosen, told });
    const places = nodes.flatMap(({ id }, place) => {
      const drawn = graph.nodes.get(id);
      return id === chosen || (drawn && overlaps(drawn.box, told)) ? [place] : [];
    });
    this.send({ type: "seen", view: this.view, structure, nodes: places });
  }

  /** Whether Python knows of all that is in `box`, and not of far more. @param {Box} box */
  holds(box) {
    const { told } = this;
    if (!told) return false;
    const inside = told.left <= box.left && box.right <= told.right && told.top <= box.top && box.bottom <= told.bottom;
    return inside && told.right - told.left <= SHRUNK * (box.right - box.left);
  }
}
