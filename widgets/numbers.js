// Numbers as they are shown, and the patch's buffer of float32 as named values.
// `number_text()` in edutorch/viz writes the same texts: tests/golden/numbers.json.

/** @typedef {import("./protocol.js").Picture} Picture */

/**
 * The mean, norm and sign (of the mean) of the gradient; of 2 to 4 numbers these themselves, too,
 * unless they were too many to be sent.
 * @typedef {{mean: number, gradient: number, sign: number, few: number[], fewGradients: number[]}} NodeNumbers
 */
/** @typedef {{gradient: number, sign: number}} EdgeNumbers Norm, and sign of the mean. */

const PER_NODE = 2;
const TINY = 4;

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
 * `x` with `digits` significant digits, no zeros at the end: Python's format "g".
 * @param {number} x
 * @param {number} digits
 * @returns {string}
 */
export function formatGeneral(x, digits) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "nan" : x < 0 ? "-inf" : "inf";
  const [mantissa, power] = rounded(x, digits).split("e");
  const exponent = Number(power);
  if (exponent >= -4 && exponent < digits) {
    return trimmed(Number(`${mantissa}e${exponent}`).toFixed(digits - 1 - exponent), x);
  }
  const sign = exponent < 0 ? "-" : "+";
  return `${trimmed(mantissa, x)}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

/**
 * In exponential form; exactly in the middle, the even digit is taken, as Python does.
 * @param {number} x
 * @param {number} digits
 */
function rounded(x, digits) {
  const longer = x.toExponential(digits);
  const [mantissa, power] = longer.split("e");
  const even = /[02468]\.?5$/.test(mantissa);
  if (Number(longer) === x && even) return `${mantissa.slice(0, -1).replace(/\.$/, "")}e${power}`;
  return x.toExponential(digits - 1);
}

/** @param {string} text @param {number} x */
function trimmed(text, x) {
  const short = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  return Object.is(x, -0) ? "-0" : short;
}

/**
 * The shape of a node: its sizes, "scalar", or "" where the dtype begins with named sizes, as
 * "batch×3 float32" of an exported program does.
 * @param {{ shape: number[], dtype: string }} node
 * @param {string} [separator]
 */
export function shapeText(node, separator = "×") {
  if (node.shape.length > 0) return node.shape.join(separator);
  return node.dtype.includes(" ") ? "" : "scalar";
}

/**
 * All numbers of a tiny tensor, as `whole` in edutorch/viz/tensors/summaries.py writes them.
 * @param {number[]} values
 * @param {boolean} scalar
 */
export function formatWhole(values, scalar) {
  const texts = values.map((value) => {
    if (values.length === 1) return formatGeneral(value, 4);
    const text = formatGeneral(value, 3);
    return text.length <= 7 ? text : formatNumber(value);
  });
  return scalar ? texts[0] : `[${texts.join(", ")}]`;
}

/**
 * How many numbers a node has.
 * @param {{shape: number[]}} node
 */
export function sizeOf(node) {
  return node.shape.reduce((product, each) => product * each, 1);
}

/**
 * Whether its numbers are written whole, by the page.
 * @param {{shape: number[], dtype: string}} node
 */
export function isFew(node) {
  const size = sizeOf(node);
  return node.dtype.includes("float") && size > 0 && size <= TINY;
}

/**
 * The numbers of every node and edge by id, or null where `view` does not belong to
 * this picture. Copied, because a message's view may start at any address.
 * @param {Picture} picture
 * @param {DataView | null | undefined} view
 * @returns {{nodes: Map<string, NodeNumbers>, edges: Map<string, EdgeNumbers>} | null}
 */
export function namedNumbers(picture, view) {
  const { nodes, edges } = picture;
  let sizes = nodes.map((node) => (isFew(node) && sizeOf(node) > 1 ? sizeOf(node) : 0));
  const firstEdge = nodes.length * PER_NODE;
  let next = firstEdge + edges.length;
  const signed = nodes.length + edges.length;
  if (view?.byteLength === 4 * next + signed) sizes = sizes.map(() => 0); // an update without them
  const count = next + sizes.reduce((sum, size) => sum + 2 * size, 0);
  if (!view || view.byteLength !== 4 * count + signed) return null;
  const copy = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
  const floats = new Float32Array(copy, 0, count);
  const signs = new Int8Array(copy, 4 * count);
  const take = (/** @type {number} */ size) => Array.from(floats.subarray(next, (next += size)));
  return {
    nodes: new Map(
      nodes.map((told, index) => {
        const { id } = told;
        const [mean, gradient] = floats.subarray(index * PER_NODE, (index + 1) * PER_NODE);
        const size = sizes[index];
        const few = size ? take(size) : sizeOf(told) > 1 ? [] : [mean];
        return [id, { mean, gradient, sign: signs[index], few, fewGradients: size ? take(size) : [NaN] }];
      }),
    ),
    edges: new Map(
      edges.map(({ id }, index) => [id, { gradient: floats[firstEdge + index], sign: signs[nodes.length + index] }]),
    ),
  };
}
