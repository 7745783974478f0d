// Small helpers that make elements. Text goes in as text, never as markup.
// @ts-check

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {import("./drawing.js").Shape} Shape */

/** An element with attributes and what is inside. @param {string} tag @param {Record<string, string>} attributes
 * @param {...(Node|string)} inside @returns {HTMLElement} */
export function element(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

/** @param {string} tag @param {Record<string, string|number>} attributes @returns {SVGElement} */
export function svgElement(tag, attributes = {}) {
  const made = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
}

/** What was put in last, of each element that was filled. @type {WeakMap<Element, Shape[]>} */
const filled = new WeakMap();

/** Make these shapes the children, changing no more than what differs. @param {Element} parent
 * @param {Shape[]} shapes */
export function fill(parent, shapes) {
  const old = filled.get(parent) ?? [];
  for (let i = 0; i < shapes.length; i++) {
    const [tag, attributes, text] = shapes[i];
    const was = old[i];
    if (!was || was[0] !== tag) {
      const made = svgElement(tag, attributes);
      if (text !== undefined) made.textContent = text;
      if (was) parent.children[i].replaceWith(made);
      else parent.append(made);
      continue;
    }
    const child = parent.children[i];
    for (const name in was[1]) if (!(name in attributes)) child.removeAttribute(name);
    for (const name in attributes) {
      if (was[1][name] !== attributes[name]) child.setAttribute(name, String(attributes[name]));
    }
    if (was[2] !== text) child.textContent = text ?? "";
  }
  while (parent.children.length > shapes.length) parent.lastElementChild?.remove();
  filled.set(parent, shapes);
}
