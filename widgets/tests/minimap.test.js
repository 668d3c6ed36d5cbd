// The overview: it is there when the window shows a part of the graph, and moves the window.
import { describe, expect, it, vi } from "vitest";
import { Minimap } from "../minimap.js";
import { Graph } from "../picture.js";
import { samplePicture } from "./samples.js";

const PART = { left: 10, right: 60, top: -50, bottom: -20 };

/** The sample's graph is 200 × 80 large; its nodes are told of from (4, 76). @param {(graph: Graph) => void} [change] */
function open(change = () => {}) {
  const [centre, settle, fit] = [vi.fn(), vi.fn(), vi.fn()];
  const minimap = new Minimap(centre, settle, fit);
  const graph = new Graph(samplePicture());
  change(graph);
  document.body.replaceChildren(minimap.element);
  minimap.show(graph);
  const { x, y } = graph.origin;
  const whole = { left: -x, top: -y, right: graph.width - x, bottom: graph.height - y };
  const framed = () => ["x", "y", "width", "height"].map((name) => Number(minimap.frame.getAttribute(name)));
  return { minimap, graph, whole, framed, centre, settle, fit };
}

describe("the overview", () => {
  it.each(["left", "top", "right", "bottom"])("is there when something is out of sight beyond the %s edge", (side) => {
    const { minimap, whole } = open();
    minimap.mark(whole);
    expect(minimap.element.hidden).toBe(true);
    const inwards = side === "left" || side === "top" ? 1 : -1;
    minimap.mark({ ...whole, [side]: whole[/** @type {keyof typeof whole} */ (side)] + inwards });
    expect(minimap.element.hidden).toBe(false);
  });
  it("is not there before anything is known, or when another graph comes", () => {
    const { minimap, graph } = open();
    expect(minimap.element.hidden).toBe(true);
    minimap.mark(PART);
    minimap.mark(null);
    expect(minimap.element.hidden).toBe(true);
    minimap.mark(PART);
    const painted = minimap.svg;
    minimap.mark({ ...PART, left: 20 });
    expect(minimap.svg).toBe(painted);
    minimap.show(graph);
    expect([minimap.element.hidden, minimap.svg]).toEqual([true, null]);
    const empty = new Minimap(() => {}, () => {}, () => {});
    empty.mark(PART);
    expect(empty.element.hidden).toBe(true);
  });
  it("frames what the window shows of the graph", () => {
    const { minimap, framed } = open();
    minimap.mark(PART);
    expect(framed()).toEqual([10, -50, 50, 30]);
    minimap.mark({ left: -100, right: 60, top: -100, bottom: -20 });
    expect(framed()).toEqual([-4, -76, 64, 56]);
    minimap.mark({ left: 10, right: 600, top: -50, bottom: 200 });
    expect(framed()).toEqual([10, -50, 186, 54]);
    minimap.mark({ left: 300, right: 600, top: 50, bottom: 200 });
    expect(framed()).toEqual([300, 50, 0, 0]);
  });
  it("has all boxes, none too small to be seen", () => {
    const { minimap } = open((graph) => Object.assign(/** @type {any} */ (graph.nodes.get("n1")).box, { right: 111, bottom: -59 }));
    minimap.mark(PART);
    const { svg } = minimap;
    expect([svg?.style.width, svg?.style.height, svg?.getAttribute("viewBox")]).toEqual(["190px", "76px", "0 0 200 80"]);
    expect(svg?.querySelector("g")?.getAttribute("transform")).toBe("translate(4 76)");
    const least = 3 / 0.95;
    expect(svg?.querySelector(".boxes")?.getAttribute("d")).toBe(`M0,-60H80V-10H0ZM110,-60H${110 + least}V${-60 + least}H110Z`);
  });
  it.each([[1900, 80, 190, 12], [20, 880, 12, 110], [110, 220, 55, 110]])("of a graph of %d × %d is %d × %d", (width, height, wide, high) => {
    const { minimap } = open((graph) => Object.assign(graph, { width, height }));
    minimap.mark(PART);
    expect([minimap.svg?.style.width, minimap.svg?.style.height]).toEqual([`${wide}px`, `${high}px`]);
  });
});

describe("a pointer on the overview", () => {
  const rect = { left: 10, top: 20, width: 100, height: 40 };
  const pointer = (/** @type {EventTarget} */ where, /** @type {string} */ type, clientX = 0, clientY = 0, button = 0) => {
    const event = new MouseEvent(type, { clientX, clientY, button, cancelable: true });
    where.dispatchEvent(event);
    return event.defaultPrevented;
  };

  it.each(["pointerup", "pointercancel"])("moves the window, until %s", (end) => {
    const { minimap, centre, settle } = open();
    minimap.mark(PART);
    /** @type {any} */ (minimap.svg).getBoundingClientRect = () => rect;
    expect(pointer(minimap.element, "pointerdown", 30, 30)).toBe(true);
    expect(document.activeElement).toBe(minimap.element);
    pointer(window, "pointermove", 60, 50);
    expect(settle).not.toHaveBeenCalled();
    pointer(window, end);
    pointer(window, "pointermove", 90, 50);
    expect(centre.mock.calls).toEqual([[40, 20], [100, 60]]);
    expect(settle).toHaveBeenCalledTimes(1);
  });
  it("does nothing by another button, or where the overview has no place", () => {
    const { minimap, centre } = open();
    minimap.mark(PART);
    expect(pointer(minimap.element, "pointerdown", 30, 30, 2)).toBe(false);
    for (const flat of [{ width: 0 }, { height: 0 }]) {
      /** @type {any} */ (minimap.svg).getBoundingClientRect = () => ({ ...rect, ...flat });
      pointer(minimap.element, "pointerdown", 30, 30);
      pointer(window, "pointerup");
    }
    expect(centre).not.toHaveBeenCalled();
  });
});

describe("a key on the overview", () => {
  /** @param {Minimap} minimap @param {string} key */
  function press(minimap, key) {
    const event = new KeyboardEvent("keydown", { key, cancelable: true });
    minimap.element.dispatchEvent(event);
    return event.defaultPrevented;
  }

  it.each(/** @type {[string, number, number][]} */ ([
    ["ArrowLeft", 14, 41], ["ArrowRight", 64, 41], ["ArrowUp", 39, 26], ["ArrowDown", 39, 56],
  ]))("%s moves the window by half of it", (key, x, y) => {
    const { minimap, centre, settle, fit } = open();
    minimap.mark(PART);
    expect(press(minimap, key)).toBe(true);
    expect(centre.mock.calls).toEqual([[x, y]]);
    expect([settle.mock.calls.length, fit.mock.calls.length]).toEqual([1, 0]);
  });
  it("Enter shows all of it; other keys are left alone, and all before there is a window", () => {
    const { minimap, centre, fit } = open();
    expect([press(minimap, "Enter"), press(minimap, "ArrowLeft")]).toEqual([false, false]);
    minimap.mark(PART);
    expect([press(minimap, "Home"), press(minimap, "Enter")]).toEqual([false, true]);
    expect([fit.mock.calls.length, centre.mock.calls.length]).toEqual([1, 0]);
  });
});
