// The flame of a profile answers to clicks and keys; what is shown is still the SVG that Python wrote.
import { beforeEach, describe, expect, it } from "vitest";
import { fitting, flame, within } from "../flame.js";

/** @param {string} label @param {number} left @param {number} width @param {number} depth */
const frame = (label, left, width, depth) =>
  `<g class="frame" data-left="${left}" data-width="${width}" data-depth="${depth}" data-label="${label}" data-note="1 ms">` +
  `<title>${label}\n1 ms</title><rect x="0" width="1"/>${width > 0.1 ? "<text>?</text>" : ""}</g>`;

const NASTY = "&lt;img src=x onerror=alert(1)&gt; é";
const FRAMES = [
  frame("all", 0, 1, 0), frame("net (Net)", 0, 0.5, 1), frame(NASTY, 0.5, 0.5, 1),
  frame("inner", 0, 0.25, 2), frame("thin", 0.25, 0.05, 2),
];
const SVG = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1016 200"><text class="hint">old</text>${FRAMES.join("")}</svg>`;

/** @type {SVGElement} */
let svg;
/** @type {SVGElement[]} */
let groups;
beforeEach(() => {
  const bytes = String.fromCharCode(...new TextEncoder().encode(SVG));
  document.body.innerHTML = `<div id="box"><img src="data:image/svg+xml;base64,${btoa(bytes)}"></div>`;
  flame(document.getElementById("box"));
  svg = /** @type {any} */ (document.querySelector("svg"));
  groups = [...svg.querySelectorAll("g")];
});

const shown = () => groups.filter((group) => group.style.display !== "none").map((group) => groups.indexOf(group));
const texts = () => groups.map((group) => group.querySelector("text")?.textContent);
const focused = () => groups.indexOf(/** @type {any} */ (document.activeElement));
/** @param {string} key */
function press(key) {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
  (groups[focused()] ?? svg).dispatchEvent(event);
  return event.defaultPrevented;
}
/** @param {number} place */
const click = (place) => groups[place].dispatchEvent(new MouseEvent("click", { bubbles: true }));

it("replaces the picture by itself, and nothing where there is none", () => {
  expect(document.querySelector("img")).toBeNull();
  expect(svg.getAttribute("role")).toBe("tree");
  expect(svg.querySelector(".hint")?.textContent).toContain("zoom in");
  expect(groups.map((group) => group.getAttribute("aria-level"))).toEqual(["1", "2", "2", "3", "3"]);
  expect(groups.map((group) => group.getAttribute("tabindex"))).toEqual(["0", "-1", "-1", "-1", "-1"]);
  expect(groups[1].getAttribute("aria-label")).toBe("net (Net), 1 ms");
  for (const empty of [null, document.createElement("div")]) expect(() => flame(empty)).not.toThrow();
});

it("opens a frame over the whole width, and shows what it is in and what is in it", () => {
  click(1);
  expect(shown()).toEqual([0, 1, 3, 4]);
  expect(groups.map((group) => group.classList.contains("around"))).toEqual([true, false, false, false, false]);
  const rects = [0, 1, 3, 4].map((place) => groups[place].querySelector("rect"));
  expect(rects.map((rect) => rect?.getAttribute("x"))).toEqual(["8.00", "8.00", "8.00", "508.00"]);
  expect(rects.map((rect) => rect?.getAttribute("width"))).toEqual(["999.00", "999.00", "499.00", "99.00"]);
  expect(groups[3].querySelector("text")?.getAttribute("x")).toBe("13.00");
  expect(texts().slice(3)).toEqual(["inner  1 ms", undefined]);
  expect([focused(), groups[1].getAttribute("tabindex"), groups[0].getAttribute("tabindex")]).toEqual([1, "0", "-1"]);
  click(1); // again: out
  expect(shown()).toEqual([0, 1, 2, 3, 4]);
  expect(focused()).toBe(0);
  expect(groups[4].querySelector("rect")?.getAttribute("width")).toBe("49.00");
  click(0); // there is nothing around it
  expect([shown().length, focused()]).toEqual([5, 0]);
});

it("writes names as text", () => {
  click(2);
  expect(texts()[2]).toBe("<img src=x onerror=alert(1)> é  1 ms");
  expect(document.querySelector("img")).toBeNull();
});

it("goes by keys, and leaves others alone", () => {
  expect(press("Enter")).toBe(false); // no frame is chosen
  groups[0].focus();
  expect(press("a")).toBe(false);
  const way = [["ArrowDown", 1], ["ArrowRight", 2], ["ArrowRight", 2], ["ArrowLeft", 1], ["ArrowDown", 3], ["ArrowRight", 4],
    ["ArrowUp", 1], ["ArrowUp", 0], ["ArrowUp", 0], ["ArrowDown", 1]];
  for (const [key, place] of way) {
    expect(press(/** @type {string} */ (key))).toBe(true);
    expect([key, focused()]).toEqual([key, place]);
  }
  press("Enter");
  expect(shown()).toEqual([0, 1, 3, 4]);
  press("ArrowRight"); // what is beside it is not shown
  expect(focused()).toBe(1);
  press("Escape");
  expect([shown().length, focused()]).toEqual([5, 0]);
  groups[2].focus();
  press(" ");
  expect(shown()).toEqual([0, 2]);
});

describe("a label", () => {
  it.each(/** @type {[number, string][]} */ ([
    [200, "0 (ReLU)  2 ms"], [9 + 6.9 * 14, "0 (ReLU)  2 ms"], [9 + 6.9 * 13.9, "0 (ReLU)"], [9 + 6.9 * 8 + 0.01, "0 (ReLU)"],
    [9 + 6.9 * 7.9, "0"], [9 + 6.9 + 0.01, "0"], [9, ""],
  ]))("in a width of %d", (width, text) => expect(fitting("0 (ReLU)", "2 ms", width)).toBe(text));
  it("is cut off where only a part fits", () => {
    expect([30, 29, 40].map((width) => fitting("attention", "", width))).toEqual(["at…", "", "att…"]);
  });
});

it("a frame lies in another one, also where times were rounded", () => {
  const outer = /** @type {any} */ ({ depth: 1, left: 0.2, width: 0.4 });
  for (const [depth, left, width, inside] of /** @type {[number, number, number, boolean][]} */ ([
    [2, 0.2, 0.4, true], [1, 0.3, 0.1, true], [0, 0.3, 0.1, false], [2, 0.199999, 0.1, true], [2, 0.19999, 0.1, false],
    [2, 0.5, 0.100001, true], [2, 0.5, 0.10001, false],
  ])) {
    expect(within(/** @type {any} */ ({ depth, left, width }), outer), `${depth} ${left} ${width}`).toBe(inside);
  }
});
