// A walk through backward: what the node that has just run did, and the buttons that take the next step.
import { button } from "./controls.js";
import { formula } from "./formula.js";
import { svgElement } from "./picture.js";

/** @typedef {import("./protocol.js").WalkData} WalkData */
/** @typedef {import("./protocol.js").WalkStation} WalkStation */
/** @typedef {import("./protocol.js").WalkFlow} WalkFlow */
/** @typedef {import("./protocol.js").WalkAmount} WalkAmount */
/** @typedef {import("./picture.js").Graph} Graph */
/** @typedef {import("./panels.js").Around} Around */

const WALK_BACK_ICON = "M12,3l-9,5l9,5z";
const WALK_NEXT_ICON = "M4,3l9,5l-9,5z";
const WALK_TO_ICON = "M3,3l6,5l-6,5zM10,4a4,4 0 1,1 0,8a4,4 0 0,0 0,-8z";
const WALK_END_ICON = "M3,3l7,5l-7,5zM11,3h2v10h-2z";
/** What stands in the corner of a box: seen without any colour, too. @type {Record<string, string>} */
const BADGES = { done: "✓", here: "▶", waiting: "…" };
/** @type {Record<string, string>} */
const SAID = { done: "has run", here: "has just run", waiting: "a gradient waits here" };

export class WalkPanel {
  /** @param {Around} around */
  constructor(around) {
    this.around = around;
    this.element = walkElement("section", "edutorch-walk");
    this.element.setAttribute("aria-label", "Walk through backward");
    const bar = walkElement("div", "bar");
    this.back = walkButton("back", "Back", "Back: look at the step before (B)", "b", WALK_BACK_ICON, () => this.go("back"));
    this.next = walkButton("next", "Next", "Next: let the next node run (N)", "n", WALK_NEXT_ICON, () => this.go("next"));
    this.to = walkButton("to", "To the chosen node", "To the chosen node: run until a gradient reaches it (G)", "g", WALK_TO_ICON, () => this.go("to"));
    this.end = walkButton("end", "To the end", "To the end: run all that is left (E)", "e", WALK_END_ICON, () => this.go("end"));
    this.count = walkElement("output", "count");
    this.upcoming = walkElement("span", "upcoming");
    bar.append(this.back, this.next, this.to, this.end, this.count, this.upcoming);
    this.message = walkElement("p", "message");
    this.message.setAttribute("role", "alert");
    this.station = walkElement("div", "station");
    this.spoken = walkElement("p", "spoken");
    this.spoken.setAttribute("aria-live", "polite");
    this.element.append(bar, this.message, this.station, this.spoken);
    this.shown = "";
  }

  /** @param {"next" | "back" | "end" | "to"} go */
  go(go) {
    this.message.textContent = "";
    if (go !== "to") return this.around.send({ type: "walk", go });
    const nodes = this.around.graph()?.nodes ?? new Map();
    const chosen = [...nodes].find(([, node]) => node.group.classList.contains("chosen"));
    if (chosen) this.around.send({ type: "walk", go, node: chosen[0] });
    else this.message.textContent = "Choose a node in the picture first: click on it.";
  }

  /** @param {WalkData} data */
  show(data) {
    const graph = this.around.graph();
    if (graph) markNodes(graph, data);
    const text = JSON.stringify([data.position, data.total, data.upcoming, data.station, data.message]);
    if (text === this.shown) return;
    this.shown = text;
    this.back.disabled = data.position === 0;
    this.next.disabled = this.end.disabled = data.upcoming === "";
    this.count.textContent = `${data.position} of ${data.total}`;
    this.upcoming.textContent = data.upcoming ? `next: ${data.upcoming}` : "that was all";
    this.message.textContent = data.message;
    this.station.replaceChildren(...(data.station ? stationParts(data.station) : [startPart(data)]));
    this.spoken.textContent = data.station?.spoken ?? "";
  }

