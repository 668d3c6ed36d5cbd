// A recording in a page of its own: it answers the view as Python does while a loop runs.
// edutorch/viz/history/export.py writes this, the recording and the widget's code into one file.
import live from "./live.js";
import { searchVisible } from "./toolbar.js";

/** @typedef {import("./protocol.js").Picture} Picture */
/** @typedef {import("./protocol.js").Patch} Patch */
/** @typedef {import("./protocol.js").Command} Command */
/** @typedef {{picture: number, patch: Patch, numbers: string}} RecordedFrame */
/** @typedef {{pictures: Picture[], frames: RecordedFrame[], curves: import("./protocol.js").Curves}} RecordedRun */

/** What the view takes for the widget's model. */
export class Recording {
  /** @param {RecordedRun} run */
  constructor(run) {
    this.run = run;
    /** @type {Map<string, Set<() => void>>} */
    this.callbacks = new Map();
    this.place = run.frames.length - 1;
    this.search = "";
    /** @type {Map<number, DataView>} */
    this.views = new Map();
  }

  /** @param {string} name */
  get(name) {
    const frame = this.run.frames[this.place];
    if (name === "picture") return this.run.pictures[frame.picture];
    if (name === "patch") return this.patch(frame);
    if (name === "curves") return this.run.curves;
    return name === "numbers" ? this.numbers() : undefined;
  }

  /** @param {RecordedFrame} frame */
  patch(frame) {
    const { history } = frame.patch.parts;
    const parts = { ...frame.patch.parts };
    if (history) parts.history = { ...history, recording: true };
    if (this.search) parts.search = searchVisible(this.run.pictures[frame.picture], this.search);
    return { ...frame.patch, parts };
  }

  numbers() {
    let view = this.views.get(this.place);
    if (!view) {
      const bytes = Uint8Array.from(atob(this.run.frames[this.place].numbers), (each) => each.charCodeAt(0));
      view = new DataView(bytes.buffer);
      this.views.set(this.place, view);
    }
    return view;
  }

  /** @param {string} event @param {() => void} callback */
  on(event, callback) {
    this.callbacks.set(event, (this.callbacks.get(event) ?? new Set()).add(callback));
  }

  /** @param {string} event @param {() => void} callback */
  off(event, callback) {
    this.callbacks.get(event)?.delete(callback);
  }

  /** All that can be asked of a recording is another of its steps, and a name. @param {Command} command */
  send({ type, step, by, text }) {
    if (type === "find") {
      this.search = text?.trim() ?? "";
      this.tell();
    }
    if (type !== "goto") return;
    const { frames } = this.run;
    const wanted = step ?? Infinity;
    const after = frames.findIndex((frame) => frame.patch.step > wanted);
    const found = (after < 0 ? frames.length : Math.max(1, after)) - 1;
    const place = Math.min(frames.length - 1, Math.max(0, found + (by ?? 0)));
    if (place === this.place) return;
    this.place = place;
    this.tell();
  }

  tell() {
    this.callbacks.get("change:patch")?.forEach((callback) => callback());
  }

  /** Groups stay as they were recorded, and say so. @param {import("./picture.js").Graph} graph */
  prepare(graph) {
    const held = [
      ...graph.picture.nodes.filter((node) => node.group).map((node) => graph.nodes.get(node.id)?.group),
      ...graph.picture.frames.map(({ id }) => graph.frames.get(id)),
    ];
    for (const element of held) {
      if (!element) continue;
      const words = document.createElementNS("http://www.w3.org/2000/svg", "title");
      words.textContent = "Open or closed as it was when this file was written";
      element.append(words);
    }
  }
}

/** Show the recording that stands in a page. @param {Document} page */
export function openRecording(page) {
  const run = JSON.parse(page.getElementById("edutorch-data")?.textContent ?? "");
  const el = /** @type {HTMLElement} */ (page.getElementById("edutorch-view"));
  live.render({ model: new Recording(run), el });
}
