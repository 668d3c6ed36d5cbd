// The window onto the graph: how large it is drawn, what a hand moves, and that something is always to be seen.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Graph } from "../picture.js";
import { Viewport } from "../viewport.js";
import { samplePicture } from "./samples.js";

const PADDING = 12;

/** @type {any} */
let resized;
const disconnect = vi.fn();
beforeEach(() => {
  vi.stubGlobal("ResizeObserver", class {
    /** @param {() => void} callback */
    constructor(callback) {
      resized = callback;
    }
    observe() {}
    disconnect = disconnect;
  });
});
afterEach(() => vi.unstubAllGlobals());

/** A view of a graph of 200 × 80 points (its boxes lie from 0 to 80 and from 110 to 190), as a browser would lay it out. @param {number} width @param {number} [height] */
function open(width, height = 100) {
  const moved = vi.fn();
  const viewport = new Viewport(moved);
  const { scroller } = viewport;
  document.body.replaceChildren(viewport.element, viewport.tools);
  const size = { width, height };
  Object.defineProperty(scroller, "clientWidth", { get: () => size.width });
  Object.defineProperty(scroller, "clientHeight", { get: () => size.height });
  scroller.getBoundingClientRect = () => /** @type {any} */ ({ left: 10, top: 20, right: 10 + size.width, bottom: 20 + size.height });
  const graph = place(viewport, new Graph(samplePicture()));
  /** @param {string} name */
  const button = (name) => /** @type {HTMLButtonElement} */ (viewport.tools.querySelector(`button.${name}`));
  const centred = () => {
    const { left, right, top, bottom } = /** @type {any} */ (viewport.inWindow());
    return [(left + right) / 2, (top + bottom) / 2].map((value) => Math.round(100 * value) / 100);
  };
  return { viewport, scroller, graph, moved, size, button, centred };
}

/** @param {Viewport} viewport @param {Graph} graph */
function place(viewport, graph) {
  const { scroller } = viewport;
  graph.svg.getBoundingClientRect = () => /** @type {any} */ ({ left: 10 + PADDING - scroller.scrollLeft, top: 20 + PADDING - scroller.scrollTop });
  return graph;
}

/** @param {number} left @param {number} right */
const box = (left, right, top = -60, bottom = -10) => ({ left, right, top, bottom });

describe("the whole graph", () => {
  it.each([[124, 0.5], [224, 1], [424, 1.6], [24, 0.75], [0, 0.75]])("in a view %d wide has the scale %d", (width, scale) => {
    const { viewport, graph, button } = open(width);
    viewport.show(graph);
    expect(viewport.scale).toBe(scale);
    expect([graph.svg.style.width, graph.svg.style.height]).toEqual([`${200 * scale}px`, `${80 * scale}px`]);
    expect(viewport.scroller.firstChild).toBe(graph.svg);
    expect([button("fit").disabled, button("smaller").disabled, button("larger").disabled]).toEqual([true, true, false]);
    expect(viewport.minimap.element.hidden).toBe(true);
  });
  it("is not higher than the window", () => {
    const { viewport, graph } = open(1000);
    graph.height = 1070;
    viewport.show(graph);
    expect(viewport.scale).toBe(0.5);
  });
  it("follows the width of the view", () => {
    const { viewport, graph, size, moved } = open(124);
    viewport.show(graph);
    size.width = 164;
    const calls = moved.mock.calls.length;
    resized();
    expect(viewport.scale).toBe(0.7);
    expect(moved.mock.calls.length).toBeGreaterThan(calls);
    viewport.zoom(1.25);
    size.width = 184;
    resized();
    expect(viewport.scale).toBe(1); // somebody has chosen it
    viewport.dispose();
    expect(disconnect).toHaveBeenCalled();
  });
  it.each([[0.29, true, false], [0.3, false, false], [0.74, false, false], [0.75, false, true]])("at a scale of %d is far: %s, and can be read: %s", (scale, far, readable) => {
    const { viewport, graph } = open(200 * scale + 24);
    viewport.show(graph);
    expect([viewport.far, viewport.readable, viewport.scroller.classList.contains("without-texts")]).toEqual([far, readable, far]);
  });
  it("is nothing where there is no graph yet", () => {
    const { viewport, moved } = open(124);
    viewport.fit();
    viewport.zoom(2);
    viewport.resize(3);
    viewport.reveal(box(0, 1));
    viewport.showSomething();
    expect([viewport.scale, viewport.wholeScale(), viewport.inWindow(), viewport.visible()]).toEqual([1, 1, null, null]);
    expect(moved).not.toHaveBeenCalled();
    expect(viewport.fitted).toBe(true);
  });
});

