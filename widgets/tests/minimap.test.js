// The overview is there when the window shows a part of the graph.
import { expect, it } from "vitest";
import { Minimap } from "../minimap.js";
import { Graph } from "../picture.js";
import { samplePicture } from "./samples.js";

const nothing = () => {};

it.each(["left", "top", "right", "bottom"])("is there when something is out of sight beyond the %s edge", (side) => {
  const minimap = new Minimap(nothing, nothing, nothing);
  const graph = new Graph(samplePicture());
  minimap.show(graph);
  const { x, y } = graph.origin;
  const whole = { left: -x, top: -y, right: graph.width - x, bottom: graph.height - y };
  minimap.mark(whole);
  expect(minimap.element.hidden).toBe(true);
  const inwards = side === "left" || side === "top" ? 1 : -1;
  minimap.mark({ ...whole, [side]: whole[/** @type {keyof typeof whole} */ (side)] + inwards });
  expect(minimap.element.hidden).toBe(false);
});
