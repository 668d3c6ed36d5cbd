import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Graph } from "../picture.js";
import { Toolbar, searchVisible } from "../toolbar.js";
import { samplePatch, samplePicture } from "./samples.js";

/** @type {any[]} */
let sent = [];
/** @type {string[]} */
let visited = [];
/** @type {Toolbar} */
let toolbar;
beforeEach(() => {
  vi.useFakeTimers();
  sent = [];
  visited = [];
  toolbar = new Toolbar((command) => sent.push(command), (id) => visited.push(id), document.createElement("div"));
  document.body.replaceChildren(toolbar.element);
});
afterEach(() => vi.useRealTimers());

/** @param {any} more */
const graphOf = (more) => new Graph({ ...samplePicture(), ...more });
/** @param {string} selector */
const find = (selector) => /** @type {any} */ (toolbar.element.querySelector(selector));

/** @param {string} text */
function type(text) {
  find("input").value = text;
  find("input").dispatchEvent(new Event("input"));
}

/** @param {any} [how] */
const enter = (how = {}) => {
  const event = new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, ...how });
  if (find("input").dispatchEvent(event)) find("form").requestSubmit();
};

/** @param {any[]} hits @param {number} [more] */
const answer = (hits, more = 0) =>
  toolbar.show(samplePatch({ parts: { search: { text: find("input").value, hits, more } } }), null);

describe("the buttons above the graph", () => {
  it("open and close all groups, where there are some", () => {
    toolbar.graph(graphOf({}), true);
    expect([find(".expand").hidden, find(".collapse").hidden]).toEqual([true, true]);
    const [first, second] = samplePicture().nodes;
    toolbar.graph(graphOf({ nodes: [first, { ...second, group: "m", inside: 9 }], frames: [{ id: "c0", key: "k", title: "k", around: "" }] }), true);
    expect([find(".expand").hidden, find(".collapse").hidden]).toEqual([false, false]);
    find(".expand").click();
    find(".collapse").click();
    expect(sent).toEqual([{ type: "open_all" }, { type: "close_all" }]);
  });
  it("show one backward pass, and press what Python says", () => {
    toolbar.graph(graphOf({ tabs: ["errD_real", "errG"] }), true);
    const tabs = [...toolbar.tabs.children].map((each) => /** @type {HTMLElement} */ (each));
    expect(tabs.map((tab) => tab.textContent)).toEqual(["all", "errD_real", "errG"]);
    tabs[2].click();
    tabs[0].click();
    expect(sent).toEqual([{ type: "tab", tab: 1 }, { type: "tab", tab: null }]);
    const pressed = () => tabs.map((tab) => tab.getAttribute("aria-pressed"));
    expect(pressed()).toEqual(["true", "false", "false"]);
    toolbar.show(samplePatch({ tab: 1 }), null);
    expect(pressed()).toEqual(["false", "false", "true"]);
    toolbar.show(samplePatch(), null); // it stays as it was
    expect(pressed()).toEqual(["false", "false", "true"]);
    toolbar.graph(graphOf({ tabs: ["errD_real", "errG"] }), true);
    expect(toolbar.tabs.children[2]).toBe(tabs[2]);
  });
  it("are not there where nobody answers", () => {
    toolbar.graph(graphOf({ tabs: ["one", "two"], frames: [{ id: "c0", key: "k", title: "k", around: "" }] }), false);
    expect([find(".tabs").hidden, find(".expand").hidden, find(".collapse").hidden]).toEqual([true, true, true]);
  });
});

describe("the search", () => {
  it("asks when nothing is typed for a moment", () => {
    type("con");
    vi.advanceTimersByTime(100);
    type("conv");
    vi.advanceTimersByTime(200);
    expect(sent).toEqual([{ type: "find", text: "conv" }]);
    answer([["conv1", "n1", ""], ["conv2", "n4", ""]], 7);
    expect(find("output").textContent).toBe("9 found");
  });
  it("goes from hit to hit, and round", () => {
    type("w");
    enter();
    expect(sent).toEqual([{ type: "find", text: "w" }]);
    answer([["a.w", "n1", ""], ["b.w", "n4", ""]]);
    expect(visited).toEqual(["n1"]);
    enter();
    expect(find("output").textContent).toBe("2 of 2: b.w");
    enter();
    enter({ shiftKey: true });
    expect(visited).toEqual(["n1", "n4", "n1", "n4"]);
    expect(sent.length).toBe(1);
  });
  it("opens the group that hides a hit, and goes there with the new picture", () => {
    type("w");
    enter();
    answer([["a.w", "n1", "a"]]);
    expect(sent[1]).toEqual({ type: "open", group: "a" });
    expect(visited).toEqual([]);
    answer([["a.w", "n3", ""]]);
    expect(visited).toEqual(["n3"]);
    answer([["a.w", "n3", ""]]); // a later picture does not move anything
    expect(visited).toEqual(["n3"]);
    expect(sent.length).toBe(2);
  });
  it("does not open a group again and again that does not show it", () => {
    type("w");
    enter();
    answer([["a.w", "n1", "a"]]);
    answer([["a.w", "n1", "a"]]);
    answer([["a.w", "n1", "a"]]);
    expect(sent.filter((each) => each.type === "open").length).toBe(1);
    expect(visited).toEqual(["n1"]);
  });
  it("says when there is nothing", () => {
    type("zzz");
    enter();
    answer([]);
    expect(find("output").textContent).toBe("nothing here is called “zzz”");
    enter();
    expect(visited).toEqual([]);
  });
  it("marks the boxes, and forgets them when the field is empty", () => {
    const graph = graphOf({});
    toolbar.graph(graph, true);
    type("w");
    enter();
    toolbar.show(samplePatch({ parts: { search: { text: "w", hits: [["w", "n0", ""]], more: 0 } } }), graph);
    expect(graph.nodes.get("n0")?.group.classList.contains("found")).toBe(true);
    expect(graph.nodes.get("n1")?.group.classList.contains("found")).toBe(false);
    type("");
    vi.advanceTimersByTime(200);
    expect(graph.nodes.get("n0")?.group.classList.contains("found")).toBe(false);
    expect(find("output").textContent).toBe("");
  });
  it("takes no answer for an older question", () => {
    type("a");
    enter();
    toolbar.show(samplePatch({ parts: { search: { text: "b", hits: [["b", "n0", ""]], more: 0 } } }), null);
    expect(visited).toEqual([]);
  });
  it("finds what is to be seen, in a page without a kernel", () => {
    expect(searchVisible(samplePicture(), "SUM").hits).toEqual([["m.sum", "n1", ""]]);
    expect(searchVisible(samplePicture(), "").hits).toEqual([]);
  });
});
