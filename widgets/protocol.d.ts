/**
 * The border between Python (`edutorch/viz/`) and the page (`widgets/`).
 *
 * Python keeps four synced traits: `picture` (a `Picture`, sent again only when the
 * structure of the graph changed), `patch` (a `Patch`) and `numbers` (float32, see
 * `Patch`), always set together, and `curves` (`Curves`), about once in a second. The page keeps no history: what it finds
 * there is all it needs, whenever it comes. It sends `Command`s as custom messages.
 * `tests/golden/*.json` holds examples, checked from both sides.
 */

export type NodeKind = "leaf" | "parameter" | "buffer" | "op" | "output" | "constant" | "group" | "gradient" | "failed";

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
  /** How many writes had changed the tensor's memory: 1 is shown as "v2". */
  version: number;
  /** "frozen": a parameter that wants no gradient (a lock); "hook": a hook sits on it (a pin). */
  marks: ("frozen" | "hook")[];
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
  /** "cut": no gradient comes back along it (detach, no_grad); "backward": the way of a gradient; "kept": a value that waits for backward. */
  kind: "forward" | "cut" | "backward" | "kept";
}

export interface Picture {
  type: "picture";
  /** Hash of the structure; the same hash means the same layout. */
  structure: string;
  nodes: PictureNode[];
  edges: PictureEdge[];
  frames: Frame[];
  /** Titles of the step's backward passes, where there were several. */
  tabs: string[];
  /**
   * The laid-out graph, as Graphviz writes it. A node is `<g id="n0" class="node">` with
   * one `<text>` per line: name, shape, value and, if it is differentiable, gradient.
   * An edge is `<g id="e0" class="edge">`, with a `<text>` for its gradient unless there
   * are very many. Lines are wide enough for every text described at `Patch`.
   */
  svg: string;
  /** Where Python has no Graphviz: the same as DOT text, `svg` is then empty (graphviz.js). Else empty. */
  dot: string;
}

/**
 * Numbers of one step. Travels as JSON plus ONE binary buffer of float32 (little endian):
 * per node [mean, gradient norm], then per edge [gradient norm], then for each node with 2 to 4
 * real numbers [these numbers, their gradients]; behind these, as int8, the sign of the mean
 * gradient (-1, 0 or 1) per node, then per edge. While a loop runs, the numbers of each tiny tensor
 * are left out of an update that they would make too long: means are written then. All in the order of the picture's lists. NaN: not known (or really NaN when `bad` names the node).
 *
 * How they are written, with number() as in tests/golden/numbers.json, whole() as in
 * tests/golden/whole.json, and "—" for unknown:
 *   value line     "value " + (tiny[id] or whole(numbers)), or of more than 4 "mean  " + number(mean)
 *   gradient line  "grad  " + (tinyGrad[id] or whole(gradients) or number(norm) without its sign)
 *   edge           number(gradient norm) without its sign; of a scalar with the sign
 *   a constant     only its number
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
  /** Small pictures of tensors, by node id; none while a loop runs, when they would be too many bytes. */
  thumbs?: Record<string, Thumbnail>;
  /** The step that these are of. */
  thumbsStep?: number;
  /** The last point of each curve; null: NaN or Inf. Whole curves come in `curves`, now and then. */
  latest: Record<string, [number, number | null]>;
  /** "still": nothing runs, a graph is looked at. */
  state: "running" | "paused" | "finished" | "interrupted" | "failed" | "still";
  /** Steps per second that the loop is held to; null: as fast as it can. */
  speed: number | null;
  /** What is to be said of the machine: that its GPUs are simulated. Left out where there is nothing. */
  note?: string;
  /** What else is shown, by the name of its panel (`panels.js`). */
  parts: Parts;
  /** Which of the picture's tabs is shown; null: the whole graph. Left out where it stays as it is. */
  tab?: number | null;
  /** Layouts asked for so far (structure changes). */
  layouts: number;
}

/** A tensor as it is drawn in its box (edutorch/viz/tensors/thumbnails.py). */
export interface Thumbnail {
  kind: "image" | "weights" | "attention" | "bars";
  low: number; // the smallest number of the tensor
  high: number;
  std: number;
  /** Of "bars": how many numbers lie in each part of the range. */
  bars?: number[];
  /** Of all others: from 0 for `low` to 255 for `high`, row by row, in base64; 3 channels are colours. */
  width?: number;
  height?: number;
  channels?: number;
  pixels?: string;
}

/** The data of each panel, where there is something new. A panel may describe its own beside its class. */
export interface Parts {
  [panel: string]: unknown;
  walk?: WalkData;
  gauges?: GaugesData;
  trouble?: TroubleData;
  history?: HistoryData;
  touch?: TouchData;
  toy?: ToyData;
  search?: SearchData;
}

/** What has a name that was looked for, in the order of computation; `more` were found besides. */
export interface SearchData {
  text: string;
  /** Its name; the box that it is or lies in; the key of the group to be opened for it, "" if it is to be seen. */
  hits: [string, string, string][];
  more: number;
}

/** Numbers that can be changed by hand (`viz.touch`, and a paused `viz.live`). */
export interface TouchData {
  fields: TouchField[];
  undo: number; // how many changes can be taken back
  redo: number;
  result: string;
  error: string;
  note: string;
  /** Another number: something was done, and the numbers in the graph are new. */
  serial: number;
  /** The change is one of a drag: nothing moves in the graph. */
  still: boolean;
  /** One form for many tensors, instead of a slider for each number. */
  compact?: boolean;
}

export interface TouchField {
  name: string;
  shape: number[];
  whole: boolean;
  /** In the order of memory; none of a tensor with many. NaN and infinities are text. */
  values: (number | string)[];
  gradients: (number | string)[];
  range: [number, number];
}

