// Which MathML each piece of LaTeX becomes.
import { describe, expect, it } from "vitest";
import { formula } from "../formula.js";

/** `mfrac(mi:g mrow(mn:2 mi:x))`: the elements and their texts. @param {Element} element @returns {string} */
function outline(element) {
  const inner = element.children.length > 0 ? `(${[...element.children].map(outline).join(" ")})` : element.textContent && `:${element.textContent}`;
  const how = [...element.attributes].map(({ name, value }) => `[${name}=${value}]`).join("");
  return `${element.localName}${how}${inner}`;
}

/** @param {string} latex */
const parts = (latex) => [...formula(latex).children].map(outline).join(" ");

describe("a formula", () => {
  it.each([
    ["2.5x", "mn:2.5 mi:x"],
    ["x'", "msup(mi:x mo:′)"],
    ["'", "mo:'"],
    ["x^2", "msup(mi:x mn:2)"],
    ["x_i^{n+1}", "msup(msub(mi:x mi:i) mrow(mi:n mo:+ mn:1))"],
    ["^2_3", "mo:^ msub(mn:2 mn:3)"],
    ["a-b", "mi:a mo:- mi:b"],
    ["-b", "mo:- mi:b"],
    ["a\\cdot -b", "mi:a mo:· mo[form=prefix]:- mi:b"],
    ["(-b)", "mo:( mo[form=prefix]:- mi:b mo:)"],
    ["(a)-b", "mo:( mi:a mo:) mo:- mi:b"],
    ["x^\\top - b", "msup(mi:x mo:⊤) mo:- mi:b"],
    ["\\frac{g}{2}x", "mfrac(mrow(mi:g) mrow(mn:2)) mi:x"],
    ["\\tfrac12x", "mfrac(mn:12 mi:x)"],
    ["\\dfrac{a}bc", "mfrac(mrow(mi:a) mi:b) mi:c"],
    ["\\sqrt{x}y", "msqrt(mrow(mi:x)) mi:y"],
    ["\\operatorname{sign}(x)", "mtext:sign mo:( mi:x mo:)"],
    ["\\mathbf {1}x", "mtext:1 mi:x"],
    ["\\bar{g}h", "mover(mrow(mi:g) mo:¯) mi:h"],
    ["\\hat x y", "mover(mi:x mo:^) mi:y"],
    ["a\\,b\\quad c", "mi:a mspace[width=0.17em] mi:b mspace[width=1em] mi:c"],
    ["\\left(x\\right)", "mo:( mi:x mo:)"],
    ["\\alpha\\odot\\infty", "mi:α mo:⊙ mo:∞"],
    ["\\exp x", "mtext:exp mi:x"],
    ["\\unknown x", "mtext:\\unknown mi:x"],
    ["\\{x\\}", "mo:{ mi:x mo:}"],
    ["{a}b", "mrow(mi:a) mi:b"],
    ["x^", "msup(mi:x mo)"],
    ["", ""],
  ])("%s", (latex, wanted) => expect(parts(latex)).toBe(wanted));

  it.each([
    ["\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix} x",
      "mtable[class=matrix](mtr(mtd(mi:a) mtd(mi:b)) mtr(mtd(mi:c) mtd(mi:d))) mi:x"],
    ["\\begin{pmatrix} 1 \\end{pmatrix}", "mtable[class=matrix](mtr(mtd(mn:1)))"],
    ["\\begin{pmatrix} 1 & 2", "mtable[class=matrix](mtr(mtd(mn:1) mtd(mn:2)))"], // it has no end
    ["\\begin{pmatrix} 1 } x", "mtable[class=matrix](mtr(mtd(mn:1))) mi:x"],
    ["\\begin", "mtable[class=matrix](mtr)"],
  ])("with a matrix: %s", (latex, wanted) => expect(parts(latex)).toBe(wanted));
});
