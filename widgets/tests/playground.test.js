// A toy fit: where its points, its line and its hills are drawn, and what a hand on them asks for.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ToyPanel } from "../playground.js";

beforeEach(() => {
  vi.useFakeTimers();
  vi.advanceTimersByTime(1); // at 0, nothing was ever asked
});
afterEach(() => vi.useRealTimers());

const DATA = {
  kind: "line", points: [[0, 0], [3, 3], [-3, -1.5]], names: ["w", "b"], at: [2, 0.5], next: [2, 1], path: [[2, 0.5]],
  box: [-3, 3, -3, 3], bands: [[[0, 0, 3, 0, 3, 3]], [], [[-3, -3, 0, 0], [0, 0, 1, 1]]], loss: 0.123456, steps: 4, undo: 0, redo: 0, error: "",
};

/** @param {Record<string, any>} [more] */
function open(more = {}) {
  /** @type {any[]} */
  const sent = [];
  const panel = new ToyPanel({ send: (command) => sent.push(command), graph: () => null, focus: () => {} });
  document.body.replaceChildren(panel.element);
  for (const svg of [panel.plane, panel.hills]) svg.getBoundingClientRect = () => /** @type {any} */ ({ left: 10, top: 20, width: 600, height: 300 });
  const data = { ...DATA, ...more };
  const show = (/** @type {Record<string, any>} */ news = {}) => panel.show(/** @type {any} */ ({ ...Object.assign(data, news) }));
  show();
  const transforms = () => panel.points.map((point) => point.getAttribute("transform"));
  /** @param {string} name */
  const button = (name) => /** @type {HTMLButtonElement} */ (panel.element.querySelector(`button.toy-${name}`));
  return { panel, sent, show, transforms, button };
}

/** @param {Element} element @param {string} type @param {number} [clientX] @param {number} [clientY] */
function pointer(element, type, clientX = 0, clientY = 0) {
  const event = new MouseEvent(type, { clientX, clientY, bubbles: true, cancelable: true });
  element.dispatchEvent(event);
  return event;
}

/** @param {string} key @param {Record<string, any>} [more] */
const press = (key, more = {}) => new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more });

it("says where it is, as text", () => {
  const { panel, show } = open();
  const captions = () => [...panel.element.querySelectorAll("figcaption")].map((each) => each.textContent);
  expect(panel.status.textContent).toBe("step 4 · loss 0.1235 · w 2 · b 0.5");
  expect(captions()).toEqual(["y = w·x + b", "loss by w (across) and b (up): blue is low"]);
  show({ kind: "moons", names: ["<b>w1</b>", "w2"], loss: "nan", error: "<img src=x>" });
  expect(panel.status.textContent).toBe("step 4 · loss nan · <b>w1</b> 2 · w2 0.5");
  expect(captions()).toEqual(["<b>w1</b>·x + w2·y = 0", "loss by <b>w1</b> (across) and w2 (up): blue is low"]);
  expect(panel.error.textContent).toBe("<img src=x>");
  expect(panel.element.querySelector("b, img")).toBeNull();
});

describe("the points", () => {
  it("are where they belong, with names", () => {
    const { panel, transforms } = open();
    expect(transforms()).toEqual(["translate(150 150)", "translate(300 0)", "translate(0 225)"]);
    expect(panel.points.map((point) => point.getAttribute("aria-label"))).toEqual(["point 0: x 0, y 0", "point 1: x 3, y 3", "point 2: x -3, y -1.5"]);
    expect(panel.points.map((point) => point.getAttribute("tabindex"))).toEqual(["0", "0", "0"]);
  });
  it("of two classes have two forms, not only two colours", () => {
    const { panel } = open({ kind: "moons", points: [[0, 0, 0], [1, 1, 1]] });
    const [circle, square] = panel.points.map((point) => point.getAttribute("d"));
    expect(circle).toContain("a6,6");
    expect(square).toContain("h11v11");
    expect(panel.points.map((point) => point.dataset.side)).toEqual(["0", "1"]);
    expect(panel.points.map((point) => point.getAttribute("aria-label"))).toEqual(["point 0: x 0, y 0, class 0", "point 1: x 1, y 1, class 1"]);
  });
  it("come and go, and those that stay are the same elements", () => {
    const { panel, show, transforms } = open();
    const [first] = panel.points;
    show({ points: [[1.5, 0]] });
    expect(transforms()).toEqual(["translate(225 150)"]);
    show({ points: [[0, 0], [1, 1]] });
    expect(panel.points[0]).toBe(first);
    expect([panel.points.length, panel.plane.querySelectorAll(".point").length]).toEqual([2, 2]);
  });
});

