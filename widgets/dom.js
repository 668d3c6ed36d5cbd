// Writes only what is new. For a text, an attribute or a style that stays the same, the browser
// looks for what might change on the page as if it were another one.

/**
 * The text stays the same node: a new one would have to be given its styles, and a place.
 * @param {Element} element
 * @param {string} text
 */
export function write(element, text) {
  const held = element.firstChild;
  if (!(held instanceof Text) || held.nextSibling) {
    if (element.textContent !== text) element.textContent = text;
  } else if (held.data !== text) held.data = text;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {string | boolean} value true and false: it is there, or not
 */
export function setAttribute(element, name, value) {
  if (typeof value === "boolean") {
    if (element.hasAttribute(name) !== value) element.toggleAttribute(name, value);
  } else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/**
 * @param {HTMLElement | SVGElement} element
 * @param {string} name
 * @param {string} value
 */
export function setStyle(element, name, value) {
  if (element.style.getPropertyValue(name) !== value) element.style.setProperty(name, value);
}
