import { afterEach, expect, it, vi } from "vitest";
import { Channel } from "../channel.js";
import { Controls } from "../controls.js";
import { FakeModel } from "./samples.js";

/** @type {any[]} */
let posted = [];
class FakeBroadcast {
  /** @param {string} name */
  constructor(name) {
    this.name = name;
  }
  /** @param {any} message */
  postMessage(message) {
    posted.push({ name: this.name, ...message });
  }
  close() {}
}

afterEach(() => {
  posted = [];
  vi.unstubAllGlobals();
});

/** @param {any} [channel] */
function channelOf(channel) {
  vi.stubGlobal("BroadcastChannel", FakeBroadcast);
  /** @type {any} */
  const model = new FakeModel({ channel });
  return { model, channel: new Channel(model) };
}

it("sends a command once where a kernel is a process", () => {
  const { model, channel } = channelOf();
  channel.send({ type: "pause" });
  expect(model.sent).toEqual([{ type: "pause" }]);
  expect(posted).toEqual([]);
  expect(channel.unheard).toBe("");
});

it("sends a command both ways in a browser tab, with the same number", () => {
  const { model, channel } = channelOf({ name: "edutorch-1", hears: true });
  channel.send({ type: "pause" });
  channel.send({ type: "resume" });
  expect(posted.map(({ name, id, type }) => [name, id, type])).toEqual(
    model.sent.map((/** @type {any} */ { id, type }) => ["edutorch-1", id, type]),
  );
  expect(new Set(posted.map(({ id }) => id)).size).toBe(2);
});

it("says where the buttons are not heard", () => {
  const { model, channel } = channelOf({ name: "edutorch-1", hears: false });
  channel.send({ type: "pause" });
  expect(model.sent).toEqual([{ type: "pause" }]);
  expect(posted).toEqual([]);
  expect(channel.unheard).toContain("when the cell has ended");
});

it("has a button that stops the loop in a browser tab only", () => {
  /** @type {any[]} */
  const sent = [];
  const inTab = new Controls((command) => sent.push(command), { inTab: true, unheard: "" });
  const stop = /** @type {HTMLButtonElement} */ (inTab.element.querySelector(".stop"));
  stop.click();
  expect(sent).toEqual([{ type: "stop" }]);
  inTab.show({ state: "finished", step: 3, speed: null });
  expect(stop.disabled).toBe(true);
  expect(new Controls(() => {}).element.querySelector(".stop")).toBe(null);
});

it("disables the buttons that nobody hears, while the loop runs", () => {
  const deaf = new Controls(() => {}, { inTab: false, unheard: "not now" });
  deaf.show({ state: "running", step: 3, speed: null });
  const pause = /** @type {HTMLButtonElement} */ (deaf.element.querySelector(".pause"));
  expect([pause.disabled, deaf.speed.disabled]).toEqual([true, true]);
});
