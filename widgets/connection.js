// Whether there is still somebody who sends: a kernel can end, begin anew, or be out of reach.

/**
 * What JupyterLab knows of a kernel; elsewhere there may be none of it.
 * @typedef {object} Signal
 * @property {(slot: (sender: any, told: any) => void) => void} connect
 * @property {(slot: (sender: any, told: any) => void) => void} disconnect
 *
 * @typedef {object} Kernel
 * @property {Signal} [statusChanged]
 * @property {Signal} [connectionStatusChanged]
 * @property {Signal} [disposed]
 */

/** @typedef {import("./live.js").Model} Model */

const LAST = "This is the last picture that it sent; run the cell again for a new one.";
/** @type {Record<string, string>} */
export const SENTENCES = {
  restarted: `The kernel was restarted. ${LAST}`,
  ended: `The kernel was shut down. ${LAST}`,
  closed: "Python has closed this view: this is its last picture.",
  unreachable: "The kernel cannot be reached: this is the last picture that came from it.",
};
/** @param {number} step */
export const interruptedIn = (step) => `The loop was interrupted after step ${step}: this is how far it came.`;
const RESTARTS = new Set(["restarting", "autorestarting"]);

/** Tells of the end of a model's kernel, once, in a word of `SENTENCES`; "" when it can be reached again. */
export class Connection {
  /** @param {Model} model @param {(state: string) => void} tell */
  constructor(model, tell) {
    this.model = model;
    this.state = "";
    this.tell = tell;
    /** @type {Kernel | undefined} */
    this.kernel = model.widget_manager?.kernel ?? undefined;
    this.onStatus = (/** @type {any} */ _, /** @type {any} */ status) => this.status(status);
    this.onConnection = (/** @type {any} */ _, /** @type {any} */ status) => this.connection(status);
    this.onDisposed = () => this.set("ended");
    this.onClosed = () => this.set("closed");
    // Where nothing is known of a kernel, the comm's end is all that is heard.
    this.onComm = () => !this.kernel && this.set("restarted");
    this.kernel?.statusChanged?.connect(this.onStatus);
    this.kernel?.connectionStatusChanged?.connect(this.onConnection);
    this.kernel?.disposed?.connect(this.onDisposed);
    model.on("comm_live_update", this.onComm);
    model.on("comm:close", this.onClosed);
  }

  /** @param {string} status */
  status(status) {
    if (RESTARTS.has(status)) this.set("restarted");
    else if (status === "dead" || status === "terminating") this.set("ended");
  }

  /** @param {string} status */
  connection(status) {
    if (this.over) return;
    this.set(status === "connected" ? "" : "unreachable");
  }

  /** The model's kernel will not come back. */
  get over() {
    return ["restarted", "ended", "closed"].includes(this.state);
  }

  /** @param {string} state the first end is the one that is told */
  set(state) {
    if (this.over || state === this.state) return;
    this.state = state;
    this.tell(state);
  }

  /** Hear that a message has come: where nothing is known of the kernel, it is there, then. */
  heard() {
    if (this.state === "" || (this.kernel && this.over)) return;
    this.state = "";
    this.tell("");
  }

  dispose() {
    this.kernel?.statusChanged?.disconnect(this.onStatus);
    this.kernel?.connectionStatusChanged?.disconnect(this.onConnection);
    this.kernel?.disposed?.disconnect(this.onDisposed);
    this.model.off("comm_live_update", this.onComm);
    this.model.off("comm:close", this.onClosed);
  }
}
