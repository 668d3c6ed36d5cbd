// Numbers changed by hand: the fields, undo, and the wave in which a change runs through the graph.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { namedNumbers } from "../numbers.js";
import { Graph } from "../picture.js";
import { TouchPanel, Wave, placeOf, plainNumber, undoKey } from "../tensor_editor.js";
import { NUMBERS, dataView, samplePatch, samplePicture } from "./samples.js";

beforeEach(() => {
  vi.useFakeTimers();
  vi.advanceTimersByTime(1); // at 0, nothing was ever asked
});
afterEach(() => vi.useRealTimers());

const WEIGHT = { name: "w", shape: [2, 3], whole: false, values: [1, 2, 3, 4, 5, 6], gradients: [0.5, 0.25], range: [-10, 10] };
const COUNT = { name: "<b>n</b>", shape: [], whole: true, values: [7], gradients: [], range: [0, 20] };

/** @param {Record<string, any>} [more] @param {Graph | null} [graph] */
function open(more = {}, graph = null) {
  /** @type {any[]} */
  const sent = [];
  const panel = new TouchPanel({ send: (command) => sent.push(command), graph: () => graph, focus: () => {} });
  document.body.replaceChildren(panel.element);
  const data = { fields: [WEIGHT, COUNT], undo: 0, redo: 0, result: "", error: "", note: "", serial: 0, still: false, ...more };
  const show = (/** @type {Record<string, any>} */ news = {}) => panel.show(/** @type {any} */ ({ ...Object.assign(data, news) }));
  show();
  /** @param {string} selector */
  const find = (selector) => /** @type {any} */ (panel.element.querySelector(selector));
  /** @param {string} selector */
  const texts = (selector) => [...panel.element.querySelectorAll(selector)].map((each) => each.textContent);
  return { panel, sent, show, find, texts };
}

/** @param {string} key @param {Record<string, any>} [more] */
const press = (key, more = {}) => new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more });

