import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import live from "../live.js";
import { smooth, span, pathThrough } from "../curve.js";
import { formula } from "../formula.js";
import { FakeModel, NUMBERS, dataView, samplePatch, samplePicture } from "./samples.js";

/** @type {FrameRequestCallback[]} */
let frames = [];
/** @type {(() => void)[]} */
let views = [];
beforeEach(() => {
  frames = [];
  vi.stubGlobal("requestAnimationFrame", (/** @type {FrameRequestCallback} */ callback) => frames.push(callback));
  vi.stubGlobal("cancelAnimationFrame", () => (frames = []));
});
afterEach(() => {
  views.splice(0).forEach((close) => close());
  vi.unstubAllGlobals();
});

function paint() {
  const due = frames;
  frames = [];
  due.forEach((callback) => callback(0));
}

/** @param {Record<string, any>} [state] */
function open(state = { picture: samplePicture(), patch: samplePatch(), numbers: NUMBERS }) {
  const model = new FakeModel(state);
  const el = document.createElement("div");
  document.body.replaceChildren(el);
  const close = live.render({ model, el });
  views.push(close);
  paint();
  /** @param {string} selector */
  const find = (selector) => /** @type {HTMLElement} */ (el.querySelector(selector));
  return { model, el, close, find };
}

describe("the live view", () => {
  it("has the buttons that its picture needs, also when another one comes", () => {
    const tabs = () => [...document.querySelectorAll("button.tab")].map((tab) => tab.textContent);
    const { model } = open({ picture: { ...samplePicture(), tabs: ["a", "b"] }, patch: samplePatch(), numbers: NUMBERS });
    expect(tabs()).toEqual(["all", "a", "b"]);
    model.change({ picture: { ...samplePicture(), structure: "s2", tabs: ["c"] }, patch: samplePatch({ structure: "s2" }) });
    paint();
    expect(tabs()).toEqual(["all", "c"]);
  });
  it("shows what is there when it opens", () => {
    const { find } = open();
    expect(find("text.value").textContent).toBe("mean  +0.5000");
    expect(find(".step").textContent).toBe("step 1");
    expect(find(".state").textContent).toBe("running");
  });
  it("beats with the messages, and stands still without them", () => {
    const now = vi.spyOn(Date, "now").mockReturnValue(1600);
    const { model, find } = open();
    expect(find(".state").dataset.beat).toBe("0");
    now.mockReturnValue(2500);
    expect(find(".state").dataset.beat).toBe("0");
    model.change({ patch: samplePatch({ step: 2 }) });
    paint();
    expect(find(".state").dataset.beat).toBe("1");
    now.mockRestore();
  });
  it("waits patiently for a first picture", () => {
    const { model, find } = open({ picture: null, patch: {}, numbers: null });
    expect(find("g.node")).toBeNull();
    model.change({ picture: samplePicture(), patch: samplePatch(), numbers: NUMBERS });
    paint();
    expect(find("text.value").textContent).toBe("mean  +0.5000");
  });
  it("writes once per frame, the newest numbers", () => {
    const { model, find } = open();
    for (let step = 2; step < 30; step++) model.change({ patch: samplePatch({ step }), numbers: NUMBERS });
    expect(frames.length).toBe(1);
    expect(find(".step").textContent).toBe("step 1");
    paint();
    expect(find(".step").textContent).toBe("step 29");
  });
  it("loses nothing that stands beside the graph, though later messages do not tell of it", () => {
    const { model, el } = open();
    const trouble = { findings: [{ kind: "nan", says: "It is NaN.", do: "", line: "", details: [], step: 2, node: "" }], more: 0 };
    model.change({ patch: samplePatch({ step: 2, parts: { trouble } }) });
    model.change({ patch: samplePatch({ step: 3 }) });
    expect(frames.length).toBe(1);
    paint();
    expect(el.querySelector(".edutorch-trouble")?.textContent).toContain("It is NaN.");
  });
  it("shows what stands beside the graph again when the page has laid it out: it points into it", async () => {
    const { svg, ...rest } = samplePicture();
    vi.stubGlobal("edutorchGraphviz", { load: async () => ({ layout: () => svg }) });
    const row = { what: "value", name: "m.sum", before: "1", after: "4", percent: "", sign: 1, label: "sum", module: "m" };
    const compare = { step: 1, rows: [row], more: 0 };
    const history = { at: null, first: 1, last: 9, count: 9, loss: 0.5, compare };
    const patch = samplePatch({ state: "finished", parts: { history } });
    const { find } = open({ picture: { ...rest, svg: "", dot: "digraph {}" }, patch, numbers: NUMBERS });
    expect(find(".edutorch-history .changes button")).toBeNull();
    await vi.waitFor(() => expect(frames.length).toBe(1));
    paint();
    expect(find(".edutorch-history .changes button").textContent).toBe("m.sum");
  });
  it("keeps the drawing while the structure is the same", () => {
    const { model, find } = open();
    const before = find("svg g.graph");
    model.change({ picture: samplePicture(), patch: samplePatch({ step: 2 }) });
    paint();
    expect(find("svg g.graph")).toBe(before);
    model.change({ picture: { ...samplePicture(), structure: "s2" }, patch: samplePatch({ structure: "s2" }) });
    paint();
    expect(find("svg g.graph")).not.toBe(before);
  });
  it("does not write numbers of another structure", () => {
    const { model, find } = open();
    model.change({ patch: samplePatch({ structure: "other", step: 9 }), numbers: dataView(new Array(5).fill(7), [0, 0, 0]) });
    paint();
    expect(find("text.value").textContent).toBe("mean  +0.5000");
    expect(find(".step").textContent).toBe("step 9");
  });
  it("says what it cannot draw", () => {
    const { find } = open({ picture: { ...samplePicture(), svg: "<b>" }, patch: samplePatch(), numbers: NUMBERS });
    expect(find(".message").textContent).toContain("cannot be drawn");
  });
  it("stops when it is closed", () => {
    const { model, close } = open();
    close();
    model.change({ patch: samplePatch({ step: 2 }) });
    expect(frames.length).toBe(0);
  });
});

