import { describe, expect, it } from "vitest";
import { Controls, positionOf, speedAt } from "../controls.js";
import { GaugesPanel, placeOn } from "../gauges.js";

const around = { send: () => {}, graph: () => null, focus: () => {} };
/** @param {object} more @returns {any} */
const data = (more = {}) => ({
  layers: [["0.weight", 1e-7, 1e-6, 1e-3, 2e-3], ["2.<b>x</b>", null, 0.5, null, 0.01]],
  activations: [["1 relu", "dead", 0.75], ["3 tanh", "saturated", 0.1]],
  rates: [["SGD", 0.1]],
  words: ["Gradients <i>vanish</i>."],
  ...more,
});

describe("the gauges", () => {
  it("stand on a log scale", () => {
    expect([0, 1e-8, 1e-3, 1e2, 1e9, null].map((x) => placeOn(x, [-8, 2]))).toEqual([0, 0, 50, 100, 100, 100]);
  });
  it("have a row per parameter, with numbers as text", () => {
    const panel = new GaugesPanel(around);
    panel.show(data());
    const rows = [...panel.element.querySelectorAll("tbody tr")];
    expect(rows.map((row) => row.querySelector("th")?.textContent)).toEqual(["0.weight", "2.<b>x</b>"]);
    expect(rows.map((row) => row.querySelector(".number")?.textContent)).toEqual(["1.0e-7 ↓", "NaN !"]);
    expect(panel.element.querySelectorAll("b, summary i").length).toBe(0);
    expect(panel.element.querySelector(".said")?.textContent).toBe("Gradients <i>vanish</i>.");
    expect([...panel.element.querySelectorAll(".off li")].map((each) => each.textContent)).toEqual(["1 relu75% dead", "3 tanh10% saturated"]);
    panel.show(data({ activations: [["1 relu", "dead", 0], ["3 tanh", "saturated", 0.001], ["5 relu", "dead", null]] }));
    expect([...panel.element.querySelectorAll(".off li")].map((each) => each.textContent)).toEqual(["5 relu100% dead"]);
    expect(panel.element.querySelector(".fine")?.textContent).toBe("2 more activations with nothing dead or saturated");
    expect(panel.element.querySelector(".off li")?.classList.contains("much")).toBe(true);
  });
  it("draw each number beside it: the gradient's size and its usual one, the update's between healthy ones", () => {
    const panel = new GaugesPanel(around);
    panel.show(data({ layers: [["w", 1e-3, 1e-5, 1e-3, 1e-4], ["b", 1e4, 1, 1, 1], ["c", 1e-6, 1, 1, 1], ["d", 1e3, 1, 1, 1]] }));
    const rows = [...panel.element.querySelectorAll("tbody tr")];
    expect([...rows[0].children].map((cell) => cell.className)).toEqual(["", "scale", "number", "scale", "number"]);
    const [, gradient, norm, update, ratio] = rows[0].children;
    const style = (/** @type {Element} */ cell, /** @type {string} */ part) => /** @type {HTMLElement} */ (cell.querySelector(part)).style;
    expect([style(gradient, ".fill").width, style(gradient, ".middle").left]).toEqual(["50%", "30%"]);
    expect(style(update, ".dot").left).toBe("33.3%");
    expect([parseFloat(style(update, ".band").left), parseFloat(style(update, ".band").width)]).toEqual([expect.closeTo(100 * 2.3 / 6), expect.closeTo(100 * 1.4 / 6)]);
    expect([norm.textContent, ratio.textContent]).toEqual(["0.0010", "0.0010"]);
    expect([gradient, update].map((cell) => cell.firstElementChild?.getAttribute("aria-hidden"))).toEqual(["true", "true"]);
    expect(rows.map((row) => row.getAttribute("data-far"))).toEqual(["none", "large", "none", "none"]);
    expect([rows[0].querySelector("th")?.getAttribute("scope"), rows[0].querySelector("th")?.title]).toEqual(["row", "w"]);
  });
  it("say how much is dead, from half of it on with more than a number", () => {
    const panel = new GaugesPanel(around);
    panel.show(data({ activations: [["a", "dead", 0.5], ["b", "dead", 0.51]] }));
    const items = [...panel.element.querySelectorAll(".off li")];
    expect(items.map((item) => item.classList.contains("much"))).toEqual([false, true]);
    expect(items.map((item) => /** @type {HTMLElement} */ (item.querySelector(".share i")).style.width)).toEqual(["50%", "51%"]);
    expect(items[0].querySelector(".share")?.getAttribute("aria-hidden")).toBe("true");
  });
  it("have no ratio where the weights were 0", () => {
    const panel = new GaugesPanel(around);
    panel.show(data({ layers: [["bias", 1, 1, null, null], ["lost", null, 1, null, null]] }));
    const ratios = [...panel.element.querySelectorAll("tbody tr")].map((row) => row.querySelector("td:last-child")?.textContent);
    expect(ratios).toEqual(["–", "NaN"]);
  });
  it("follow layers that come and go, and keep the others", () => {
    const panel = new GaugesPanel(around);
    panel.show(data());
    const second = panel.element.querySelectorAll("tbody tr")[1];
    panel.show(data({ layers: [["2.<b>x</b>", 1, 1, 1, 1], ["new", 1, 1, 1, 1]], activations: [] }));
    const rows = [...panel.element.querySelectorAll("tbody tr")];
    expect(rows.length).toBe(2);
    expect(rows[0]).toBe(second);
    expect(panel.element.querySelectorAll(".off li").length).toBe(0);
  });
});