describe("the fit", () => {
  it.each(/** @type {[string, (number | string)[], string][]} */ ([
    ["line", [1, 0], "M-150.0,450.0L450.0,-150.0"],
    ["line", [2, 0.5], "M-150.0,725.0L450.0,-475.0"],
    ["line", ["nan", 1.5], "M-150.0,75.0L450.0,75.0"],
    ["moons", [3, 4], "M-90.0,-30.0L390.0,330.0"], // where 3x + 4y = 0
    ["moons", [1, 0], "M150.0,-150.0L150.0,450.0"],
    ["moons", [0, 0], ""],
  ]))("of %s at %o", (kind, at, d) => expect(open({ kind, at }).panel.line.getAttribute("d")).toBe(d));
});

describe("the hills", () => {
  it("have a band for each height, the lowest first", () => {
    const { panel, show } = open();
    const bands = () => [...panel.bands.children].map((band) => /** @type {SVGElement} */ (band));
    expect(bands().map((band) => band.style.getPropertyValue("--level"))).toEqual(["0%", "50%", "100%"]);
    expect(bands().map((band) => band.getAttribute("d"))).toEqual([
      "M150.0,150.0L300.0,150.0L300.0,0.0Z", "", "M0.0,300.0L150.0,150.0ZM150.0,150.0L200.0,100.0Z",
    ]);
    show({ bands: [[[0, 0]]] });
    expect(bands().map((band) => [band.getAttribute("d"), band.style.getPropertyValue("--level")])).toEqual([["M150.0,150.0Z", "0%"]]);
    show({ bands: [[], []] });
    expect(bands().length).toBe(2);
  });
  it("show the way, where it is now, and where the next step leads", () => {
    const { panel, show } = open();
    expect(panel.path.getAttribute("d")).toBe("");
    expect(panel.here.getAttribute("transform")).toBe("translate(250 125)");
    expect(panel.here.getAttribute("aria-label")).toBe("the parameters: w 2, b 0.5");
    show({ path: [[0, 0], [3, 0], ["inf", -3]], box: [-3, 9, -3, 0] });
    expect(panel.path.getAttribute("d")).toBe("M75.0,0.0L150.0,0.0L75.0,300.0");
  });
  it.each(/** @type {[[number, number], string][]} */ ([
    [[100, 300], "M0.0,0.0L100.0,0.0M91.0,-4.5L100.0,0.0L91.0,4.5"],
    [[30, 260], "M0.0,0.0L30.0,40.0M28.2,30.1L30.0,40.0L21.0,35.5"],
    [[0, 296], "M0.0,0.0L0.0,4.0M2.0,0.0L0.0,4.0L-2.0,0.0"], // no longer than the way
    [[1, 300], "M0.0,0.0L1.0,0.0M0.0,-0.5L1.0,0.0L0.0,0.5"],
    [[0.5, 300], ""],
  ]))("have an arrow to %o", (next, d) => {
    const { panel } = open({ at: [0, 300], next, box: [0, 300, 0, 300] });
    expect(panel.arrow.getAttribute("d")).toBe(d);
  });
});