  /** Letters press the buttons, anywhere in the view. @param {KeyboardEvent} event */
  key(event) {
    const typing = event.target instanceof Element && event.target.closest("input, textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const pressed = [this.back, this.next, this.to, this.end].find((each) => each.getAttribute("aria-keyshortcuts") === event.key.toLowerCase());
    if (!pressed) return;
    event.preventDefault();
    pressed.click();
  }
}

/** @param {string} name @param {string} kind @param {string} [text] @returns {HTMLElement} */
function walkElement(name, kind, text = "") {
  const element = document.createElement(name);
  element.className = kind;
  element.textContent = text;
  return element;
}

/**
 * @param {string} name
 * @param {string} text
 * @param {string} label
 * @param {string} key
 * @param {string} icon
 * @param {() => void} press
 */
function walkButton(name, text, label, key, icon, press) {
  const element = button(`walk-${name}`, text, label, icon);
  element.setAttribute("aria-keyshortcuts", key);
  const shown = walkElement("kbd", "key"); // by the style sheet: the name of a button is its text
  shown.dataset.key = key.toUpperCase();
  element.append(shown);
  element.onclick = press;
  return element;
}

/** @param {WalkData} data */
function startPart(data) {
  const text = `Backward stands before its first node, ${data.upcoming}. The gradient of the result with respect to itself is there already.`;
  return walkElement("p", "start", text);
}

/** @param {WalkStation} station */
function stationParts(station) {
  const title = walkElement("p", "title");
  title.append(walkElement("span", "number", `${station.number}`), walkElement("span", "name", station.kind === "leaf" ? `${station.name}.grad` : station.name));
  if (station.line) title.append(walkElement("code", "line", station.line));
  const rows = walkElement("dl", "flows");
  if (station.kind === "leaf") {
    walkRow(rows, "arrived", amountParts(station.incoming), station.from);
    if (station.added) walkRow(rows, `${station.name}.grad`, amountParts(station.added, station.before ? "" : "="), station.before ? "what was there is kept: gradients add up" : "");
  } else {
    walkRow(rows, "came in", amountParts(station.incoming, "g ="), station.from);
    for (const flow of station.flows) walkRow(rows, `→ ${flow.to}`, flowParts(flow), "", flow.into);
  }
  const parts = [title, rows];
  if (station.note) parts.push(walkElement("p", "note", station.note));
  return parts;
}

/**
 * @param {HTMLElement} list
 * @param {string} name
 * @param {Element[]} parts
 * @param {string} remark
 * @param {boolean} [strong]
 */
function walkRow(list, name, parts, remark, strong = false) {
  const told = walkElement("dd", strong ? "into" : "");
  told.append(...parts);
  if (remark) told.append(walkElement("span", "remark", remark));
  list.append(walkElement("dt", "", name), told);
}

/** @param {WalkFlow} flow */
function flowParts(flow) {
  const parts = [];
  if (flow.latex) parts.push(walkFormula(flow.latex));
  if (!flow.whole) parts.push(...amountParts(flow.gradient, flow.latex ? "⇒" : ""));
  if (flow.note) parts.push(walkElement("span", "remark", flow.note));
  if (flow.total) parts.push(walkElement("span", "so-far", `${flow.into ? "so far" : "waits there"}`), ...amountParts(flow.total));
  if (flow.source) parts.push(walkElement("code", "source", flow.source));
  return parts;
}

/** @param {WalkAmount} amount @param {string} [before] */
function amountParts(amount, before = "") {
  const parts = before ? [walkElement("span", "before", before)] : [];
  parts.push(amount.latex ? walkFormula(amount.latex) : walkElement("span", "summary", amount.text));
  if (amount.bars) parts.push(walkBars(amount.bars));
  return parts;
}

/** A histogram that Python drew in a line of text. @param {string} bars */
function walkBars(bars) {
  const element = walkElement("span", "bars", bars);
  element.setAttribute("aria-hidden", "true");
  element.title = "how the numbers are distributed, from the smallest to the largest";
  return element;
}

/** @param {string} latex */
function walkFormula(latex) {
  const element = walkElement("span", "formula");
  element.append(formula(latex));
  return element;
}

// The picture ---------------------------------------------------------------------------------

/** @param {Graph} graph @param {WalkData} data */
export function markNodes(graph, data) {
  let here = "";
  let moved = false;
  for (const [id, { group, box }] of graph.nodes) {
    const mark = Object.hasOwn(data.marks, id) ? data.marks[id] : "";
    if (mark === "here") here = id;
    if ((group.dataset.walk ?? "") === mark) continue;
    moved ||= mark === "here";
    if (mark) group.dataset.walk = mark;
    else delete group.dataset.walk;
    const attribute = group.hasAttribute("aria-description") ? "aria-description" : "aria-label"; // of a closed group, or of a node
    group.dataset.said ??= group.getAttribute(attribute) ?? "";
    group.setAttribute(attribute, mark ? `${group.dataset.said}, ${SAID[mark]}` : group.dataset.said);
    group.querySelector(":scope > .walk-badge")?.remove();
    if (mark) group.append(walkBadge(box.right - 3, box.top + 3, BADGES[mark]));
  }
  const to = new Set(data.to);
  for (const edge of graph.edges.values()) {
    edge.group.classList.toggle("walk-flow", edge.target === here && to.has(edge.source));
  }
  const drawn = graph.nodes.get(here);
  if (drawn && moved) bringIntoView(drawn.group);
}

/** @param {number} x @param {number} y @param {string} sign */
function walkBadge(x, y, sign) {
  const badge = svgElement("g", { class: "walk-badge" });
  const text = svgElement("text", { x, y: y + 3.2, "text-anchor": "middle" });
  text.textContent = sign;
  badge.append(svgElement("circle", { cx: x, cy: y, r: 7 }), text);
  return badge;
}

/** Scroll the graph, but never the page under the button that is being pressed. @param {SVGElement} group */
function bringIntoView(group) {
  const scroller = group.closest(".scroller");
  if (!scroller) return;
  const [box, frame] = [group.getBoundingClientRect(), scroller.getBoundingClientRect()];
  const margin = 40;
  if (box.left < frame.left + margin || box.right > frame.right - margin) {
    scroller.scrollLeft += (box.left + box.right - frame.left - frame.right) / 2;
  }
  if (box.top < frame.top || box.bottom > frame.bottom) {
    scroller.scrollTop += (box.top + box.bottom - frame.top - frame.bottom) / 2;
  }
}