it("has a name for all that can be pressed, written in or looked at", () => {
  const history = { at: 5, first: 1, last: 9, count: 9, loss: 0.5, compare: null };
  const touch = { fields: [{ name: "w", shape: [2], whole: false, values: [1, 2], gradients: [], range: [-1, 1] }], undo: 1, redo: 1, result: "", error: "", note: "", serial: 0, still: false };
  const toy = { kind: "line", points: [[0, 0]], names: ["w", "b"], at: [0, 0], next: [1, 1], path: [], box: [-1, 1, -1, 1], bands: [], loss: 1, steps: 0, undo: 0, redo: 0, error: "" };
  const gauges = { layers: [["w", 1, 1, 1, 1]], activations: [], rates: [], words: [] };
  const { el } = open({ picture: { ...samplePicture(), tabs: ["a", "b"] }, patch: samplePatch({ parts: { history, touch, toy, gauges } }), numbers: NUMBERS });
  const active = [...el.querySelectorAll("button, input, select, [role=button], [role=group], [role=search] input, [tabindex]")];
  expect(active.length).toBeGreaterThan(25);
  const nameless = active.filter((each) => !each.getAttribute("aria-label") && !each.textContent?.trim() && !each.closest("label"));
  expect(nameless.map((each) => each.outerHTML)).toEqual([]);
  expect([...el.querySelectorAll("input")].filter((field) => !field.getAttribute("aria-label")).map((field) => field.outerHTML)).toEqual([]);
});

it("hears nothing more when it is closed", () => {
  const disconnect = vi.fn();
  vi.stubGlobal("ResizeObserver", class {
    observe() {}
    disconnect = disconnect;
  });
  const { model, el, close, find } = open();
  model.change({ patch: samplePatch({ state: "paused" }) });
  close(); // with a frame that is still to come
  expect(frames.length).toBe(0);
  expect(disconnect).toHaveBeenCalled();
  expect([...model.callbacks].filter(([, callbacks]) => callbacks.size > 0)).toEqual([]);
  document.dispatchEvent(new Event("scroll"));
  expect(frames.length).toBe(0);
  const key = new KeyboardEvent("keydown", { key: "+", bubbles: true, cancelable: true });
  find(".scroller").dispatchEvent(key);
  expect([key.defaultPrevented, el.querySelector("button.fit")?.hasAttribute("disabled")]).toEqual([false, true]);
});

