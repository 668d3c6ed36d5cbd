// The derivative formulas: the small part of LaTeX that op rules use, as MathML.
// Browsers draw MathML themselves, so no library is needed.

const MATHML = "http://www.w3.org/1998/Math/MathML";

/** @type {Record<string, string>} */
const SYMBOLS = {
  alpha: "α", beta: "β", gamma: "γ", delta: "δ", epsilon: "ε", varepsilon: "ε", eta: "η", theta: "θ",
  lambda: "λ", mu: "μ", pi: "π", rho: "ρ", sigma: "σ", tau: "τ", phi: "φ", omega: "ω",
  Delta: "Δ", Sigma: "Σ", Phi: "Φ", Omega: "Ω", partial: "∂", nabla: "∇", sum: "∑", prod: "∏",
  cdot: "·", odot: "⊙", times: "×", div: "÷", pm: "±", ast: "∗", circ: "∘", top: "⊤",
  star: "⋆", psi: "ψ", zeta: "ζ", varphi: "φ", Gamma: "Γ", kappa: "κ", lfloor: "⌊", rfloor: "⌋", lceil: "⌈", rceil: "⌉",
  leq: "≤", le: "≤", geq: "≥", ge: "≥", neq: "≠", ne: "≠", approx: "≈", in: "∈", infty: "∞",
  to: "→", rightarrow: "→", ldots: "…", cdots: "⋯", dots: "…", mid: "|", lvert: "|", rvert: "|",
  "{": "{", "}": "}", "|": "‖", "%": "%", "&": "&", _: "_", "#": "#",
};
/** @type {Record<string, string>} */
const SPACES = { ",": "0.17em", ":": "0.22em", ";": "0.28em", " ": "0.3em", "!": "0", quad: "1em", qquad: "2em" };
const NAMES = new Set(["exp", "log", "ln", "sin", "cos", "tan", "sinh", "cosh", "tanh", "max", "min", "sign", "softmax"]);
const TEXT = /^(?:operatorname|mathrm|text|mathbf|mathit|textrm)\s*\{([^{}]*)\}$/;
/** @type {Record<string, string>} */
const ACCENTS = { bar: "¯", overline: "¯", hat: "^", tilde: "~" };
const SILENT = new Set(["left", "right", "textstyle", "displaystyle"]); // they only size what follows
const CLOSING = new Set([")", "]", "⌋", "⌉", "⊤"]);
const ROW_ENDS = new Set(["}", "&", "\\\\", "\\end"]);

/**
 * A `<math>` element for `latex`. What it does not know is shown as written.
 * @param {string} latex
 * @returns {Element}
 */
export function formula(latex) {
  const tokens = latex.match(/\\(?:operatorname|mathrm|text|mathbf|mathit|textrm)\s*\{[^{}]*\}|\\[a-zA-Z]+|\\.|[0-9]+(?:\.[0-9]+)?|\S/gs) ?? [];
  const math = make("math");
  math.append(...row(tokens, 0).parts);
  return math;
}

/** @param {string} name @param {...(Node | string)} children */
function make(name, ...children) {
  const element = document.createElementNS(MATHML, name);
  element.append(...children);
  return element;
}

/**
 * The parts from `at` up to the closing brace or the end.
 * @param {string[]} tokens
 * @param {number} at
 * @returns {{parts: Element[], next: number}}
 */
function row(tokens, at) {
  /** @type {Element[]} */
  const parts = [];
  while (at < tokens.length && !ROW_ENDS.has(tokens[at])) {
    if (tokens[at] === "'" && parts.length > 0) {
      parts.push(make("msup", /** @type {Element} */ (parts.pop()), make("mo", "′")));
      at += 1;
    } else if ((tokens[at] === "^" || tokens[at] === "_") && parts.length > 0) {
      const name = tokens[at] === "^" ? "msup" : "msub";
      const script = atom(tokens, at + 1);
      parts.push(make(name, /** @type {Element} */ (parts.pop()), script.part));
      at = script.next;
    } else {
      const { part, next } = atom(tokens, at);
      const before = parts[parts.length - 1];
      const opens = before?.localName === "mo" && !CLOSING.has(before.textContent ?? "");
      if (tokens[at] === "-" && opens) part.setAttribute("form", "prefix"); // a sign, no subtraction
      parts.push(part);
      at = next;
    }
  }
  return { parts, next: at };
}

/**
 * One thing: a group in braces, a command with its arguments, or a character.
 * @param {string[]} tokens
 * @param {number} at
 * @returns {{part: Element, next: number}}
 */
function atom(tokens, at) {
  const token = tokens[at] ?? "";
  if (token === "{") {
    const { parts, next } = row(tokens, at + 1);
    return { part: make("mrow", ...parts), next: next + 1 };
  }
  if (token.startsWith("\\")) return command(tokens, at, token.slice(1));
  if (/^[0-9]/.test(token)) return { part: make("mn", token), next: at + 1 };
  return { part: make(/\p{L}/u.test(token) ? "mi" : "mo", token), next: at + 1 };
}

/**
 * @param {string[]} tokens
 * @param {number} at
 * @param {string} name
 * @returns {{part: Element, next: number}}
 */
function command(tokens, at, name) {
  if (name === "frac" || name === "tfrac" || name === "dfrac") {
    const top = atom(tokens, at + 1);
    const bottom = atom(tokens, top.next);
    return { part: make("mfrac", top.part, bottom.part), next: bottom.next };
  }
  if (name === "sqrt") {
    const inside = atom(tokens, at + 1);
    return { part: make("msqrt", inside.part), next: inside.next };
  }
  const text = name.match(TEXT);
  if (text) return { part: make("mtext", text[1]), next: at + 1 };
  if (Object.hasOwn(ACCENTS, name)) {
    const inside = atom(tokens, at + 1);
    return { part: make("mover", inside.part, make("mo", ACCENTS[name])), next: inside.next };
  }
  if (name === "begin") return matrix(tokens, at);
  if (Object.hasOwn(SPACES, name)) {
    const space = make("mspace");
    space.setAttribute("width", SPACES[name]);
    return { part: space, next: at + 1 };
  }
  if (SILENT.has(name)) return atom(tokens, at + 1);
  if (Object.hasOwn(SYMBOLS, name)) {
    const symbol = SYMBOLS[name];
    return { part: make(/\p{L}/u.test(symbol) ? "mi" : "mo", symbol), next: at + 1 };
  }
  return { part: make("mtext", NAMES.has(name) ? name : `\\${name}`), next: at + 1 };
}

/**
 * \begin{pmatrix} a & b \\ c & d \end{pmatrix}
 * @param {string[]} tokens
 * @param {number} at
 * @returns {{part: Element, next: number}}
 */
function matrix(tokens, at) {
  const table = make("mtable");
  table.setAttribute("class", "matrix"); // the brackets are its borders: not every font has tall ones
  let line = make("mtr");
  let next = tokens.indexOf("}", at) + 1;
  while (next > 0 && next < tokens.length && tokens[next] !== "\\end") {
    const cell = row(tokens, next);
    line.append(make("mtd", ...cell.parts));
    next = cell.next;
    if (tokens[next] === "\\\\") {
      table.append(line);
      line = make("mtr");
    }
    if (tokens[next] === "&" || tokens[next] === "\\\\") next += 1;
    else if (tokens[next] === "}") break;
  }
  table.append(line);
  const end = tokens.indexOf("}", next);
  return { part: table, next: end < 0 ? tokens.length : end + 1 };
}
