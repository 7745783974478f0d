// From the points of a curve to those that can be seen. A drawing has some hundred columns: of a curve with more points
// than that, what it covers of each column is filled, from its lowest to its highest, so that no peak is lost and ten
// thousand rounds cost what a thousand do: to stroke a line that goes up and down in every column costs a browser much
// more. Of a stretch, only its points are looked at, and curves are cut at its edges.
// @ts-check

import { tenth } from "./box.js";

/** @typedef {import("./box.js").Box} Box */
/** @typedef {import("./figure.js").Figure["curves"][number]} Curve */

/** Points for each column beyond which columns are filled. */
const DENSE = 1;
/** So far beyond an edge is on it. */
const ROUNDING = 1e-6;
/** Half of a line's width. */
const HALF_LINE = 1.1;
/** Bars nearer than so many units are drawn as one for each column. */
const THIN = 1.6;
/** How much of the room between two bars each takes, and how wide it is at most. */
const FILLED = 0.72;
const WIDEST = 64;

/** The points of a stretch, and one more on either side. @param {Box} box @param {Float64Array} x
 * @param {boolean} rising @returns {[number, number]} */
function stretch(box, x, rising) {
  if (!rising) return [0, x.length];
  return [Math.max(0, before(x, box.across[0]) - 1), Math.min(x.length, before(x, box.across[1], true) + 1)];
}

