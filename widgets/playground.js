// A toy fit: points to be dragged on the left; on the right the hills of the loss, with the way
// that the optimizer has gone and an arrow to where it goes next.
import { button } from "./controls.js";
import { svgElement } from "./picture.js";
import { undoButtons, undoKey } from "./tensor_editor.js";

/** @typedef {import("./protocol.js").ToyData} ToyData */
/** @typedef {import("./panels.js").Around} Around */
/** @typedef {[number, number]} Place */

const TOY_SIZE = 300; // units of the SVGs, which are as wide as the page lets them
const POINT_BOX = 3; // points are seen from -3 to 3
const STEP_EVERY = 120; // ms between the steps of a run
const TOY_WAIT = 500;
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const STEP_SIGN = "M3,3l7,5l-7,5zM11,3h2v10h-2z";
const RUN_SIGN = "M4,3l9,5l-9,5z";
const RESET_SIGN = "M8,3a5,5 0 1 1 -4.6,3l1.8,0.8a3,3 0 1 0 2.8,-1.8v2.5l-4,-3.5l4,-3.5z";

export class ToyPanel {
  /** @param {Around} around */
  constructor(around) {
    this.around = around;
    this.element = document.createElement("section");
    this.element.className = "edutorch-toy";
    this.element.setAttribute("aria-label", "A toy fit");
    this.status = document.createElement("output");
    this.error = document.createElement("p");
    this.error.className = "error";
    this.error.setAttribute("role", "alert");
    const head = document.createElement("header");
    const step = button("toy-step", "Step", "Let the optimizer take one step", STEP_SIGN);
    this.runs = button("toy-run", "Run", "Run: let the optimizer take step after step", RUN_SIGN);
    const reset = button("toy-reset", "Reset", "Reset: begin anew", RESET_SIGN);
    const { back, again } = undoButtons(() => this.send({ act: "undo" }), () => this.send({ act: "redo" }));
    step.onclick = () => this.send({ act: "step" });
    reset.onclick = () => (this.run(false), this.send({ act: "reset" }));
    this.runs.onclick = () => this.run(!this.timer);
    this.undo = back;
    this.redo = again;
    head.append(step, this.runs, reset, back, again, this.status);
    const pictures = document.createElement("div");
    pictures.className = "pictures";
    this.plane = svgElement("svg", { viewBox: `0 0 ${TOY_SIZE} ${TOY_SIZE}`, role: "group", "aria-label": "Points: drag them, or move the focused one with the arrow keys" });
    this.hills = svgElement("svg", { viewBox: `0 0 ${TOY_SIZE} ${TOY_SIZE}`, role: "group", "aria-label": "Loss surface over the two parameters" });
    this.captions = [captionOf(pictures, this.plane), captionOf(pictures, this.hills)];
    this.element.append(head, pictures, this.error);
    this.timer = 0;
    this.drags = 0;
    this.drag = 0;
    this.asked = 0;
    /** @type {Record<string, any> | null} */
    this.waiting = null;
    /** @type {ToyData | null} */
    this.data = null;
    /** @type {SVGElement[]} */
    this.points = [];
    this.line = svgElement("path", { class: "fit" });
    this.plane.append(...crosshair(), this.line);
    this.bands = svgElement("g");
    this.path = svgElement("path", { class: "path" });
    this.arrow = svgElement("path", { class: "arrow" });
    this.here = svgElement("circle", { class: "here", r: 5, tabindex: 0, role: "button", "aria-roledescription": "point, moved with the arrow keys" });
    this.hills.append(this.bands, this.path, this.here, this.arrow);
    this.draggable(this.here, this.hills, (place, drag) => this.ask({ act: "move", place, drag }), () => this.at);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const act = undoKey(event);
    if (!act) return;
    event.preventDefault();
    this.send({ act });
  }

  dispose() {
    this.run(false);
  }

  /** @param {boolean} wanted */
  run(wanted) {
    window.clearInterval(this.timer);
    this.timer = wanted ? window.setInterval(() => this.ask({ act: "step", drag: 1 }, true), STEP_EVERY) : 0;
    this.runs.querySelector("span")?.replaceChildren(wanted ? "Stop" : "Run");
    this.runs.setAttribute("aria-label", wanted ? "Stop" : "Run: let the optimizer take step after step");
  }

