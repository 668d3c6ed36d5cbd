import { describe, expect, it } from "vitest";
import { formatNumber, formatSize, formatWhole, namedNumbers } from "../numbers.js";
import { gradientText, valueText } from "../picture.js";
import { lineWidth, strength } from "../colours.js";
import { NUMBERS, dataView, golden, samplePicture } from "./samples.js";

describe("formatNumber", () => {
  for (const [value, text] of golden("numbers.json")) {
    it(`writes ${value} as ${text}`, () => {
      const x = typeof value === "number" ? value : { nan: NaN, inf: Infinity, "-inf": -Infinity }[/** @type {string} */ (value)];
      expect(formatNumber(/** @type {number} */ (x))).toBe(text);
    });
  }
  it("never needs more than 7 characters", () => {
    for (let exponent = -45; exponent <= 38; exponent++) {
      for (const digits of [1, 1.5, 9.99, 9.9999999]) {
        expect(formatNumber(-digits * 10 ** exponent).length).toBeLessThanOrEqual(7);
      }
    }
  });
  it("leaves out the sign of a size", () => expect(formatSize(-0.5)).toBe("0.5000"));
});

describe("the buffer", () => {
  it("is read from any address", () => {
    const bytes = new Uint8Array(NUMBERS.byteLength + 1);
    bytes.set(new Uint8Array(NUMBERS.buffer), 1);
    expect(namedNumbers(samplePicture(), new DataView(bytes.buffer, 1))?.nodes.get("n0")?.mean).toBe(0.5);
  });
  it("gives every node and edge its numbers", () => {
    const named = namedNumbers(samplePicture(), NUMBERS);
    expect(named?.nodes.get("n0")).toMatchObject({ mean: 0.5, gradient: 2, sign: -1 });
    expect(named?.edges.get("e0")).toEqual({ gradient: Math.fround(0.1), sign: -1 });
  });
  it("holds the numbers of a small vector one by one", () => {
    const picture = samplePicture();
    picture.nodes[0].shape = [2];
    const named = namedNumbers(picture, dataView([1, 5, -3, NaN, 0, -1, 3, 4, -3], [-1, 0, -1]));
    expect(named?.nodes.get("n0")).toMatchObject({ few: [-1, 3], fewGradients: [4, -3] });
    expect(named?.nodes.get("n1")?.few).toEqual([-3]);
  });
  it("leaves them out where an update would be too long", () => {
    const picture = samplePicture();
    picture.nodes[0].shape = [2];
    const named = namedNumbers(picture, NUMBERS);
    const numbers = /** @type {any} */ (named?.nodes.get("n0"));
    expect(numbers).toMatchObject({ mean: 0.5, gradient: 2, few: [] });
    expect(valueText(numbers, picture.nodes[0], undefined, false)).toBe("mean  +0.5000");
    expect(gradientText(numbers, picture.nodes[0], undefined, false)).toBe("grad  2.0000");
  });
  it("of another picture, or none, is refused", () => {
    expect(namedNumbers(samplePicture(), dataView([1, 2, 3]))).toBeNull();
    expect(namedNumbers(samplePicture(), null)).toBeNull();
  });
});

describe("few numbers", () => {
  for (const [values, text] of golden("whole.json")) {
    it(`are written as in Python: ${text}`, () => expect(formatWhole(values, values.length === 1)).toBe(text));
  }
  it("may be unusual", () => {
    expect(formatWhole([NaN], true)).toBe("nan");
    expect(formatWhole([Infinity, -Infinity], false)).toBe("[inf, -inf]");
  });
});

describe("strength", () => {
  it.each([[0, 0], [NaN, 0], [1e-9, 0], [1e-4, 0], [100, 1], [1e6, 1], [Infinity, 1]])("of %f is %f", (x, expected) => {
    expect(strength(x)).toBe(expected);
  });
  it("is even on a log scale", () => expect(strength(0.1)).toBeCloseTo(0.5));
  it("makes lines 1 to 4 wide", () => expect([lineWidth(0), lineWidth(100)]).toEqual([1, 4]));
});
