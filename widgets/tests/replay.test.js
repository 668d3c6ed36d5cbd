import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Recording, openRecording } from "../replay.js";
import { NUMBERS, dataView, samplePatch, samplePicture } from "./samples.js";

/** @type {FrameRequestCallback[]} */
let frames = [];
beforeEach(() => {
  frames = [];
  vi.stubGlobal("requestAnimationFrame", (/** @type {FrameRequestCallback} */ callback) => frames.push(callback));
  vi.stubGlobal("cancelAnimationFrame", () => (frames = []));
});
afterEach(() => vi.unstubAllGlobals());

function paint() {
  const due = frames;
  frames = [];
  due.forEach((callback) => callback(0));
}

/** @param {DataView} view */
const encoded = (view) => btoa(String.fromCharCode(...new Uint8Array(view.buffer)));

const STEPS = [10, 20, 30, 40];

/** @returns {any} */
function run() {
  return {
    pictures: [samplePicture(), { ...samplePicture(), structure: "s2" }],
    curves: { loss: [[10, 1], [40, 0.5]] },
    frames: STEPS.map((step, place) => ({
      picture: place === 3 ? 1 : 0,
      patch: samplePatch({
        step, state: "finished", structure: place === 3 ? "s2" : "s1", latest: { loss: [40, 0.5] },
        parts: { history: { at: step, first: 10, last: 40, count: 4, loss: 1 / step, compare: null } },
      }),
      numbers: encoded(place === 0 ? NUMBERS : dataView([step, 2, -3, NaN, 0.1], [-1, 0, -1])),
    })),
  };
}

it("answers as Python does: the last kept step up to the one that is asked for", () => {
  const recording = new Recording(run());
  const at = () => recording.get("patch").step;
  expect(at()).toBe(40);
  for (const [command, step] of /** @type {[any, number][]} */ ([
    [{ step: 20 }, 20], [{ step: 29.5 }, 20], [{ step: -3 }, 10], [{ step: 99 }, 40], [{ step: 20, by: 1 }, 30],
    [{ step: 20, by: -1 }, 10], [{ step: 20, by: -9 }, 10], [{ step: 20, by: 9 }, 40], [{}, 40],
  ])) {
    recording.send({ type: "goto", ...command });
    expect(at(), JSON.stringify(command)).toBe(step);
  }
  recording.send({ type: "goto", step: 10 });
  for (const type of /** @type {any[]} */ (["pause", "open", "ready", "compare"])) recording.send({ type, step: 40 });
  expect(at()).toBe(10);
});

it("tells of a change once, and not where nothing changes", () => {
  const recording = new Recording(run());
  let told = 0;
  const hear = () => (told += 1);
  recording.on("change:patch", hear);
  recording.send({ type: "goto", step: 10 });
  recording.send({ type: "goto", step: 11 });
  expect(told).toBe(1);
  recording.off("change:patch", hear);
  recording.send({ type: "goto", step: 40 });
  expect(told).toBe(1);
});

it("looks for a name by itself, and unpacks the numbers of a step once", () => {
  const recording = new Recording(run());
  let told = 0;
  recording.on("change:patch", () => (told += 1));
  recording.send({ type: "find", text: " sum " });
  expect([told, recording.search]).toEqual([1, "sum"]);
  recording.send(/** @type {any} */ ({ type: "find" }));
  expect([told, recording.search]).toEqual([2, ""]);
  const numbers = recording.get("numbers");
  expect(recording.get("numbers")).toBe(numbers);
  recording.send({ type: "goto", step: 10 });
  expect(recording.get("numbers")).not.toBe(numbers);
  recording.send({ type: "goto", step: 40 });
  expect(recording.get("numbers")).toBe(numbers);
});

it("is shown by the view as a running loop is", () => {
  document.body.innerHTML = '<main id="edutorch-view"></main>';
  const data = document.createElement("script");
  data.type = "application/json";
  data.id = "edutorch-data";
  data.textContent = JSON.stringify(run());
  document.body.append(data);
  openRecording(document);
  paint();
  const find = (/** @type {string} */ selector) => document.querySelector(selector);
  expect(find(".step")?.textContent).toBe("step 40");
  expect(find("text.value")?.textContent).toBe("mean  +40.000");
  const range = /** @type {HTMLInputElement} */ (find(".edutorch-history input"));
  range.dispatchEvent(new KeyboardEvent("keydown", { key: "Home" }));
  paint();
  expect(find(".step")?.textContent).toBe("step 10");
  expect(find("text.value")?.textContent).toBe("mean  +0.5000");
  expect(find(".edutorch-curves .cursor")?.getAttribute("d")).toMatch(/^M/);
});

it("says at its groups that they stay as they are", () => {
  const picture = samplePicture();
  Object.assign(picture.nodes[1], { kind: "group", group: "m" });
  document.body.innerHTML = '<main id="edutorch-view"></main><script type="application/json" id="edutorch-data"></script>';
  const data = /** @type {HTMLElement} */ (document.getElementById("edutorch-data"));
  data.textContent = JSON.stringify({ ...run(), pictures: [picture, { ...picture, structure: "s2" }] });
  openRecording(document);
  paint();
  const group = document.querySelectorAll("g.node")[1];
  expect(group.querySelector("title")?.textContent).toContain("when this file was written");
  expect(group.classList.contains("foldable")).toBe(false);
});
