// Parts that the operator's views are made of: places for values of the API, sections, tiles.

import { element as el, svgElement as svg } from "./dom.js";

export { el, svg };

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

/** A table that can be moved where it is wider than the page. `kinds`: a class for each column, or `kind` for all but
 * the first. */
export function table(name, heads, rows, { kind = "", kinds = [], attributes = () => ({}) } = {}) {
  const of = (i) => (i ? (kinds[i] ?? kind) || null : null);
  const top = el("tr", {}, heads.map((head, i) => el("th", { scope: "col", class: of(i) }, head)));
  const cell = (content, i) => (i ? el("td", { class: of(i) }, content) : el("th", { scope: "row" }, content));
  const body = rows.map((row, at) => el("tr", attributes(at), row.map(cell)));
  // On a phone it is wider than the page: keys must reach it to move it.
  const reached = { class: "scroll", tabindex: "0", role: "group", "aria-label": name };
  return el("div", reached, el("table", {}, el("thead", {}, top), el("tbody", {}, body)));
}

/** A number in a card, with its name above and a remark below. */
export function tile(name, value, remark = null, more = null) {
  return el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, value, remark, more));
}