describe("the buttons", () => {
  it("ask, and show only what Python confirms", () => {
    const { model, find } = open();
    const commands = () => model.sent.map((command) => command.type);
    expect(commands()).toEqual(["ready"]);
    const toggle = /** @type {HTMLButtonElement} */ (find("button.pause"));
    const step = /** @type {HTMLButtonElement} */ (find("button.one-step"));
    expect([toggle.disabled, step.disabled]).toEqual([false, true]);
    toggle.click();
    expect(commands()).toEqual(["ready", "pause"]);
    expect(toggle.textContent).toBe("Pause");
    model.change({ patch: samplePatch({ state: "paused" }) });
    paint();
    expect(toggle.textContent).toBe("Resume");
    expect(step.disabled).toBe(false);
    step.click();
    toggle.click();
    expect(commands()).toEqual(["ready", "pause", "ready", "step", "resume"]);
  });
  it("are off when the training is over", () => {
    const { find } = open({ picture: samplePicture(), patch: samplePatch({ state: "finished" }), numbers: NUMBERS });
    expect(/** @type {HTMLButtonElement} */ (find("button.pause")).disabled).toBe(true);
  });
});

describe("a chosen node", () => {
  it("is described at once, also where no message comes any more", () => {
    const { model, find } = open({ picture: samplePicture(), patch: samplePatch({ state: "finished" }), numbers: NUMBERS });
    while (frames.length > 0) paint();
    find("g.node").dispatchEvent(new MouseEvent("click", { bubbles: true }));
    paint();
    expect(find(".edutorch-details output").textContent).toBe("+0.5000");
    expect(find("g.node").classList.contains("chosen")).toBe(true);
    const details = find(".edutorch-details").firstChild;
    find("g.node").dispatchEvent(new MouseEvent("click", { bubbles: true }));
    expect(find(".edutorch-details").firstChild).toBe(details); // it is described already
    find("g.graph").dispatchEvent(new MouseEvent("click", { bubbles: true })); // beside all boxes
    expect(find("g.node").classList.contains("chosen")).toBe(true);
    expect(model.sent).toEqual([{ type: "ready" }]);
  });
  it("is left by arrows: to an input, to a user, and in recorded order; other keys do nothing", () => {
    const { find, el } = open();
    const [w, sum] = el.querySelectorAll("g.node");
    const press = (/** @type {string} */ key) => {
      const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
      find(".scroller").dispatchEvent(event);
      return [event.defaultPrevented, document.activeElement === w ? "w" : document.activeElement === sum ? "sum" : ""];
    };
    for (const arrow of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]) {
      expect([arrow, ...press(arrow)]).toEqual([arrow, false, ""]); // nothing is chosen yet: the page scrolls
    }
    /** @type {SVGElement} */ (w).focus();
    const way = [["ArrowLeft", false, "w"], ["ArrowUp", false, "w"], ["a", false, "w"], ["ArrowDown", true, "sum"], ["ArrowDown", false, "sum"],
      ["ArrowRight", false, "sum"], ["ArrowUp", true, "w"], ["ArrowRight", true, "sum"], ["ArrowLeft", true, "w"]];
    for (const [key, ...wanted] of way) expect([key, ...press(String(key))]).toEqual([key, ...wanted]);
  });
  it("is described below, also by keyboard", () => {
    const { el, find } = open();
    const nodes = /** @type {NodeListOf<HTMLElement>} */ (el.querySelectorAll("g.node"));
    expect(nodes[0].getAttribute("tabindex")).toBe("0");
    nodes[0].focus();
    paint();
    expect(find(".edutorch-details .name").textContent).toBe("w");
    expect(find(".edutorch-details output").textContent).toBe("+0.5000");
    find(".scroller").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    expect(find(".edutorch-details .name").textContent).toBe("sum");
    expect(find(".edutorch-details math").textContent).toBe("g1");
    expect([...nodes].map((node) => node.getAttribute("tabindex"))).toEqual(["-1", "0"]);
  });
});