describe("zoom", () => {
  it("makes it large enough to be read at once, then goes step by step, and back to all of it", () => {
    const { viewport, graph, button } = open(124);
    viewport.show(graph);
    const scales = [];
    for (const name of [..."lllllllllsssssssssss"]) {
      button(name === "l" ? "larger" : "smaller").click();
      scales.push(Math.round(viewport.scale * 100) / 100);
    }
    expect(scales.slice(0, 9)).toEqual([1, 1.25, 1.56, 1.95, 2.44, 3.05, 3.81, 4, 4]);
    expect(scales.slice(9)).toEqual([3.2, 2.56, 2.05, 1.64, 1.31, 1.05, 0.84, 0.67, 0.54, 0.5, 0.5]);
    expect(viewport.fitted).toBe(true);
    button("larger").click();
    expect([viewport.fitted, button("fit").disabled]).toEqual([false, false]);
    button("fit").click();
    expect([viewport.fitted, viewport.scale, button("fit").disabled]).toEqual([true, 0.5, true]);
  });
  it("does not go below what is seen as a whole", () => {
    const { viewport, graph } = open(424);
    viewport.show(graph);
    viewport.zoom(1.25);
    expect([viewport.scale, viewport.fitted]).toEqual([2, false]);
    viewport.zoom(1 / 1.25);
    expect([viewport.scale, viewport.fitted]).toEqual([1.6, true]);
  });
  it("leaves what is under the pointer where it is; else what is in the middle", () => {
    for (const at of [{ x: 30, y: 50 }, undefined]) {
      const { viewport, graph } = open(324, 120);
      viewport.show(graph);
      const { x, y } = at ?? { x: 162, y: 60 };
      const before = viewport.pointAt(x, y);
      viewport.zoom(1.25, at);
      const after = viewport.pointAt(x, y);
      expect(viewport.scale).toBe(1.875);
      expect([after.x, after.y]).toEqual([expect.closeTo(before.x), expect.closeTo(before.y)]);
    }
  });
  it("keeps the chosen box in sight, but not while a pointer says what stays", () => {
    for (const [at, centre] of [[undefined, 150], [{ x: 0, y: 0 }, null]]) {
      const { viewport, graph, centred } = open(124);
      viewport.show(graph);
      graph.nodes.get("n1")?.group.classList.add("chosen");
      viewport.zoom(1.25, /** @type {any} */ (at));
      if (centre === null) expect(centred()[0]).toBeLessThan(80);
      else expect(centred()[0]).toBe(centre);
    }
  });
  it("is by wheel where Ctrl is held; else the wheel scrolls the page", () => {
    const { viewport, graph, scroller } = open(124);
    viewport.show(graph);
    const turn = (/** @type {WheelEventInit} */ how) => {
      const event = new WheelEvent("wheel", { cancelable: true, clientX: 40, clientY: 60, ...how });
      scroller.dispatchEvent(event);
      return [event.defaultPrevented, viewport.scale];
    };
    expect(turn({ deltaY: -1 })).toEqual([false, 0.5]);
    const before = viewport.pointAt(30, 40);
    expect(turn({ deltaY: -1, ctrlKey: true })).toEqual([true, 1]);
    expect(viewport.pointAt(30, 40)).toEqual({ x: expect.closeTo(before.x), y: expect.closeTo(before.y) });
    expect(turn({ deltaY: -1, metaKey: true })).toEqual([true, 1.25]);
    expect(turn({ deltaY: 1, ctrlKey: true })).toEqual([true, 1]);
  });
  it("has keys, except where somebody writes", () => {
    const { viewport, graph } = open(124);
    viewport.show(graph);
    const field = document.createElement("input");
    document.body.append(field);
    const press = (/** @type {string} */ key, /** @type {KeyboardEventInit} */ held = {}, /** @type {Element} */ where = graph.svg) => {
      const event = new KeyboardEvent("keydown", { key, cancelable: true, ...held });
      where.addEventListener("keydown", (each) => viewport.key(/** @type {KeyboardEvent} */ (each)), { once: true });
      where.dispatchEvent(event);
      return [event.defaultPrevented, viewport.scale];
    };
    expect(press("+", { ctrlKey: true })).toEqual([false, 0.5]);
    expect(press("+", { metaKey: true })).toEqual([false, 0.5]);
    expect(press("+", { altKey: true })).toEqual([false, 0.5]);
    expect(press("+", {}, field)).toEqual([false, 0.5]);
    expect(press("x")).toEqual([false, 0.5]);
    expect(press("+")).toEqual([true, 1]);
    expect(press("+")).toEqual([true, 1.25]);
    expect(press("-")).toEqual([true, 1]);
    expect(press("0")).toEqual([true, 0.5]);
  });
});

