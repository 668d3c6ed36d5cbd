import { describe, expect, it } from "vitest";
import { setAttribute, setStyle, write } from "../dom.js";

/** What the browser is told of while `act` runs. @param {Element} element @param {() => void} act */
function told(element, act) {
  const observer = new MutationObserver(() => {});
  observer.observe(element, { attributes: true, childList: true, characterData: true, subtree: true });
  act();
  return observer.takeRecords().map(({ type }) => type);
}

describe("writing into the page", () => {
  it("keeps the text node, and leaves it alone where nothing is new", () => {
    const element = document.createElement("p");
    expect(told(element, () => write(element, "one"))).toEqual(["childList"]);
    expect(told(element, () => write(element, "two"))).toEqual(["characterData"]);
    expect(told(element, () => write(element, "two"))).toEqual([]);
    write(element, "");
    write(element, "<b>three</b>");
    expect(element.innerHTML).toBe("&lt;b&gt;three&lt;/b&gt;");
  });
  it("takes the place of elements", () => {
    const element = document.createElement("p");
    element.innerHTML = "one <b>two</b>";
    write(element, "three");
    expect(element.innerHTML).toBe("three");
  });
  it("sets an attribute only to something else", () => {
    const element = document.createElement("button");
    expect(told(element, () => setAttribute(element, "title", "a"))).toEqual(["attributes"]);
    expect(told(element, () => setAttribute(element, "title", "a"))).toEqual([]);
    expect(told(element, () => setAttribute(element, "disabled", false))).toEqual([]);
    expect(told(element, () => setAttribute(element, "disabled", true))).toEqual(["attributes"]);
    expect(told(element, () => setAttribute(element, "disabled", true))).toEqual([]);
    expect(element.disabled).toBe(true);
    setAttribute(element, "disabled", false);
    expect(element.disabled).toBe(false);
  });
  it("sets a style only to something else", () => {
    const element = document.createElement("p");
    expect(told(element, () => setStyle(element, "--width", "2"))).toEqual(["attributes"]);
    expect(told(element, () => setStyle(element, "--width", "2"))).toEqual([]);
    setStyle(element, "width", "3.0%");
    expect(element.style.width).toBe("3%");
  });
});
