// The flame of a profile: makes the picture that is there already answer to clicks and keys.
// The picture is an SVG in an <img>; it is read as XML, so a name in it stays text.

const MARGIN = 8;
const LETTER = 6.9;

/** @typedef {{group: SVGGElement, left: number, width: number, depth: number, label: string, note: string}} Frame */

/**
 * Return the label, with the note if there is room, or as much as fits.
 * @param {string} label @param {string} note @param {number} width
 */
export function fitting(label, note, width) {
  const room = Math.floor((width - 9) / LETTER);
  if (label.length + 2 + note.length <= room) return `${label}  ${note}`;
  if (label.length <= room) return label;
  label = label.split(" (")[0];
  if (label.length <= room) return label;
  return room >= 3 ? `${label.slice(0, room - 1)}…` : "";
}

/**
 * Say whether one frame lies in another (or is it).
 * @param {Frame} inner @param {Frame} outer
 */
export function within(inner, outer) {
  const slack = 2e-6;
  return (
    inner.depth >= outer.depth &&
    inner.left >= outer.left - slack &&
    inner.left + inner.width <= outer.left + outer.width + slack
  );
}

/** @param {SVGGElement} group @returns {Frame} */
function read(group) {
  const said = group.dataset;
  return {
    group,
    left: Number(said.left),
    width: Number(said.width),
    depth: Number(said.depth),
    label: said.label ?? "",
    note: said.note ?? "",
  };
}

/**
 * Make the flame in `box` interactive.
 * @param {HTMLElement | null} box
 */
export function flame(box) {
  const image = box?.querySelector("img");
  if (!box || !image) return;
  const bytes = Uint8Array.from(atob(image.src.split(",")[1]), (each) => each.charCodeAt(0));
  const text = new TextDecoder().decode(bytes);
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  const svg = /** @type {SVGSVGElement} */ (/** @type {unknown} */ (document.importNode(parsed, true)));
  image.replaceWith(svg);
  new Flame(svg);
}

class Flame {
  /** @param {SVGSVGElement} svg */
  constructor(svg) {
    this.svg = svg;
    this.page = svg.viewBox.baseVal.width - 2 * MARGIN;
    /** @type {Frame[]} */
    this.frames = [...svg.querySelectorAll("g.frame")].map((each) => read(/** @type {SVGGElement} */ (each)));
    this.opened = this.frames[0];
    svg.setAttribute("role", "tree");
    this.frames.forEach((frame, number) => {
      const { group } = frame;
      group.setAttribute("role", "treeitem");
      group.setAttribute("tabindex", number === 0 ? "0" : "-1");
      group.setAttribute("aria-level", String(frame.depth + 1));
      group.setAttribute("aria-label", (group.querySelector("title")?.textContent ?? "").replaceAll("\n", ", "));
      group.style.cursor = "pointer";
      group.addEventListener("click", () => this.open(frame));
    });
    const hint = svg.querySelector(".hint");
    if (hint) hint.textContent = "click: zoom in, again: out · keys: arrows, Enter, Escape";
    svg.addEventListener("keydown", (event) => this.key(event));
    this.shade();
    const theme = { attributeFilter: ["data-jp-theme-light"] };
    new MutationObserver(() => this.shade()).observe(document.body, theme);
  }

  /** Follow the notebook's own theme, where it says one, rather than the system's. */
  shade() {
    const said = document.body.dataset.jpThemeLight;
    if (said === undefined) return;
    for (const sheet of [...(this.svg.querySelector("style")?.sheet?.cssRules ?? [])]) {
      if (sheet instanceof CSSMediaRule) sheet.media.mediaText = said === "false" ? "all" : "not all";
    }
  }

  /** @param {Frame} frame */
  open(frame) {
    this.opened = frame === this.opened ? (this.around(frame) ?? frame) : frame;
    this.place();
    this.focus(this.opened);
  }

  /** Give each frame its place while `opened` takes the whole width. */
  place() {
    const { opened } = this;
    for (const frame of this.frames) {
      const inside = within(frame, opened);
      const around = !inside && within(opened, frame);
      frame.group.style.display = inside || around ? "" : "none";
      frame.group.classList.toggle("around", around);
      if (!inside && !around) continue;
      const left = around ? 0 : (frame.left - opened.left) / opened.width;
      const width = (around ? 1 : frame.width / opened.width) * this.page;
      const x = MARGIN + left * this.page;
      frame.group.querySelector("rect")?.setAttribute("x", x.toFixed(2));
      frame.group.querySelector("rect")?.setAttribute("width", Math.max(width - 1, 0.3).toFixed(2));
      const words = frame.group.querySelector("text");
      if (!words) continue;
      words.setAttribute("x", (x + 5).toFixed(2));
      words.textContent = fitting(frame.label, frame.note, width);
    }
  }

  /** @param {Frame} frame */
  around(frame) {
    return this.frames.find((each) => each.depth === frame.depth - 1 && within(frame, each));
  }

  /** @param {Frame} frame @param {number} step */
  beside(frame, step) {
    const row = this.frames.filter((each) => each.depth === frame.depth && each.group.style.display !== "none");
    return row[row.indexOf(frame) + step];
  }

  /** @param {Frame | undefined} frame */
  focus(frame) {
    if (!frame) return;
    for (const each of this.frames) each.group.setAttribute("tabindex", each === frame ? "0" : "-1");
    frame.group.focus();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const frame = this.frames.find((each) => each.group === document.activeElement);
    if (!frame) return;
    const inside = this.frames.find((each) => each.depth === frame.depth + 1 && within(each, frame));
    /** @type {Record<string, () => void>} */
    const keys = {
      Enter: () => this.open(frame),
      " ": () => this.open(frame),
      Escape: () => this.open(this.frames[0]),
      ArrowDown: () => this.focus(inside),
      ArrowUp: () => this.focus(this.around(frame)),
      ArrowRight: () => this.focus(this.beside(frame, 1)),
      ArrowLeft: () => this.focus(this.beside(frame, -1)),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }
}
