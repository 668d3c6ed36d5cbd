// A hand in the graph: fields and sliders for the numbers that go in, undo, and the wave in which
// a change runs through the graph, node by node in the order of computation, and back.
import { button } from "./controls.js";

/** @typedef {import("./protocol.js").TouchData} TouchData */
/** @typedef {import("./protocol.js").TouchField} TouchField */
/** @typedef {import("./panels.js").Around} Around */
/** @typedef {import("./picture.js").Graph} Graph */
/** @typedef {{slider: HTMLInputElement, text: HTMLInputElement, gradient: HTMLOutputElement}} TouchRow */

const UNDO_ICON = "M6,2v3h4a4,4 0 0 1 0,8h-5v-2h5a2,2 0 0 0 0,-4h-4v3l-5,-4z";
const REDO_ICON = "M10,2v3h-4a4,4 0 0 0 0,8h5v-2h-5a2,2 0 0 1 0,-4h4v3l5,-4z";
const PATIENCE = 500; // ms after which an unanswered drag is asked for again
const SLIDER_STEPS = 200;
const WAVE_TIME = 1000; // ms for all of it, but no node faster or slower than…
const WAVE_FASTEST = 12;
const WAVE_SLOWEST = 140;

/** The buttons to take a change back. @param {() => void} undo @param {() => void} redo */
export function undoButtons(undo, redo) {
  const back = button("undo", "Undo", "Undo the last change (Ctrl+Z)", UNDO_ICON);
  const again = button("redo", "Redo", "Redo (Ctrl+Y)", REDO_ICON);
  back.onclick = undo;
  again.onclick = redo;
  return { back, again };
}

/**
 * What Ctrl+Z and its friends mean, null for other keys. In a field that is being written, they
 * are the browser's.
 * @param {KeyboardEvent} event
 * @returns {"undo" | "redo" | null}
 */
export function undoKey(event) {
  if (!(event.ctrlKey || event.metaKey) || event.altKey) return null;
  const { target } = event;
  if (target instanceof HTMLInputElement && target.type === "text" && target.value !== target.dataset.held) return null;
  const key = event.key.toLowerCase();
  if (key === "z") return event.shiftKey ? "redo" : "undo";
  return key === "y" ? "redo" : null;
}

/** @param {number | string} value */
export function plainNumber(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(6))) : value;
}

export class TouchPanel {
  /** @param {Around} around */
  constructor(around) {
    this.around = around;
    this.wave = new Wave();
    this.element = document.createElement("section");
    this.element.className = "edutorch-touch";
    this.element.setAttribute("aria-label", "Change a number");
    const head = document.createElement("header");
    const title = document.createElement("strong");
    title.textContent = "Change a number";
    this.result = document.createElement("output");
    this.note = document.createElement("span");
    const { back, again } = undoButtons(() => this.act("undo"), () => this.act("redo"));
    this.undo = back;
    this.redo = again;
    head.append(title, this.result, this.note, back, again);
    this.list = document.createElement("div");
    this.list.className = "fields";
    this.error = document.createElement("p");
    this.error.className = "error";
    this.error.setAttribute("role", "alert");
    this.element.append(head, this.list, this.error);
    /** @type {TouchRow[]} */
    this.rows = [];
    this.layout = "";
    this.serial = -1;
    this.drags = 0;
    this.drag = 0;
    /** @type {(() => void) | null} */
    this.waiting = null;
    this.asked = 0;
  }

  /** @param {"undo" | "redo"} act */
  act(act) {
    this.around.send({ type: "touch", act });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const act = this.element.hidden ? null : undoKey(event);
    if (!act) return;
    event.preventDefault();
    this.act(act);
  }

  dispose() {
    this.wave.finish();
  }

  /** @param {TouchData} data */
  show(data) {
    this.element.hidden = data.fields.length === 0;
    const layout = JSON.stringify([data.compact, data.fields.map(({ name, shape, values }) => [name, shape, values.length])]);
    if (layout !== this.layout) {
      this.layout = layout;
      this.rows = [];
      const some = data.fields.length > 0; // none, when a loop goes on that was paused
      this.list.replaceChildren(...(data.compact && some ? [this.form(data.fields)] : data.fields.map((field) => this.group(field))));
    }
    if (!data.compact) this.fill(data.fields);
    this.write(this.result, data.result && `result ${data.result}`);
    this.write(this.note, data.note);
    this.write(this.error, data.error);
    this.undo.disabled = data.undo === 0;
    this.redo.disabled = data.redo === 0;
    this.travel(data);
    this.asked = 0;
    this.waiting?.();
  }