describe("a hand", () => {
  it("drags a point, from press to release", () => {
    const { panel, sent, show } = open();
    const [, point] = panel.points;
    pointer(point, "pointermove", 160, 95);
    expect(sent).toEqual([]);
    expect(pointer(point, "pointerdown").defaultPrevented).toBe(true);
    expect(document.activeElement).toBe(point);
    pointer(point, "pointermove", 160, 95);
    expect(sent).toEqual([{ type: "toy", act: "drag", index: 1, place: [-1.5, 1.5], drag: 1 }]);
    pointer(point, "pointerup");
    show();
    pointer(point, "pointermove", 0, 0);
    expect(sent.length).toBe(1);
    pointer(point, "pointerdown");
    pointer(point, "pointermove", 310, 170);
    pointer(point, "pointercancel");
    pointer(point, "pointermove", 0, 0);
    expect(sent.slice(1)).toEqual([{ type: "toy", act: "drag", index: 1, place: [0, 0], drag: 2 }]);
  });
  it("drags the parameters over the hills", () => {
    const { panel, sent } = open({ box: [-3, 9, -6, 0] });
    pointer(panel.here, "pointerdown");
    pointer(panel.here, "pointermove", 160, 95);
    expect(sent).toEqual([{ type: "toy", act: "move", place: [0, -1.5], drag: 1 }]);
  });
  it("finds the parameters from -1 to 1 before anything was told", () => {
    const panel = new ToyPanel({ send: () => {}, graph: () => null, focus: () => {} });
    panel.hills.getBoundingClientRect = () => /** @type {any} */ ({ left: 10, top: 20, width: 600, height: 300 });
    const at = (/** @type {number} */ clientX, /** @type {number} */ clientY) => panel.placeOf(panel.hills, /** @type {any} */ ({ clientX, clientY }));
    expect([at(10, 20), at(610, 320), panel.at]).toEqual([[-1, 1], [1, -1], [0, 0]]);
    expect([panel.inHills([-1, 1]), panel.inHills([1, -1])]).toEqual([[0, 0], [300, 300]]);
  });
  it.each(/** @type {[string, boolean, number[]][]} */ ([
    ["ArrowLeft", false, [1.9, 0.5]], ["ArrowRight", false, [2.1, 0.5]], ["ArrowUp", false, [2, 0.6]],
    ["ArrowDown", false, [2, 0.4]], ["ArrowUp", true, [2, 1]], ["ArrowLeft", true, [1.5, 0.5]],
  ]))("moves by %s (with Shift: %s)", (key, shiftKey, place) => {
    const { panel, sent } = open({ points: [[2, 0.5, 1]] });
    for (const element of [panel.points[0], panel.here]) {
      const event = press(key, { shiftKey });
      const outer = vi.fn();
      document.body.addEventListener("keydown", outer, { once: true });
      element.dispatchEvent(event);
      expect(event.defaultPrevented).toBe(true);
      expect(outer).not.toHaveBeenCalled(); // the view has arrow keys of its own
      document.body.removeEventListener("keydown", outer);
      panel.asked = 0;
    }
    expect(sent.map((each) => each.act)).toEqual(["drag", "move"]);
    for (const each of sent) {
      expect(each.drag).toBe(0);
      each.place.forEach((/** @type {number} */ value, /** @type {number} */ axis) => expect(value).toBeCloseTo(place[axis]));
    }
  });
  it("leaves other keys alone", () => {
    const { panel, sent } = open();
    const event = press("Home");
    panel.here.dispatchEvent(event);
    expect([event.defaultPrevented, sent]).toEqual([false, []]);
  });
  it("is followed by the newest place; those before it are left out", () => {
    const { panel, sent, show } = open();
    pointer(panel.here, "pointerdown");
    for (const x of [10, 110, 310]) pointer(panel.here, "pointermove", x, 170);
    expect(sent.map(({ place }) => place)).toEqual([[-3, 0]]);
    show();
    expect(sent.map(({ place }) => place)).toEqual([[-3, 0], [0, 0]]);
    show();
    expect(sent.length).toBe(2);
    pointer(panel.here, "pointermove", 610, 170);
    vi.advanceTimersByTime(499);
    pointer(panel.here, "pointermove", 310, 20);
    expect(sent.length).toBe(3);
    vi.advanceTimersByTime(1);
    pointer(panel.here, "pointermove", 310, 320); // no answer came
    expect(sent[3].place).toEqual([0, -3]);
  });
});

describe("the buttons", () => {
  it("ask for a step, and to begin anew", () => {
    const { sent, button } = open();
    button("step").click();
    button("reset").click();
    expect(sent).toEqual([{ type: "toy", act: "step" }, { type: "toy", act: "reset" }]);
  });
  it("run until they are told to stop, a step after each answer", () => {
    const { panel, sent, show, button } = open();
    const label = () => [button("run").textContent, button("run").getAttribute("aria-label")];
    const idle = label();
    button("run").click();
    expect(label()).toEqual(["Stop", "Stop"]);
    vi.advanceTimersByTime(119);
    expect(sent).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(sent).toEqual([{ type: "toy", act: "step", drag: 1 }]);
    vi.advanceTimersByTime(240);
    show(); // what was not asked for in between is not asked for now
    expect(sent.length).toBe(1);
    vi.advanceTimersByTime(120);
    expect(sent.length).toBe(2);
    button("run").click();
    expect(label()).toEqual(idle);
    for (const stop of [() => button("reset").click(), () => panel.dispose()]) {
      button("run").click();
      stop();
      expect([label(), vi.getTimerCount()]).toEqual([idle, 0]);
    }
  });
  it("take back and do again, and there are keys for it", () => {
    const { panel, sent, show } = open();
    expect([panel.undo.disabled, panel.redo.disabled]).toEqual([true, true]);
    show({ undo: 1, redo: 2 });
    expect([panel.undo.disabled, panel.redo.disabled]).toEqual([false, false]);
    panel.undo.click();
    panel.redo.click();
    const [back, other] = [press("z", { ctrlKey: true }), press("z")];
    panel.key(back);
    panel.key(other);
    expect(sent.map(({ act }) => act)).toEqual(["undo", "redo", "undo"]);
    expect([back.defaultPrevented, other.defaultPrevented]).toEqual([true, false]);
  });
});
