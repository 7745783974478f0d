// What a chart says at one place: every curve's value there with its interval, bars, shades; in words and as marks.
// @ts-check

import { before } from "./thinning.js";
import { element } from "./dom.js";

/** @typedef {import("./figure.js").Figure} Figure */
/** @typedef {import("./box.js").Box} Box */

/** Which of the places is nearest. @param {Float64Array} stops @param {number} value */
export function nearest(stops, value) {
  const after = before(stops, value);
  if (after === 0) return 0;
  if (after === stops.length) return after - 1;
  return value - stops[after - 1] <= stops[after] - value ? after - 1 : after;
}

/** A number as people read it. @param {number|undefined} value */
export function written(value, percent = false) {
  if (value === undefined || !Number.isFinite(value)) return "–";
  if (percent) return `${(100 * value).toFixed(1)}\u00a0%`;
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 0.001 && size < 1) return value.toFixed(4);
  const short = Number(value.toPrecision(4));
  return size >= 1e6 || size < 1e-4 ? short.toExponential() : short.toLocaleString("en", { maximumFractionDigits: 6 });
}

/** @param {Float64Array} x @param {boolean} rising @param {number} place */
function find(x, rising, place) {
  if (!rising) return x.indexOf(place);
  const i = before(x, place);
  return x[i] === place ? i : -1;
}

/** What stands at a place. @param {Figure} figure @param {number} place
 * @returns {{name: string, text: string, value: number, colour: number}[]} */
export function at(figure, place) {
  const found = [];
  const { percent } = figure;
  for (const { name, x, y, low, high, rising, colour } of figure.curves) {
    const i = find(x, rising, place);
    if (i < 0) continue;
    const range = low && high && Number.isFinite(low[i]) && Number.isFinite(high[i]);
    const between = range ? ` [${written(low[i], percent)} to ${written(high[i], percent)}]` : "";
    found.push({ name, text: written(y[i], percent) + between, value: y[i], colour });
  }
  if (figure.bars) {
    const i = find(figure.bars.x, figure.bars.rising, place);
    for (const { name, values, colour } of i < 0 ? [] : figure.bars.stacks) {
      found.push({ name, text: written(values[i], percent), value: NaN, colour });
    }
  }
  return found;
}

/** Say it, once. @param {HTMLElement} output @param {Figure} figure @param {number|null} place */
export function say(output, figure, place) {
  if (place === null) {
    if (output.textContent) output.textContent = "";
    return;
  }
  const named = figure.places.find((tick) => tick.value === place);
  const where = named ? named.label.replaceAll("\n", ", ") : written(place);
  const shades = figure.shades.filter((shade) => shade.low <= place && place < shade.high);
  const head = [`${figure.spec.across} ${where}`, ...new Set(shades.map((shade) => shade.name))].join(", ");
  /** @type {(Node|string)[]} */
  const parts = [element("b", {}, head)];
  for (const { name, text } of at(figure, place)) {
    parts.push(parts.length > 1 ? "; " : ": ", element("span", {}, `${name} ${text}`));
  }
  const said = element("span", {}, ...parts);
  // A screen reader reads what is put in: the same words need not be heard with every frame.
  if (said.textContent !== output.textContent) output.replaceChildren(...said.childNodes);
}

/** A line through the place, and a dot on each curve. @param {Figure} figure @param {Box} box
 * @param {number|null} place @returns {import("./drawing.js").Shape[]} */
export function marks(figure, box, place) {
  if (place === null || place < box.across[0] || place > box.across[1]) return [];
  const x = box.x(place);
  /** @type {import("./drawing.js").Shape[]} */
  const shapes = [["line", { class: "cursor", x1: x, y1: box.top, x2: x, y2: box.bottom }]];
  for (const { value, colour } of at(figure, place)) {
    if (!Number.isFinite(value)) continue;
    shapes.push(["circle", { class: `ring dot-${colour}`, cx: x, cy: box.y(value), r: 4.5 }]);
  }
  return shapes;
}

const SHOWN = 40;

/** The numbers as a table, a selection if there are many, of the stretch that is drawn. @param {Figure} figure
 * @param {[number, number]} across */
export function table(figure, across) {
  const { header, rows } = figure.rows();
  const there = rows.filter(([x]) => x !== undefined && x >= across[0] && x <= across[1]);
  const every = Math.max(1, Math.ceil(there.length / SHOWN));
  // Counted from the end, so that the last one is there.
  const shown = there.filter((_, i) => (there.length - 1 - i) % every === 0);
  const note = every > 1 ? `One row in ${every} of ${there.length.toLocaleString("en")}; CSV has all of them.` : "";
  const cell = (/** @type {number|undefined} */ value) => element("td", { class: "short" }, written(value));
  const head = element("tr", {}, ...header.map((name) => element("th", { scope: "col" }, name)));
  const body = shown.map(([x, ...cells]) =>
    element("tr", {}, element("th", { scope: "row" }, written(x)), ...cells.map(cell)));
  return element("table", {}, element("caption", {}, note), element("thead", {}, head), element("tbody", {}, ...body));
}
