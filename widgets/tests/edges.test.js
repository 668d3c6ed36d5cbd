// What is written at arrows and into boxes, and which boxes are in a window.
import { describe, expect, it } from "vitest";
import { CUT } from "../colours.js";
import { Graph, flowText, gradientText, overlaps, valueText } from "../picture.js";
import { samplePicture } from "./samples.js";

/** @param {string} kind */
function edge(kind) {
  const picture = samplePicture();
  picture.edges[0].kind = kind;
  return /** @type {any} */ (new Graph(picture).edges.get("e0"));
}

describe("the text at an arrow", () => {
  it.each([["forward", "-39.5", "0.00000"], ["backward", "-39.5", "0.00000"], ["kept", "-39.5", "0.00000"], ["cut", "-38", CUT]])("of kind %s", (kind, y, text) => {
    const { label, group } = edge(kind);
    expect([label.getAttribute("y"), label.textContent]).toEqual([y, text]); // above a wide line; scissors are on it
    expect([group.classList.contains("cut"), group.classList.contains("kept")]).toEqual([kind === "cut", kind === "kept"]);
  });
  const scalar = /** @type {any} */ ({ shape: [], dtype: "float32", kind: "op" });
  const many = { ...scalar, shape: [64] };
  it.each(/** @type {[any, number, number, string][]} */ ([
    [scalar, 0.5, -1, "-0.5000"], [scalar, 0.5, 1, "+0.5000"], [scalar, 0, 0, "+0.0000"], [many, 0.5, -1, "0.5000"],
    [undefined, 0.5, -1, "0.5000"], [scalar, NaN, 1, ""],
  ]))("has a sign for a scalar only: %o, %d", (source, gradient, sign, text) => expect(flowText(/** @type {any} */ ({ gradient, sign }), source)).toBe(text));
});

describe("the text in a box", () => {
  const numbers = /** @type {any} */ ({ mean: 0.5, gradient: 0.25, sign: -1, few: [], fewGradients: [] });
  const node = /** @type {any} */ ({ kind: "op", shape: [64], dtype: "float32" });
  const scalar = { ...node, shape: [] };
  const pair = { ...node, shape: [2] };
  it.each(/** @type {[string, any, any, string | undefined, boolean, string][]} */ ([
    ["many", {}, node, undefined, false, "mean  +0.5000"],
    ["unknown", { mean: NaN }, node, undefined, false, "value —"],
    ["bad", { mean: NaN }, node, undefined, true, "mean  nan"],
    ["told of as text", {}, node, "[1, 2]", false, "value [1, 2]"],
    ["a constant", {}, { ...scalar, kind: "constant" }, undefined, false, "0.5"],
    ["a constant told of", {}, { ...scalar, kind: "constant" }, "2", false, "2"],
    ["a pair", { few: [1, -2] }, pair, undefined, false, "value [1, -2]"],
    ["an unknown pair", { few: [NaN, NaN] }, pair, undefined, false, "value —"],
    ["a bad pair", { few: [NaN, NaN] }, pair, undefined, true, "value [nan, nan]"],
    ["half a pair", { few: [NaN, 1] }, pair, undefined, false, "value [nan, 1]"],
  ]))("of a value: %s", (_, more, told, tiny, bad, text) => expect(valueText({ ...numbers, ...more }, told, tiny, bad)).toBe(text));
  it.each(/** @type {[string, any, any, string | undefined, boolean, string][]} */ ([
    ["many", {}, node, undefined, false, "grad  0.2500"],
    ["unknown", { gradient: NaN }, node, undefined, false, "grad  —"],
    ["bad", { gradient: NaN }, node, undefined, true, "grad  nan"],
    ["told of as text", {}, node, "0", false, "grad  0"],
    ["a scalar", { few: [0.5] }, scalar, undefined, false, "grad  -0.25"],
    ["a positive scalar", { few: [0.5], sign: 1 }, scalar, undefined, false, "grad  0.25"],
    ["a pair", { few: [1, 2], fewGradients: [3, -4] }, pair, undefined, false, "grad  [3, -4]"],
  ]))("of a gradient: %s", (_, more, told, tiny, bad, text) => expect(gradientText({ ...numbers, ...more }, told, tiny, bad)).toBe(text));
});

describe("a box", () => {
  const middle = { left: 10, right: 20, top: -20, bottom: -10 };
  it.each(/** @type {[Record<string, number>, boolean][]} */ ([
    [{}, true], [{ left: 20, right: 30 }, true], [{ left: 20.1, right: 30 }, false], [{ left: 0, right: 10 }, true],
    [{ left: 0, right: 9.9 }, false], [{ top: -10, bottom: 0 }, true], [{ top: -9.9, bottom: 0 }, false],
    [{ top: -30, bottom: -20 }, true], [{ top: -30, bottom: -20.1 }, false], [{ left: 0, right: 99, top: -99, bottom: 0 }, true],
  ]))("with %o overlaps: %s", (more, is) => {
    expect(overlaps(middle, { ...middle, ...more })).toBe(is);
    expect(overlaps({ ...middle, ...more }, middle)).toBe(is);
  });
});
