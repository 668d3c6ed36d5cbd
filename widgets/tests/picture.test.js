import { describe, expect, it } from "vitest";
import { Graph, flowText, gradientText, safeSvg, valueText } from "../picture.js";
import { namedNumbers } from "../numbers.js";
import { MARK_SHAPES } from "../colours.js";
import { NUMBERS, dataView, golden, samplePatch, samplePicture } from "./samples.js";

const NASTY = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 9 9" onload="boom()">
<script>boom()</script><style>* { display: none }</style><foreignObject><body xmlns="http://www.w3.org/1999/xhtml" onload="boom()"/></foreignObject>
<image href="https://example.org/x.png"/><use xlink:href="#x"/><animate attributeName="d" onbegin="boom()"/>
<g id="n0" class="node evil" onclick="boom()" style="background:url(https://example.org)">
<a xlink:href="javascript:boom()"><text>inside a link</text></a>
<path d="M0,0L1,1" fill="url(https://example.org/#p)" onmouseover="boom()"/>
<text x="1" y="2">&lt;img src=x onerror=boom()&gt;<tspan onclick="boom()"> two</tspan></text></g></svg>`;

/** @param {Element} root */
const everything = (root) => [root, ...root.querySelectorAll("*")];

describe("safeSvg", () => {
  const { svg, groups } = safeSvg(NASTY);
  it("keeps shapes and text only", () => {
    expect(new Set(everything(svg).map((element) => element.localName))).toEqual(new Set(["svg", "g", "path", "text"]));
  });
  it("keeps geometry only", () => {
    const names = new Set(everything(svg).flatMap((element) => element.getAttributeNames()));
    expect(names).toEqual(new Set(["viewBox", "class", "d", "x", "y"]));
    expect(groups.get("n0")?.getAttribute("class")).toBe("node");
  });
  it("leaves markup in a name as text", () => {
    const text = svg.querySelector("text");
    expect(text?.textContent).toBe("<img src=x onerror=boom()> two");
    expect(text?.children.length).toBe(0);
  });
  it("refuses what is not SVG", () => {
    expect(() => safeSvg("<html></html>")).toThrow("not SVG");
    expect(() => safeSvg("<svg")).toThrow("not SVG");
  });
});

describe("texts", () => {
  const [big, scalar] = samplePicture().nodes;
  const known = { mean: -0.5, gradient: 0.25, sign: -1, few: [-0.5], fewGradients: [NaN] };
  const unknown = { mean: NaN, gradient: NaN, sign: 0, few: [NaN], fewGradients: [NaN] };
  it("of a value", () => {
    expect(valueText(known, big, undefined, false)).toBe("mean  -0.5000");
    expect(valueText(known, scalar, undefined, false)).toBe("value -0.5");
    expect(valueText(known, big, "[1, 2]", false)).toBe("value [1, 2]");
    expect(valueText({ ...known, few: [1, -2] }, { ...big, shape: [2] }, undefined, false)).toBe("value [1, -2]");
    expect(valueText(unknown, big, undefined, false)).toBe("value —");
    expect(valueText(unknown, scalar, undefined, false)).toBe("value —");
    expect(valueText(unknown, big, undefined, true)).toBe("mean  nan");
    expect(valueText(unknown, scalar, undefined, true)).toBe("value nan");
  });
  it("of a gradient", () => {
    expect(gradientText(known, big, undefined, false)).toBe("grad  0.2500");
    expect(gradientText(known, scalar, undefined, false)).toBe("grad  -0.25");
    expect(gradientText({ ...known, fewGradients: [3, 4] }, { ...big, shape: [2] }, undefined, false)).toBe("grad  [3, 4]");
    expect(gradientText(known, big, "-8", false)).toBe("grad  -8");
    expect(gradientText(unknown, big, undefined, false)).toBe("grad  —");
    expect(gradientText(unknown, big, undefined, true)).toBe("grad  nan");
  });
  it("of a flow: its norm, which only a scalar has a sign beside", () => {
    expect(flowText({ gradient: 2, sign: -1 }, big)).toBe("2.0000");
    expect(flowText({ gradient: 2, sign: -1 }, scalar)).toBe("-2.0000");
    expect(flowText({ gradient: 2, sign: 0 }, scalar)).toBe("+2.0000");
    expect(flowText({ gradient: NaN, sign: 0 }, scalar)).toBe("");
  });
  it("of a constant: its number", () => {
    const constant = { ...scalar, kind: "constant" };
    expect(valueText({ ...known, mean: 2 }, constant, undefined, false)).toBe("2");
    expect(valueText({ ...known, mean: 0.1 }, constant, undefined, false)).toBe("0.1");
  });
});

describe("Graph", () => {
  it("writes numbers into nodes and edges and nothing else", () => {
    const graph = new Graph(samplePicture());
    const named = namedNumbers(graph.picture, NUMBERS);
    graph.apply(samplePatch(), /** @type {any} */ (named), null);
    const texts = [...graph.svg.querySelectorAll("text")].map((text) => text.textContent);
    expect(texts).toEqual(["w", "64 float32", "mean  +0.5000", "grad  2.0000", "sum", "scalar", "value -3", "0.1000"]);
  });
  it("colours an arrow by the size of its gradient, and makes it as wide", () => {
    const graph = new Graph(samplePicture());
    graph.apply(samplePatch(), /** @type {any} */ (namedNumbers(graph.picture, NUMBERS)), null);
    const edge = /** @type {SVGElement} */ (graph.svg.querySelector("g.edge"));
    expect(edge.style.getPropertyValue("--width")).toBe("2.50");
    expect(edge.dataset.size).toBe("3");
    graph.apply(samplePatch(), /** @type {any} */ (namedNumbers(graph.picture, dataView([0.5, 2, -3, NaN, NaN], [0, 0, 0]))), null);
    expect(edge.dataset.size).toBe("none");
    expect(edge.style.getPropertyValue("--width")).toBe("1");
  });
  it("says by its fill what a box is, grey where no gradient comes", () => {
    const picture = samplePicture();
    const roles = () => [...new Graph(picture).svg.querySelectorAll("g.node")].map((node) => /** @type {SVGElement} */ (node).dataset.role);
    expect(roles()).toEqual(["parameter", "grey"]);
    picture.nodes[1].differentiable = true;
    expect(roles()).toEqual(["parameter", "op"]);
  });
  it("draws a mark for what is frozen or has a hook, and scissors where the graph is cut", () => {
    const picture = samplePicture();
    picture.nodes[0].marks = ["frozen", "hook"];
    picture.edges[0].kind = "cut";
    const graph = new Graph(picture);
    graph.apply(samplePatch(), /** @type {any} */ (namedNumbers(graph.picture, NUMBERS)), null);
    expect([...graph.svg.querySelectorAll(".mark")].map((mark) => mark.getAttribute("d"))).toEqual([MARK_SHAPES.frozen, MARK_SHAPES.hook]);
    expect(graph.svg.querySelector("g.edge.cut text")?.textContent).toBe("✂");
    expect(graph.svg.querySelector("g.node")?.getAttribute("aria-label")).toContain("frozen, hook");
  });
  it("draws no box around a constant", () => {
    const picture = samplePicture();
    picture.nodes[1].kind = "constant";
    const graph = new Graph(picture);
    graph.apply(samplePatch(), /** @type {any} */ (namedNumbers(graph.picture, NUMBERS)), null);
    const constant = graph.nodes.get("n1")?.group;
    expect(constant?.querySelector("rect")).toBeNull();
    expect(constant?.querySelector("text.value")?.textContent).toBe("-3");
  });
  it("marks nodes with NaN", () => {
    const graph = new Graph(samplePicture());
    const named = /** @type {any} */ (namedNumbers(graph.picture, NUMBERS));
    graph.apply(samplePatch({ bad: ["n0"] }), named, null);
    expect([...graph.svg.querySelectorAll("g.node")].map((node) => node.classList.contains("bad"))).toEqual([true, false]);
    graph.apply(samplePatch(), named, null);
    expect(graph.svg.querySelector(".bad")).toBeNull();
  });
  it("touches only what is on screen", () => {
    const graph = new Graph(samplePicture());
    const named = /** @type {any} */ (namedNumbers(graph.picture, NUMBERS));
    graph.apply(samplePatch(), named, { left: 100, top: -100, right: 300, bottom: 100 });
    const values = [...graph.svg.querySelectorAll("text.value")].map((text) => text.textContent);
    expect(values).toEqual(["value +0.0000", "value -3"]);
  });
  it("has no ids, so that two pictures do not meet", () => {
    expect(new Graph(samplePicture()).svg.querySelector("[id]")).toBeNull();
  });
  it("describes nodes to screen readers", () => {
    const labels = [...new Graph(samplePicture()).svg.querySelectorAll("g.node")].map((node) => node.getAttribute("aria-label"));
    expect(labels).toEqual(["parameter w, shape 64", "output sum in m, shape scalar"]);
  });
});

describe("what Python wrote", () => {
  it("is drawn whole", () => {
    const picture = golden("picture.json");
    const graph = new Graph(picture);
    expect(graph.nodes.size).toBe(picture.nodes.length);
    expect(graph.edges.size).toBe(picture.edges.length);
    for (const node of picture.nodes) {
      const drawn = graph.nodes.get(node.id);
      expect(drawn?.value, node.label).not.toBeNull();
      expect(drawn?.gradient === null, node.label).toBe(!node.differentiable || node.kind === "constant");
    }
  });
  it("takes its patch, and every text fits where Graphviz made room", () => {
    const picture = golden("picture.json");
    const { patch, numbers, signs } = golden("patch.json");
    const graph = new Graph(picture);
    const room = [...graph.svg.querySelectorAll("text")].map((text) => text.textContent?.length ?? 0);
    const floats = numbers.map((/** @type {number | null} */ value) => value ?? NaN);
    const named = namedNumbers(picture, dataView(floats, signs));
    expect(named).not.toBeNull();
    graph.apply(patch, /** @type {any} */ (named), null);
    [...graph.svg.querySelectorAll("text")].forEach((text, index) => {
      expect(text.textContent?.length, text.textContent ?? "").toBeLessThanOrEqual(room[index]);
    });
  });
  it("is harmless however nasty its names are", () => {
    const picture = golden("nasty.json");
    const graph = new Graph(picture);
    const allowed = new Set(["svg", "g", "path", "polygon", "polyline", "ellipse", "text", "rect"]);
    for (const element of everything(graph.svg)) {
      expect(allowed).toContain(element.localName);
      expect(element.getAttributeNames().filter((name) => name.startsWith("on") || name.includes("href"))).toEqual([]);
    }
    expect(graph.nodes.size).toBe(picture.nodes.length);
  });
});
