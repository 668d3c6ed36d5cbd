// The scrubber: looks back at the steps that Python has kept, and compares one with another.
// The training goes on meanwhile: here only what is shown is chosen.
import { button } from "./controls.js";
import { formatGeneral } from "./numbers.js";
import { setAttribute, setStyle, write } from "./dom.js";

/** @typedef {import("./protocol.js").HistoryData} HistoryData */
/** @typedef {import("./protocol.js").Patch} Patch */
/** @typedef {import("./panels.js").Around} Around */

const PLAY_ICON = "M5,3l8,5l-8,5z";
const HALT_ICON = "M4,4h8v8h-8z";
const LIVE_ICON = "M8,4a4,4 0 1,1 0,8a4,4 0 1,1 0,-8z";
const BACK_ICON = "M10,3l-6,5l6,5zM11,3h2v10h-2z";
const NEXT_ICON = "M6,3l6,5l-6,5zM3,3h2v10h-2z";
const SWAP_ICON = "M5,2l-4,3.5l4,3.5v-2.5h9v-2h-9zM11,7.5l4,3.5l-4,3.5v-2.5h-9v-2h9z";

const SHORTEST_ASK = 66; // ms: with the loop's own, no more than 30 messages in a second
const FRAME = 120; // ms of one step while it plays
const PLAYED = 80; // steps of a whole replay
const LOST = 2000; // ms after which an answer is not waited for any more

/** Ask at most so often, but always for the last thing wanted. */
class Asker {
  /** @param {(command: import("./protocol.js").Command) => void} send */
  constructor(send) {
    this.send = send;
    this.timer = 0;
    /** @type {import("./protocol.js").Command | null} */
    this.waiting = null;
  }

  /** @param {import("./protocol.js").Command} command */
  ask(command) {
    if (this.timer) {
      this.waiting = command;
      return;
    }
    this.send(command);
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      const next = this.waiting;
      this.waiting = null;
      if (next) this.ask(next);
    }, SHORTEST_ASK);
  }
}

export class HistoryPanel {
  /** @param {Around} around */
  constructor(around) {
    this.around = around;
    this.asker = new Asker(around.send);
    /** @type {HistoryData | null} */
    this.data = null;
    this.told = ""; // what the table of changes says
    this.held = false; // by a finger: what Python says does not move it
    this.playing = 0;
    this.asked = 0; // when the last frame of a replay was asked for; 0: it has come
    this.element = document.createElement("section");
    this.element.className = "edutorch-history";
    this.element.setAttribute("aria-label", "Recorded steps");
    this.row = document.createElement("div");
    this.row.className = "scrub";
    this.play = button("play", "Replay", "Replay the recorded steps", PLAY_ICON);
    this.back = button("back", "", "One recorded step back", BACK_ICON);
    this.next = button("next", "", "One recorded step forward", NEXT_ICON);
    this.live = button("live", "Live", "Live: show the latest step again", LIVE_ICON);
    this.compare = button("compare", "Compare", "Compare with the step that is shown now", SWAP_ICON);
    this.range = document.createElement("input");
    this.range.type = "range";
    this.range.step = "any";
    this.range.setAttribute("aria-label", "Recorded step");
    this.where = document.createElement("output");
    this.track = document.createElement("div");
    this.track.className = "track";
    this.pin = document.createElement("i");
    this.pin.hidden = true;
    this.track.append(this.range, this.pin);
    this.row.append(this.play, this.back, this.track, this.next, this.where, this.live, this.compare);
    this.changes = document.createElement("div");
    this.changes.className = "changes";
    this.changes.hidden = true;
    this.element.append(this.row, this.changes);
    this.listen();
  }

  listen() {
    this.play.onclick = () => (this.playing ? this.halt() : this.begin());
    this.back.onclick = () => this.move(-1);
    this.next.onclick = () => this.move(1);
    this.live.onclick = () => {
      this.halt();
      this.around.send({ type: "goto" });
    };
    this.compare.onclick = () => {
      const step = this.data?.compare ? undefined : this.shown();
      this.around.send({ type: "compare", step });
    };
    this.range.oninput = () => {
      this.halt();
      this.held = true;
      this.say(Math.round(Number(this.range.value)));
      this.asker.ask({ type: "goto", step: Number(this.range.value) });
    };
    this.range.onchange = () => (this.held = false);
    this.range.addEventListener("keydown", (event) => this.scrub(event));
  }

  /** Arrows go from one recorded step to the next, however far apart they are. @param {KeyboardEvent} event */
  scrub(event) {
    const many = Math.max(1, Math.round((this.data?.count ?? 1) / 10));
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => this.move(-1),
      ArrowDown: () => this.move(-1),
      ArrowRight: () => this.move(1),
      ArrowUp: () => this.move(1),
      PageUp: () => this.move(many),
      PageDown: () => this.move(-many),
      Home: () => this.goto(this.data?.first),
      End: () => this.goto(this.data?.last),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    this.halt();
    keys[event.key]();
  }

  /** The step that is shown. */
  shown() {
    return this.data ? (this.data.at ?? this.data.last) : 0;
  }

  /** @param {number} by so many recorded steps on */
  move(by) {
    this.halt();
    this.asker.ask({ type: "goto", step: this.shown(), by });
  }

