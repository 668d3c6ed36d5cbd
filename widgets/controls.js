// State, step counter and the buttons. A click only asks: what is shown is what
// Python last said, so the page can never claim a pause that did not happen.
import { svgElement } from "./picture.js";
import { setAttribute, write } from "./dom.js";

/** @typedef {import("./protocol.js").Patch} Patch */
/** @typedef {import("./protocol.js").Command} Command */

const PAUSE_ICON = "M4,3h3v10h-3zM9,3h3v10h-3z";
const RESUME_ICON = "M4,3l9,5l-9,5z";
const STOP_ICON = "M4,4h8v8h-8z";
const STEP_ICON = "M3,3l7,5l-7,5zM11,3h2v10h-2z";

// The slider: a tenth of a step in a second on the left, then ten times as fast with each third,
// and at the very end no limit.
const SLOWEST_PACE = 0.1;
const THIRD = 20;
const NO_LIMIT = 61;

const BEAT = 800; // milliseconds

/** Steps per second at a position of the slider; null: as fast as it can. @param {number} position */
export function speedAt(position) {
  return position >= NO_LIMIT ? null : Number((SLOWEST_PACE * 10 ** (position / THIRD)).toPrecision(3));
}

/** Where the slider stands for that many steps per second. @param {number | null} speed */
export function positionOf(speed) {
  if (speed === null) return NO_LIMIT;
  return Math.min(NO_LIMIT - 1, Math.max(0, Math.round(THIRD * Math.log10(speed / SLOWEST_PACE))));
}

export class Controls {
  /**
   * @param {(command: Command) => void} send
   * @param {{inTab: boolean, unheard: string}} [channel] how commands reach Python
   */
  constructor(send, channel = { inTab: false, unheard: "" }) {
    this.unheard = channel.unheard !== "";
    this.element = document.createElement("div");
    this.element.className = "edutorch-controls";
    const status = document.createElement("div");
    status.className = "status";
    this.state = document.createElement("span");
    this.state.className = "state";
    this.state.setAttribute("role", "status");
    this.step = document.createElement("span");
    this.step.className = "step";
    status.append(this.state, this.step);
    const buttons = document.createElement("div");
    buttons.className = "buttons";
    this.toggle = button("pause", "Pause", "Pause the training", PAUSE_ICON);
    this.one = button("one-step", "Step", "Run one training step, then pause again", STEP_ICON);
    this.toggle.onclick = () => send({ type: this.paused ? "resume" : "pause" });
    this.one.onclick = () => send({ type: "step" });
    this.stop = button("stop", "Stop", "Stop the training, as Ctrl-C does", STOP_ICON);
    this.stop.onclick = () => send({ type: "stop" });
    buttons.append(this.toggle, this.one);
    // Elsewhere the notebook's own button interrupts the kernel; in a browser tab that does nothing.
    if (channel.inTab) buttons.append(this.stop);
    const speed = document.createElement("label");
    speed.className = "speed";
    const word = document.createElement("span");
    word.textContent = "speed";
    this.speed = document.createElement("input");
    Object.assign(this.speed, { type: "range", min: "0", max: String(NO_LIMIT), step: "1", value: String(NO_LIMIT) });
    this.speed.setAttribute("aria-label", "Speed of the training");
    this.told = document.createElement("output");
    this.speed.oninput = () => send({ type: "speed", value: speedAt(Number(this.speed.value)) });
    speed.append(word, this.speed, this.told);
    this.note = document.createElement("div");
    this.note.className = "note";
    this.element.append(status, buttons, speed, this.note);
    this.paused = false;
    this.gone = false; // nobody hears a button any more
    this.show({ state: "running", step: 0, speed: null });
  }

  /**
   * Space pauses and goes on, a full stop takes one step: anywhere in `element` where the key has
   * no other meaning.
   * @param {HTMLElement} element
   */
  keysIn(element) {
    element.addEventListener("keydown", (event) => {
      const at = event.target instanceof Element ? event.target : null;
      const taken = at?.closest("button, [role=button], select, textarea, summary, input:not([type=range])");
      if (taken || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || this.element.hidden) return;
      const pressed = { " ": this.toggle, ".": this.one }[event.key];
      if (!pressed) return;
      event.preventDefault();
      pressed.click();
    });
  }

  /** @param {Pick<Patch, "state" | "step" | "speed" | "note">} patch */
  show({ state, step, speed, note = "" }) {
    const lost = this.gone && (state === "running" || state === "paused");
    const over = lost || state === "finished" || state === "failed" || state === "interrupted";
    this.paused = state === "paused" && !lost;
    write(this.state, lost ? "no kernel" : state);
    setAttribute(this.state, "data-state", lost ? "gone" : state);
    setAttribute(this.state, "data-beat", String(Math.floor(Date.now() / BEAT) % 2)); // no messages, no beat
    setAttribute(this.element, "hidden", state === "still");
    write(this.step, `step ${step}`);
    write(this.note, note);
    setAttribute(this.note, "hidden", !note);
    const deaf = over || (this.unheard && state === "running");
    setAttribute(this.toggle, "disabled", deaf);
    setAttribute(this.speed, "disabled", deaf);
    setAttribute(this.stop, "disabled", over);
    if (document.activeElement !== this.speed) this.speed.value = String(positionOf(speed));
    const told = speed === null ? "as fast as it can" : `${Number(speed.toPrecision(2))} steps/s`;
    write(this.told, told);
    setAttribute(this.speed, "aria-valuetext", told);
    setAttribute(this.one, "disabled", !this.paused);
    const [text, label, icon] = this.paused
      ? ["Resume", "Resume the training", RESUME_ICON]
      : ["Pause", "Pause the training", PAUSE_ICON];
    if (this.toggle.getAttribute("aria-label") === label) return;
    this.toggle.querySelector("span")?.replaceChildren(text);
    this.toggle.querySelector("path")?.setAttribute("d", icon);
    this.toggle.setAttribute("aria-label", label);
  }
}

/**
 * @param {string} name
 * @param {string} text
 * @param {string} label
 * @param {string} icon
 * @returns {HTMLButtonElement}
 */
export function button(name, text, label, icon) {
  const element = document.createElement("button");
  element.type = "button";
  element.className = `edutorch-button ${name}`;
  element.setAttribute("aria-label", label);
  element.title = label;
  const picture = svgElement("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" });
  picture.append(svgElement("path", { d: icon }));
  const caption = document.createElement("span");
  caption.textContent = text;
  element.append(picture, caption);
  return element;
}
