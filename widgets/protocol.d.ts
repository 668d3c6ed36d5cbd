/**
 * The border between Python (`edutorch/viz/`) and the page (`widgets/`).
 *
 * Python keeps four synced traits: `picture` (a `Picture`, sent again only when the
 * structure of the graph changed), `patch` (a `Patch`) and `numbers` (float32, see
 * `Patch`), always set together, and `curves` (`Curves`), about once in a second. The page keeps no history: what it finds
 * there is all it needs, whenever it comes. It sends `Command`s as custom messages.
 * `tests/golden/*.json` holds examples, checked from both sides.
 */

export type NodeKind = "leaf" | "parameter" | "buffer" | "op" | "output" | "constant" | "group" | "gradient";

export interface PictureNode {
  /** Stable within one picture: "n0", "n1", … also the `id` of the SVG group. */
  id: string;
  kind: NodeKind;
  /** Shown as text, never as markup: "weight", "mul", … */
  label: string;
  /** Dotted path of the module in which the op ran, "" outside any module. */
  module: string;
  shape: number[];
  dtype: string;
  /** LaTeX of the derivative rules by input name; empty for leaves. */
  formulas: Record<string, string>;
  /** Whether a gradient can reach it; only then its box has a fourth line. */
  differentiable: boolean;
  /** The variable of the user's code that holds it, or "": the name line is "h = relu". */
  variable: string;
  device: string;
  /** The line of the user's code that made it, "" where it is not known. */
  line: string;
  /** What is kept for backward: [name, bytes]. */
  saved: [string, number][];
  /** Key of the open group around it, "" outside any. */
  frame: string;
  /** Key of the closed group that it stands for (kind "group"), and how many nodes that holds. */
  group: string;
  inside: number;
}

/** An open group: `<g id="c0" class="cluster">` in the SVG, its title the `<text>` in it. */
export interface Frame {
  id: string; // "c0", "c1", …
  key: string;
  title: string;
  around: string; // key of the frame it lies in, "" for none
}

export interface PictureEdge {
  id: string; // "e0", "e1", …
  source: string; // the input
  target: string; // the op that uses it
  input: string; // name of the op's argument
  /** "backward": the way of a gradient; "kept": a value that waits for backward. */
  kind: "forward" | "backward" | "kept";
}

export interface Picture {
  type: "picture";
  /** Hash of the structure; the same hash means the same layout. */
  structure: string;
  nodes: PictureNode[];
  edges: PictureEdge[];
  frames: Frame[];
  /**
   * The laid-out graph, as Graphviz writes it. A node is `<g id="n0" class="node">` with
   * one `<text>` per line: name, shape, value and, if it is differentiable, gradient.
   * An edge is `<g id="e0" class="edge">`, with a `<text>` for its gradient unless there
   * are very many. Lines are wide enough for every text described at `Patch`.
   */
  svg: string;
}

/**
 * Numbers of one step. Travels as JSON plus ONE binary buffer of float32 (little endian):
 * per node [mean, gradient norm], then per edge [gradient norm], then for each node with 2 to 4
 * real numbers [these numbers, their gradients]; behind these, as int8, the sign of the mean
 * gradient (-1, 0 or 1) per node, then per edge. All in the order of the picture's lists. NaN: not known (or really NaN when `bad` names the node).
 *
 * How they are written, with number() as in tests/golden/numbers.json, whole() as in
 * tests/golden/whole.json, and "—" for unknown:
 *   value line     "value " + (tiny[id] or whole(numbers)), or of more than 4 "mean  " + number(mean)
 *   gradient line  "grad  " + (tinyGrad[id] or whole(gradients) or number(norm) without its sign)
 *   edge           number(gradient norm), with the sign
 */
export interface Patch {
  type: "patch";
  structure: string;
  step: number;
  /** Values of nodes with at most 4 integers, bools or complex numbers: node id -> text. */
  tiny: Record<string, string>;
  /** The same for their gradients. */
  tinyGrad: Record<string, string>;
  /** Nodes whose value or gradient holds NaN or Inf. */
  bad: string[];
  /** The last point of each curve; null: NaN or Inf. Whole curves come in `curves`, now and then. */
  latest: Record<string, [number, number | null]>;
  /** "still": nothing runs, a graph is looked at. */
  state: "running" | "paused" | "finished" | "failed" | "still";
  /** What else is shown, by the name of its panel (`panels.js`). */
  parts: Parts;
  /** Layouts asked for so far (structure changes). */
  layouts: number;
}

/** The data of each panel, where there is something new. */
export interface Parts {}

/** Each scalar's curve as [step, value], thinned; null: NaN or Inf. */
export type Curves = Record<string, [number, number | null][]>;

/**
 * "step": let one training step through and pause again. "ready": somebody is looking
 * (sent when a view is drawn, and as the answer to a patch whose state is "paused").
 * "open" and "close": show the inside of a group, or the group as one box.
 */
export interface Command {
  type: "pause" | "resume" | "step" | "ready" | "open" | "close";
  group?: string;
}
