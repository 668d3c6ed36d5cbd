// Where Python has no Graphviz, the page lays the graph out with one of its own (WebAssembly).
// It is in the script only then: Python puts it there as `edutorchGraphviz` (widget.py).

/** @typedef {import("./protocol.js").Picture} Picture */

/** @type {Promise<any> | null} */
let engineOfPage = null;

/**
 * The picture with its SVG. The page's policy must allow WebAssembly ('wasm-unsafe-eval').
 * @param {Picture} picture
 * @returns {Promise<Picture>}
 */
export async function laidOut(picture) {
  if (typeof edutorchGraphviz === "undefined") throw new Error("there is no Graphviz in this page");
  engineOfPage ??= edutorchGraphviz.load();
  return { ...picture, svg: (await engineOfPage).layout(picture.dot, "svg", "dot") };
}
