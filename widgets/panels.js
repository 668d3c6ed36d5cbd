// What is shown beside the graph, each by a panel of its own: a part of Python's live view
// (edutorch/viz/live/panel.py) fills it through `Patch.parts`, under its name.
import { GaugesPanel } from "./gauges.js";
import { HistoryPanel } from "./history.js";
import { TroublePanel } from "./diagnostics.js";
import { TouchPanel } from "./tensor_editor.js";
import { ToyPanel } from "./playground.js";
import { WalkPanel } from "./walk.js";

/** @typedef {import("./protocol.js").Patch} Patch */
/** @typedef {import("./protocol.js").Command} Command */
/** @typedef {import("./picture.js").Graph} Graph */

/**
 * What a panel is given besides its data.
 * @typedef {object} Around
 * @property {(command: Command) => void} send
 * @property {() => Graph | null} graph
 * @property {(id: string) => void} focus show a node of the graph and choose it
 */

/**
 * @typedef {object} Panel
 * @property {HTMLElement} element
 * @property {(data: any, patch: Patch) => void} show called with each message that has data for it
 * @property {(event: KeyboardEvent) => void} [key] called with each key pressed in the view
 * @property {() => void} [dispose] called when the view goes
 */

/** @typedef {new (around: Around) => Panel} PanelClass */

/** By the name of the part; the order is that on the page. @type {Record<string, PanelClass>} */
const PANELS = { trouble: TroublePanel, history: HistoryPanel, gauges: GaugesPanel, touch: TouchPanel, toy: ToyPanel, walk: WalkPanel };

/** All panels of one view. Each appears with its first data. */
export class Panels {
  /** @param {Around} around @param {Record<string, PanelClass>} [kinds] */
  constructor(around, kinds = PANELS) {
    this.element = document.createElement("div");
    this.element.className = "edutorch-panels";
    /** @type {Map<string, Panel>} */
    this.open = new Map();
    this.around = around;
    this.kinds = kinds;
  }

  /** @param {Patch} patch */
  show(patch) {
    for (const [name, data] of Object.entries(patch.parts)) {
      let panel = this.open.get(name);
      if (!panel && Object.hasOwn(this.kinds, name)) {
        panel = new this.kinds[name](this.around);
        this.open.set(name, panel);
        const order = Object.keys(this.kinds);
        this.element.append(panel.element);
        [...this.open.keys()].sort((a, b) => order.indexOf(a) - order.indexOf(b))
          .forEach((each) => this.element.append(/** @type {Panel} */ (this.open.get(each)).element));
      }
      panel?.show(data, patch);
    }
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    for (const panel of this.open.values()) panel.key?.(event);
  }

  dispose() {
    for (const panel of this.open.values()) panel.dispose?.();
  }
}
