// State, step counter and the buttons. A click only asks: what is shown is what
// Python last said, so the page can never claim a pause that did not happen.
import { svgElement } from "./picture.js";

/** @typedef {import("./protocol.js").Patch} Patch */
/** @typedef {import("./protocol.js").Command} Command */

const PAUSE_ICON = "M4,3h3v10h-3zM9,3h3v10h-3z";
const RESUME_ICON = "M4,3l9,5l-9,5z";
const STEP_ICON = "M3,3l7,5l-7,5zM11,3h2v10h-2z";

export class Controls {
  /** @param {(command: Command) => void} send */
  constructor(send) {
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
    buttons.append(this.toggle, this.one);
    this.element.append(status, buttons);
    this.paused = false;
    this.show({ state: "running", step: 0 });
  }

  /** @param {Pick<Patch, "state" | "step">} patch */
  show({ state, step }) {
    const over = state === "finished" || state === "failed";
    this.paused = state === "paused";
    if (this.state.textContent !== state) this.state.textContent = state;
    this.state.dataset.state = state;
    this.element.hidden = state === "still";
    this.step.textContent = `step ${step}`;
    this.toggle.disabled = over;
    this.one.disabled = !this.paused;
    const [text, label, icon] = this.paused
      ? ["Resume", "Resume the training", RESUME_ICON]
      : ["Pause", "Pause the training", PAUSE_ICON];
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
