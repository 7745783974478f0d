// A figure as a list of SVG shapes, for live pages and reports. Names stand at the ends of the curves where there is
// room for all of them, else in a legend below. A stretch of the horizontal axis can be drawn alone, and curves with
// many more points than the drawing has columns are thinned to what can be seen (thinning.js). Nothing here touches the
// page.
// @ts-check

import { Box, TOP, tenth } from "./box.js";
import { SAMPLE, beside, laidOut, wide } from "./legend.js";
import { bandOf, barsOf, lineOf } from "./thinning.js";

/** @typedef {import("./figure.js").Figure} Figure */
/** @typedef {import("./legend.js").Entry} Entry */
/** @typedef {{kind: string, width: number, height: number, across: number, up: number, names: number}} Size */
/** A shape: its tag, its attributes, its text. @typedef {[string, Record<string, string|number>, string?]} Shape */

/** @type {Size} */
export const LARGE = { kind: "large", width: 920, height: 400, across: 10, up: 6, names: 220 };
/** @type {Size} */
export const HALF = { kind: "half", width: 470, height: 300, across: 6, up: 5, names: 0 };
/** @type {Size} */
export const SMALL = { kind: "small", width: 360, height: 280, across: 5, up: 5, names: 0 };

const FEW = 25;
const [GAP, EDGE, ROW, BOTTOM] = [8, 2, 20, 46];
const NEAR = 0.97;
const LINE = 16;
const LEVELS = 3;

/** @param {Figure} figure @param {Size} size @param {[number, number]} across the stretch to be drawn
 * @returns {{width: number, height: number, box: Box, shapes: Shape[]}} */
export function draw(figure, size, across = figure.endsAcross) {
  let entries = entriesOf(figure);
  const ticks = figure.ticksUp(size.up);
  const left = EDGE + GAP + Math.max(0, ...ticks.map((tick) => wide(tick.label)));
  const lines = Math.max(0, ...figure.places.map((tick) => tick.label.split("\n").length - 1));
  const bottom = size.height - BOTTOM - lines * LINE;
  let box = new Box(figure, across, left, size.width - 2 * GAP, bottom);
  const named = beside(entries, endsOf(box), size.names);
  if (named.length) {
    const room = Math.max(...named.map((name) => wide(name.entry.name, true)));
    box = new Box(figure, across, left, size.width - room - 2 * GAP, bottom);
    entries = entries.filter((entry) => entry.kind === "shade");
  }
  const shapes = [...frame(box, size, ticks), ...bars(box), ...rules(box)];
  for (const curve of figure.curves) shapes.push(...curveShapes(box, curve));
  for (const { entry, placed } of named) {
    const kind = entry.kind === "curve" ? `name-${entry.colour}` : "soft";
    shapes.push(text(`label ${kind}`, box.right + 10, placed + 4.5, entry.name));
  }
  let height = size.height;
  for (const row of laidOut(entries, size.width - 2 * GAP)) {
    for (const [x, entry] of row) shapes.push(...key(x + EDGE, height + ROW / 2, entry));
    height += ROW;
  }
  height += entries.length ? GAP : 0;
  return { width: size.width, height, box, shapes };
}

/** @param {Figure} figure @returns {Entry[]} */
function entriesOf(figure) {
  return [
    ...figure.curves.map(({ name, colour, dashed }) => entry(name, "curve", colour, dashed)),
    ...(figure.bars?.stacks ?? []).map(({ name, colour }) => entry(name, "bar", colour)),
    ...figure.rules.map(({ name }, place) => entry(name, "rule", place % LEVELS)),
    ...[...new Set(figure.shades.map((shade) => shade.name))].map((name) => entry(name, "shade")),
  ];
}

/** @param {string} name @param {Entry["kind"]} kind @returns {Entry} */
const entry = (name, kind, colour = 0, dashed = false) => ({ name, kind, colour, dashed });

/** How high each curve ends, of those that end at the right. @param {Box} box */
function endsOf(box) {
  const ends = new Map();
  for (const rule of box.figure.rules) if (Number.isFinite(rule.value)) ends.set(rule.name, box.y(rule.value));
  for (const curve of box.figure.curves) {
    let last = curve.x.length - 1;
    // Of a stretch, what can be seen.
    while (last >= 0 && (!Number.isFinite(curve.y[last]) || (curve.rising && curve.x[last] > box.across[1]))) last--;
    if (last >= 0 && box.x(curve.x[last]) >= box.left + NEAR * (box.right - box.left)) {
      ends.set(curve.name, box.y(curve.y[last]));
    }
  }
  return ends;
}

/** Shades, lines and numbers of the axes, and what they are called. @param {Box} box @param {Size} size
 * @param {{value: number, label: string}[]} ticks @returns {Shape[]} */