/** A toy fit of two parameters (`viz.toy`). */
export interface ToyData {
  kind: "line" | "moons";
  points: [number, number, number?][]; // x, y, class
  names: [string, string];
  at: (number | string)[]; // the parameters
  next: (number | string)[]; // where the next step leads
  path: (number | string)[][];
  box: [number, number, number, number]; // the first parameter from, to; the second
  /** For each band of the loss, from low to high: rings as x, y, x, y, … in parameters. */
  bands: number[][][];
  loss: number | string;
  steps: number;
  undo: number;
  redo: number;
  error: string;
}

/** The health of a training loop (edutorch/viz/live/layer_health.py). null: NaN or Inf. */
export interface GaugesData {
  /** By parameter or module, first to last: name; last and median norm of the gradient; last and
   *  median size of the update beside the weights. */
  layers: [string, number | null, number | null, number | null, number | null][];
  /** Name, what is counted, and the share of units or numbers for which it holds. */
  activations: [string, "dead" | "saturated", number | null][];
  /** Learning rate by optimizer. */
  rates: [string, number | null][];
  /** What it means, in sentences. */
  words: string[];
}

/** A walk through backward (edutorch/viz/backward_walk/walk.py). */
export interface WalkData {
  position: number; // how many steps have been taken
  total: number;
  /** By the box's id: "done", "here" (the one that has just run) or "waiting" (a gradient is there). */
  marks: Record<string, string>;
  to: string[]; // the boxes to which gradients went in this step
  station: WalkStation | null; // null before the first step
  upcoming: string; // the name of what comes next, "" at the end
  message: string; // what went wrong, "" for nothing
}

/** A number or a few as LaTeX, perhaps as a sum; of many only a text, and a histogram as text. */
export interface WalkAmount {
  text: string;
  latex: string;
  bars: string;
}

export interface WalkStation {
  number: number;
  kind: "node" | "leaf";
  name: string;
  line: string;
  incoming: WalkAmount;
  from: string;
  flows: WalkFlow[];
  added: WalkAmount | null; // of a leaf: its .grad from now on
  before: boolean; // of a leaf: there was a .grad already
  note: string;
  spoken: string; // everything, for a screen reader
}

export interface WalkFlow {
  to: string;
  into: boolean; // to.grad will hold it
  latex: string; // the rule, with this node's numbers if they are few
  source: string; // the rule as Python, where no formula says it exactly
  gradient: WalkAmount;
  whole: boolean; // the formula ends with the gradient
  note: string;
  total: WalkAmount | null; // what has arrived there so far, if it came on several ways
}

/** What is wrong, the newest first; `more` were found before these. */
export interface TroubleData {
  findings: TroubleFinding[];
  more: number;
}

export interface TroubleFinding {
  kind: string; // see edutorch/viz/diagnostics/messages.py
  says: string;
  do: string;
  line: string; // of the user's code, "" where it is not known
  details: string[]; // rows about the operands
  step: number;
  node: string; // the box that it is about, "" where none is to be seen
}

/** The steps that can be looked back at; `loss` is that of the step that is shown. */
export interface HistoryData {
  at: number | null; // the step that is looked at, null: the latest
  first: number;
  last: number;
  count: number;
  loss: number | null;
  /** What changed from `step` to the one that is shown, the largest relative change first. */
  compare: { step: number; rows: ChangeRow[]; more: number } | null;
  /** Set in a page without a kernel: nothing is live, nothing can be compared. */
  recording?: boolean;
}

export interface ChangeRow {
  what: "value" | "gradient" | "added" | "removed";
  name: string;
  before: string;
  after: string;
  percent: string;
  sign: number; // 1: grew, -1: shrank
  label: string;
  module: string;
}

/** Each scalar's curve as [step, value], thinned; null: NaN or Inf. */
export type Curves = Record<string, [number, number | null][]>;

/**
 * "step": let one training step through and pause again. "ready": somebody is looking
 * (sent when a view is drawn, and as the answer to a patch whose state is "paused").
 * "open" and "close": show the inside of a group, or the group as one box. "open_all" and
 * "close_all" do so with all of them. "tab": show one backward pass, or all. "find": look for a name, and tell
 * of it in each picture from now on. "seen": what is on
 * screen, now and then while a loop runs; no numbers of others are computed for an update, then.
 */
export interface Command {
  /** In a browser tab, where each command is sent twice: what tells the second from a new one. */
  id?: string;
  /** For "speed": steps per second, null for as fast as it can. */
  value?: number | null;
  type: "pause" | "resume" | "step" | "stop" | "ready" | "open" | "close" | "open_all" | "close_all" | "tab" | "find" | "speed" | "goto" | "compare" | "touch" | "toy" | "walk" | "seen";
  group?: string;
  /** For "tab": its number. */
  tab?: number | null;
  /** For "find". */
  text?: string;
  /** For "goto" and "compare": the number of a step; without it, no longer. */
  step?: number;
  /** For "seen": which of the widget's views it is; of which picture; the places of its nodes. */
  view?: string;
  structure?: string;
  nodes?: number[];
  /** For "walk": where to; with "to", the id of the box that is chosen. */
  go?: "next" | "back" | "end" | "to";
  node?: string;
  /** For "goto": and from there so many kept steps on. */
  by?: number;
  /** For "touch" and "toy": what to do, and to which number or point; `to` may be text. */
  act?: "set" | "undo" | "redo" | "step" | "reset" | "drag" | "move";
  name?: string;
  index?: number | string;
  to?: number | string;
  place?: [number, number];
  /** Changes with the same number, not 0, are one drag and undone together. */
  drag?: number;
}

declare global {
  /** The page's own Graphviz, where Python put it before the script. */
  const edutorchGraphviz: any;
}