  /** @param {Record<string, any>} content */
  send(content) {
    this.asked = performance.now();
    this.around.send(/** @type {any} */ ({ type: "toy", ...content }));
  }

  /** Ask for something that comes often: Python answers one after the other. @param {Record<string, any>} content @param {boolean} [dispensable] */
  ask(content, dispensable = false) {
    const busy = this.asked && performance.now() - this.asked < TOY_WAIT;
    if (!busy) this.send(content);
    else if (!dispensable) this.waiting = content;
  }

  /** @returns {Place} */
  get at() {
    return this.data ? finitePlace(this.data.at) : [0, 0];
  }

  /** @param {ToyData} data */
  show(data) {
    this.data = data;
    this.showPoints(data);
    this.showHills(data);
    const [first, second] = data.names;
    this.status.textContent = `step ${data.steps} · loss ${toyNumber(data.loss)} · ${first} ${toyNumber(data.at[0])} · ${second} ${toyNumber(data.at[1])}`;
    this.captions[0].textContent = data.kind === "line" ? `y = ${first}·x + ${second}` : `${first}·x + ${second}·y = 0`;
    this.captions[1].textContent = `loss by ${first} (across) and ${second} (up): blue is low`;
    this.error.textContent = data.error;
    this.undo.disabled = data.undo === 0;
    this.redo.disabled = data.redo === 0;
    this.asked = 0;
    const { waiting } = this;
    this.waiting = null;
    if (waiting) this.send(waiting);
  }

  /** @param {ToyData} data */
  showPoints(data) {
    while (this.points.length > data.points.length) this.points.pop()?.remove();
    while (this.points.length < data.points.length) this.points.push(this.newPoint(this.points.length));
    data.points.forEach(([x, y, side], index) => {
      const point = this.points[index];
      const [left, top] = inPlane([x, y]);
      point.setAttribute("transform", `translate(${left} ${top})`);
      point.dataset.side = String(side ?? 0);
      // A circle, or for the second class a square: not by colour alone.
      point.setAttribute("d", side ? "M-5.5,-5.5h11v11h-11z" : "M0,-6a6,6 0 1 1 -0.01,0z");
      const kind = side === undefined ? "" : `, class ${side}`;
      point.setAttribute("aria-label", `point ${index}: x ${toyNumber(x)}, y ${toyNumber(y)}${kind}`);
    });
    const [a, b] = this.at;
    const far = 2 * POINT_BOX;
    /** @type {Place[]} */
    const ends = data.kind === "line" ? [[-far, b - a * far], [far, b + a * far]] : crossing(a, b, far);
    this.line.setAttribute("d", ends.length > 0 ? pathOf(ends.map(inPlane)) : "");
  }

  /** @param {number} index */
  newPoint(index) {
    const point = svgElement("path", { class: "point", tabindex: 0, role: "button", "aria-roledescription": "point, moved with the arrow keys" });
    this.plane.append(point);
    this.draggable(point, this.plane, (place, drag) => this.ask({ act: "drag", index, place, drag }), () => {
      const [x, y] = this.data?.points[index] ?? [0, 0];
      return [x, y];
    });
    // A circle, or for the second class a square: not by colour alone.
    point.setAttribute("d", "M0,-6a6,6 0 1 1 -0.01,0z");
    return point;
  }

  /** @param {ToyData} data */
  showHills(data) {
    while (this.bands.children.length > data.bands.length) this.bands.lastElementChild?.remove();
    while (this.bands.children.length < data.bands.length) this.bands.append(svgElement("path", { class: "band", "fill-rule": "evenodd" }));
    data.bands.forEach((rings, index) => {
      const band = /** @type {SVGElement} */ (this.bands.children[index]);
      band.style.setProperty("--level", `${Math.round((100 * index) / Math.max(1, data.bands.length - 1))}%`);
      band.setAttribute("d", rings.map((ring) => `${pathOf(pairsOf(ring).map((place) => this.inHills(place)))}Z`).join(""));
    });
    const path = data.path.map((place) => this.inHills(finitePlace(place)));
    this.path.setAttribute("d", path.length > 1 ? pathOf(path) : "");
    const here = this.inHills(this.at);
    this.here.setAttribute("transform", `translate(${here[0]} ${here[1]})`);
    this.here.setAttribute("aria-label", `the parameters: ${data.names[0]} ${toyNumber(data.at[0])}, ${data.names[1]} ${toyNumber(data.at[1])}`);
    this.arrow.setAttribute("d", arrowTo(here, this.inHills(finitePlace(data.next))));
  }

