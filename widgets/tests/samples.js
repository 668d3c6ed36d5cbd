// What the tests share: the golden files that Python writes, and a small picture of our own.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const GOLDEN = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "tests", "golden");

/** @param {string} name */
export const golden = (name) => JSON.parse(readFileSync(join(GOLDEN, name), "utf8"));

/** @param {number[]} values @param {number[]} [signs] */
export function dataView(values, signs = []) {
  const bytes = new Uint8Array(4 * values.length + signs.length);
  bytes.set(new Uint8Array(Float32Array.from(values).buffer));
  bytes.set(Int8Array.from(signs), 4 * values.length);
  return new DataView(bytes.buffer);
}

const SVG = `<?xml version="1.0"?>
<svg width="200pt" height="80pt" viewBox="0 0 200 80" xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">
<g id="graph0" class="graph" transform="scale(1 1) translate(4 76)">
<polygon fill="white" points="-4,4 -4,-76 196,-76 196,4 -4,4"/>
<g id="n0" class="node"><title>n0</title><path d="M0,-60L80,-60 80,-10 0,-10Z"/>
<text x="40" y="-50">w</text><text x="40" y="-40">64 float32</text><text x="40" y="-30">value +0.0000</text><text x="40" y="-20">grad  +0.0000</text></g>
<g id="n1" class="node"><title>n1</title><path d="M110,-60L190,-60 190,-10 110,-10Z"/>
<text x="150" y="-50">sum</text><text x="150" y="-40">scalar</text><text x="150" y="-30">value +0.0000</text></g>
<g id="e0" class="edge"><path d="M80,-35L110,-35"/><polygon points="105,-38 110,-35 105,-32"/><text x="95" y="-38">0.00000</text></g>
</g></svg>`;

const PLAIN = { variable: "", device: "cpu", line: "", saved: [], frame: "", group: "", inside: 0, version: 0, marks: [] };

// Mean and gradient of both nodes, gradient of the edge; then the signs of the same.
export const NUMBERS = dataView([0.5, 2, -3, NaN, 0.1], [-1, 0, -1]);

/** @returns {any} */
export function samplePicture() {
  return {
    type: "picture",
    structure: "s1",
    svg: SVG,
    nodes: [
      { id: "n0", kind: "parameter", label: "w", module: "", shape: [64], dtype: "float32", formulas: {}, differentiable: true, ...PLAIN },
      { id: "n1", kind: "output", label: "sum", module: "m", shape: [], dtype: "float32", formulas: { input: "g\\,\\mathbf{1}" }, differentiable: false, ...PLAIN },
    ],
    edges: [{ id: "e0", source: "n0", target: "n1", input: "input", kind: "forward" }],
    frames: [],
    tabs: [],
    dot: "",
  };
}

/** @returns {any} */
export function samplePatch(more = {}) {
  return { type: "patch", structure: "s1", step: 1, tiny: {}, tinyGrad: {}, bad: [], latest: {}, parts: {}, speed: null, state: "running", layouts: 1, ...more };
}

/** A model as anywidget gives it; `change` sets traits as one message from Python does. */
export class FakeModel {
  /** @param {Record<string, any>} state */
  constructor(state) {
    this.state = state;
    /** @type {any[]} */
    this.sent = [];
    /** @type {Map<string, Set<() => void>>} */
    this.callbacks = new Map();
  }
  /** @param {string} name */
  get(name) {
    return this.state[name];
  }
  /** @param {string} event @param {() => void} callback */
  on(event, callback) {
    this.callbacks.set(event, (this.callbacks.get(event) ?? new Set()).add(callback));
  }
  /** @param {string} event @param {() => void} callback */
  off(event, callback) {
    this.callbacks.get(event)?.delete(callback);
  }
  /** @param {any} content */
  send(content) {
    this.sent.push(content);
  }
  /** @param {Record<string, any>} values */
  change(values) {
    Object.assign(this.state, values);
    for (const name of Object.keys(values)) this.callbacks.get(`change:${name}`)?.forEach((callback) => callback());
  }
}
