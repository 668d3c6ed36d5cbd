import { expect, it } from "vitest";
import { Connection, SENTENCES } from "../connection.js";
import { FakeModel } from "./samples.js";

class Signal {
  constructor() {
    /** @type {Set<any>} */
    this.slots = new Set();
  }
  /** @param {any} slot */
  connect(slot) {
    this.slots.add(slot);
  }
  /** @param {any} slot */
  disconnect(slot) {
    this.slots.delete(slot);
  }
  /** @param {any} [told] */
  emit(told) {
    this.slots.forEach((slot) => slot(null, told));
  }
}

const kernelOf = () => ({ statusChanged: new Signal(), connectionStatusChanged: new Signal(), disposed: new Signal() });

/** @param {any} [kernel] */
function connect(kernel) {
  /** @type {any} */
  const model = new FakeModel({});
  if (kernel) model.widget_manager = { kernel };
  /** @type {string[]} */
  const told = [];
  const connection = new Connection(model, (state) => told.push(state));
  /** @param {string} event */
  const fire = (event) => model.callbacks.get(event)?.forEach((/** @type {any} */ callback) => callback());
  return { model, told, connection, fire };
}

it.each(["restarting", "autorestarting"])("tells once of a kernel that is %s", (status) => {
  const kernel = kernelOf();
  const { told, fire, connection } = connect(kernel);
  for (const each of ["busy", "idle", status, "unknown", "starting", "idle"]) kernel.statusChanged.emit(each);
  kernel.connectionStatusChanged.emit("connected");
  fire("comm_live_update");
  connection.heard(); // a message that was on its way
  expect(told).toEqual(["restarted"]);
  expect(SENTENCES.restarted).toBe("The kernel was restarted. This is the last picture that it sent; run the cell again for a new one.");
});

it("tells of a kernel that is shut down", () => {
  const kernel = kernelOf();
  const { told } = connect(kernel);
  kernel.disposed.emit();
  kernel.connectionStatusChanged.emit("disconnected");
  expect(told).toEqual(["ended"]);
});

it.each(["dead", "terminating"])("tells of a kernel that is %s", (status) => {
  const kernel = kernelOf();
  const { told } = connect(kernel);
  for (const each of ["busy", status, "idle"]) kernel.statusChanged.emit(each);
  expect(told).toEqual(["ended"]);
});

it("tells of a connection that is lost, and found again", () => {
  const kernel = kernelOf();
  const { told } = connect(kernel);
  kernel.connectionStatusChanged.emit("connecting");
  kernel.connectionStatusChanged.emit("disconnected");
  kernel.connectionStatusChanged.emit("connected");
  expect(told).toEqual(["unreachable", ""]);
});

it("does with the comm alone where nothing is known of a kernel", () => {
  const { told, fire, connection } = connect();
  fire("comm_live_update");
  connection.heard();
  fire("comm:close");
  expect(told).toEqual(["restarted", "", "closed"]);
});

it("lets go of everything", () => {
  const kernel = kernelOf();
  const { model, connection } = connect(kernel);
  connection.dispose();
  expect(Object.values(kernel).every((signal) => signal.slots.size === 0)).toBe(true);
  expect([...model.callbacks.values()].every((callbacks) => callbacks.size === 0)).toBe(true);
});
