// Numbers as they are shown, and the patch's buffer of float32 as named values.
// `number()` in edutorch/viz writes the same texts: tests/golden/numbers.json.

/** @typedef {import("./protocol.js").Picture} Picture */

/** @typedef {{mean: number, min: number, max: number, gradient: number}} NodeNumbers */
/** @typedef {{gradient: number, mean: number}} EdgeNumbers */

const PER_NODE = 4;
const PER_EDGE = 2;

/**
 * `x` in at most 7 characters, always with its sign, so that no box needs a new layout.
 * @param {number} x
 * @returns {string}
 */
export function formatNumber(x) {
  if (Number.isNaN(x)) return "nan";
  return (x < 0 ? "-" : "+") + formatSize(x);
}

/**
 * |x| in at most 6 characters: decimals where they say enough, an exponent elsewhere.
 * @param {number} x
 * @returns {string}
 */
export function formatSize(x) {
  if (Number.isNaN(x)) return "nan";
  const size = Math.abs(x);
  if (size === Infinity) return "inf";
  const plain = size === 0 || (size >= 0.001 && size < 999999.5);
  const texts = plain
    ? [4, 3, 2, 1, 0].map((decimals) => size.toFixed(decimals))
    : [1, 0].map((decimals) => size.toExponential(decimals).replace("e+", "e"));
  return texts.find((text) => text.length <= 6) ?? texts[texts.length - 1];
}

/**
 * The float32 values behind a DataView. Copied, because a message's view may
 * start at an address that a Float32Array does not accept.
 * @param {DataView | null | undefined} view
 * @returns {Float32Array}
 */
export function readFloats(view) {
  if (!view || view.byteLength % 4 !== 0) return new Float32Array(0);
  return new Float32Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
}

/**
 * The numbers of every node and edge by id, or null where `floats` does not
 * belong to this picture.
 * @param {Picture} picture
 * @param {Float32Array} floats
 * @returns {{nodes: Map<string, NodeNumbers>, edges: Map<string, EdgeNumbers>} | null}
 */
export function namedNumbers(picture, floats) {
  const firstEdge = picture.nodes.length * PER_NODE;
  if (floats.length !== firstEdge + picture.edges.length * PER_EDGE) return null;
  const nodes = new Map();
  picture.nodes.forEach(({ id }, index) => {
    const [mean, min, max, gradient] = floats.subarray(index * PER_NODE, (index + 1) * PER_NODE);
    nodes.set(id, { mean, min, max, gradient });
  });
  const edges = new Map();
  picture.edges.forEach(({ id }, index) => {
    const at = firstEdge + index * PER_EDGE;
    edges.set(id, { gradient: floats[at], mean: floats[at + 1] });
  });
  return { nodes, edges };
}
