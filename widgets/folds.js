// Groups open and close on a click, and what moves by it is seen to move.

/** @typedef {import("./protocol.js").Command} Command */
/** @typedef {import("./picture.js").Graph} Graph */
/** @typedef {import("./picture.js").Box} Box */

const DURATION = 320; // ms
const PRESS = new Set(["Enter", " "]);

/**
 * Make the closed groups and the titles of the open ones into buttons.
 * @param {Graph} graph
 * @param {(command: Command) => void} send
 */
export function makeFoldable(graph, send) {
  for (const { id, group } of graph.picture.nodes) {
    const element = graph.nodes.get(id)?.group;
    if (!group || !element) continue;
    // A button is called by the words that are seen on it; what else is known describes it.
    element.setAttribute("aria-description", element.getAttribute("aria-label") ?? "");
    element.removeAttribute("aria-label");
    makeButton(element, false, () => send({ type: "open", group }));
  }
  for (const { id, key, title } of graph.picture.frames) {
    const text = graph.frames.get(id)?.querySelector(":scope > text");
    if (!(text instanceof SVGElement)) continue;
    text.setAttribute("tabindex", "0");
    text.setAttribute("aria-label", `${title}: close this group`);
    makeButton(text, true, () => send({ type: "close", group: key }));
  }
}

/**
 * The part of the graph in which the inside of an open group lies; null: it is closed, or not there.
 * @param {Graph} graph
 * @param {string} key
 * @returns {Box | null}
 */
export function boxOfGroup(graph, key) {
  if (!key) return null;
  const inside = new Set([key]);
  for (const { key: inner, around } of graph.picture.frames) if (inside.has(around)) inside.add(inner); // the outer ones come first
  const boxes = graph.picture.nodes.flatMap(({ id, frame }) => (inside.has(frame) && graph.nodes.has(id) ? [graph.nodes.get(id)?.box] : []));
  /** @type {Box | null} */
  let all = null;
  for (const box of boxes) {
    if (!box) continue;
    all = all
      ? { left: Math.min(all.left, box.left), top: Math.min(all.top, box.top), right: Math.max(all.right, box.right), bottom: Math.max(all.bottom, box.bottom) }
      : box;
  }
  return all;
}

/**
 * @param {SVGElement} element
 * @param {boolean} expanded
 * @param {() => void} press
 */
function makeButton(element, expanded, press) {
  element.setAttribute("role", "button");
  element.setAttribute("aria-expanded", String(expanded));
  element.classList.add("foldable");
  element.addEventListener("click", press);
  element.addEventListener("keydown", (event) => {
    if (!PRESS.has(event.key)) return;
    event.preventDefault();
    press();
  });
}

/**
 * Let each node travel from where it was in the old picture; what comes out of a group
 * that was opened starts there; what is new appears.
 * @param {Graph | null} old
 * @param {Graph} graph
 */
export function tween(old, graph) {
  if (!old || matchMedia?.("(prefers-reduced-motion: reduce)").matches) return;
  const before = places(old);
  const names = identities(graph);
  for (const node of graph.picture.nodes) {
    const drawn = graph.nodes.get(node.id);
    if (!drawn?.group.animate) continue;
    const from = before.get(names.get(node.id) ?? "") ?? before.get(`group ${node.frame}`);
    const shift = from ? `translate(${middle(from).x - middle(drawn.box).x}px, ${middle(from).y - middle(drawn.box).y}px)` : "none";
    drawn.group.animate(
      [{ transform: shift, opacity: from ? 1 : 0 }, { transform: "none", opacity: 1 }],
      { duration: DURATION, easing: "ease-in-out" },
    );
  }
  for (const { group } of graph.edges.values()) {
    group.animate?.([{ opacity: 0 }, { opacity: 0, offset: 0.6 }, { opacity: 1 }], { duration: DURATION });
  }
}

/** What a node is called in each picture of the same program. @param {Graph} graph */
function identities(graph) {
  /** @type {Map<string, number>} */
  const seen = new Map();
  /** @type {Map<string, string>} */
  const names = new Map();
  for (const node of graph.picture.nodes) {
    const name = node.group ? `group ${node.group}` : `${node.module} ${node.label}`;
    const count = (seen.get(name) ?? 0) + 1;
    seen.set(name, count);
    names.set(node.id, node.group ? name : `${name} ${count}`);
  }
  return names;
}

/** @param {Graph} graph @returns {Map<string, Box>} */
function places(graph) {
  const found = new Map();
  for (const [id, name] of identities(graph)) {
    const drawn = graph.nodes.get(id);
    if (drawn) found.set(name, drawn.box);
  }
  return found;
}

/** @param {Box} box */
function middle({ left, top, right, bottom }) {
  return { x: (left + right) / 2, y: (top + bottom) / 2 };
}