  /** Let the new numbers run through the graph, once they stand in it. @param {TouchData} data */
  travel(data) {
    const graph = this.around.graph();
    const first = this.serial < 0;
    const same = data.serial === this.serial;
    this.serial = data.serial;
    if (same) return;
    this.wave.finish();
    if (!graph || first || data.still || !motionAllowed()) return;
    const before = textsOf(graph);
    queueMicrotask(() => this.wave.begin(graph, before));
  }

  /** @param {HTMLElement} element @param {string} text */
  write(element, text) {
    if (element.textContent !== text) element.textContent = text;
    element.hidden = text === "";
  }

  /** @param {TouchField} field */
  group(field) {
    const group = document.createElement("fieldset");
    const legend = document.createElement("legend");
    legend.textContent = field.name;
    const shape = document.createElement("small");
    shape.textContent = field.shape.length > 0 ? field.shape.join("×") : "";
    legend.append(" ", shape);
    group.append(legend);
    field.values.forEach((_, index) => group.append(this.row(field, index)));
    if (field.values.length === 0) group.append("too many numbers for sliders");
    return group;
  }

  /** @param {TouchField} field @param {number} index */
  row(field, index) {
    const place = field.shape.length > 0 ? `${field.name}[${placeOf(index, field.shape).join(", ")}]` : field.name;
    const line = document.createElement("div");
    line.className = "row";
    const slider = labelledInput("range", `${place}, slider`);
    const text = labelledInput("text", place);
    text.inputMode = "decimal";
    const gradient = document.createElement("output");
    gradient.setAttribute("aria-label", `gradient of ${place}`);
    if (field.shape.length > 0) {
      const label = document.createElement("span");
      label.textContent = `[${placeOf(index, field.shape).join(", ")}]`;
      line.append(label);
    }
    line.append(slider, text, gradient);
    slider.addEventListener("pointerdown", () => (this.drag = ++this.drags));
    slider.addEventListener("input", () => {
      text.value = plainNumber(slider.valueAsNumber);
      this.ask(field.name, index, slider.valueAsNumber, this.drag);
    });
    slider.addEventListener("change", () => (this.drag = 0));
    const written = () => {
      if (text.value === text.dataset.held) return;
      text.dataset.held = text.value;
      this.ask(field.name, index, text.value, 0);
    };
    text.addEventListener("change", written);
    text.addEventListener("keydown", (event) => event.key === "Enter" && written());
    text.addEventListener("keydown", (event) => this.nudge(event, text, slider, field.name, index));
    this.rows.push({ slider, text, gradient });
    return line;
  }

  /** Arrow keys in a field change its number by a step of the slider, with Shift by ten. @param {KeyboardEvent} event @param {HTMLInputElement} text @param {HTMLInputElement} slider @param {string} name @param {number} index */
  nudge(event, text, slider, name, index) {
    const way = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (event.key === "Escape") text.value = text.dataset.held ?? "";
    if (!way) return;
    event.preventDefault();
    const value = Number(text.value) + way * Number(slider.step) * (event.shiftKey ? 10 : 1);
    if (!Number.isFinite(value)) return;
    text.value = plainNumber(value);
    text.dataset.held = text.value;
    this.ask(name, index, value, 0);
  }

  /** Python computes one change after the other; of a drag, only the newest. @param {string} name @param {number | string} index @param {number | string} to @param {number} drag */
  ask(name, index, to, drag) {
    const send = () => {
      this.waiting = null;
      this.asked = performance.now();
      this.around.send({ type: "touch", act: "set", name, index, to, drag });
    };
    if (drag && this.asked && performance.now() - this.asked < PATIENCE) this.waiting = send;
    else send();
  }

  /** @param {TouchField[]} fields */
  fill(fields) {
    let at = 0;
    for (const field of fields) {
      field.values.forEach((value, index) => {
        const { slider, text, gradient } = this.rows[at++];
        const [low, high] = field.range;
        slider.min = String(low);
        slider.max = String(high);
        slider.step = field.whole ? "1" : String((high - low) / SLIDER_STEPS);
        if (!(this.drag && slider.matches(":active"))) slider.value = String(value);
        const shown = plainNumber(value);
        const writing = text.matches(":focus") && text.value !== text.dataset.held;
        if (!writing) text.value = shown;
        text.dataset.held = shown;
        const known = field.gradients[index];
        gradient.textContent = known === undefined ? "" : `grad ${plainNumber(known)}`;
      });
    }
  }