describe("curves", () => {
  it("have one chart per name", () => {
    const points = [[1, 2], [2, 1], [3, null]];
    const curves = { a: points, b: points, c: points, d: points };
    const latest = { a: [3, null], b: [4, 5], c: [3, null], d: [3, null] };
    const { el } = open({ picture: null, numbers: null, curves, patch: samplePatch({ latest }) });
    expect([...el.querySelectorAll("figcaption span")].map((name) => name.textContent)).toEqual(["a", "b", "c", "d"]);
    expect(el.querySelector("figcaption output")?.textContent).toBe("nan");
    expect(el.querySelector("path.raw")?.getAttribute("d")).toMatch(/^M[\d.]+,[\d.]+L[\d.]+,[\d.]+$/);
  });
  it("say once what is the same at both ends of the axis", () => {
    const loss = [[1, 0.693147], [2, 0.693146]];
    const { el } = open({ picture: null, numbers: null, curves: { loss }, patch: samplePatch({ latest: { loss: loss[1] } }) });
    const labels = [...el.querySelectorAll('.edutorch-curves text[text-anchor="end"]')].map((each) => each.textContent);
    expect(labels).toEqual(["0.6931", "", "2"]);
  });

  it("are filled down to the axis, unless something is missing in between", () => {
    const whole = [[1, 2], [2, 1], [3, 4]];
    const broken = [[1, 2], [2, 1], [3, null], [4, 3], [5, 2]];
    const { el } = open({ picture: null, numbers: null, curves: { whole, broken }, patch: samplePatch({ latest: { whole: [3, 4], broken: [5, 2] } }) });
    const [area, none] = [...el.querySelectorAll("path.area")].map((path) => path.getAttribute("d"));
    const line = el.querySelector("path.trend")?.getAttribute("d") ?? "";
    expect(line.length > 0 && area?.startsWith(line)).toBe(true);
    expect(area?.slice(line.length)).toMatch(/^V[\d.]+H[\d.]+Z$/);
    expect(none).toBe("");
  });
  it("go when their loss has got another name", () => {
    const { model, el } = open({ picture: null, numbers: null, curves: { loss: [[1, 5]] }, patch: samplePatch({ latest: { loss: [1, 5] } }) });
    model.change({ curves: { loss_G: [[1, 5]], loss_D: [[1, 2]] }, patch: samplePatch({ latest: { loss_G: [1, 5], loss_D: [1, 2] } }) });
    paint();
    const titles = [...el.querySelectorAll(".edutorch-curves figcaption span")].map((title) => title.textContent);
    expect(titles).toEqual(["loss_G", "loss_D"]);
  });

  it("are drawn anew when the latest points come with another message", () => {
    const { model, el } = open({ picture: null, numbers: null, curves: { loss: [[1, 5]] }, patch: samplePatch({ latest: { loss: [1, 5] } }) });
    model.change({ curves: { loss: [[1, 5], [6, 2]] }, patch: samplePatch({ latest: {} }) });
    paint();
    const labels = [...el.querySelectorAll('.edutorch-curves text[text-anchor="end"]')].map((label) => label.textContent);
    expect(labels).toContain("6");
  });
  it("grow by the latest point until a whole curve comes", () => {
    const { model, el } = open({ picture: null, numbers: null, curves: { a: [[1, 5]] }, patch: samplePatch({ latest: { a: [1, 5] } }) });
    const points = () => (el.querySelector("path.raw")?.getAttribute("d")?.match(/[ML]/g) ?? []).length;
    for (const step of [2, 3, 4]) {
      model.change({ patch: samplePatch({ step, latest: { a: [step, 1] } }) });
      paint();
    }
    expect(points()).toBe(4);
    model.change({ curves: { a: [[2, 3], [4, 1]] }, patch: samplePatch({ latest: { a: [4, 1] } }) });
    paint();
    expect(points()).toBe(2);
  });
  it("span what is finite", () => {
    expect(span([3, NaN, 1, Infinity])).toEqual([1, 3]);
    expect(span([2, 2])).toEqual([1.5, 2.5]);
    expect(span([NaN])).toEqual([0, 1]);
  });
  it("leave a gap where a value is not finite", () => {
    expect(pathThrough([[0, 0], [1, NaN], [2, 1]], [0, 2], [0, 1]).match(/M/g)?.length).toBe(2);
  });
  it("are smoothed without lagging behind", () => {
    /** @type {[number, number][]} */
    const line = Array.from({ length: 96 }, (_, index) => [index, index]);
    smooth(line).forEach(([, value], index) => expect(value).toBeCloseTo(index));
  });
});

describe("formulas", () => {
  it.each([
    ["g\\,\\sigma(\\beta x)", "gσ(βx)"],
    ["\\frac{g}{1 + x^2}", "g1+x2"],
    ["\\operatorname{sign}(x)", "sign(x)"],
    ["\\constructor", "\\constructor"],
    ["{unclosed", "unclosed"],
    ["<img onerror=x>", "<imgonerror=x>"],
  ])("read %s", (latex, text) => expect(formula(latex).textContent).toBe(text));
  it("build fractions and powers", () => {
    const math = formula("\\frac{g}{x^{2}}");
    expect(math.querySelector("mfrac > mrow:nth-child(2) > msup")).not.toBeNull();
  });
});