describe("a picture that comes later", () => {
  it("is as large as somebody has chosen", () => {
    const { viewport, graph } = open(124);
    viewport.show(graph);
    viewport.zoom(1.25);
    viewport.show(place(viewport, new Graph(samplePicture())));
    expect([viewport.scale, viewport.fitted]).toEqual([1, false]);
  });
  it("is opened where somebody wants to look, where the whole of it cannot be read", () => {
    const { viewport, graph, centred } = open(124);
    viewport.show(graph, box(110, 190));
    expect([viewport.scale, viewport.fitted, centred()]).toEqual([1, false, [150, -35]]);
    const far = open(64);
    far.viewport.show(far.graph);
    far.viewport.show(far.graph, box(0, 80));
    expect([far.viewport.scale, far.viewport.fitted]).toEqual([0.75, false]);
    const large = open(224);
    large.viewport.show(large.graph, box(110, 190));
    expect([large.viewport.scale, large.viewport.fitted]).toEqual([1, true]);
  });
  it("shows the whole of a box, if one fits", () => {
    const { viewport, graph, scroller, centred } = open(124);
    viewport.show(graph);
    viewport.zoom(1.25);
    scroller.scrollLeft = 100 + PADDING; // the second box is cut off, but there
    scroller.scrollTop = PADDING;
    viewport.show(place(viewport, new Graph(samplePicture())));
    expect(centred()[0]).not.toBe(150);
    scroller.scrollLeft = 130 + PADDING;
    viewport.show(place(viewport, new Graph(samplePicture())));
    expect(centred()).toEqual([150, -35]);
  });
});

