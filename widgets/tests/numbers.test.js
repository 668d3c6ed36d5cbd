import { describe, expect, it } from "vitest";
import { formatNumber, formatSize, namedNumbers, readFloats } from "../numbers.js";
import { lineWidth, strength } from "../colours.js";
import { dataView, golden, samplePicture } from "./samples.js";

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
    const bytes = new Uint8Array(9);
    bytes.set(new Uint8Array(Float32Array.from([1.5, -2]).buffer), 1);
    expect([...readFloats(new DataView(bytes.buffer, 1, 8))]).toEqual([1.5, -2]);
  });
  it("may be missing or cut off", () => {
    expect(readFloats(null).length).toBe(0);
    expect(readFloats(new DataView(new ArrayBuffer(3))).length).toBe(0);
  });
  it("gives every node and edge its numbers", () => {
    const named = namedNumbers(samplePicture(), readFloats(dataView([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])));
    expect(named?.nodes.get("n1")).toEqual({ mean: 5, min: 6, max: 7, gradient: 8 });
    expect(named?.edges.get("e0")).toEqual({ gradient: 9, mean: 10 });
  });
  it("of another picture is refused", () => {
    expect(namedNumbers(samplePicture(), readFloats(dataView([1, 2, 3])))).toBeNull();
  });
});

describe("strength", () => {
  it.each([[0, 0], [NaN, 0], [1e-9, 0], [1e-5, 0], [-1, 1], [1e6, 1], [Infinity, 1]])("of %f is %f", (x, expected) => {
    expect(strength(x)).toBe(expected);
  });
  it("is even on a log scale", () => expect(strength(10 ** -2.5)).toBeCloseTo(0.5));
  it("makes lines 1 to 4 wide", () => expect([lineWidth(0), lineWidth(1)]).toEqual([1, 4]));
});
