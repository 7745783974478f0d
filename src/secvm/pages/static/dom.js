// Small helpers that make elements, for all pages. Text goes in as text, so nothing that a server says becomes markup.
// @ts-check

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {import("./drawing.js").Shape} Shape */

/** @param {Element} made @param {Record<string, any>} given @param {any[]} inside */
function furnish(made, given, inside) {
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...inside.flat().filter((one) => one !== null && one !== undefined && one !== false));
}

/** An element with attributes (`onclick` and the like are functions) and what is inside: elements or text.
 * @param {string} tag @param {Record<string, any>} given @param {...any} inside @returns {HTMLElement} */
export function element(tag, given = {}, ...inside) {
  const made = document.createElement(tag);
  furnish(made, given, inside);
  return made;
}

/** The same for drawings. @param {string} tag @param {Record<string, any>} given @param {...any} inside
 * @returns {SVGElement} */
export function svgElement(tag, given = {}, ...inside) {
  const made = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  furnish(made, given, inside);
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
