// The charts of the scalars: where their lines run, what they say, and how they grow.
import { describe, expect, it } from "vitest";
import { Curves, pathThrough, smooth } from "../curve.js";

/** @param {Curves} curves @param {string} selector */
const all = (curves, selector) => [...curves.element.querySelectorAll(selector)];
/** @param {Curves} curves @param {string} selector @param {string} name */
const attributes = (curves, selector, name) => all(curves, selector).map((each) => each.getAttribute(name));
/** @param {Curves} curves */
const names = (curves) => all(curves, "figcaption span").map((each) => each.textContent);

describe("a line", () => {
  it("runs from edge to edge of its chart, the smallest value below", () => {
    expect(pathThrough([[10, 1], [15, 2], [20, 5]], [10, 20], [1, 5])).toBe("M46.0,68.0L179.0,53.0L312.0,8.0");
    expect(pathThrough([], [0, 1], [0, 1])).toBe("");
  });
  it("is the mean of neighbours, as many before as after", () => {
    const points = /** @type {[number, number][]} */ (Array.from({ length: 48 }, (_, step) => [step, step % 2 ? NaN : step ** 2]));
    const trend = smooth(points);
    expect(trend.map(([step]) => step)).toEqual(points.map(([step]) => step));
    expect([trend[0][1], trend[3][1], trend[47][1]]).toEqual([0, NaN, NaN]);
    expect(trend[2][1]).toBe((0 + 4 + 16) / 3);
    expect(trend[46][1]).toBe(46 ** 2); // one neighbour after it: so one before it, and both are NaN
    expect(smooth(/** @type {[number, number][]} */ ([[0, 3], [1, 9], [2, 0]]))).toEqual([[0, 3], [1, 9], [2, 0]]);
  });
});

describe("the charts", () => {
  it("say the last value, the range and the steps, as text", () => {
    const curves = new Curves();
    curves.show({ "<b>loss</b>": [[3, 4], [5, 1], [7, 2]] }, {});
    expect(names(curves)).toEqual(["<b>loss</b>"]);
    expect(all(curves, "b").length).toBe(0);
    expect(all(curves, "svg text").map((each) => each.textContent)).toEqual(["4.0000", "1.0000", "step 3", "7"]);
    expect(all(curves, "output")[0].textContent).toBe("2.0000");
    expect(attributes(curves, "svg", "aria-label")).toEqual(["<b>loss</b>: 2.0000 at step 7"]);
    expect([attributes(curves, ".dot", "cx"), attributes(curves, ".dot", "cy")]).toEqual([["312.0"], ["48.0"]]);
    curves.show({ "<b>loss</b>": [[3, 4], [5, null]] }, {});
    expect([attributes(curves, ".dot", "cx"), attributes(curves, ".dot", "cy")]).toEqual([["-9"], ["-9"]]);
  });
  it("grow by the latest points, also those of which no whole curve has come", () => {
    const curves = new Curves();
    const whole = /** @type {any} */ ({ loss: [[1, 5]] });
    curves.show(whole, {});
    for (const step of [2, 2, 1, 3]) curves.show(whole, { loss: [step, 4], rate: [step, 1] });
    const points = attributes(curves, ".raw", "d").map((d) => d?.match(/[ML]/g)?.length);
    expect(points).toEqual([3, 2]); // a step that was told of already is no new one
    expect(whole).toEqual({ loss: [[1, 5]] }); // what Python sent stays what it is
  });
  it("stay while they have points, and go when they have none any more", () => {
    const curves = new Curves();
    curves.show({ a: [[1, 5]], b: [[1, 2]] }, { c: [1, 1] });
    const [first] = all(curves, "figure");
    curves.show({ a: [[1, 5], [2, 3]] }, { c: [2, 1] });
    expect(names(curves)).toEqual(["a", "c"]);
    expect(all(curves, "figure")[0]).toBe(first);
    curves.show({ d: [[1, 1]] }, {});
    expect(names(curves)).toEqual(["d"]);
  });
  it("are twelve at most", () => {
    const curves = new Curves();
    curves.show(Object.fromEntries(Array.from({ length: 14 }, (_, number) => [`c${number}`, [[1, number]]])), {});
    expect(names(curves).length).toBe(12);
    expect(names(curves)[11]).toBe("c11");
  });
  it("mark the step that is looked back at, if it is in them", () => {
    const curves = new Curves();
    curves.show({ a: [[10, 5], [20, 3]], b: [[16, 5], [20, 3]] }, {});
    const marks = (/** @type {number | null} */ step) => (curves.mark(step), attributes(curves, ".cursor", "d"));
    expect(marks(15)).toEqual(["M179.0,8V68", ""]);
    expect(marks(10)).toEqual(["M46.0,8V68", ""]);
    expect(marks(20)).toEqual(["M312.0,8V68", "M312.0,8V68"]);
    expect(marks(21)).toEqual(["", ""]);
    expect(marks(null)).toEqual(["", ""]);
  });
  it("are filled where nothing is missing", () => {
    const curves = new Curves();
    curves.show({ whole: [[1, 2], [2, 1]], none: [[1, null]], gap: [[1, 2], [2, null], [3, 1]] }, {});
    const [whole, none, gap] = attributes(curves, ".area", "d");
    expect([whole, none, gap]).toEqual(["M46.0,8.0L312.0,68.0V68H46Z", "", ""]);
  });
});
