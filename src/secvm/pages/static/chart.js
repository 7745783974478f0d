// A chart on a live page: drawn as SVG from a spec (Figure.spec() in Python), read by pointer and keyboard, panned and
// zoomed, saved as CSV and PNG.
//
//   const chart = new Chart(container, spec, { onRange, link });
//   chart.update(spec);          // when numbers change; drawn with the next frame
//   chart.setRange(100, 200);    // or (null, null) for everything
//
// Keys: arrows move the cursor (with Shift by ten), Page Up and Page Down the stretch, Home and End to the ends,
// + and − zoom, 0 shows everything, Escape leaves.
// @ts-check

import { draw } from "./drawing.js";
import { element, fill, svgElement } from "./dom.js";
import { picture, save } from "./download.js";
import { Figure } from "./figure.js";
import { handle } from "./gestures.js";
import { marks, nearest, say, table } from "./readout.js";
import { View } from "./view.js";

/** @typedef {import("./figure.js").Spec} Spec */
/** @typedef {{
 *   onRange?: (from: number|null, to: number|null, settled: boolean) => void,
 *   link?: string | ((from: number|null, to: number|null) => string),
 *   actions?: boolean,
 *   height?: number,
 * }} Options */

/** Below so many places there is nothing to zoom into. */
const ZOOMED = 8;
/** After so many milliseconds without a movement the stretch is settled. */
const SETTLED_MS = 200;
let made = 0;

export class Chart {
  /** @param {Element} container @param {Spec} spec @param {Options} options */
  constructor(container, spec, options = {}) {
    this.options = options;
    this.figure = new Figure(spec);
    this.view = new View(this.figure);
    /** The place under the cursor. @type {number|null} */
    this.place = null;
    const parts = scaffold(`chart-${++made}`);
    this.root = parts.root;
    this.plot = parts.plot;
    this.readout = parts.readout;
    this.numbers = parts.numbers;
    this.#parts = parts;
    const { signal } = this.#ended;
    this.numbers.addEventListener("toggle", () => this.numbers.open && this.#tabulate(), { signal });
    if (options.actions !== false) this.#act();
    this.#describe();
    container.append(this.root);
    this.#watch = new ResizeObserver(() => this.#widthNow() !== this.#width && this.redraw());
    this.#watch.observe(this.plot);
    handle(this, this.plot, this.#ended.signal);
    this.redraw();
  }

  #ended = new AbortController();
  /** @type {ReturnType<typeof scaffold>} */
  #parts;
  /** @type {HTMLElement[]} */
  #zooms = [];
  /** @type {HTMLElement|null} */
  #link = null;
  /** @type {ResizeObserver} */
  #watch;
  #frame = 0;
  #settling = 0;
  #width = 0;

  /** New numbers; the stretch that is shown stays. @param {Spec} spec */
  update(spec) {
    this.figure = new Figure(spec);
    this.view.replace(this.figure);
    this.#describe();
    this.redraw();
  }

  /** @param {number|null} from @param {number|null} to */
  setRange(from, to) {
    if (from === null && to === null) this.view.all();
    else this.view.show(from, to);
    this.redraw();
  }

  /** The numbers of the whole figure, not only of what is shown. */
  csv() {
    return this.figure.csv();
  }

  /** The stretch that is shown, as a picture. @returns {Promise<Blob>} */
  png() {
    return picture(this.figure, this.view.across, this.root);
  }

  /** Take the chart from the page. */
  destroy() {
    this.#ended.abort();
    this.#watch.disconnect();
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#settling);
    this.root.remove();
  }

  /** Draw with the next frame, however often it is asked for. */
  redraw() {
    this.#frame ||= requestAnimationFrame(() => this.flush());
  }

  /** Draw now. */
  flush() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#width = this.#widthNow();
    this.drawing = draw(this.figure, sizeFor(this.#width, this.options.height), this.view.across);
    const { width, height, box, shapes } = this.drawing;
    const { svg, under, over } = this.#parts;
    svg.setAttribute("class", width < 560 ? "small" : "large");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    fill(under, shapes);
    fill(over, marks(this.figure, box, this.place));
    this.plot.classList.toggle("zoomed", this.view.range !== null);
    say(this.readout, this.figure, this.place);
    this.#buttons();
    if (this.numbers.open) this.#tabulate();
  }

  #widthNow() {
    return Math.max(240, this.plot.clientWidth || this.#width || 720);
  }

  /** The stretch was moved by hand. */
  moved() {
    this.redraw();
    const { onRange } = this.options;
    clearTimeout(this.#settling);
    onRange?.(...this.view.shown, false);
    this.#settling = setTimeout(() => onRange?.(...this.view.shown, true), SETTLED_MS);
  }

  /** Put the cursor at the place nearest to a value; nothing puts it away. @param {number|null} value */
  point(value) {
    const { stops } = this.figure;
    const place = value === null || !stops.length ? null : stops[nearest(stops, value)];
    if (place === this.place) return;
    this.place = place;
    this.redraw();
  }

  /** Move the cursor by so many places. @param {number} by */
  step(by) {
    const { stops } = this.figure;
    if (!stops.length) return;
    const [low, high] = this.view.across;
    const start = by > 0 ? nearest(stops, low) - 1 : nearest(stops, high) + 1;
    const here = this.place === null ? start : nearest(stops, this.place);
    this.place = stops[Math.min(stops.length - 1, Math.max(0, here + by))];
    const before = this.view.range;
    this.view.reveal(this.place);
    if (this.view.range !== before) this.moved();
    this.redraw();
  }

  #describe() {
    const { name, title, description } = this.figure.spec;
    this.root.id = `figure-${name}`;
    const parts = this.#parts;
    for (const part of [parts.title, parts.name]) if (part.textContent !== title) part.textContent = title;
    if (parts.told.textContent !== description) parts.told.textContent = description;
  }

  #act() {
    const button = (/** @type {string} */ label, /** @type {string} */ says, /** @type {() => void} */ does) => {
      const made = element("button", { type: "button", class: "quiet little", "aria-label": says, title: says }, label);
      made.addEventListener("click", does, { signal: this.#ended.signal });
      this.#parts.actions.append(made);
      return made;
    };
    const change = (/** @type {() => void} */ does) => () => {
      does();
      this.moved();
    };
    this.#zooms = [
      button("−", "zoom out", change(() => this.view.zoom(2))),
      button("+", "zoom in", change(() => this.view.zoom(0.5))),
      button("All", "show all", change(() => this.view.all())),
    ];
    const { name } = this.figure.spec;
    const csv = () => save(new Blob([this.csv()], { type: "text/csv" }), `${name}.csv`);
    button("CSV", "download the numbers as CSV", csv);
    button("PNG", "download the picture as PNG", async () => save(await this.png(), `${name}.png`));
    if (!this.options.link) return;
    this.#link = element("a", { class: "button quiet little", "aria-label": "link to this plot" }, "Link");
    this.#parts.actions.append(this.#link);
  }

  #buttons() {
    const { link } = this.options;
    if (this.#link && link) {
      this.#link.setAttribute("href", typeof link === "string" ? link : link(...this.view.shown));
    }
    const [out, , all] = this.#zooms;
    for (const one of this.#zooms) one.hidden = this.figure.stops.length < ZOOMED;
    for (const one of out ? [out, all] : []) one.toggleAttribute("disabled", this.view.range === null);
  }

  #tabulate() {
    const shown = element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "The numbers" });
    shown.append(table(this.figure, this.view.across));
    this.numbers.querySelector(".scroll")?.remove();
    this.numbers.append(shown);
  }
}

