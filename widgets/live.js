// The live view of a training loop. anywidget calls `render` once per output cell.
import { namedNumbers } from "./numbers.js";
import { Graph } from "./picture.js";
import { Curves } from "./curve.js";
import { Details } from "./details.js";
import { Legend } from "./legend.js";
import { showThumbnails } from "./thumbnails.js";
import { Channel } from "./channel.js";
import { Controls } from "./controls.js";
import { OnScreen, Viewport } from "./viewport.js";
import { boxOfGroup, makeFoldable, tween } from "./folds.js";
import { Toolbar } from "./toolbar.js";
import { Connection, SENTENCES, interruptedIn } from "./connection.js";
import { Panels } from "./panels.js";
import { write } from "./dom.js";
import { laidOut } from "./graphviz.js";

/** @typedef {import("./protocol.js").Picture} Picture */
/** @typedef {import("./protocol.js").Patch} Patch */
/** @typedef {import("./protocol.js").Command} Command */
/** @typedef {import("./picture.js").Named} Named */
/**
 * What anywidget gives: traits by name, and a way back to Python.
 * @typedef {object} Model
 * @property {(name: string) => any} get
 * @property {(event: string, callback: () => void) => void} on
 * @property {(event: string, callback: () => void) => void} off
 * @property {(content: Command) => void} send
 * @property {(graph: Graph) => void} [prepare] instead of letting groups open and close
 * @property {{kernel?: import("./connection.js").Kernel | null}} [widget_manager]
 */

/** A part of the graph in which nothing lies. */
const NOTHING = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };

class LiveView {
  /** @param {Model} model @param {HTMLElement} element */
  constructor(model, element) {
    this.model = model;
    this.channel = new Channel(model);
    this.controls = new Controls((command) => this.channel.send(command), this.channel);
    this.curves = new Curves();
    this.details = new Details();
    this.legend = new Legend();
    this.draw = () => this.drawSoon();
    this.send = (/** @type {Command} */ command) => this.say(command);
    this.viewport = new Viewport(this.draw);
    this.onScreen = new OnScreen((command) => this.channel.send(command));
    /** @type {Graph | null} */
    this.graph = null;
    this.frame = 0;
    /** What stands beside the graph, of the messages since the last frame. @type {Patch["parts"]} */
    this.parts = {};
    /** The same of small pictures. @type {Pick<Patch, "structure" | "thumbs" | "thumbsStep"> | null} */
    this.thumbs = null;
    this.laying = ""; // the structure that is being laid out in the page
    this.message = document.createElement("p");
    this.message.className = "message";
    this.gone = document.createElement("p");
    this.gone.className = "gone";
    this.gone.setAttribute("role", "status");
    this.lost = ""; // the sentence about a kernel that is gone
    /** The group that somebody has opened, until its inside is to be seen. */
    this.opened = "";
    const head = document.createElement("div");
    head.className = "head";
    head.append(this.controls.element, this.curves.element);
    this.controls.keysIn(element);
    element.classList.add("edutorch-live");
    element.dataset.view = model.get("key") ?? "";
    // Inside, Enter presses a button and arrows walk; JupyterLab would edit and leave the cell.
    element.dataset.lmSuppressShortcuts = "true";
    const foot = document.createElement("div");
    foot.className = "foot";
    foot.append(this.legend.element);
    this.toolbar = new Toolbar(this.send, (id) => this.goTo(id), this.viewport.tools);
    this.panels = new Panels({
      send: this.send,
      graph: () => this.graph,
      focus: (id) => this.graph?.nodes.get(id)?.group.focus(),
    });
    const { viewport, details, panels } = this;
    element.append(head, this.gone, this.message, this.toolbar.element, viewport.element, foot, details.element, panels.element);
    this.viewport.scroller.addEventListener("keydown", (event) => this.walk(event));
    this.element = element;
    this.key = (/** @type {KeyboardEvent} */ event) => {
      viewport.key(event);
      panels.key(event);
    };
    element.addEventListener("keydown", this.key);
    this.viewport.scroller.addEventListener("focusin", (event) => this.choose(event.target));
    this.viewport.scroller.addEventListener("click", (event) => this.choose(event.target));
    // Scrolling the notebook moves the graph too; capture hears every scroller.
    document.addEventListener("scroll", this.draw, { passive: true, capture: true });
    model.on("change:picture", this.draw);
    this.heard = () => this.hear();
    model.on("change:patch", this.heard);
    this.connection = new Connection(model, (state) => this.connected(state));
    this.channel.send({ type: "ready" });
    this.hear();
  }

  /** @param {Command} command */
  say(command) {
    if (command.type === "open") this.opened = command.group ?? "";
    this.channel.send(command);
  }

  /** Say it where nobody sends any more: else the last state would stand there for ever. @param {string} state */
  connected(state) {
    this.lost = SENTENCES[state] ?? "";
    this.element.classList.toggle("alone", state !== "");
    this.controls.gone = state !== "";
    this.draw();
  }

  /** Not each message tells of all that stands beside the graph: so nothing of that may be lost. */
  hear() {
    this.connection?.heard();
    const { parts, thumbs, structure, thumbsStep } = this.model.get("patch") ?? {};
    Object.assign(this.parts, parts);
    if (thumbs && Object.keys(thumbs).length > 0) this.thumbs = { structure, thumbs, thumbsStep };
    this.drawSoon();
  }