describe("the speed", () => {
  it("runs from a tenth of a step in a second to no limit", () => {
    expect([0, 20, 40, 60, 61].map(speedAt)).toEqual([0.1, 1, 10, 100, null]);
    for (const position of [0, 7, 20, 33, 60, 61]) expect(positionOf(speedAt(position))).toBe(position);
    expect([1e-9, 1e9].map(positionOf)).toEqual([0, 60]);
  });
  it("is asked for by the slider, and told in words", () => {
    /** @type {any[]} */
    const sent = [];
    const controls = new Controls((command) => sent.push(command));
    controls.speed.value = "20";
    controls.speed.dispatchEvent(new Event("input"));
    expect(sent).toEqual([{ type: "speed", value: 1 }]);
    expect(controls.told.textContent).toBe("as fast as it can");
    controls.show({ state: "running", step: 1, speed: 1 });
    expect(controls.speed.getAttribute("aria-valuetext")).toBe("1 steps/s");
  });
  it("say what is to be said of the machine", () => {
    const controls = new Controls(() => {});
    expect(controls.note.hidden).toBe(true);
    controls.show({ state: "running", step: 1, speed: null, note: "cuda is simulated, on the CPU" });
    expect([controls.note.hidden, controls.note.textContent]).toEqual([false, "cuda is simulated, on the CPU"]);
  });
});

describe("keys", () => {
  it("pause, go on and step, but not where they mean something else", () => {
    /** @type {any[]} */
    const sent = [];
    const controls = new Controls((command) => sent.push(command.type));
    const view = document.createElement("div");
    const text = document.createElement("input");
    view.append(controls.element, text);
    document.body.append(view);
    controls.keysIn(view);
    const press = (/** @type {Element} */ at, /** @type {string} */ key, more = {}) =>
      at.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
    press(view, " ");
    press(view, ".");
    press(text, " ");
    press(controls.toggle, " ");
    press(view, " ", { ctrlKey: true });
    expect(sent).toEqual(["pause"]);
    controls.show({ state: "paused", step: 1, speed: null });
    press(view, ".");
    press(view, " ");
    expect(sent).toEqual(["pause", "step", "resume"]);
  });
});
