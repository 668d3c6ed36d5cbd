import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { HistoryPanel } from "../history.js";
import { Panels } from "../panels.js";
import { samplePatch } from "./samples.js";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const CHANGE = { what: "value", name: "m.sum", before: "1", after: "4", percent: "▲ 75 %", sign: 1, label: "sum", module: "m" };

/** @param {Record<string, any>} [more] */
function open(more = {}) {
  /** @type {any[]} */
  const sent = [];
  /** @type {string[]} */
  const focused = [];
  const graph = { picture: { nodes: [{ id: "n1", label: "sum", module: "m" }] } };
  const panel = new HistoryPanel({ send: (command) => sent.push(command), graph: () => /** @type {any} */ (graph), focus: (id) => focused.push(id) });
  document.body.replaceChildren(panel.element);
  const data = { at: null, first: 1, last: 100, count: 100, loss: 0.5, compare: null, ...more };
  const show = (/** @type {Record<string, any>} */ news = {}) => panel.show(/** @type {any} */ ({ ...Object.assign(data, news) }));
  show();
  /** @param {string} name */
  const button = (name) => /** @type {HTMLButtonElement} */ (panel.element.querySelector(`button.${name}`));
  const key = (/** @type {string} */ name) => panel.range.dispatchEvent(new KeyboardEvent("keydown", { key: name, cancelable: true }));
  return { panel, sent, focused, show, button, key, text: () => panel.where.textContent };
}

describe("the scrubber", () => {
  it("stands at the latest step while it is live", () => {
    const { panel, text, button, show } = open();
    expect(text()).toBe("step 100 · loss 0.5");
    expect(panel.range.value).toBe("100");
    expect(button("live").disabled).toBe(true);
    show({ last: 120, count: 120 });
    expect(text()).toBe("step 120 · loss 0.5");
  });
  it("asks for the step under the finger, not too often, and at last for the last one", () => {
    const { panel, sent } = open();
    for (const value of [90, 80, 70, 60]) {
      panel.range.value = String(value);
      panel.range.dispatchEvent(new Event("input"));
    }
    expect(sent).toEqual([{ type: "goto", step: 90 }]);
    vi.advanceTimersByTime(70);
    expect(sent).toEqual([{ type: "goto", step: 90 }, { type: "goto", step: 60 }]);
    vi.advanceTimersByTime(500);
    expect(sent.length).toBe(2);
  });
  it("does not pull the handle out of a hand", () => {
    const { panel, show } = open();
    panel.range.value = "30";
    panel.range.dispatchEvent(new Event("input"));
    show({ at: 31, last: 130 });
    expect(panel.range.value).toBe("30");
    panel.range.dispatchEvent(new Event("change"));
    show();
    expect(panel.range.value).toBe("31");
  });
  it("goes from kept step to kept step by keys", () => {
    const { sent, key, show } = open({ at: 50 });
    for (const [name, command] of /** @type {[string, any][]} */ ([
      ["ArrowLeft", { step: 50, by: -1 }],
      ["ArrowUp", { step: 50, by: 1 }],
      ["PageUp", { step: 50, by: 10 }],
      ["PageDown", { step: 50, by: -10 }],
      ["Home", { step: 1 }],
      ["End", { step: 100 }],
    ])) {
      expect(key(name)).toBe(false);
      vi.advanceTimersByTime(100);
      expect(sent.pop()).toEqual({ type: "goto", ...command });
    }
    expect(key("a")).toBe(true);
    show({ at: 1 });
    expect(sent).toEqual([]);
  });
  it("leaves the keys alone that are pressed elsewhere in the view", () => {
    const sent = /** @type {any[]} */ ([]);
    const panels = new Panels({ send: (command) => sent.push(command), graph: () => null, focus: () => {} });
    const data = { at: null, first: 1, last: 100, count: 100, loss: 0.5, compare: null };
    panels.show(samplePatch({ parts: { history: data } }));
    for (const name of ["End", "ArrowLeft"]) {
      const event = new KeyboardEvent("keydown", { key: name, cancelable: true });
      panels.key(event);
      vi.advanceTimersByTime(100);
      expect(event.defaultPrevented).toBe(false);
    }
    expect(sent).toEqual([]);
  });
  it("goes one kept step back and forward, and back to what is live", () => {
    const { sent, button, show } = open({ at: 50 });
    button("back").click();
    vi.advanceTimersByTime(100);
    button("next").click();
    button("live").click();
    expect(sent).toEqual([{ type: "goto", step: 50, by: -1 }, { type: "goto", step: 50, by: 1 }, { type: "goto" }]);
    show({ at: 1 });
    expect(button("back").disabled).toBe(true);
    expect(button("next").disabled).toBe(false);
  });
  it("plays, each frame when the last one has come, and stops at the end", () => {
    const { sent, button, show } = open({ count: 160 });
    button("play").click();
    expect(sent.pop()).toEqual({ type: "goto", step: 1 });
    show({ at: 1 });
    vi.advanceTimersByTime(130);
    expect(sent).toEqual([{ type: "goto", step: 1, by: 2 }]);
    vi.advanceTimersByTime(500); // no answer: no further question
    expect(sent.length).toBe(1);
    show({ at: 3 });
    vi.advanceTimersByTime(130);
    expect(sent[1]).toEqual({ type: "goto", step: 3, by: 2 });
    expect(button("play").textContent).toBe("Stop");
    show({ at: 100 });
    vi.advanceTimersByTime(130);
    expect(button("play").textContent).toBe("Replay");
    vi.advanceTimersByTime(1000);
    expect(sent.length).toBe(2);
  });
  it("stops playing when it is gone, or when somebody takes the handle", () => {
    const { panel, button } = open();
    button("play").click();
    panel.element.remove();
    vi.advanceTimersByTime(200);
    expect(panel.playing).toBe(0);
    document.body.append(panel.element);
    button("play").click();
    panel.range.dispatchEvent(new Event("input"));
    expect(panel.playing).toBe(0);
  });
  it("is not there for a single step", () => {
    const { panel, show } = open({ count: 1 });
    expect(panel.element.hidden).toBe(true);
    show({ count: 2 });
    expect(panel.element.hidden).toBe(false);
  });
  it("says where it is to a screen reader", () => {
    const { panel } = open({ at: 7 });
    expect(panel.range.getAttribute("aria-valuetext")).toBe("step 7 of 100");
    for (const each of panel.element.querySelectorAll("button, input")) expect(each.getAttribute("aria-label")).toBeTruthy();
  });
});