  /** For many tensors: which one, where in it, and the new number. @param {TouchField[]} fields */
  form(fields) {
    const form = document.createElement("form");
    const name = document.createElement("select");
    name.setAttribute("aria-label", "tensor");
    for (const field of fields) {
      const option = document.createElement("option");
      option.value = field.name;
      option.textContent = field.shape.length > 0 ? `${field.name} (${field.shape.join("×")})` : field.name;
      name.append(option);
    }
    const place = labelledInput("text", "index");
    const to = labelledInput("text", "new number");
    to.inputMode = "decimal";
    const set = document.createElement("button");
    set.className = "edutorch-button set";
    set.textContent = "Set";
    const chosen = () => fields.find((field) => field.name === name.value) ?? fields[0];
    const start = () => {
      place.hidden = chosen().shape.length === 0;
      place.value = chosen().shape.map(() => "0").join(", ");
      to.placeholder = plainNumber(chosen().values[0] ?? "");
    };
    name.addEventListener("change", start);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask(chosen().name, chosen().shape.length > 0 ? place.value : 0, to.value, 0);
    });
    start();
    form.append(name, place, to, set);
    return form;
  }

}

/** @param {string} type @param {string} label */
function labelledInput(type, label) {
  const element = document.createElement("input");
  element.type = type;
  element.setAttribute("aria-label", label);
  element.autocomplete = "off";
  return element;
}

/** The indices of the number that is the `index`th in memory. @param {number} index @param {number[]} shape */
export function placeOf(index, shape) {
  const place = [];
  for (const size of [...shape].reverse()) {
    place.unshift(index % size);
    index = Math.floor(index / size);
  }
  return place;
}

function motionAllowed() {
  return !globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches;
}

/** All texts that numbers are written into. @param {Graph} graph @returns {Map<Element, string>} */
function textsOf(graph) {
  const texts = new Map();
  for (const { value, gradient } of graph.nodes.values()) {
    for (const row of [value, gradient]) if (row) texts.set(row, row.textContent ?? "");
  }
  for (const { label } of graph.edges.values()) if (label) texts.set(label, label.textContent ?? "");
  return texts;
}

/** Shows new numbers one after the other: values forward, then gradients backward. */
export class Wave {
  constructor() {
    /** @type {{elements: Element[], texts: string[], group: SVGElement}[]} */
    this.left = [];
    this.timer = 0;
  }

  /** @param {Graph} graph @param {Map<Element, string>} before */
  begin(graph, before) {
    const nodes = graph.picture.nodes.map(({ id }) => ({ id, drawn: graph.nodes.get(id) }));
    for (const { drawn } of nodes) if (drawn?.value) this.plan(drawn.group, [drawn.value], before);
    for (const { id, drawn } of nodes.reverse()) {
      if (!drawn) continue;
      if (drawn.gradient) this.plan(drawn.group, [drawn.gradient], before);
      for (const edge of graph.edges.values()) if (edge.target === id && edge.label) this.plan(edge.group, [edge.label], before);
    }
    if (this.left.length === 0) return;
    const pause = Math.min(WAVE_SLOWEST, Math.max(WAVE_FASTEST, WAVE_TIME / this.left.length));
    const next = () => {
      this.reveal(this.left.shift());
      this.timer = this.left.length > 0 ? window.setTimeout(next, pause) : 0;
    };
    this.timer = window.setTimeout(next, 0);
  }

  /** Hold back the texts that changed. @param {SVGElement} group @param {Element[]} elements @param {Map<Element, string>} before */
  plan(group, elements, before) {
    const changed = elements.filter((element) => before.has(element) && before.get(element) !== element.textContent);
    if (changed.length === 0) return;
    this.left.push({ elements: changed, texts: changed.map((element) => element.textContent ?? ""), group });
    for (const element of changed) element.textContent = before.get(element) ?? "";
  }

  /** @param {{elements: Element[], texts: string[], group: SVGElement} | undefined} step */
  reveal(step) {
    if (!step) return;
    step.elements.forEach((element, index) => (element.textContent = step.texts[index]));
    step.group.animate?.([{ filter: "drop-shadow(0 0 5px var(--accent))" }, { filter: "none" }], { duration: 450 });
  }

  /** Show what is left, at once. */
  finish() {
    window.clearTimeout(this.timer);
    for (const step of this.left) step.elements.forEach((element, index) => (element.textContent = step.texts[index]));
    this.left = [];
  }
}
