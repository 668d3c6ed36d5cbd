// The window onto the graph: all of it, or a part that can be read; zoom, drag, and what is on screen.
import { button } from "./controls.js";
import { Minimap } from "./minimap.js";
import { overlaps } from "./picture.js";
import { setAttribute } from "./dom.js";

/** @typedef {import("./protocol.js").Command} Command */
/** @typedef {import("./picture.js").Graph} Graph */
/** @typedef {import("./picture.js").Box} Box */

const READABLE = 0.75; // CSS pixels per point: below this the numbers are too small to read,
const READING = 1; // and so large they are when somebody wants to read them.
const FAR = 0.3; // Below this no letter can be told from another: none is written, no number asked for.
const LARGEST = 1.6;
const CLOSEST = 4;
const ZOOM_STEP = 1.25;
const PADDING = 12; // live.css
const HIGHEST = 560; // CSS pixels, of the window
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
    this.scroller.style.maxHeight = `${HIGHEST}px`;
    this.minimap = new Minimap((x, y) => this.centre(x, y), () => this.showSomething(), () => this.fit());
    this.tools = document.createElement("div");
    this.tools.className = "edutorch-zoom";
    const fit = button("fit", "", "Show the whole graph (0)", FIT_ICON);
    const larger = button("larger", "", "Zoom in (+)", PLUS_ICON);
    const smaller = button("smaller", "", "Zoom out (−)", MINUS_ICON);
    fit.onclick = () => this.fit();
    larger.onclick = () => this.zoom(ZOOM_STEP);
    smaller.onclick = () => this.zoom(1 / ZOOM_STEP);
    this.tools.append(smaller, fit, larger);
    this.whole = [fit, smaller]; // there is nothing more to be seen
    this.element.append(this.scroller, this.minimap.element);
    this.scale = 1;
    this.fitted = true;
    /** @type {Graph | null} */
    this.graph = null;
    this.scroller.addEventListener("scroll", () => this.changed(), { passive: true });
    this.scroller.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.scroller.addEventListener("pointerdown", (event) => this.drag(event));
    this.moved = moved;
    this.resized = typeof ResizeObserver === "function" ? new ResizeObserver(() => this.rearrange()) : null;
    this.resized?.observe(this.scroller);
  }

  /**
   * @param {Graph} graph
   * @param {Box | null} [wanted] what somebody wants to see of it, in the coordinates of its nodes
   */
  show(graph, wanted = null) {
    this.graph = graph;
    // The width is asked for before the graph is in the page: the browser lays it out only once.
    const whole = this.wholeScale();
    if (wanted && whole < READABLE) this.fitted = false;
    if (this.fitted) this.resize(whole);
    else this.resize(wanted ? Math.max(READABLE, this.scale) : this.scale);
    this.scroller.replaceChildren(graph.svg);
    this.minimap.show(graph);
    if (this.fitted) return;
    if (wanted) this.reveal(wanted);
    this.showSomething(isSeen);
  }

  /** The scale at which all of the graph is in the window. */
  wholeScale() {
    if (!this.graph) return 1;
    const room = this.scroller.clientWidth - 2 * PADDING;
    if (room <= 0) return READABLE; // not in the page, or in a part of it that is hidden
    const { width, height } = this.graph;
    return Math.min(LARGEST, room / width, (HIGHEST - 2 * PADDING - 1) / height);
  }

  /** All of the graph, however small it is then: zoom in to read. */
  fit() {
    if (!this.graph) return;
    this.fitted = true;
    this.resize(this.wholeScale());
  }

  rearrange() {
    if (this.fitted) return this.fit();
    this.showSomething();
    this.changed();
  }

  /**
   * From a graph that is too small to be read, to one that is not; then step by step.
   * @param {number} factor
   * @param {{x: number, y: number}} [at] what stays where it is, from the window's corner; by default its middle
   */
  zoom(factor, at) {
    const { scroller, graph } = this;
    if (!graph) return;
    const before = this.scale;
    const whole = this.wholeScale();
    const wanted = before * factor;
    if (factor < 1 && wanted <= whole) return this.fit();
    const chosen = graph.svg.querySelector(".chosen");
    const scale = factor > 1 && before < READABLE ? Math.max(wanted, READING) : wanted;
    const { x, y } = at ?? { x: scroller.clientWidth / 2, y: scroller.clientHeight / 2 };
    const held = this.pointAt(x, y);
    this.fitted = false;
    this.resize(Math.min(CLOSEST, Math.max(Math.min(whole, READABLE), scale)));
    const now = this.place();
    scroller.scrollLeft += now.left + held.x * this.scale - x;
    scroller.scrollTop += now.top + held.y * this.scale - y;
    const node = [...graph.nodes.values()].find(({ group }) => group === chosen);
    if (node && !at) this.reveal(node.box);
    this.showSomething();
  }

  /** Where the picture begins, from the window's corner. */
  place() {
    const picture = this.graph?.svg.getBoundingClientRect();
    const { left, top } = this.scroller.getBoundingClientRect();
    return { left: (picture?.left ?? 0) - left, top: (picture?.top ?? 0) - top };
  }

  /** A point of the window, in the picture. @param {number} x @param {number} y */
  pointAt(x, y) {
    const { left, top } = this.place();
    return { x: (x - left) / this.scale, y: (y - top) / this.scale };
  }

  /** Scroll so that a point of the picture is in the middle. @param {number} x @param {number} y */
  centre(x, y) {
    const { scroller } = this;
    const { left, top } = this.place();
    scroller.scrollLeft += left + x * this.scale - scroller.clientWidth / 2;
    scroller.scrollTop += top + y * this.scale - scroller.clientHeight / 2;
  }

  /** Scroll to a part of the graph that is not in the window. @param {Box} box in the coordinates of its nodes */
  reveal(box) {
    const shown = this.inWindow();
    if (!this.graph || !shown) return;
    if (shown.left <= box.left && box.right <= shown.right && shown.top <= box.top && box.bottom <= shown.bottom) return;
    const { x, y } = this.graph.origin;
    const [width, height] = [shown.right - shown.left, shown.bottom - shown.top];
    // Of what is larger than the window, its beginning.
    const across = Math.min((box.left + box.right) / 2, box.left + width / 2);
    const down = Math.min((box.top + box.bottom) / 2, box.top + height / 2);
    this.centre(across + x, down + y);
  }

  /**
   * Never an empty window: go to the box that is nearest.
   * @param {(box: Box, window: Box) => boolean} [isEnough] says of a box whether enough of it is in the window
   */
  showSomething(isEnough = isFound) {
    const shown = this.inWindow();
    if (!this.graph || !shown) return;
    const middle = { x: (shown.left + shown.right) / 2, y: (shown.top + shown.bottom) / 2 };
    let [nearest, shortest] = [/** @type {Box | null} */ (null), Infinity];
    for (const { box } of this.graph.nodes.values()) {
      if (isEnough(box, shown)) return;
      const distance = Math.hypot((box.left + box.right) / 2 - middle.x, (box.top + box.bottom) / 2 - middle.y);
      if (distance < shortest) [nearest, shortest] = [box, distance];
    }
    if (nearest) this.reveal(nearest);
  }

  /** What of the graph the window holds, in the coordinates of its nodes; null: nothing can be told. @returns {Box | null} */
  inWindow() {
    const { clientWidth, clientHeight } = this.scroller;
    if (!this.graph || clientWidth <= 0 || clientHeight <= 0) return null;
    const { x, y } = this.graph.origin;
    const start = this.pointAt(0, 0);
    const end = this.pointAt(clientWidth, clientHeight);
    return { left: start.x - x, top: start.y - y, right: end.x - x, bottom: end.y - y };
  }

  /** @param {number} scale */
  resize(scale) {
    if (!this.graph) return;
    this.scale = scale;
    this.graph.svg.style.width = `${this.graph.width * scale}px`;
    this.graph.svg.style.height = `${this.graph.height * scale}px`;
    this.scroller.classList.toggle("without-texts", this.far); // "far" is a class of Font Awesome, which pages have
    this.changed();
  }

  /** Large enough for all texts. */
  get readable() {
    return this.scale >= READABLE;
  }

  /** Too small for any text. */
  get far() {
    return this.scale < FAR;
  }

  changed() {
    this.moved();
    for (const each of this.whole) setAttribute(each, "disabled", this.fitted);
    if (this.fitted) this.minimap.hide();
    else if (this.graph?.svg.isConnected) this.minimap.mark(this.inWindow());
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return; // A plain wheel scrolls the notebook.
    event.preventDefault();
    const { left, top } = this.scroller.getBoundingClientRect();
    this.zoom(event.deltaY < 0 ? ZOOM_STEP : 1 / ZOOM_STEP, { x: event.clientX - left, y: event.clientY - top });
  }

  /** Plus, minus and 0, as everywhere. @param {KeyboardEvent} event */
  key(event) {
    const at = event.target instanceof Element ? event.target : null;
    if (event.ctrlKey || event.metaKey || event.altKey || at?.closest("input, textarea, select")) return;
    /** @type {Record<string, () => void>} */
    const keys = { "+": () => this.zoom(ZOOM_STEP), "-": () => this.zoom(1 / ZOOM_STEP), 0: () => this.fit() };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
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

/**
 * Whether half of a box is in the window, or a part that fills a quarter of it: there may be nothing at the edge of a box.
 * @param {Box} box @param {Box} window
 */
function isFound(box, window) {
  const across = Math.min(box.right, window.right) - Math.max(box.left, window.left);
  const down = Math.min(box.bottom, window.bottom) - Math.max(box.top, window.top);
  const isWide = across >= Math.min((box.right - box.left) / 2, (window.right - window.left) / 4);
  return isWide && down >= Math.min((box.bottom - box.top) / 2, (window.bottom - window.top) / 4);
}

/**
 * Whether all of a box is in the window; of one that is larger than that, a part will do.
 * @param {Box} box @param {Box} window
 */
function isSeen(box, window) {
  const across = box.right - box.left > window.right - window.left || (window.left <= box.left && box.right <= window.right);
  const down = box.bottom - box.top > window.bottom - window.top || (window.top <= box.top && box.bottom <= window.bottom);
  return across && down && overlaps(box, window);
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
    this.far = false;
    /** @type {Box | null} */
    this.told = null;
    /** @type {string | undefined} */
    this.chosen = undefined;
  }

  /**
   * @param {Graph} graph
   * @param {Box | null} box what `Viewport.visible` says
   * @param {string} [chosen] the node whose details are shown, wherever it is
   * @param {boolean} [far] no other number can be read
   */
  tell(graph, box, chosen, far = false) {
    // A view that is scrolled away will come back.
    if (!box || box.left >= box.right || box.top >= box.bottom) return;
    const { structure, nodes } = graph.picture;
    const same = structure === this.structure && chosen === this.chosen && far === this.far;
    if (same && (far || this.holds(box))) return;
    const [beside, above] = [((box.right - box.left) * (TOLD - 1)) / 2, ((box.bottom - box.top) * (TOLD - 1)) / 2];
    const told = { left: box.left - beside, right: box.right + beside, top: box.top - above, bottom: box.bottom + above };
    Object.assign(this, { structure, chosen, told, far });
    const places = nodes.flatMap(({ id }, place) => {
      const drawn = graph.nodes.get(id);
      return id === chosen || (drawn && !far && overlaps(drawn.box, told)) ? [place] : [];
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