/** The elements of a chart, empty. @param {string} id */
function scaffold(id) {
  const title = element("figcaption", { id: `${id}-title` });
  const actions = element("div", { class: "chart-actions", role: "group", "aria-labelledby": `${id}-title` });
  const svg = svgElement("svg", { role: "img", "aria-labelledby": `${id}-name ${id}-told` });
  const name = svgElement("title", { id: `${id}-name` });
  const told = svgElement("desc", { id: `${id}-told` });
  const under = svgElement("g");
  const over = svgElement("g");
  svg.append(name, told, under, over);
  const plot = element("div", {
    class: "chart-plot", tabindex: "0", role: "application", "aria-roledescription": "chart",
    "aria-labelledby": `${id}-title`, "aria-describedby": `${id}-keys`,
  }, svg);
  const says = "Arrow keys read the values, plus and minus zoom, 0 shows everything.";
  const keys = element("p", { class: "visually-hidden", id: `${id}-keys` }, says);
  const readout = element("output", { class: "readout", "aria-live": "polite" });
  const numbers = /** @type {HTMLDetailsElement} */ (element("details", {}, element("summary", {}, "The numbers")));
  const head = element("div", { class: "chart-head" }, title, actions);
  const root = element("figure", { class: "chart" }, head, plot, keys, readout, numbers);
  return { root, title, actions, svg, name, told, under, over, plot, readout, numbers };
}

/** One unit is one pixel: letters keep their size, and there is more room for numbers on a wide page.
 * @param {number} width @param {number|undefined} height */
export function sizeFor(width, height) {
  const kind = width < 560 ? "small" : "large";
  const tall = height ?? (kind === "small" ? 280 : Math.min(400, Math.max(300, Math.round(0.44 * width))));
  const across = Math.max(3, Math.round(width / (kind === "small" ? 72 : 92)));
  const up = Math.max(3, Math.round(tall / (kind === "small" ? 56 : 66)));
  return { kind, width, height: tall, across, up, names: kind === "small" ? 0 : Math.round(0.24 * width) };
}
