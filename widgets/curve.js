// Small charts of the scalars (loss, accuracy …), one per name, as inline SVG.
import { formatNumber } from "./numbers.js";
import { svgElement } from "./picture.js";
import { setAttribute, write } from "./dom.js";

const WIDTH = 320;
const HEIGHT = 84;
const PLOT = { left: 46, right: WIDTH - 8, top: 8, bottom: HEIGHT - 16 };
const MOST_CHARTS = 12;

/** @typedef {[number, number][]} Points */

/**
 * The mean of each value and its neighbours: the trend behind the noise. As many
 * neighbours on the left as on the right, so that the trend does not lag behind.
 * @param {Points} points
 * @returns {Points}
 */
export function smooth(points) {
  const widest = Math.floor(points.length / 24);
  return points.map(([step, value], index) => {
    if (!Number.isFinite(value)) return [step, value];
    const reach = Math.min(widest, index, points.length - 1 - index);
    const near = points.slice(index - reach, index + reach + 1).map((point) => point[1]).filter(Number.isFinite);
    return [step, near.reduce((sum, each) => sum + each, 0) / near.length];
  });
}

/**
 * The smallest and largest finite value, apart even where all are equal.
 * @param {number[]} values
 * @returns {[number, number]}
 */
export function span(values) {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return [0, 1];
  const low = finite.reduce((a, b) => Math.min(a, b));
  const high = finite.reduce((a, b) => Math.max(a, b));
  return low < high ? [low, high] : [low - 0.5, high + 0.5];
}

/**
 * SVG path through `points`; values that are not finite leave a gap.
 * @param {Points} points
 * @param {[number, number]} steps
 * @param {[number, number]} values
 * @returns {string}
 */
export function pathThrough(points, steps, values) {
  let pen = "M";
  let path = "";
  for (const [step, value] of points) {
    if (!Number.isFinite(value)) {
      pen = "M";
      continue;
    }
    const x = PLOT.left + ((step - steps[0]) / (steps[1] - steps[0])) * (PLOT.right - PLOT.left);
    const y = PLOT.bottom - ((value - values[0]) / (values[1] - values[0])) * (PLOT.bottom - PLOT.top);
    path += `${pen}${x.toFixed(1)},${y.toFixed(1)}`;
    pen = "L";
  }
  return path;
}

/** The charts of one view. `show` redraws only the charts whose points changed. */
export class Curves {
  constructor() {
    this.element = document.createElement("div");
    this.element.className = "edutorch-curves";
    /** @type {Map<string, Chart>} */
    this.charts = new Map();
    /** @type {import("./protocol.js").Curves | null} */
    this.whole = null;
    /** @type {Map<string, [number, number | null][]>} */
    this.points = new Map();
  }

  /**
   * Whole curves come rarely; between, each grows by the latest point of every message.
   * @param {import("./protocol.js").Curves} curves
   * @param {import("./protocol.js").Patch["latest"]} latest
   */
  show(curves, latest) {
    const anew = curves !== this.whole;
    if (anew) {
      this.whole = curves;
      this.points = new Map(Object.entries(curves).map(([name, points]) => [name, [...points]]));
      for (const [name, chart] of this.charts) {
        if (name in curves || name in latest) continue;
        chart.element.remove(); // the loss has got another name: there are several
        this.charts.delete(name);
      }
    }
    const changed = new Set(anew ? this.points.keys() : []); // a message may bring whole curves without latest points
    for (const [name, point] of Object.entries(latest)) {
      const points = this.points.get(name) ?? [];
      const last = points[points.length - 1];
      const grown = !last || point[0] > last[0];
      if (grown) points.push(point);
      this.points.set(name, points);
      if (grown || !this.charts.has(name)) changed.add(name);
    }
    for (const name of changed) {
      const points = this.points.get(name) ?? [];
      this.chart(name)?.show(points.map(([step, value]) => [step, value ?? NaN])); // JSON has no NaN
    }
  }

  /** Mark a step that is looked back at. @param {number | null} step null: none */
  mark(step) {
    for (const chart of this.charts.values()) chart.mark(step);
  }

  /** @param {string} name */
  chart(name) {
    let chart = this.charts.get(name);
    if (!chart && this.charts.size < MOST_CHARTS) {
      chart = new Chart(name);
      this.charts.set(name, chart);
      this.element.append(chart.element);
    }
    return chart;
  }
}

class Chart {
  /** @param {string} name */
  constructor(name) {
    this.name = name;
    this.element = document.createElement("figure");
    this.title = document.createElement("figcaption");
    const label = document.createElement("span");
    label.textContent = name;
    this.value = document.createElement("output");
    this.title.append(label, this.value);
    this.svg = svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
    this.area = svgElement("path", { class: "area" });
    this.raw = svgElement("path", { class: "raw" });
    this.trend = svgElement("path", { class: "trend" });
    this.dot = svgElement("circle", { class: "dot", r: 3 });
    const frame = svgElement("path", { class: "axis", d: `M${PLOT.left},${PLOT.top}V${PLOT.bottom}H${PLOT.right}` });
    this.high = svgElement("text", { x: PLOT.left - 5, y: PLOT.top + 7, "text-anchor": "end" });
    this.low = svgElement("text", { x: PLOT.left - 5, y: PLOT.bottom, "text-anchor": "end" });
    this.first = svgElement("text", { x: PLOT.left, y: HEIGHT - 4 });
    this.last = svgElement("text", { x: PLOT.right, y: HEIGHT - 4, "text-anchor": "end" });
    this.svg.append(this.area, frame, this.raw, this.trend, this.dot, this.high, this.low, this.first, this.last);
    this.element.append(this.title, this.svg);
    this.cursor = svgElement("path", { class: "cursor" });
    this.svg.append(this.cursor);
    /** @type {[number, number]} */
    this.steps = [0, 1];
  }

  /** @param {number | null} step */
  mark(step) {
    const [first, last] = this.steps;
    const inside = step !== null && step >= first && step <= last;
    const x = PLOT.left + (((step ?? first) - first) / (last - first)) * (PLOT.right - PLOT.left);
    setAttribute(this.cursor, "d", inside ? `M${x.toFixed(1)},${PLOT.top}V${PLOT.bottom}` : "");
  }

  /** @param {Points} points */
  show(points) {
    const [lastStep, lastValue] = points[points.length - 1];
    const steps = (this.steps = span(points.map(([step]) => step)));
    const values = span(points.map(([, value]) => value));
    const trend = smooth(points);
    const line = pathThrough(trend, steps, values);
    const end = trend[trend.length - 1];
    this.raw.setAttribute("d", pathThrough(points, steps, values));
    this.trend.setAttribute("d", line);
    const closed = line && !line.includes("M", 1);
    this.area.setAttribute("d", closed ? `${line}V${PLOT.bottom}H${PLOT.left}Z` : "");
    const [x, y] = pathThrough([end], steps, values).slice(1).split(",");
    this.dot.setAttribute("cx", x || "-9");
    this.dot.setAttribute("cy", y || "-9");
    write(this.value, shortNumber(lastValue));
    const [low, high] = values.map(shortNumber);
    write(this.high, high);
    write(this.low, low === high ? "" : low); // too near each other to be told apart
    write(this.first, `step ${points[0][0]}`);
    write(this.last, `${lastStep}`);
    this.svg.setAttribute("aria-label", `${this.name}: ${shortNumber(lastValue)} at step ${lastStep}`);
  }
}

/** The sign only where it says something. @param {number} value */
function shortNumber(value) {
  return formatNumber(value).replace(/^\+/, "");
}