  /** @param {Place} place @returns {Place} */
  inHills([a, b]) {
    const [left, right, low, high] = this.data?.box ?? [-1, 1, -1, 1];
    return [((a - left) / (right - left)) * TOY_SIZE, ((high - b) / (high - low)) * TOY_SIZE];
  }

  /** @param {SVGElement} svg @param {PointerEvent} event @returns {Place} */
  placeOf(svg, event) {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    const y = (event.clientY - box.top) / box.height;
    if (svg === this.plane) return [(2 * x - 1) * POINT_BOX, (1 - 2 * y) * POINT_BOX];
    const [left, right, low, high] = this.data?.box ?? [-1, 1, -1, 1];
    return [left + x * (right - left), high - y * (high - low)];
  }

  /**
   * Mouse, finger and arrow keys move it.
   * @param {SVGElement} element @param {SVGElement} svg
   * @param {(place: Place, drag: number) => void} moved @param {() => Place} where
   */
  draggable(element, svg, moved, where) {
    element.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      element.focus();
      element.setPointerCapture?.(event.pointerId);
      this.drag = ++this.drags;
    });
    element.addEventListener("pointermove", (event) => {
      if (this.drag) moved(this.placeOf(svg, event), this.drag);
    });
    for (const end of ["pointerup", "pointercancel"]) element.addEventListener(end, () => (this.drag = 0));
    element.addEventListener("keydown", (event) => {
      const way = MOVES[/** @type {keyof typeof MOVES} */ (event.key)];
      if (!way) return;
      event.preventDefault();
      event.stopPropagation();
      const [x, y] = where();
      const step = event.shiftKey ? 0.5 : 0.1;
      moved([x + way[0] * step, y + way[1] * step], 0);
    });
  }
}

/** @param {HTMLElement} parent @param {SVGElement} picture */
function captionOf(parent, picture) {
  const figure = document.createElement("figure");
  const text = document.createElement("figcaption");
  figure.append(picture, text);
  parent.append(figure);
  return text;
}

function crosshair() {
  const half = TOY_SIZE / 2;
  return [svgElement("path", { class: "axes", d: `M0,${half}H${TOY_SIZE}M${half},0V${TOY_SIZE}` })];
}

/** @param {Place} place @returns {Place} */
function inPlane([x, y]) {
  return [((x / POINT_BOX + 1) * TOY_SIZE) / 2, ((1 - y / POINT_BOX) * TOY_SIZE) / 2];
}

/** Where a·x + b·y is 0. @param {number} a @param {number} b @param {number} far @returns {Place[]} */
function crossing(a, b, far) {
  const length = Math.hypot(a, b);
  if (length === 0) return [];
  return [[(-b / length) * far, (a / length) * far], [(b / length) * far, (-a / length) * far]];
}

/** @param {Place[]} places */
function pathOf(places) {
  return `M${places.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}`;
}

/** @param {number[]} ring @returns {Place[]} */
function pairsOf(ring) {
  /** @type {Place[]} */
  const found = [];
  for (let index = 0; index + 1 < ring.length; index += 2) found.push([ring[index], ring[index + 1]]);
  return found;
}

/** @param {(number | string)[]} place @returns {Place} */
function finitePlace(place) {
  return /** @type {Place} */ (place.map((each) => (typeof each === "number" ? each : 0)));
}

/** @param {Place} from @param {Place} to */
function arrowTo(from, to) {
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
  if (length < 1) return "";
  const way = [(to[0] - from[0]) / length, (to[1] - from[1]) / length];
  const size = Math.min(9, length);
  /** @param {number} side @returns {Place} */
  const wing = (side) => [to[0] - size * (way[0] - side * way[1] * 0.5), to[1] - size * (way[1] + side * way[0] * 0.5)];
  return `${pathOf([from, to])}${pathOf([wing(1), to, wing(-1)])}`;
}

/** @param {number | string} value */
function toyNumber(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(4))) : value;
}
