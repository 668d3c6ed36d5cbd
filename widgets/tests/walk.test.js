import { beforeEach, expect, it, vi } from "vitest";
import { Graph } from "../picture.js";
import { formula } from "../formula.js";
import { WalkPanel, markNodes } from "../walk.js";
import { samplePatch, samplePicture } from "./samples.js";

/** @param {string} text @param {string} [latex] */
const amount = (text, latex = text) => ({ text, latex, bars: "" });

/** @returns {any} */
function station(more = {}) {
  return {
    number: 1, kind: "node", name: "y = mul", line: "lesson.py:3  y = a * b",
    incoming: amount("2 + 3 = 5"), from: "from add, exp",
    flows: [
      { to: "a", into: true, latex: "g \\cdot b = 5 \\cdot 3 = 15", source: "", gradient: amount("15"), whole: true, note: "", total: null },
      { to: "h", into: false, latex: "g\\ \\text{to each}", source: "lambda g: g", gradient: { text: "64×10, mean 0", latex: "", bars: "▁█▁" }, whole: false, note: "copies", total: amount("1 + 2 = 3") },
    ],
    added: null, before: false, note: "", spoken: "y = mul. g = 5", ...more,
  };
}

/** @returns {any} */
const data = (more = {}) => ({ position: 1, total: 4, marks: { n1: "here", n0: "waiting" }, to: ["n0"], station: station(), upcoming: "a", message: "", ...more });

/** @type {any} */ let graph;
/** @type {any} */ let send;
/** @type {any} */ let panel;
beforeEach(() => {
  graph = new Graph(samplePicture());
  send = vi.fn();
  panel = new WalkPanel({ send, graph: () => graph, focus: () => {} });
});

/** @param {string} name */
const press = (name) => panel.element.querySelector(`.walk-${name}`).click();

it("says what a node did", () => {
  panel.show(data(), samplePatch());
  const text = panel.element.querySelector(".station").textContent;
  for (const part of ["y = mul", "lesson.py:3", "from add, exp", "→ a", "→ h", "64×10, mean 0", "▁█▁", "copies", "lambda g: g", "waits there"]) {
    expect(text).toContain(part);
  }
  expect(panel.element.querySelector("dd.into math").textContent).toBe("g·b=5·3=15");
  expect(panel.element.querySelector(".count").textContent).toBe("1 of 4");
  expect(panel.element.querySelector("[aria-live=polite]").textContent).toBe("y = mul. g = 5");
});

it("says what becomes of a leaf", () => {
  panel.show(data({ station: station({ kind: "leaf", name: "x", flows: [], added: amount("1 + 5 = 6"), before: true }) }), samplePatch());
  expect(panel.element.querySelector(".title").textContent).toContain("x.grad");
  expect(panel.element.querySelector(".flows").textContent).toContain("gradients add up");
});

it("names from user code are text, never markup", () => {
  const nasty = "<img src=x onerror=alert(1)>";
  const flow = { ...station().flows[0], to: nasty, latex: nasty, source: nasty, note: nasty, total: amount(nasty) };
  panel.show(data({ station: station({ name: nasty, line: nasty, from: nasty, note: nasty, flows: [flow] }), upcoming: nasty, message: nasty }), samplePatch());
  expect(panel.element.querySelector("img")).toBeNull();
  expect(panel.element.querySelector(".title .name").textContent).toBe(nasty);
});

it("the buttons send where to go, and rest where there is nothing", () => {
  panel.show(data(), samplePatch());
  press("next");
  press("back");
  press("end");
  expect(send.mock.calls.map(([command]) => command)).toEqual(["next", "back", "end"].map((go) => ({ type: "walk", go })));
  panel.show(data({ position: 0, station: null }), samplePatch());
  expect(panel.back.disabled).toBe(true);
  expect(panel.element.querySelector(".start")).not.toBeNull();
  panel.show(data({ upcoming: "" }), samplePatch());
  expect([panel.next.disabled, panel.end.disabled, panel.back.disabled]).toEqual([true, true, false]);
});

it("runs to the node that is chosen, and asks for one", () => {
  panel.show(data(), samplePatch());
  press("to");
  expect(send).not.toHaveBeenCalled();
  expect(panel.message.textContent).toContain("Choose a node");
  graph.nodes.get("n0").group.classList.add("chosen");
  press("to");
  expect(send).toHaveBeenCalledWith({ type: "walk", go: "to", node: "n0" });
});

it("letters press the buttons, but not while somebody writes", () => {
  panel.show(data(), samplePatch());
  panel.key(new KeyboardEvent("keydown", { key: "n" }));
  panel.key(new KeyboardEvent("keydown", { key: "N" }));
  panel.key(new KeyboardEvent("keydown", { key: "n", ctrlKey: true }));
  panel.key(new KeyboardEvent("keydown", { key: "x" }));
  const field = document.createElement("input");
  const typed = new KeyboardEvent("keydown", { key: "n" });
  Object.defineProperty(typed, "target", { value: field });
  panel.key(typed);
  expect(send).toHaveBeenCalledTimes(2);
});

it("marks what has run, where it stands and what waits, and takes the marks away", () => {
  markNodes(graph, data());
  const [leaf, op] = [graph.nodes.get("n0").group, graph.nodes.get("n1").group];
  expect([leaf.dataset.walk, op.dataset.walk]).toEqual(["waiting", "here"]);
  expect(op.querySelector(".walk-badge text").textContent).toBe("▶");
  expect(op.getAttribute("aria-label")).toContain("has just run");
  expect(graph.edges.get("e0").group.classList.contains("walk-flow")).toBe(true);
  markNodes(graph, data({ marks: { n1: "done" }, to: [] }));
  expect(op.querySelectorAll(".walk-badge").length).toBe(1);
  expect(leaf.querySelector(".walk-badge")).toBeNull();
  expect(leaf.getAttribute("aria-label")).not.toContain("waits");
  markNodes(graph, data());
  op.setAttribute("aria-description", "a closed group");
  delete op.dataset.said;
  op.removeAttribute("aria-label");
  markNodes(graph, data({ marks: { n1: "done" }, to: [] }));
  expect(op.getAttribute("aria-description")).toMatch(/^a closed group, /);
  expect(op.hasAttribute("aria-label")).toBe(false);
  expect(graph.edges.get("e0").group.classList.contains("walk-flow")).toBe(false);
});

it("writes matrices, words and signs", () => {
  const math = formula("\\begin{pmatrix}1 & -2 \\\\ 3 & 4\\end{pmatrix}^{\\top} g\\ \\text{to each} = -1");
  expect([...math.querySelectorAll("mtd")].map((cell) => cell.textContent)).toEqual(["1", "-2", "3", "4"]);
  expect(math.querySelectorAll("mtr").length).toBe(2);
  expect(math.querySelector("mtext")?.textContent).toBe("to each");
  expect(math.querySelector("msup")?.lastElementChild?.textContent).toBe("⊤");
  const minus = [...math.querySelectorAll("mo")].find((each) => each.textContent === "-" && each.getAttribute("form"));
  expect(minus?.getAttribute("form")).toBe("prefix");
  expect(formula("\\bar g").querySelector("mover")?.textContent).toBe("g¯");
});