  /** However many messages come, the page is written once per animation frame. */
  drawSoon() {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.drawNow());
  }

  /** What is said above the graph. @param {Patch} patch */
  saying(patch) {
    if (patch.state === "interrupted") return interruptedIn(patch.step);
    return patch.state === "running" ? this.channel.unheard : "";
  }

  drawNow() {
    this.frame = 0;
    // Asked before anything is written: afterwards the whole page would have to be laid out for it.
    const { graph } = this;
    const visible = graph && this.viewport.visible();
    /** @type {Picture} */
    const picture = this.model.get("picture");
    /** @type {Patch} */
    const patch = { ...this.model.get("patch"), parts: this.parts };
    if (picture?.svg && picture.structure !== this.graph?.picture.structure) this.newGraph(picture);
    else if (picture?.dot && picture.structure !== this.graph?.picture.structure) this.layOut(picture);
    if (!patch.state) return;
    this.parts = {};
    // Python waits for somebody who can press Resume, but not for an empty room.
    if (patch.state === "paused" && !this.controls.paused && !this.lost) this.channel.send({ type: "ready" });
    this.controls.show(patch);
    write(this.gone, this.lost || this.saying(patch));
    this.curves.show(this.model.get("curves") ?? {}, patch.latest);
    this.panels.show(patch);
    this.toolbar.show(patch, this.graph);
    if (patch.parts.history) this.curves.mark(patch.parts.history.at);
    if (!this.graph || patch.structure !== this.graph.picture.structure) return;
    const named = namedNumbers(this.graph.picture, this.model.get("numbers"));
    if (!named) return;
    const box = this.graph === graph ? visible : this.viewport.visible();
    const far = patch.state === "running" && this.viewport.far;
    this.graph.apply(patch, named, far ? NOTHING : box);
    // The message that brought them may have been followed by others since.
    const brought = this.thumbs?.structure === patch.structure && patch.state === "running" ? this.thumbs : null;
    showThumbnails(this.graph, { ...patch, ...brought });
    this.thumbs = null;
    const { thumbs = {}, thumbsStep = patch.step } = patch;
    const earlier = Object.keys(thumbs).length > 0 && thumbsStep !== patch.step && patch.state !== "running";
    this.legend.notice(this.graph.picture, { ...thumbs, ...brought?.thumbs });
    this.legend.show(this.graph.picture, patch.bad.length > 0, earlier ? thumbsStep : null);
    if (patch.state === "running") this.onScreen.tell(this.graph, box, this.details.node?.id, far);
    if (this.details.node) this.details.show(named.nodes.get(this.details.node.id), patch.thumbs?.[this.details.node.id]);
  }

  /** @param {Picture} picture */
  layOut(picture) {
    if (this.laying === picture.structure) return;
    this.laying = picture.structure;
    laidOut(picture).then(
      (drawn) => {
        if (this.laying === drawn.structure) this.newGraph(drawn);
        this.laying = "";
        this.hear(); // what stands beside the graph may point into it
      },
      (error) => (this.message.textContent = `The graph cannot be drawn: ${error}`),
    );
  }

  /** @param {Picture} picture */
  newGraph(picture) {
    const before = this.graph;
    try {
      this.graph = new Graph(picture);
    } catch (error) {
      this.message.textContent = `The graph cannot be drawn: ${error}`;
      return;
    }
    this.message.textContent = "";
    this.details.choose(null);
    this.viewport.show(this.graph, boxOfGroup(this.graph, this.opened));
    this.opened = "";
    this.toolbar.graph(this.graph, !this.model.prepare);
    if (this.model.prepare) this.model.prepare(this.graph);
    else makeFoldable(this.graph, this.send);
    tween(before, this.graph);
    const [first] = this.graph.nodes.values();
    first?.group.setAttribute("tabindex", "0");
  }

  /** @param {EventTarget | null} target */
  choose(target) {
    const group = target instanceof Element ? target.closest("g.node") : null;
    if (!this.graph || !group) return;
    for (const [id, node] of this.graph.nodes) {
      const chosen = node.group === group;
      node.group.classList.toggle("chosen", chosen);
      node.group.setAttribute("tabindex", chosen ? "0" : "-1"); // One stop for Tab, arrows inside.
      if (chosen && this.details.node?.id !== id) {
        this.details.choose(this.graph.picture.nodes.find((described) => described.id === id) ?? null);
      }
    }
    this.draw();
  }

  /** Choose a box, and bring it into the window; what has the focus keeps it. @param {string} id */
  goTo(id) {
    const node = this.graph?.nodes.get(id);
    if (!node) return;
    this.choose(node.group);
    if (!this.viewport.readable) this.viewport.zoom(1.01);
    this.viewport.reveal(node.box);
  }

  /** Arrow keys walk: left to an input, right to a user, up and down in recorded order. @param {KeyboardEvent} event */
  walk(event) {
    const at = this.details.node?.id;
    if (!this.graph || !at) return;
    const { nodes, edges } = this.graph.picture;
    const index = nodes.findIndex((node) => node.id === at);
    const next = {
      ArrowLeft: edges.find((edge) => edge.target === at)?.source,
      ArrowRight: edges.find((edge) => edge.source === at)?.target,
      ArrowUp: nodes[index - 1]?.id,
      ArrowDown: nodes[index + 1]?.id,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.graph.nodes.get(next)?.group.focus();
  }

  dispose() {
    cancelAnimationFrame(this.frame);
    document.removeEventListener("scroll", this.draw, { capture: true });
    this.channel.close();
    this.model.off("change:picture", this.draw);
    this.model.off("change:patch", this.heard);
    this.viewport.dispose();
    this.toolbar.dispose();
    this.connection.dispose();
    this.panels.dispose();
    this.element.removeEventListener("keydown", this.key);
  }
}

/** @param {{model: Model, el: HTMLElement}} given */
function render({ model, el }) {
  const view = new LiveView(model, el);
  return () => view.dispose();
}

export default { render };