describe("the fields", () => {
  it("are a row for each number, named by its tensor and its place", () => {
    const { panel, find, texts } = open();
    expect(texts("legend")).toEqual(["w 2×3", "<b>n</b> "]);
    expect(texts(".row span")).toEqual(["[0, 0]", "[0, 1]", "[0, 2]", "[1, 0]", "[1, 1]", "[1, 2]"]);
    expect(texts(".row output")).toEqual(["grad 0.5", "grad 0.25", "", "", "", "", ""]);
    const labels = [...panel.element.querySelectorAll(".row input, .row output")].map((each) => each.getAttribute("aria-label"));
    expect(labels.slice(3, 6)).toEqual(["w[0, 1], slider", "w[0, 1]", "gradient of w[0, 1]"]);
    expect(labels.slice(-3)).toEqual(["<b>n</b>, slider", "<b>n</b>", "gradient of <b>n</b>"]);
    expect([...panel.element.querySelectorAll("[type=text]")].map((each) => /** @type {any} */ (each).value)).toEqual([..."1234567"]);
    expect(find("b")).toBeNull();
    const { min, max, step, value } = find("[type=range]");
    expect([min, max, step, value]).toEqual(["-10", "10", "0.1", "1"]);
    expect(panel.rows[6].slider.step).toBe("1");
    expect(find("[type=text]").inputMode).toBe("decimal");
  });
  it("stay the same elements until there are others", () => {
    const { panel, show } = open();
    const { text } = panel.rows[0];
    show({ fields: [{ ...WEIGHT, values: [9, 2, 3, 4, 5, 6] }, COUNT] });
    expect(panel.rows[0].text).toBe(text);
    expect(text.value).toBe("9");
    show({ fields: [{ ...WEIGHT, values: [] }] });
    expect(panel.rows).toEqual([]);
    expect(panel.list.textContent).toBe("w 2×3too many numbers for sliders");
    show({ fields: [] });
    expect([panel.element.hidden, panel.list.children.length]).toEqual([true, 0]);
    show({ fields: [COUNT] });
    expect([panel.element.hidden, panel.rows.length]).toEqual([false, 1]);
  });
  it("ask for what is written in them, once", () => {
    const { panel, sent } = open();
    const { text } = panel.rows[1];
    text.dispatchEvent(new Event("change"));
    expect(sent).toEqual([]);
    text.value = "2.5";
    text.dispatchEvent(press("5"));
    expect(sent).toEqual([]);
    text.dispatchEvent(press("Enter"));
    text.dispatchEvent(new Event("change"));
    expect(sent).toEqual([{ type: "touch", act: "set", name: "w", index: 1, to: "2.5", drag: 0 }]);
  });
  it("are not overwritten while somebody writes", () => {
    const { panel, show } = open();
    const { text } = panel.rows[0];
    text.focus();
    text.value = "-";
    show();
    expect(text.value).toBe("-");
    expect(text.dataset.held).toBe("1");
    text.dispatchEvent(press("Escape"));
    expect(text.value).toBe("1");
    show({ fields: [{ ...WEIGHT, values: [8, 2, 3, 4, 5, 6] }, COUNT] });
    expect(text.value).toBe("8");
    text.value = "3";
    text.blur();
    show();
    expect(text.value).toBe("8");
  });
  it.each(/** @type {[string, boolean, number][]} */ ([
    ["ArrowUp", false, 2.1], ["ArrowDown", false, 1.9], ["ArrowUp", true, 3], ["ArrowDown", true, 1],
  ]))("change by a step on %s (with Shift: %s)", (key, shiftKey, to) => {
    const { panel, sent } = open();
    const { text } = panel.rows[1];
    const event = press(key, { shiftKey });
    text.dispatchEvent(event);
    expect(event.defaultPrevented).toBe(true);
    expect(sent).toEqual([{ type: "touch", act: "set", name: "w", index: 1, to, drag: 0 }]);
    expect([text.value, text.dataset.held]).toEqual([String(to), String(to)]);
  });
  it("leave other keys to the browser, and what is no number as it is", () => {
    const { panel, sent } = open();
    const { text } = panel.rows[1];
    const [other, arrow] = [press("ArrowLeft"), press("ArrowUp")];
    text.dispatchEvent(other);
    text.value = "nan";
    text.dispatchEvent(arrow);
    expect([other.defaultPrevented, arrow.defaultPrevented, sent.length, text.value]).toEqual([false, true, 0, "nan"]);
  });
  it("write numbers plainly, and their places", () => {
    expect([0.1 + 0.2, 1234567, -1e-9, "inf"].map(plainNumber)).toEqual(["0.3", "1234570", "-1e-9", "inf"]);
    expect([placeOf(0, []), placeOf(5, [6]), placeOf(5, [2, 3]), placeOf(7, [2, 2, 2])]).toEqual([[], [5], [1, 2], [1, 1, 1]]);
    const shape = [2, 3];
    placeOf(5, shape);
    expect(shape).toEqual([2, 3]);
  });
});

describe("a slider", () => {
  const asked = (/** @type {any[]} */ sent) => sent.map(({ index, to, drag }) => [index, to, drag]);
  /** @param {TouchPanel} panel @param {number} row @param {number} to */
  function drag(panel, row, to) {
    const { slider } = panel.rows[row];
    slider.value = String(to);
    slider.dispatchEvent(new Event("input"));
  }

  it("asks for its number; of those that come before the answer, for the newest", () => {
    const { panel, sent, show } = open();
    panel.rows[2].slider.dispatchEvent(new Event("pointerdown"));
    for (const to of [4, 5, 6]) drag(panel, 2, to);
    expect(panel.rows[2].text.value).toBe("6");
    expect(asked(sent)).toEqual([[2, 4, 1]]);
    show();
    expect(asked(sent)).toEqual([[2, 4, 1], [2, 6, 1]]);
    show();
    expect(sent.length).toBe(2);
    drag(panel, 2, 7);
    expect(asked(sent)[2]).toEqual([2, 7, 1]);
    vi.advanceTimersByTime(499);
    drag(panel, 2, 8);
    expect(sent.length).toBe(3);
    vi.advanceTimersByTime(1);
    drag(panel, 2, 9); // no answer came
    expect(asked(sent)[3]).toEqual([2, 9, 1]);
  });
  it("tells one drag from the next, and from a press of a key", () => {
    const { panel, sent, show } = open();
    for (const { slider } of [panel.rows[0], panel.rows[1]]) {
      slider.dispatchEvent(new Event("pointerdown"));
      slider.dispatchEvent(new Event("input"));
      slider.dispatchEvent(new Event("change"));
      show();
    }
    drag(panel, 0, 3);
    drag(panel, 0, 4); // by keys: each is a change of its own
    expect(sent.map(({ drag }) => drag)).toEqual([1, 2, 0, 0]);
  });
});

