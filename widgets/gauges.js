// Gradients and updates by layer, units that are off, learning rates: the health of the loop.
import { formatSize } from "./numbers.js";
import { setAttribute, setStyle, write } from "./dom.js";

/** @typedef {import("./protocol.js").GaugesData} GaugesData */
/** @typedef {import("./panels.js").Around} Around */

// What the scales span, as powers of ten.
const GRADIENT_SCALE = [-8, 2];
const UPDATE_SCALE = [-6, 0];
const HEALTHY_UPDATES = [-3.7, -2.3]; // around 1e-3

/**
 * Where on a log scale a number lies, in percent; 0 for 0, 100 for what is not finite.
 * @param {number | null} x
 * @param {number[]} powers
 */
export function placeOn(x, [low, high]) {
  if (x === null) return 100;
  if (!(x > 0)) return 0;
  return Math.min(100, Math.max(0, (100 * (Math.log10(x) - low)) / (high - low)));
}

/** @param {number | null} x */
function gaugeNumber(x) {
  return x === null ? "NaN" : formatSize(x);
}

/** @param {string} name @param {string} [text] @param {string} [kind] */
function gaugePart(name, text = "", kind = "") {
  const element = document.createElement(name);
  element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

const LEAST_SHARE = 0.005; // of units that are off: less is written as 0%

export class GaugesPanel {
  /** @param {Around} around */
  constructor(around) {
    this.around = around;
    const element = document.createElement("details");
    this.element = element;
    element.className = "edutorch-gauges";
    element.open = true;
    this.title = gaugePart("summary");
    this.said = gaugePart("span", "", "said");
    this.rates = gaugePart("span", "", "rates");
    this.title.append(gaugePart("strong", "Layers"), this.said, this.rates);
    this.table = gaugePart("table");
    const head = gaugePart("tr");
    for (const text of ["parameter", "gradient norm, 1e-8 to 1e2", "norm", "update / weight, 1e-6 to 1", "ratio"]) {
      const cell = gaugePart("th", text);
      cell.setAttribute("scope", "col");
      head.append(cell);
    }
    const top = gaugePart("thead");
    top.append(head);
    this.body = gaugePart("tbody");
    this.table.append(top, this.body);
    this.off = gaugePart("ul", "", "off");
    this.fine = gaugePart("p", "", "fine");
    element.append(this.title, this.table, this.off, this.fine);
    /** @type {Map<string, GaugeRow>} */
    this.rows = new Map();
    /** @type {Map<string, GaugeShare>} */
    this.shares = new Map();
  }

  /** @param {GaugesData} data */
  show(data) {
    write(this.said, data.words.join(" "));
    write(this.rates, data.rates.map(([name, rate]) => `${name}: learning rate ${rate ?? "NaN"}`).join(", "));
    this.table.hidden = data.layers.length === 0;
    for (const [name, ...numbers] of data.layers) {
      let row = this.rows.get(name);
      if (!row) {
        row = new GaugeRow(name);
        this.rows.set(name, row);
      }
      row.show(numbers);
    }
    keepGauges(this.body, this.rows, data.layers.map(([name]) => name));
    const off = data.activations.filter(([, , share]) => share === null || share >= LEAST_SHARE);
    const fine = data.activations.length - off.length;
    const things = `${off.length > 0 ? "more " : ""}activation${fine === 1 ? "" : "s"}`;
    write(this.fine, fine > 0 ? `${fine} ${things} with nothing dead or saturated` : "");
    for (const [name, what, share] of off) {
      let bar = this.shares.get(name);
      if (!bar) {
        bar = new GaugeShare(name);
        this.shares.set(name, bar);
      }
      bar.show(what, share);
    }
    keepGauges(this.off, this.shares, off.map(([name]) => name).sort());
  }
}

/**
 * Have just these children in this order; nothing moves that stands right.
 * @param {HTMLElement} parent
 * @param {Map<string, {element: HTMLElement}>} all
 * @param {string[]} names
 */
function keepGauges(parent, all, names) {
  for (const [name, { element }] of all) {
    if (names.includes(name)) continue;
    element.remove();
    all.delete(name);
  }
  names.forEach((name, index) => {
    const element = /** @type {{element: HTMLElement}} */ (all.get(name)).element;
    if (parent.children[index] !== element) parent.insertBefore(element, parent.children[index] ?? null);
  });
}

class GaugeRow {
  /** @param {string} name */
  constructor(name) {
    this.element = gaugePart("tr");
    const title = gaugePart("th", name);
    title.setAttribute("scope", "row");
    title.title = name;
    this.bar = gaugePart("div", "", "bar");
    this.fill = gaugePart("i", "", "fill");
    this.middle = gaugePart("i", "", "middle");
    this.bar.append(this.fill, this.middle);
    this.dotted = gaugePart("div", "", "ratio");
    const band = gaugePart("i", "", "band");
    const [low, high] = HEALTHY_UPDATES.map((power) => placeOn(10 ** power, UPDATE_SCALE));
    band.style.left = `${low}%`;
    band.style.width = `${high - low}%`;
    this.dot = gaugePart("i", "", "dot");
    this.dotted.append(band, this.dot);
    this.norm = gaugePart("td", "", "number");
    this.ratio = gaugePart("td", "", "number");
    const cells = [this.bar, this.dotted].map((drawn) => {
      drawn.setAttribute("aria-hidden", "true"); // the number stands next to it
      const cell = gaugePart("td", "", "scale");
      cell.append(drawn);
      return cell;
    });
    this.element.append(title, cells[0], this.norm, cells[1], this.ratio);
  }

  /** @param {(number | null)[]} numbers */
  show([norm, median, ratio, usual]) {
    setStyle(this.fill, "width", `${placeOn(norm, GRADIENT_SCALE).toFixed(1)}%`);
    setStyle(this.middle, "left", `${placeOn(median, GRADIENT_SCALE).toFixed(1)}%`);
    setStyle(this.dot, "left", `${placeOn(usual, UPDATE_SCALE).toFixed(1)}%`);
    const far = /** @type {"bad" | "small" | "large" | "none"} */ (norm === null ? "bad" : norm < 1e-6 ? "small" : norm > 1e3 ? "large" : "none");
    setAttribute(this.element, "data-far", far);
    write(this.norm, `${gaugeNumber(norm)}${{ bad: " !", small: " ↓", large: " ↑", none: "" }[far]}`);
    const fromZero = ratio === null && norm !== null; // the weights were 0 before: no number says how much
    write(this.ratio, fromZero ? "–" : gaugeNumber(ratio));
  }
}

class GaugeShare {
  /** @param {string} name */
  constructor(name) {
    this.element = gaugePart("li");
    this.bar = gaugePart("span", "", "share");
    this.bar.setAttribute("aria-hidden", "true");
    this.fill = gaugePart("i");
    this.bar.append(this.fill);
    this.text = gaugePart("span");
    this.element.append(gaugePart("code", name), this.bar, this.text);
  }

  /** @param {string} what @param {number | null} share */
  show(what, share) {
    const percent = Math.round(100 * (share ?? 1));
    setStyle(this.fill, "width", `${percent}%`);
    this.element.classList.toggle("much", percent > 50);
    write(this.text, `${percent}% ${what}`);
  }
}
