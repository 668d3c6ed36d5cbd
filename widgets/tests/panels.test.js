import { expect, it } from "vitest";
import { Panels } from "../panels.js";
import { samplePatch } from "./samples.js";

/** @param {string} name @returns {any} */
const kind = (name) =>
  class {
    constructor() {
      this.element = document.createElement("section");
      this.element.className = name;
    }
    /** @param {string} data */
    show(data) {
      this.element.textContent = data;
    }
  };

it("panels appear with their first data, in their own order", () => {
  const around = { send: () => {}, graph: () => null, focus: () => {} };
  const panels = new Panels(around, { first: kind("first"), second: kind("second") });
  panels.show(samplePatch({ parts: { second: "2" } }));
  expect(panels.element.children.length).toBe(1);
  panels.show(samplePatch({ parts: { first: "1", unknown: "3", constructor: "4" } }));
  expect([...panels.element.children].map((each) => each.className)).toEqual(["first", "second"]);
  panels.show(samplePatch({ parts: { second: "again" } }));
  expect(panels.element.textContent).toBe("1again");
});