describe("many tensors", () => {
  it("share one form", () => {
    const { panel, sent, find, texts } = open({ compact: true });
    expect(texts("option")).toEqual(["w (2×3)", "<b>n</b>"]);
    const [place, to] = panel.element.querySelectorAll("input");
    expect([place.value, place.hidden, to.placeholder, to.inputMode]).toEqual(["0, 0", false, "1", "decimal"]);
    place.value = "1, 2";
    to.value = "8";
    const submit = new Event("submit", { cancelable: true });
    find("form").dispatchEvent(submit);
    expect(submit.defaultPrevented).toBe(true);
    find("select").value = COUNT.name;
    find("select").dispatchEvent(new Event("change"));
    expect([place.value, place.hidden, to.placeholder]).toEqual(["", true, "7"]);
    find("form").dispatchEvent(new Event("submit"));
    expect(sent).toEqual([
      { type: "touch", act: "set", name: "w", index: "1, 2", to: "8", drag: 0 },
      { type: "touch", act: "set", name: COUNT.name, index: 0, to: "8", drag: 0 },
    ]);
  });
  it("have no form when the loop goes on", () => {
    const { panel, show } = open({ compact: true });
    show({ fields: [] });
    expect([panel.element.hidden, panel.list.children.length]).toEqual([true, 0]);
  });
});

describe("undo", () => {
  it("has buttons, which are off where there is nothing", () => {
    const { panel, sent, show } = open();
    expect([panel.undo.disabled, panel.redo.disabled]).toEqual([true, true]);
    show({ undo: 2, redo: 1 });
    expect([panel.undo.disabled, panel.redo.disabled]).toEqual([false, false]);
    panel.undo.click();
    panel.redo.click();
    expect(sent).toEqual([{ type: "touch", act: "undo" }, { type: "touch", act: "redo" }]);
  });
  it.each(/** @type {[string, Record<string, boolean>, string | null][]} */ ([
    ["z", { ctrlKey: true }, "undo"], ["Z", { ctrlKey: true, shiftKey: true }, "redo"], ["y", { ctrlKey: true }, "redo"],
    ["z", { metaKey: true }, "undo"], ["z", {}, null], ["z", { ctrlKey: true, altKey: true }, null], ["x", { ctrlKey: true }, null],
  ]))("has keys: %s with %o is %s", (key, held, act) => {
    const { panel, sent } = open({ undo: 1, redo: 1 });
    const event = press(key, held);
    panel.key(event);
    expect(sent).toEqual(act ? [{ type: "touch", act }] : []);
    expect(event.defaultPrevented).toBe(act !== null);
  });
  it("is the browser's in a field that is being written, and nobody's in a hidden panel", () => {
    const { panel, show } = open({ undo: 1 });
    const meant = (/** @type {HTMLElement} */ element) => {
      const event = press("z", { ctrlKey: true });
      element.dispatchEvent(event);
      return undoKey(event);
    };
    const { text, slider } = panel.rows[0];
    expect([meant(text), meant(slider)]).toEqual(["undo", "undo"]);
    text.value = "12";
    slider.value = "5";
    expect([meant(text), meant(slider)]).toEqual([null, "undo"]);
    show({ fields: [] });
    const event = press("z", { ctrlKey: true });
    panel.key(event);
    expect(event.defaultPrevented).toBe(false);
  });
});

it("says the result, and what went wrong, as text; what is empty is not there", () => {
  const { panel, show } = open();
  const parts = () => [panel.result, panel.note, panel.error].map((each) => [each.textContent, each.hidden]);
  expect(parts()).toEqual([["", true], ["", true], ["", true]]);
  show({ result: "4", note: "<i>paused</i>", error: "<img src=x>" });
  expect(parts()).toEqual([["result 4", false], ["<i>paused</i>", false], ["<img src=x>", false]]);
  expect(panel.element.querySelector("i, img")).toBeNull();
  expect(panel.element.querySelector("strong")?.textContent).toBe("Change a number");
});

