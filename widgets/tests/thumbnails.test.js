import { describe, expect, it } from "vitest";
import { Graph } from "../picture.js";
import { drawThumbnail, palette, showThumbnails } from "../thumbnails.js";
import { golden, samplePatch, samplePicture } from "./samples.js";

const BOX = { left: 10, top: 20, right: 50, bottom: 40 };
const BARS = { kind: /** @type {const} */ ("bars"), low: -1, high: 1, std: 0.5, bars: [0, 2, 4, 1] };

/** @param {number[]} pixels @param {number} width @param {number} channels */
function image(pixels, width, channels = 1) {
  const height = pixels.length / width / channels;
  return { kind: /** @type {const} */ ("image"), low: 0, high: 1, std: 0, width, height, channels, pixels: btoa(String.fromCharCode(...pixels)) };
}

describe("palette", () => {
  it("is Python's", () => {
    for (const [kind, low, high, colours] of golden("palettes.json")) expect(palette(kind, low, high), kind).toEqual(colours);
  });
});

describe("drawThumbnail", () => {
  it("draws a bar for each part of the range that is not empty", () => {
    const bars = drawThumbnail(BARS, BOX).querySelector(".bars");
    expect(bars?.getAttribute("d")?.match(/M/g)?.length).toBe(3);
    expect(bars?.getAttribute("d")).toContain("v-20.0"); // the fullest is as high as the box
  });
  it("draws each pixel where it is, those of one colour beside each other as one", () => {
    const group = drawThumbnail(image([0, 0, 255, 255, 0, 0], 3), BOX);
    const paths = [...group.querySelectorAll("g > path[fill]")].map((path) => [path.getAttribute("fill"), path.getAttribute("d")]);
    expect(paths).toEqual([
      ["#000000", "M0 0h2v1H0ZM1 1h2v1H1Z"],
      ["#ffffff", "M2 0h1v1H2ZM0 1h1v1H0Z"],
    ]);
  });
  it("keeps its shape and stays in the box", () => {
    const group = drawThumbnail(image([0, 0, 255, 255], 2), BOX);
    expect(group.querySelector("g")?.getAttribute("transform")).toBe("translate(20.00,20.00) scale(10.0000)");
  });
  it("draws colours", () => {
    const group = drawThumbnail(image([255, 0, 0, 0, 0, 255], 2, 3), BOX);
    expect([...group.querySelectorAll("path[fill]")].map((path) => path.getAttribute("fill"))).toEqual(["#ff0000", "#0000ff"]);
  });
});

describe("showThumbnails", () => {
  const tall = () => {
    const picture = samplePicture();
    picture.svg = picture.svg.replaceAll("-10", "30"); // room below the lines
    return new Graph(picture);
  };
  it("draws into the box, once", () => {
    const graph = tall();
    showThumbnails(graph, samplePatch({ thumbs: { n0: BARS, nowhere: BARS } }));
    showThumbnails(graph, samplePatch({ thumbs: { n0: BARS } }));
    expect(graph.svg.querySelectorAll(".thumbnail").length).toBe(1);
    expect(graph.nodes.get("n0")?.group.querySelector(".thumbnail .bars")).not.toBeNull();
  });
  it("is pale as soon as the numbers are newer", () => {
    const graph = tall();
    showThumbnails(graph, samplePatch({ thumbs: { n0: BARS } }));
    expect(graph.svg.classList.contains("old-thumbnails")).toBe(false);
    showThumbnails(graph, samplePatch());
    expect(graph.svg.classList.contains("old-thumbnails")).toBe(true);
    expect(graph.svg.querySelector(".thumbnail")).not.toBeNull();
  });
  it("is pale where it is of an earlier step", () => {
    const graph = tall();
    showThumbnails(graph, samplePatch({ state: "finished", step: 9, thumbs: { n0: BARS }, thumbsStep: 7 }));
    expect(graph.svg.querySelector(".thumbnail")).not.toBeNull();
    expect(graph.svg.classList.contains("old-thumbnails")).toBe(true);
    showThumbnails(graph, samplePatch({ state: "finished", step: 9, thumbs: { n0: BARS }, thumbsStep: 9 }));
    expect(graph.svg.classList.contains("old-thumbnails")).toBe(false);
  });
  it("is gone where a step is looked at of which it is not known", () => {
    const graph = tall();
    showThumbnails(graph, samplePatch({ state: "finished", thumbs: { n0: BARS } }));
    showThumbnails(graph, samplePatch({ state: "finished" }));
    expect(graph.svg.querySelector(".thumbnail")).toBeNull();
  });
  it("leaves a box without room alone", () => {
    const graph = new Graph(samplePicture());
    showThumbnails(graph, samplePatch({ thumbs: { n1: BARS } }));
    expect(graph.svg.querySelector(".thumbnail")).not.toBeNull();
    expect(graph.nodes.get("n0")?.slot).toBeNull();
  });
});
