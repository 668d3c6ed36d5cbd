// Python joins the modules into one script (edutorch/viz/live/widget.py). Does that work?
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const WIDGETS = join(dirname(fileURLToPath(import.meta.url)), "..");
const source = (name) => readFileSync(join(WIDGETS, `${name}.js`), "utf8");
const importsOf = (name) => [...source(name).matchAll(/^import .* from "\.\/(\w+)\.js";$/gm)].map((match) => match[1]);
/** As Python does: what a module imports stands before it. */
const after = (name) => [...new Set([...importsOf(name).flatMap(after), name])];
const order = after("live");
const texts = order.map(source);

it("has each top-level name once", () => {
  const names = texts.flatMap((text) => [...text.matchAll(/^(?:export )?(?:const|let|class|function) (\w+)/gm)].map((match) => match[1]));
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
});

it("is what Python joins", () => {
  const python = readFileSync(join(WIDGETS, "..", "edutorch", "viz", "live", "widget.py"), "utf8");
  expect(python).toContain('ENTRY = "live"');
  expect(order).toHaveLength(new Set(order).size);
  expect(order).toEqual(expect.arrayContaining(["dom", "panels", "gauges", "graphviz"]));
});

it("imports only what stands before, on one line each", () => {
  texts.forEach((text, index) => {
    for (const [line] of text.matchAll(/^import\b.*/gm)) {
      const from = line.match(/^import \{[^}]+\} from "\.\/(\w+)\.js";$/)?.[1] ?? line;
      expect(order.slice(0, index), order[index]).toContain(from);
    }
  });
});

it("is one script that offers `render`", () => {
  const script = texts.join("\n").replace(/^import .*\n/gm, "").replace(/^export (?!default)/gm, "");
  const widget = new Function(script.replace("export default", "return"))();
  expect(typeof widget.render).toBe("function");
});

it("writes texts as texts: none becomes HTML, also in what is no part of the view", () => {
  const files = readdirSync(WIDGETS).filter((name) => name.endsWith(".js"));
  expect(files).toContain("replay.js");
  for (const name of files) {
    const text = readFileSync(join(WIDGETS, name), "utf8");
    expect(text, name).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write/);
  }
});
