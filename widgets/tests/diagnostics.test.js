import { expect, it } from "vitest";
import { TroublePanel } from "../diagnostics.js";

const finding = (more = {}) => ({
  kind: "nan", says: "The first NaN is made by log", do: "Clamp it", line: "a.py:3  x.log()",
  details: ["input = x (3): from 0 to 4"], step: 4, node: "n2", ...more,
});

/** @param {string[]} [focused] */
const panel = (focused = []) =>
  new TroublePanel({ send: () => {}, graph: () => null, focus: (id) => focused.push(id) });

it("says what is wrong, where, and what to do", () => {
  const made = panel();
  made.show({ findings: [finding()], more: 0 });
  expect(made.element.querySelector(".says")?.textContent).toBe("✗ The first NaN is made by log step 4");
  expect(made.element.querySelector(".details")?.textContent).toBe("a.py:3  x.log()\ninput = x (3): from 0 to 4");
  expect(made.element.querySelector(".do")?.textContent).toBe("→ Clamp it");
  expect(made.news.textContent).toBe("1 trouble found");
});

it("shows the node in the graph, under the number that it has now", () => {
  /** @type {string[]} */
  const focused = [];
  const made = panel(focused);
  made.show({ findings: [finding()], more: 0 });
  const button = made.element.querySelector("button");
  button?.click();
  made.show({ findings: [finding({ node: "n7" })], more: 0 });
  expect(made.element.querySelector("button")).toBe(button); // the same: focus is not lost
  button?.click();
  expect(focused).toEqual(["n2", "n7"]);
  made.show({ findings: [finding({ node: "" })], more: 0 });
  expect(button?.hidden).toBe(true);
});

it("is not touched while nothing new is found", () => {
  const made = panel();
  made.show({ findings: [finding()], more: 0 });
  const item = made.list.firstElementChild;
  made.show({ findings: [finding()], more: 0 });
  expect(made.list.firstElementChild).toBe(item);
  made.show({ findings: [finding({ says: "another", kind: "unused" }), finding()], more: 2 });
  expect(made.list.children.length).toBe(2);
  expect(made.rest.textContent).toBe("and 2 more, found earlier");
});

it("writes names as text, never as markup", () => {
  const made = panel();
  const nasty = "<img src=x onerror=alert(1)>";
  made.show({ findings: [finding({ says: nasty, do: nasty, line: nasty, details: [nasty], kind: nasty })], more: 0 });
  expect(made.element.querySelector("img")).toBe(null);
  expect(made.element.textContent).toContain(nasty);
});