describe("the window", () => {
  /** At a scale of 1, with its left upper corner at a place of the graph. @param {number} left @param {number} top @param {number} width @param {number} height */
  function at(left, top, width, height) {
    const opened = open(124);
    const { viewport, graph, size, scroller } = opened;
    viewport.show(graph);
    viewport.zoom(1.25);
    Object.assign(size, { width, height });
    scroller.scrollLeft = left + graph.origin.x + PADDING;
    scroller.scrollTop = top + graph.origin.y + PADDING;
    expect(viewport.inWindow()).toEqual({ left, top, right: left + width, bottom: top + height });
    return opened;
  }

  it.each(/** @type {[string, any, number[]][]} */ ([
    ["what is in it already", box(10, 50, -50, -20), [50, -30]],
    ["what ends at its edges", box(0, 100, -60, 0), [50, -30]],
    ["what is beyond its left edge", box(-10, 20, -50, -20), [5, -35]],
    ["what is beyond its right edge", box(90, 110, -50, -20), [100, -35]],
    ["what is above", box(10, 50, -70, -40), [30, -55]],
    ["what is below", box(10, 50, -10, 10), [30, 0]],
    ["what is larger, from its beginning", box(20, 220, -50, 50), [70, -20]],
  ]))("shows %s", (_, wanted, centre) => {
    const { viewport, centred } = at(0, -60, 100, 60);
    viewport.reveal(wanted);
    expect(centred()).toEqual(centre);
  });
  it.each(/** @type {[string, number, number, number[]][]} */ ([
    ["half of the first box", 40, -60, [90, -30]],
    ["half of the second box", 50, -60, [100, -30]],
    ["the upper half of both", 45, -95, [95, -65]],
    ["the lower half of both", 45, -35, [95, -5]],
  ]))("stays where it holds %s", (_, left, top, centre) => {
    const { viewport, centred } = at(left, top, 100, 60);
    viewport.showSomething();
    expect(centred()).toEqual(centre);
  });
  it.each(/** @type {[string, number, number, number[]][]} */ ([
    ["right", 180, -60, [150, -35]], ["left", -80, -60, [40, -35]], ["below", 45, -20, [40, -35]], ["above", 100, -110, [150, -35]],
  ]))("is never empty: it goes back from %s to the nearest box", (_, left, top, centre) => {
    const { viewport, centred } = at(left, top, 100, 60);
    viewport.showSomething();
    expect(centred()).toEqual(centre);
  });
  it("holds enough of a box that fills a quarter of it", () => {
    const { viewport, centred } = at(75, -55, 20, 12);
    viewport.showSomething();
    expect(centred()).toEqual([85, -49]);
    const next = at(76, -55, 20, 12);
    next.viewport.showSomething();
    expect(next.centred()).not.toEqual([86, -49]);
  });
  it.each([[0, 100], [100, 0]])("holds nothing where it is %d wide and %d high", (width, height) => {
    const { viewport, graph } = open(width, height);
    viewport.show(graph);
    expect(viewport.inWindow()).toBeNull();
  });
  it("says that it has moved", () => {
    const { viewport, graph, moved, scroller } = open(124);
    viewport.show(graph);
    const calls = moved.mock.calls.length;
    scroller.dispatchEvent(new Event("scroll"));
    expect(moved.mock.calls.length).toBe(calls + 1);
  });
  it.each(/** @type {[PointerEventInit, boolean][]} */ ([
    [{ button: 0, pointerType: "mouse" }, true], [{ button: 1, pointerType: "mouse" }, false], [{ button: 0, pointerType: "touch" }, false],
  ]))("is dragged by %o: %s", (how, is) => {
    const { viewport, graph, scroller } = open(124);
    viewport.show(graph);
    const scrolled = /** @type {any[]} */ ([]);
    scroller.scrollBy = /** @type {any} */ ((/** @type {number} */ x, /** @type {number} */ y) => scrolled.push([x, y]));
    const pointer = (/** @type {EventTarget} */ where, /** @type {string} */ type, clientX = 0, clientY = 0) =>
      where.dispatchEvent(Object.assign(new MouseEvent(type, { clientX, clientY, button: how.button }), { pointerType: how.pointerType }));
    for (const end of ["pointerup", "pointercancel"]) {
      pointer(scroller, "pointerdown", 50, 60);
      pointer(window, "pointermove", 40, 65);
      pointer(window, "pointermove", 43, 65);
      pointer(window, end);
      pointer(window, "pointermove", 99, 99);
      expect(scrolled.splice(0)).toEqual(is ? [[10, -5], [-3, 0]] : []);
    }
  });
});

describe("what is on screen", () => {
  /** @param {Record<string, number> | null} matrix */
  function seen(matrix, width = 300) {
    const { viewport, graph } = open(width, 200);
    viewport.show(graph);
    /** @type {any} */ (graph.svg.querySelector("g.graph")).getScreenCTM = () => matrix;
    return viewport;
  }

  it("is the view with a margin, in the coordinates of the graph", () => {
    const viewport = seen({ a: 2, d: 4, e: 30, f: 40 });
    expect(viewport.visible()).toEqual({ left: -110, top: -105, right: 240, bottom: 145 });
  });
  it("ends where the browser's window ends", () => {
    const viewport = seen({ a: 1, d: 1, e: 0, f: 0 });
    const { innerWidth, innerHeight } = window;
    viewport.scroller.getBoundingClientRect = () => /** @type {any} */ ({ left: -50, top: -60, right: 9000, bottom: 9000 });
    expect(viewport.visible()).toEqual({ left: -100, top: -100, right: innerWidth + 100, bottom: innerHeight + 100 });
  });
  it("is unknown where the browser cannot tell", () => {
    for (const matrix of [null, { a: 0, d: 1, e: 0, f: 0 }, { a: 1, d: 0, e: 0, f: 0 }]) expect(seen(matrix).visible()).toBeNull();
    expect(seen({ a: 1, d: 1, e: 0, f: 0 }, 0).visible()).toBeNull();
  });
});
