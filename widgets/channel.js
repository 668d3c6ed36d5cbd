// How commands reach Python. A kernel in a browser tab gets its messages one after the other, so a
// click would wait for the end of the cell: there, a BroadcastChannel carries each command, too.

/** @typedef {import("./live.js").Model} Model */
/** @typedef {import("./protocol.js").Command} Command */

export const UNHEARD =
  "The buttons work when the cell has ended: this browser cannot let Python listen meanwhile. " +
  "(Chrome and Edge can, since version 137; `async with viz.live(...)` works everywhere.)";

export class Channel {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    /** The name is known to this view only, so that two views never hear each other. */
    const { name = "", hears = true } = model.get("channel") ?? {};
    /** Python listens to this page while a cell runs in the same tab. */
    this.inTab = name !== "" && hears;
    this.unheard = name !== "" && !hears ? UNHEARD : "";
    this.broadcast = this.inTab ? new BroadcastChannel(name) : null;
    this.count = 0;
    this.start = Math.random().toString(36).slice(2);
  }

  /** @param {Command} command */
  send(command) {
    if (!this.broadcast) {
      this.model.send(command);
      return;
    }
    // Twice, with a number: if no cell runs, only the second is heard; else the first, at once.
    const numbered = { ...command, id: `${this.start}-${(this.count += 1)}` };
    this.broadcast.postMessage(numbered);
    this.model.send(numbered);
  }

  close() {
    this.broadcast?.close();
  }
}