  /** @param {number | undefined} step */
  goto(step) {
    if (step !== undefined) this.asker.ask({ type: "goto", step });
  }

  begin() {
    const { data } = this;
    if (!data) return;
    this.around.send({ type: "goto", step: this.shown() >= data.last ? data.first : this.shown() });
    this.asked = 0;
    this.playing = window.setInterval(() => this.tick(), FRAME);
    this.face();
  }

  halt() {
    window.clearInterval(this.playing);
    this.playing = 0;
    this.face();
  }

  /** The next frame is asked for when the last one has come. */
  tick() {
    const { data } = this;
    if (!data || !this.element.isConnected || this.shown() >= data.last) return this.halt();
    if (this.asked && performance.now() - this.asked < LOST) return;
    this.asked = performance.now();
    this.around.send({ type: "goto", step: this.shown(), by: Math.max(1, Math.round(data.count / PLAYED)) });
  }

  /** @param {HistoryData} data */
  show(data) {
    const before = this.shown();
    this.data = data;
    this.asked = before === this.shown() ? this.asked : 0;
    setAttribute(this.element, "hidden", data.count < 2);
    setAttribute(this.range, "min", String(data.first));
    setAttribute(this.range, "max", String(data.last));
    if (!this.held) this.range.value = String(this.shown());
    if (!this.held) this.say(this.shown());
    setAttribute(this.back, "disabled", this.shown() <= data.first);
    setAttribute(this.next, "disabled", this.shown() >= data.last);
    this.element.classList.toggle("looking", data.at !== null && !data.recording);
    setAttribute(this.live, "hidden", Boolean(data.recording));
    setAttribute(this.compare, "hidden", Boolean(data.recording));
    setAttribute(this.live, "disabled", data.at === null);
    this.face();
    this.difference(data);
  }

  /** @param {number} step */
  say(step) {
    const { data } = this;
    if (!data) return;
    const loss = data.loss === null || this.held ? "" : ` · loss ${formatGeneral(data.loss, 4)}`;
    const text = `step ${step}${loss}`;
    write(this.where, text);
    setAttribute(this.range, "aria-valuetext", `step ${step} of ${data.last}`);
    const share = data.last > data.first ? (step - data.first) / (data.last - data.first) : 1;
    setStyle(this.range, "--share", `${(100 * share).toFixed(2)}%`);
  }

  face() {
    const on = this.playing !== 0;
    const label = on ? "Stop the replay" : "Replay the recorded steps";
    if (this.play.getAttribute("aria-label") === label) return;
    this.play.querySelector("span")?.replaceChildren(on ? "Stop" : "Replay");
    this.play.querySelector("path")?.setAttribute("d", on ? HALT_ICON : PLAY_ICON);
    this.play.setAttribute("aria-label", label);
  }

  /** What changed since the step that was marked. @param {HistoryData} data */
  difference({ compare, first, last }) {
    setAttribute(this.compare, "aria-pressed", String(Boolean(compare)));
    setAttribute(this.changes, "hidden", !compare);
    setAttribute(this.pin, "hidden", !compare);
    if (!compare) return;
    const share = last > first ? (compare.step - first) / (last - first) : 0;
    this.pin.style.setProperty("--part", share.toFixed(4));
    // Not written anew with each message: whoever is about to press one of its links keeps it.
    const told = JSON.stringify([compare, this.shown(), this.around.graph()?.picture.structure]);
    if (told === this.told) return;
    this.told = told;
    const table = document.createElement("table");
    const caption = table.createCaption();
    caption.textContent = `From step ${compare.step} to step ${this.shown()}, the largest relative change first`;
    const head = table.createTHead().insertRow();
    for (const name of ["change", "what", "node", `step ${compare.step}`, `step ${this.shown()}`]) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = name;
      head.append(cell);
    }
    const body = table.createTBody();
    for (const row of compare.rows) this.line(body.insertRow(), row);
    if (compare.rows.length === 0) body.insertRow().insertCell().textContent = "nothing";
    if (compare.more > 0) body.insertRow().insertCell().textContent = `… and ${compare.more} more`;
    for (const cell of body.querySelectorAll("td:only-child")) cell.setAttribute("colspan", "5");
    const root = /** @type {Document | ShadowRoot} */ (this.changes.getRootNode());
    const at = [...this.changes.querySelectorAll("button")].findIndex((each) => each === root.activeElement);
    this.changes.replaceChildren(table);
    if (at >= 0) [...table.querySelectorAll("button")].at(at)?.focus({ preventScroll: true });
  }

  /** @param {HTMLTableRowElement} line @param {import("./protocol.js").ChangeRow} row */
  line(line, row) {
    const { percent, what, name, before, after, sign } = row;
    line.dataset.sign = sign > 0 ? "positive" : sign < 0 ? "negative" : "none";
    for (const text of [percent, what, "", before, after]) line.insertCell().textContent = text;
    const found = [...(this.around.graph()?.picture.nodes ?? [])].find(
      (node) => node.label === row.label && node.module === row.module,
    );
    const cell = line.cells[2];
    if (!found) {
      cell.textContent = name;
      return;
    }
    const link = document.createElement("button");
    link.type = "button";
    link.textContent = name;
    link.title = "Show this node";
    link.onclick = () => this.around.focus(found.id);
    cell.append(link);
  }
}
