import { beforeEach, describe, expect, it, vi } from "vitest";
import { boxOfGroup, makeFoldable, tween } from "../folds.js";
import { Graph } from "../picture.js";
import { golden, samplePicture } from "./samples.js";

const nodeCount = (/** @type {any} */ picture) => picture.nodes.length;

/** @returns {any} */
function folded() {
  const picture = samplePicture();
  Object.assign(picture.nodes[1], { kind: "group", group: "layers.0", inside: 7 });
  return picture;
}

describe("groups", () => {
  /** @type {any[]} */
  let sent;
  beforeEach(() => (sent = []));
  const send = (/** @type {any} */ command) => sent.push(command);

  it("open on a click and on Enter", () => {
    const graph = new Graph(folded());
    makeFoldable(graph, send);
    const group = /** @type {any} */ (graph.nodes.get("n1")).group;
    expect(group.getAttribute("aria-expanded")).toBe("false");
    expect(group.hasAttribute("aria-label")).toBe(false); // its name is what is seen on it
    expect(group.getAttribute("aria-description")).toContain("7 nodes inside");
    group.dispatchEvent(new MouseEvent("click"));
    group.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    group.dispatchEvent(new KeyboardEvent("keydown", { key: "a" }));
    expect(sent).toEqual([{ type: "open", group: "layers.0" }, { type: "open", group: "layers.0" }]);
  });
  it("leave plain nodes alone", () => {
    const graph = new Graph(folded());
    makeFoldable(graph, send);
    const plain = /** @type {any} */ (graph.nodes.get("n0")).group;
    plain.dispatchEvent(new MouseEvent("click"));
    expect(plain.hasAttribute("aria-expanded")).toBe(false);
    expect(sent).toEqual([]);
  });
  it("close by their title, which the keyboard reaches", () => {
    const picture = golden("picture.json");
    const graph = new Graph(picture);
    makeFoldable(graph, send);
    expect(picture.frames.length).toBeGreaterThan(0);
    for (const { id, key } of picture.frames) {
      const title = /** @type {any} */ (graph.frames.get(id)).querySelector(":scope > text");
      expect(title.getAttribute("tabindex")).toBe("0");
      title.dispatchEvent(new KeyboardEvent("keydown", { key: " " }));
      expect(sent.at(-1)).toEqual({ type: "close", group: key });
    }
  });
});

describe("the way from one picture to the next", () => {
  /** @param {boolean} reduced */
  function moves(reduced) {
    vi.stubGlobal("matchMedia", () => ({ matches: reduced }));
    /** @type {any[]} */
    const animations = [];
    const old = new Graph(samplePicture());
    const graph = new Graph({ ...samplePicture(), structure: "s2" });
    for (const node of graph.nodes.values()) {
      /** @type {any} */ (node.group).animate = (/** @type {any} */ frames) => animations.push(frames);
    }
    /** @type {any} */ (old.nodes.get("n0")).box = { left: -50, right: 30, top: -60, bottom: -10 };
    tween(old, graph);
    vi.unstubAllGlobals();
    return animations;
  }
  it("begins where the node was", () => {
    const [first, second] = moves(false);
    expect(first[0].transform).toBe("translate(-50px, 0px)");
    expect(second[0].transform).toBe("translate(0px, 0px)");
  });
  it("is not taken where motion is unwelcome", () => expect(moves(true)).toEqual([]));
  it("does nothing for a first picture", () => expect(() => tween(null, new Graph(samplePicture()))).not.toThrow());
});

it("the sample is like what Python sends", () => {
  expect(Object.keys(samplePicture().nodes[0]).sort()).toEqual(Object.keys(golden("picture.json").nodes[0]).sort());
  expect(nodeCount(samplePicture())).toBe(2);
});

describe("the inside of an open group", () => {
  it("lies around all that is in it, also in groups within", () => {
    const picture = folded();
    picture.frames = [{ id: "c0", key: "a", title: "a", around: "" }, { id: "c1", key: "a.b", title: "a.b", around: "a" }];
    Object.assign(picture.nodes[0], { frame: "a" });
    Object.assign(picture.nodes[1], { frame: "a.b" });
    const graph = new Graph(picture);
    expect(boxOfGroup(graph, "a.b")).toEqual(graph.nodes.get("n1")?.box);
    expect(boxOfGroup(graph, "a")).toEqual({ left: 0, top: -60, right: 190, bottom: -10 });
  });
  it("is nowhere while it is closed", () => {
    const graph = new Graph(folded());
    expect([boxOfGroup(graph, "layers.0"), boxOfGroup(graph, "")]).toEqual([null, null]);
  });
});
