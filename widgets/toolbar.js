// Above the graph: which backward pass is shown, search by name, everything open or closed. As everywhere,
// a press only asks: Python looks for names, for it alone knows what is in closed groups.
import { button } from "./controls.js";
import { setAttribute, write } from "./dom.js";

/** @typedef {import("./protocol.js").Patch} Patch */
/** @typedef {import("./protocol.js").Command} Command */
/** @typedef {import("./protocol.js").SearchData} SearchData */
/** @typedef {import("./picture.js").Graph} Graph */

const EXPAND_ICON = "M2,2h12v12h-12zM4,4v8h8v-8zM7,5h2v2h2v2h-2v2h-2v-2h-2v-2h2z";
const COLLAPSE_ICON = "M2,2h12v12h-12zM4,4v8h8v-8zM5,7h6v2h-6z";
const FEW = 6; // nodes can be found without a search
const PAUSE = 150; // ms without a key, and what was typed is looked for

export class Toolbar {
  /**
   * @param {(command: Command) => void} send
   * @param {(id: string) => void} go choose a box, and bring it into the window
   * @param {HTMLElement} zoom the buttons at the end
   */
  constructor(send, go, zoom) {
    this.send = send;
    this.search = new Search(send, go);
    this.element = document.createElement("div");
    this.element.className = "edutorch-toolbar";
    this.tabs = document.createElement("div");
    this.tabs.className = "tabs";
    this.tabs.setAttribute("role", "group");
    this.tabs.setAttribute("aria-label", "Backward passes");
    this.expand = button("expand", "Expand all", "Expand all groups", EXPAND_ICON);
    this.collapse = button("collapse", "Collapse all", "Collapse all groups", COLLAPSE_ICON);
    this.expand.onclick = () => send({ type: "open_all" });
    this.collapse.onclick = () => send({ type: "close_all" });
    const end = document.createElement("div");
    end.className = "end";
    end.append(this.expand, this.collapse, zoom);
    this.element.append(this.tabs, this.search.element, end);
    this.titles = "";
  }

  /** @param {Graph} graph @param {boolean} asks there is somebody who answers */
  graph(graph, asks) {
    const { nodes, frames, tabs } = graph.picture;
    const closed = nodes.some((node) => node.group);
    setAttribute(this.expand, "hidden", !asks || !closed);
    setAttribute(this.collapse, "hidden", !asks || !frames.length);
    const inside = nodes.reduce((sum, node) => sum + Math.max(1, node.inside), 0);
    setAttribute(this.search.element, "hidden", inside < FEW);
    setAttribute(this.tabs, "hidden", !asks || !tabs?.length);
    if (asks) this.titled(tabs ?? []);
    this.search.marked(graph);
  }

  /** One button for each backward pass, and one for all. @param {string[]} titles */
  titled(titles) {
    const told = JSON.stringify(titles);
    if (told === this.titles) return;
    this.titles = told;
    const buttons = ["all", ...titles].map((title, place) => {
      const tab = document.createElement("button");
      tab.type = "button";
      tab.className = "edutorch-button tab";
      tab.textContent = title;
      tab.setAttribute("aria-pressed", String(place === 0));
      tab.onclick = () => this.send({ type: "tab", tab: place === 0 ? null : place - 1 });
      return tab;
    });
    this.tabs.replaceChildren(...buttons);
  }

  /** @param {Patch} patch @param {Graph | null} graph */
  show(patch, graph) {
    if (patch.tab !== undefined) {
      const pressed = patch.tab === null ? 0 : patch.tab + 1;
      [...this.tabs.children].forEach((tab, place) => setAttribute(tab, "aria-pressed", String(place === pressed)));
    }
    if (patch.parts.search) this.search.show(patch.parts.search, graph);
  }

  dispose() {
    this.search.dispose();
  }
}

/** A field for a name. Enter goes to the next hit, and opens the group that hides it. */
class Search {
  /** @param {(command: Command) => void} send @param {(id: string) => void} go */
  constructor(send, go) {
    this.send = send;
    this.go = go;
    this.element = document.createElement("form");
    this.element.className = "search";
    this.element.setAttribute("role", "search");
    this.field = document.createElement("input");
    Object.assign(this.field, { type: "search", placeholder: "find a name", spellcheck: false, autocomplete: "off" });
    this.field.setAttribute("aria-label", "Find a box, module or variable by name; Enter goes to the next");
    this.said = document.createElement("output");
    this.element.append(this.field, this.said);
    /** @type {SearchData | null} */
    this.found = null;
    this.at = -1; // the hit at which we are
    this.waiting = false; // for an answer, or the picture in which a hit is to be seen
    this.asked = "";
    this.timer = 0;
    this.field.addEventListener("input", () => this.typed());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.next(1);
    });
  }

  get text() {
    return this.field.value.trim();
  }

  typed() {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.ask(), PAUSE);
  }

  ask() {
    window.clearTimeout(this.timer);
    if (this.text === this.asked) return;
    Object.assign(this, { asked: this.text, found: null, at: -1, waiting: false });
    write(this.said, "");
    this.mark();
    this.send({ type: "find", text: this.text });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key === "Enter" && event.shiftKey) {
      event.preventDefault();
      this.next(-1);
    }
  }

  /** @param {1 | -1} by */
  next(by) {
    this.ask();
    if (!this.text) return;
    if (!this.found) {
      this.waiting = true;
      this.at = 0;
      return;
    }
    const { length } = this.found.hits;
    if (!length) return;
    this.at = this.at < 0 && by < 0 ? length - 1 : (this.at + by + length) % length;
    this.visit(true);
  }

  /** @param {boolean} opens whether a group may be opened for it */
  visit(opens) {
    const hit = this.found?.hits[this.at];
    if (!this.found || !hit) return;
    const [name, id, group] = hit;
    const count = `${this.at + 1} of ${this.found.hits.length + this.found.more}`;
    write(this.said, `${count}: ${name}`);
    this.waiting = opens && group !== "";
    if (this.waiting) this.send({ type: "open", group });
    else this.go(id);
  }

  /** @param {SearchData} found @param {Graph | null} graph */
  show(found, graph) {
    if (found.text.trim() !== this.asked || !this.asked) return;
    const before = this.found;
    this.found = found;
    const { length } = found.hits;
    if (!before) write(this.said, length ? `${length + found.more} found` : `nothing here is called “${this.asked}”`);
    this.element.classList.toggle("nothing", !length);
    if (graph) this.marked(graph);
    if (this.waiting && length) this.visit(!before);
  }

  /** Boxes in which a hit is. @param {Graph} graph */
  marked(graph) {
    this.drawn = graph;
    this.mark();
  }

  mark() {
    const ids = new Set(this.found?.hits.map(([, id]) => id));
    for (const [id, node] of this.drawn?.nodes ?? []) node.group.classList.toggle("found", ids.has(id));
  }

  dispose() {
    window.clearTimeout(this.timer);
  }
}

/**
 * What `edutorch/viz/graph/search.py` says, of what is to be seen alone: for a page without a kernel.
 * @param {import("./protocol.js").Picture} picture
 * @param {string} text
 * @returns {SearchData}
 */
export function searchVisible({ nodes }, text) {
  const wanted = text.trim().toLowerCase();
  /** @type {[string, string, string][]} */
  const hits = nodes.flatMap((node) => {
    const name = node.variable ? `${node.variable} = ${node.label}` : node.label;
    const full = node.module && !node.group ? `${node.module}.${name}` : name;
    return wanted && full.toLowerCase().includes(wanted) ? [[full, node.id, ""]] : [];
  });
  return { text, hits, more: 0 };
}
