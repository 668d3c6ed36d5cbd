// One visual language: the page's tables are Python's (edutorch/viz/render/style.py).
import { describe, expect, it } from "vitest";
import { CUT, FLOW_BOUNDS, MARK_SHAPES, ROLES, lineWidth, sizeClass } from "../colours.js";
import { Legend, RAMP, WORDS, legendKeys } from "../legend.js";
import { golden, samplePicture } from "./samples.js";

describe("the table of looks", () => {
  const table = golden("style.json");
  it("is the same on both sides", () => {
    expect(ROLES).toEqual(table.roles);
    expect(FLOW_BOUNDS).toEqual(table.bounds);
    expect(MARK_SHAPES).toEqual(table.marks);
    expect(CUT).toBe(table.cut);
    expect(RAMP).toEqual(table.ramp);
  });
  it("has the same words, in the same order", () => {
    expect(Object.entries(WORDS)).toEqual(table.words);
  });
  it("gives a gradient the same colour and width", () => {
    for (const [norm, place, width] of table.flows) {
      expect(sizeClass(norm), `${norm}`).toBe(place);
      expect(lineWidth(norm), `${norm}`).toBeCloseTo(width, 6);
    }
  });
});

describe("Legend", () => {
  it("says what is to be seen, and nothing else", () => {
    const picture = samplePicture();
    expect(legendKeys(picture, false)).toEqual(["parameter", "grey", "arrow"]);
    picture.nodes[0].marks = ["frozen"];
    picture.nodes[0].version = 1;
    picture.edges[0].kind = "cut";
    expect(legendKeys(picture, true)).toEqual(["parameter", "grey", "trouble", "cut", "frozen", "version"]);
  });
  it.each(/** @type {[string, any, any, string[]][]} */ ([
    ["a constant", { kind: "constant" }, {}, ["grey", "arrow"]],
    ["a gradient of a gradient", {}, { kind: "backward" }, ["parameter", "grey", "arrow"]],
    ["what is kept", {}, { kind: "kept" }, ["parameter", "grey", "kept"]],
    ["a graph without gradients", { differentiable: false }, {}, ["grey"]],
  ]))("of %s", (_, node, edge, keys) => {
    const picture = samplePicture();
    Object.assign(picture.nodes[0], node);
    Object.assign(picture.edges[0], edge);
    expect(legendKeys(picture, false)).toEqual(keys);
  });
  it("says what a heat map's colours mean while there is one", () => {
    const [picture, other] = [samplePicture(), samplePicture()];
    const legend = new Legend();
    const says = (/** @type {any} */ shown, /** @type {any} */ thumbs) => {
      if (thumbs) legend.notice(shown, thumbs);
      legend.show(shown);
      return legend.element.textContent?.includes("above 0");
    };
    const heat = { n0: { kind: "image" }, n1: { kind: "weights" } };
    expect([says(picture, null), says(picture, { n0: { kind: "image" } }), says(picture, heat)]).toEqual([false, false, true]);
    expect([says(picture, {}), says(other, null), says(other, {})]).toEqual([true, false, false]);
  });
  it("shows a sample beside each word", () => {
    const legend = new Legend();
    const picture = samplePicture();
    picture.nodes[0].marks = ["hook"];
    legend.show(picture, false);
    const items = [...legend.element.querySelectorAll("li")];
    expect(items.map((item) => item.textContent)).toEqual(["parameter", "no gradient", "<0.001≥10norm of the gradient that flows back", "hook"]);
    expect(items[0].querySelector("i")?.dataset.role).toBe("parameter");
    expect(items[2].querySelectorAll("rect").length).toBe(6);
    expect(items[3].querySelector("path")?.getAttribute("d")).toBe(MARK_SHAPES.hook);
    const first = items[0];
    legend.show(picture, false);
    expect(legend.element.firstChild).toBe(first); // nothing is written twice
    legend.show(picture, true);
    expect(legend.element.textContent).toContain("trouble");
    legend.notice(picture, { n0: { kind: "weights", low: -1, high: 1, std: 1 } });
    legend.notice(picture, {});
    legend.show(picture);
    expect(legend.element.textContent).toContain("below 0, above 0");
    legend.show(picture, true, 22);
    expect(legend.element.lastChild?.textContent).toBe("pale pictures: of step 22");
  });
});