describe("a comparison", () => {
  it("begins at the step that is shown, and ends by the same button", () => {
    const { sent, button, show } = open({ at: 12 });
    button("compare").click();
    expect(sent.pop()).toEqual({ type: "compare", step: 12 });
    show({ compare: { step: 12, rows: [], more: 0 } });
    expect(button("compare").getAttribute("aria-pressed")).toBe("true");
    button("compare").click();
    expect(sent.pop()).toEqual({ type: "compare", step: undefined });
  });
  it("lists what changed, as text, and leads to the node", () => {
    const { panel, show, focused } = open({ at: 40 });
    const nasty = { ...CHANGE, name: "<img src=x onerror=alert(1)>", label: "gone", sign: -1 };
    show({ compare: { step: 1, rows: [CHANGE, nasty], more: 3 } });
    const rows = [...panel.element.querySelectorAll("tbody tr")].map((row) => row.textContent);
    expect(rows).toEqual(["▲ 75 %valuem.sum14", `▲ 75 %value${nasty.name}14`, "… and 3 more"]);
    expect(panel.element.querySelector("img")).toBeNull();
    expect(panel.element.querySelector("caption")?.textContent).toContain("From step 1 to step 40");
    panel.element.querySelector("tbody button")?.dispatchEvent(new MouseEvent("click"));
    expect(focused).toEqual(["n1"]);
    const linked = { ...CHANGE, name: nasty.name }; // a node that is there: its name is a link
    show({ compare: { step: 1, rows: [linked], more: 0 } });
    expect(panel.element.querySelector("tbody button")?.textContent).toBe(nasty.name);
    expect(panel.element.querySelector("img")).toBeNull();
    show({ compare: { step: 1, rows: [CHANGE, nasty], more: 3 } });
    // A link keeps the keyboard while messages come, whether they say the same or something new.
    document.body.append(panel.element);
    const link = panel.element.querySelector("tbody button");
    if (link instanceof HTMLElement) link.focus();
    show({ compare: { step: 1, rows: [CHANGE, nasty], more: 3 } });
    expect(panel.element.querySelector("tbody button")).toBe(link);
    show({ compare: { step: 1, rows: [{ ...CHANGE, after: "5" }, nasty], more: 3 } });
    expect(document.activeElement).toBe(panel.element.querySelector("tbody button"));
    expect(document.activeElement).not.toBe(link);
    panel.element.remove();
    show({ compare: null });
    expect(panel.changes.hidden).toBe(true);
  });
});

it("a recording has nothing live in it and nothing to compare", () => {
  const { button } = open({ at: 5, recording: true });
  expect([button("live").hidden, button("compare").hidden]).toEqual([true, true]);
});