function frame(box, size, ticks) {
  const { figure, bottom, left, right } = box;
  /** @type {Shape[]} */
  const shapes = [];
  for (const shade of figure.shades) {
    const [x0, x1] = [box.x(shade.low), box.x(shade.high)];
    if (x1 > x0) {
      shapes.push(["rect", { class: "shade", x: x0, y: TOP, width: tenth(x1 - x0), height: bottom - TOP }]);
    }
  }
  for (const tick of ticks) {
    const y = box.y(tick.value);
    shapes.push(line("grid", left, y, right, y), text("tick", left - GAP, y + 4.5, tick.label, "end"));
  }
  shapes.push(line("base", left, bottom, right, bottom));
  for (const mark of figure.marksAcross(box.across)) {
    shapes.push(line("base faint", box.x(mark), bottom, box.x(mark), bottom + 3));
  }
  let free = 0;
  for (const tick of figure.ticksAcross(size.across, box.across)) {
    const rows = tick.label.split("\n");
    const x = box.x(tick.value);
    const half = Math.max(...rows.map((row) => wide(row))) / 2;
    shapes.push(line("base", x, bottom, x, bottom + 5));
    // Half of a label must not stick out of the drawing, nor reach into the one before.
    const at = Math.min(Math.max(x, half), size.width - half);
    if (at - half >= free) {
      rows.forEach((row, i) => shapes.push(text("tick", at, bottom + 18 + i * LINE, row, "middle")));
      free = at + half + EDGE;
    }
  }
  shapes.push(text("axis", (left + right) / 2, size.height - GAP, figure.spec.across, "middle"));
  shapes.push(text("axis", EDGE, 16, figure.spec.up));
  return shapes;
}

/** @param {Box} box @returns {Shape[]} */
function rules(box) {
  return box.figure.rules.flatMap((rule, place) => {
    if (!Number.isFinite(rule.value)) return [];
    const y = box.y(rule.value);
    const [halo, over] = box.figure.bars ? [[line("halo", box.left, y, box.right, y)], " over"] : [[], ""];
    return [...halo, line(`rule level-${place % LEVELS}${over}`, box.left, y, box.right, y)];
  });
}

/** One shape for each layer, however many bars there are. @param {Box} box @returns {Shape[]} */
function bars(box) {
  return barsOf(box).map(({ colour, path }) => ["path", { class: `bar-${colour}`, d: path }]);
}

/** @param {Box} box @param {Figure["curves"][number]} curve @returns {Shape[]} */
function curveShapes(box, curve) {
  /** @type {Shape[]} */
  const shapes = [];
  for (const { points, alone } of bandOf(box, curve)) {
    shapes.push(["polygon", { class: `band-${curve.colour}`, points }]);
    if (alone) shapes.push(line(`whisker series-${curve.colour}`, alone.x, alone.low, alone.x, alone.high));
  }
  const { pieces, seen } = lineOf(box, curve);
  for (const { points, filled, dots } of pieces) {
    if (filled) shapes.push(["polygon", { class: `bar-${curve.colour}${curve.dashed ? " faint" : ""}`, points }]);
    else if (points) {
      shapes.push(["polyline", { class: `series series-${curve.colour}${curve.dashed ? " dashed" : ""}`, points }]);
    }
    if (!points || seen < FEW) {
      for (const [x, y] of dots) {
        shapes.push(["circle", { class: `dot-${curve.colour}`, cx: tenth(x), cy: tenth(y), r: 3 }]);
      }
    }
  }
  return shapes;
}

/** @param {number} x @param {number} y @param {Entry} entry @returns {Shape[]} */
function key(x, y, entry) {
  const end = x + SAMPLE - GAP;
  const name = text("label", x + SAMPLE, y + 4.5, entry.name);
  switch (entry.kind) {
    case "shade":
      return [["rect", { class: "shade", x, y: y - 6, width: end - x, height: 12 }], name];
    case "bar":
      return [["rect", { class: `bar-${entry.colour}`, x: x + 7, y: y - 6, width: 12, height: 12 }], name];
    case "rule":
      return [line(`rule level-${entry.colour}`, x, y, end, y), name];
    default:
      return [line(`series series-${entry.colour}${entry.dashed ? " dashed" : ""}`, x, y, end, y), name];
  }
}

/** @param {string} kind @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 @returns {Shape} */
function line(kind, x1, y1, x2, y2) {
  return ["line", { class: kind, x1: tenth(x1), y1: tenth(y1), x2: tenth(x2), y2: tenth(y2) }];
}

/** @param {string} kind @param {number} x @param {number} y @param {string} written @returns {Shape} */
function text(kind, x, y, written, anchor = "start") {
  return ["text", { class: kind, x: tenth(x), y: tenth(y), "text-anchor": anchor }, written];
}