/** How many places lie before a value, or at it. @param {Float64Array} x @param {number} value */
export function before(x, value, at = false) {
  let [low, high] = [0, x.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < value || (at && x[middle] === value)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The line of a curve in pieces without a gap: points of a line, or of what it fills where it is dense. A piece of one
 * point has no line. @param {Box} box @param {Curve} curve
 * @returns {{pieces: {points: string, filled: boolean, dots: [number, number][]}[], seen: number}} */
export function lineOf(box, curve) {
  const { x, y } = curve;
  const [start, stop] = stretch(box, x, curve.rising);
  const dense = curve.rising && stop - start > DENSE * (box.right - box.left);
  const pieces = [];
  let seen = 0;
  for (let i = start; i < stop; i++) {
    if (!Number.isFinite(y[i])) continue;
    const begin = i;
    while (i < stop && Number.isFinite(y[i])) i++;
    if (dense && i - begin > 1) {
      const { places, top, bottom } = columns(box, x, y, y, begin, i, HALF_LINE);
      if (places.length) pieces.push({ points: outline(places, top, bottom), filled: true, dots: [] });
      continue;
    }
    const [px, py] = placed(box, x, y, begin, i);
    const kept = cut(box, px, py, curve.rising);
    seen += kept.inside.length;
    if (!kept.x.length) continue;
    pieces.push({ points: kept.x.length > 1 ? listed(kept.x, kept.y) : "", filled: false, dots: kept.inside });
  }
  // What is few in all is few however it is cut: the same as in Python, where nothing is cut.
  return { pieces, seen: dense ? Infinity : Math.max(seen, stop - start === x.length ? x.length : 0) };
}

/** @param {Box} box @param {Float64Array} x @param {Float64Array} y @param {number} start @param {number} stop */
function placed(box, x, y, start, stop) {
  /** @type {number[]} */
  const px = [];
  /** @type {number[]} */
  const py = [];
  for (let i = start; i < stop; i++) {
    px.push(box.exactX(x[i]));
    py.push(box.exactY(y[i]));
  }
  return [px, py];
}

/** Of every column of the drawing the least and the most: values are compared, and only those are placed. A line
 * (``half`` of its width is told) also covers the way from the column before. @param {Box} box
 * @param {Float64Array} x @param {Float64Array} low @param {Float64Array} high @param {number} start
 * @param {number} stop @param {number} half */
function columns(box, x, low, high, start, stop, half = 0) {
  const [first, end] = [box.left - ROUNDING, box.right + ROUNDING];
  /** @type {number[]} */
  const places = [];
  /** @type {number[]} */
  const top = [];
  /** @type {number[]} */
  const bottom = [];
  let [column, least, most, last] = [NaN, 0, 0, NaN];
  const close = () => {
    if (!places.length) return;
    bottom.push(box.exactY(least) + half);
    top.push(box.exactY(most) - half);
  };
  const put = (/** @type {number} */ at, /** @type {number} */ under, /** @type {number} */ over) => {
    const here = Math.floor(at);
    if (here === column) {
      if (under < least) least = under;
      if (over > most) most = over;
    } else {
      close();
      places.push(at);
      [column, least, most] = [here, under, over];
      if (half && last < least) least = last;
      if (half && last > most) most = last;
    }
    last = over;
  };
  let [before, at] = [NaN, NaN];
  for (let i = start; i < stop; i++, before = at) {
    at = box.exactX(x[i]);
    const enters = before < first && at >= first;
    if (enters || (before <= end && at > end)) {
      const edge = enters ? box.left : box.right;
      const share = (edge - before) / (at - before);
      put(edge, low[i - 1] + share * (low[i] - low[i - 1]), high[i - 1] + share * (high[i] - high[i - 1]));
    }
    if (at >= first && at <= end) put(at, low[i], high[i]);
  }
  close();
  if (places.length) places[places.length - 1] = Math.min(box.right, Math.max(places[places.length - 1], at));
  return { places, top, bottom };
}

/** @param {number[]} places @param {number[]} top @param {number[]} bottom */
function outline(places, top, bottom) {
  return `${listed(places, top)} ${listed(places.reverse(), bottom.reverse())}`;
}

/** @param {number[]} x @param {number[]} y */
function listed(x, y) {
  let points = "";
  for (let i = 0; i < x.length; i++) points += `${i ? " " : ""}${tenth(x[i])},${tenth(y[i])}`;
  return points;
}

/** What lies inside, with the places where the line crosses the edges. @param {Box} box @param {number[]} px
 * @param {number[]} py @param {boolean} rising */
function cut(box, px, py, rising) {
  const { left, right } = box;
  /** @type {{x: number[], y: number[], inside: [number, number][]}} */
  const kept = { x: [], y: [], inside: [] };
  const put = (/** @type {number} */ x, /** @type {number} */ y) => {
    kept.x.push(x);
    kept.y.push(y);
  };
  const between = (/** @type {number} */ i, /** @type {number} */ edge) =>
    py[i] + ((edge - px[i]) / (px[i + 1] - px[i])) * (py[i + 1] - py[i]);
  const [first, end] = [left - ROUNDING, right + ROUNDING];
  for (let i = 0; i < px.length; i++) {
    const there = px[i] >= first && px[i] <= end;
    if (there || !rising) {
      const x = there ? px[i] : Math.min(right, Math.max(left, px[i]));
      put(x, py[i]);
      kept.inside.push([x, py[i]]);
    }
    if (!rising || i + 1 >= px.length) continue;
    if (px[i] < first && px[i + 1] >= first) put(left, between(i, left));
    if (px[i] <= end && px[i + 1] > end) put(right, between(i, right));
  }
  return kept;
}

/** The band around a curve in pieces without a gap. @param {Box} box @param {Curve} curve
 * @returns {{points: string, alone: null|{x: number, low: number, high: number}}[]} */
export function bandOf(box, curve) {
  const { x, y, low, high } = curve;
  if (!low || !high) return [];
  // An interval around nothing, of nobody who was counted, is no band.
  const there = (/** @type {number} */ i) =>
    Number.isFinite(low[i]) && Number.isFinite(high[i]) && Number.isFinite(y[i]);
  const [start, stop] = stretch(box, x, curve.rising);
  const dense = curve.rising && stop - start > DENSE * (box.right - box.left);
  const pieces = [];
  for (let i = start; i < stop; i++) {
    if (!there(i)) continue;
    const begin = i;
    while (i < stop && there(i)) i++;
    if (dense && i - begin > 1) {
      const { places, top, bottom } = columns(box, x, low, high, begin, i);
      if (places.length) pieces.push({ points: outline(places, top, bottom), alone: null });
      continue;
    }
    const [px, top] = placed(box, x, high, begin, i);
    const [, bottom] = placed(box, x, low, begin, i);
    const upper = cut(box, px, top, curve.rising);
    const lower = cut(box, px, bottom, curve.rising);
    if (!upper.x.length) continue;
    // Among very many, one that is alone is no wider than the others.
    const alone = px.length === 1 && !dense ? { x: tenth(px[0]), low: tenth(bottom[0]), high: tenth(top[0]) } : null;
    pieces.push({ points: `${listed(upper.x, upper.y)} ${listed(lower.x.reverse(), lower.y.reverse())}`, alone });
  }
  return pieces;
}

/** Of every layer its bars as one path. @param {Box} box @returns {{colour: number, path: string}[]} */
export function barsOf(box) {
  const bars = box.figure.bars;
  if (!bars) return [];
  const [start, stop] = stretch(box, bars.x, bars.rising);
  const room = box.exactX(box.across[0] + bars.apart) - box.left;
  const shown = room < THIN && bars.rising ? tallest(box, bars, start, stop) : null;
  const [low, high] = box.across;
  const half = Math.min(FILLED * bars.apart, (WIDEST * (high - low)) / (box.right - box.left)) / 2;
  const below = new Float64Array(bars.x.length);
  return bars.stacks.map(({ colour, values }) => {
    let path = "";
    const put = (/** @type {number} */ i) => {
      if (!(values[i] > 0 && values[i] < Infinity)) return;
      const above = below[i] + values[i];
      const left = shown ? Math.floor(box.exactX(bars.x[i])) : box.x(bars.x[i] - half);
      const right = shown ? left + 1 : Math.max(tenth(left + 1), box.x(bars.x[i] + half));
      path += `M${left},${box.y(above)}H${right}V${box.y(below[i])}H${left}Z`;
      below[i] = above;
    };
    const reach = (/** @type {number} */ i) =>
      bars.x[i] + bars.apart / 2 > box.across[0] && bars.x[i] - bars.apart / 2 < box.across[1];
    if (shown) shown.forEach(put);
    else for (let i = start; i < stop; i++) if (reach(i)) put(i);
    return { colour, path };
  });
}

/** Of every column the bar that is highest. @param {Box} box
 * @param {NonNullable<import("./figure.js").Figure["bars"]>} bars @param {number} start @param {number} stop */
function tallest(box, bars, start, stop) {
  /** @type {number[]} */
  const kept = [];
  let column = NaN;
  for (let i = start; i < stop; i++) {
    const at = box.exactX(bars.x[i]);
    if (at < box.left || at > box.right) continue;
    if (Math.floor(at) === column) {
      if (bars.totals[i] > bars.totals[kept[kept.length - 1]]) kept[kept.length - 1] = i;
    } else {
      column = Math.floor(at);
      kept.push(i);
    }
  }
  return kept;
}
