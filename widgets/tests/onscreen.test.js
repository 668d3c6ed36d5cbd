import { beforeEach, describe, expect, it } from "vitest";
import { Graph } from "../picture.js";
import { OnScreen } from "../viewport.js";
import { samplePicture } from "./samples.js";

// In the sample, n0 lies from 0 to 80 and n1 from 110 to 190, both from -60 to -10.
/** @param {number} left @param {number} right */
const box = (left, right) => ({ left, right, top: -70, bottom: 0 });

/** @type {any[]} */
let sent = [];
/** @type {OnScreen} */
let onScreen;
/** @type {Graph} */
let graph;
beforeEach(() => {
  sent = [];
  onScreen = new OnScreen((command) => sent.push(command));
  graph = new Graph(samplePicture());
});

describe("what is on screen", () => {
  it("is told by places in the picture's list, and with it what is near", () => {
    onScreen.tell(graph, box(120, 180));
    expect(sent).toEqual([{ type: "seen", view: onScreen.view, structure: "s1", nodes: [1] }]);
    onScreen.tell(graph, box(85, 180)); // half as wide again on each side
    expect(sent[1].nodes).toEqual([0, 1]);
  });
  it("is not told again while it moves inside", () => {
    onScreen.tell(graph, box(0, 40));
    onScreen.tell(graph, box(10, 50));
    onScreen.tell(graph, box(-20, 20));
    expect(sent.length).toBe(1);
    onScreen.tell(graph, box(30, 70));
    expect(sent.length).toBe(2);
  });
  it("is told again when the window has become small, or large", () => {
    onScreen.tell(graph, box(0, 190));
    onScreen.tell(graph, box(0, 20));
    expect(sent.map(({ nodes }) => nodes)).toEqual([[0, 1], [0]]);
    onScreen.tell(graph, box(0, 190));
    expect(sent.length).toBe(3);
  });
  it("has the node whose details are shown in it, wherever that is", () => {
    onScreen.tell(graph, box(0, 20), "n1");
    onScreen.tell(graph, box(0, 20));
    expect(sent.map(({ nodes }) => nodes)).toEqual([[0, 1], [0]]);
  });
  it("is told again of another picture", () => {
    onScreen.tell(graph, box(0, 20));
    onScreen.tell(new Graph({ ...samplePicture(), structure: "s2" }), box(0, 20));
    expect(sent.map(({ structure }) => structure)).toEqual(["s1", "s2"]);
  });
  it("stays what it was when the view is scrolled away, or the browser cannot tell", () => {
    onScreen.tell(graph, { left: 0, right: 20, top: 5, bottom: -5 });
    onScreen.tell(graph, { left: 20, right: 0, top: -70, bottom: 0 });
    onScreen.tell(graph, null);
    expect(sent).toEqual([]);
  });
  it("is told by each view for itself", () => {
    const other = new OnScreen(() => {});
    expect(other.view).not.toBe(onScreen.view);
  });
});
