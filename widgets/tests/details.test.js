import { describe, expect, it } from "vitest";
import { Details, byteText } from "../details.js";
import { samplePicture } from "./samples.js";

const NUMBERS = { mean: -0.5, gradient: 0.25, sign: -1, few: [], fewGradients: [] };
/** @type {any} */
const THUMBNAIL = { kind: "bars", low: -2, high: 3, std: 0.75, bars: [1, 2] };

/** @param {any} more @param {any} [thumbnail] */
function told(more, thumbnail) {
  const details = new Details();
  details.choose({ ...samplePicture().nodes[0], ...more });
  details.show(NUMBERS, thumbnail);
  const labels = [...details.element.querySelectorAll("label")].map((label) => label.textContent);
  return { labels, text: details.element.textContent };
}

describe("Details", () => {
  it("tells the statistics of many numbers, as far as they are known", () => {
    expect(told({}, THUMBNAIL).labels).toEqual(["mean-0.5000", "std0.7500", "min-2.0000", "max+3.0000", "gradient norm0.2500"]);
    expect(told({}).labels).toEqual(["mean-0.5000", "std—", "min—", "max—", "gradient norm0.2500"]);
  });
  it("tells the value of a scalar, and the mean of what stands in the box", () => {
    expect(told({ shape: [2] }).labels).toEqual(["mean-0.5000", "gradient norm0.2500"]);
    expect(told({ shape: [] }).labels).toEqual(["value-0.5", "gradient norm0.2500"]);
  });
  it("tells the names of sizes, and no numbers, of a program that has not run", () => {
    const { labels, text } = told({ shape: [], dtype: "batch×3 float32", differentiable: false });
    expect(text).toContain("batch×3 float32");
    expect(text).not.toContain("scalar");
    expect(labels).toEqual([]);
  });
  it("tells no mean of class labels", () => {
    expect(told({ dtype: "int64", differentiable: false }).labels).toEqual([]);
  });
  it("tells what has no gradient, what is frozen, and which version it is", () => {
    const { text } = told({ differentiable: false, marks: ["frozen"], version: 2 });
    expect(text).toContain("version 3 · frozen · no gradient");
  });
  it("is closed when nothing is chosen", () => {
    const details = new Details();
    details.choose(null);
    expect(details.element.hidden).toBe(true);
  });
});

it("writes bytes", () => expect([byteText(12), byteText(4096), byteText(5e7)]).toEqual(["12 B", "4.10 kB", "50.0 MB"]));
