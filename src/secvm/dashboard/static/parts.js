// Small helpers that make elements. Text goes in as text nodes alone, so nothing that a server says becomes markup.

const SVG = "http://www.w3.org/2000/svg";

/** @param {Element} node @param {Record<string, any>} attributes @param {any[]} children */
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
}

/** An element with attributes (`onclick` and the like are functions) and children: elements or text. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  fill(node, attributes, children);
  return node;
}

/** The same for drawings. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  fill(node, attributes, children);
  return node;
}

/** A place for one value of the API: what is read, and beside it the value as the API has it. */
export function fact(name, tag = "span", attributes = {}) {
  return el(tag, { ...attributes, "data-fact": name }, "–");
}

/** Show a value in its place. Only what has changed is touched: selections and screen readers are left alone. */
export function show(place, text, value = null) {
  write(place, text);
  const raw = value === null || value === undefined ? "" : String(value);
  if (place.getAttribute("data-value") !== raw) place.setAttribute("data-value", raw);
}

/** Text, if it is another. */
export function write(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

/** Whether something is to be seen. */
export function reveal(place, seen) {
  if (place.hidden === seen) place.hidden = !seen;
}

/** Children in place of others, unless they would read the same. `key` says what they show. */
export function swap(place, key, make) {
  if (place.dataset.shown === key) return;
  place.dataset.shown = key;
  place.replaceChildren(...[make()].flat().filter(Boolean));
}

/** A part of a page under its heading. */
export function section(id, title, attributes, ...children) {
  const heading = el("h2", { id: `${id}-title` }, title);
  return el("section", { ...attributes, "aria-labelledby": heading.id }, heading, ...children);
}

/** A number in a card, with its name above and a remark below. */
export function tile(name, value, remark = null, more = null) {
  return el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, value, remark, more));
}