describe("a change", () => {
  const first = { ...samplePatch(), values: NUMBERS };
  const texts = (/** @type {Graph} */ graph) => [...graph.svg.querySelectorAll("text.value, text.gradient, .edge text")].map((text) => text.textContent);

  /** @param {Graph} graph @param {DataView} numbers */
  function write(graph, numbers) {
    graph.apply(samplePatch(), /** @type {any} */ (namedNumbers(graph.picture, numbers)), null);
    return texts(graph);
  }

  function started() {
    const graph = new Graph(samplePicture());
    const before = write(graph, first.values);
    const opened = open({}, graph);
    return { ...opened, graph, before, after: () => write(graph, dataView([7, 8, 9, NaN, 6], [1, 0, 1])) };
  }

  it("runs through the graph, the values forward and then the gradients back", async () => {
    const { show, graph, before, after } = started();
    show({ serial: 1 });
    const wanted = after();
    await Promise.resolve();
    expect(texts(graph)).toEqual(before);
    const changed = before.flatMap((text, place) => (text === wanted[place] ? [] : [place]));
    expect(changed.length).toBe(4); // two values, a gradient, and what flows between them
    const order = [];
    for (const wait of [0, 139, 1, 140, 140, 140]) {
      vi.advanceTimersByTime(wait);
      order.push(texts(graph).filter((text, place) => text !== before[place]).length);
    }
    expect(order).toEqual([1, 1, 2, 3, 4, 4]);
    expect(texts(graph)).toEqual(wanted);
    expect(vi.getTimerCount()).toBe(0);
  });
  it("shows the first value first, and what flows before the gradient that it makes", async () => {
    const { show, graph, before, after } = started();
    show({ serial: 1 });
    after();
    await Promise.resolve();
    const seen = /** @type {(string | null)[]} */ ([]);
    for (const wait of [0, 140, 140, 140]) {
      vi.advanceTimersByTime(wait);
      texts(graph).forEach((text, place) => text !== before[place] && !seen.includes(text) && seen.push(text));
    }
    const [w, sum, flow, gradient] = [graph.nodes.get("n0")?.value, graph.nodes.get("n1")?.value, graph.edges.get("e0")?.label, graph.nodes.get("n0")?.gradient];
    expect(seen).toEqual([w, sum, flow, gradient].map((element) => element?.textContent));
  });
  it("runs only where something was done", async () => {
    const { panel, show, graph, after } = started();
    for (const news of [{ serial: 0 }, { serial: 1, still: true }, { serial: 1, still: false }]) {
      show(news);
      const wanted = after();
      await Promise.resolve();
      expect(texts(graph)).toEqual(wanted);
      write(graph, first.values);
    }
    show({ serial: 2 });
    await Promise.resolve(); // no number is another one
    expect([panel.wave.left, vi.getTimerCount()]).toEqual([[], 0]);
    vi.stubGlobal("matchMedia", () => ({ matches: true })); // somebody wants nothing to move
    show({ serial: 3 });
    const wanted = after();
    await Promise.resolve();
    expect([texts(graph), panel.wave.left]).toEqual([wanted, []]);
    vi.unstubAllGlobals();
  });
  it("ends at once when the next one comes, or when the view goes", async () => {
    const { panel, show, graph, before, after } = started();
    for (const end of [() => show({ serial: 2, still: true }), () => panel.dispose()]) {
      write(graph, first.values);
      show({ serial: panel.serial + 10, still: false });
      const wanted = after();
      await Promise.resolve();
      expect(texts(graph)).toEqual(before);
      end();
      expect(texts(graph)).toEqual(wanted);
      expect([panel.wave.left, vi.getTimerCount()]).toEqual([[], 0]);
    }
  });
  it("takes a second for many texts, but no text is faster than the eye", () => {
    const wave = new Wave();
    const pauses = [4, 20, 500].map((count) => {
      const nodes = new Map();
      const before = new Map();
      for (let place = 0; place < count; place++) {
        const value = document.createElement("b");
        value.textContent = "new";
        before.set(value, "old");
        nodes.set(`n${place}`, { value, gradient: null, group: value });
      }
      wave.begin(/** @type {any} */ ({ picture: { nodes: [...nodes.keys()].map((id) => ({ id })) }, nodes, edges: new Map() }), before);
      vi.advanceTimersByTime(0);
      const start = performance.now();
      vi.advanceTimersToNextTimer();
      wave.finish();
      return performance.now() - start;
    });
    expect(pauses).toEqual([140, 50, 12]);
  });
});
