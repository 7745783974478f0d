// A figure as a value, made of a spec (Figure.spec() in Python). It knows the ends and ticks of its axes
// and the numbers behind it. What is not a number is a gap.
// @ts-check

import { betweenDecades, linearTicks, log10, logTicks, span } from "./ticks.js";

/** @typedef {(number|null)[]} Numbers */
/** @typedef {{name: string, x: Numbers, y: Numbers, low?: Numbers|null, high?: Numbers|null, colour?: number,
 *   dashed?: boolean}} CurveSpec */
/** @typedef {{name: string, title: string, description: string, across: string, up: string, percent?: boolean,
 *   lowest?: number|null, highest?: number|null, log_across?: boolean, curves?: CurveSpec[],
 *   bars?: null|{x: Numbers, stacks: {name: string, values: Numbers, colour?: number}[]},
 *   rules?: {name: string, value: number|null}[], shades?: {low: number, high: number, name: string}[],
 *   places?: {value: number, label: string}[]}} Spec */

const COLOURS = 8;

export class Figure {
  /** @param {Spec} spec */
  constructor(spec) {
    this.spec = spec;
    this.log = Boolean(spec.log_across);
    this.percent = Boolean(spec.percent);
    // Curves of one experiment share their places: looked at once, however many there are.
    const { numbers, rises } = remembering();
    this.curves = (spec.curves ?? []).map((curve) => {
      const x = numbers(curve.x);
      return {
        name: curve.name,
        x,
        y: numbers(curve.y),
        low: curve.low && curve.high ? numbers(curve.low) : null,
        high: curve.low && curve.high ? numbers(curve.high) : null,
        colour: (curve.colour ?? 0) % COLOURS,
        dashed: Boolean(curve.dashed),
        rising: rises(x),
      };
    });
    this.bars = spec.bars ? barsOf(spec.bars) : null;
    this.rules = (spec.rules ?? []).map((rule) => ({ name: rule.name, value: rule.value ?? NaN }));
    this.shades = spec.shades ?? [];
    this.places = spec.places ?? [];
    const places = [...this.curves.map((curve) => curve.x), ...(this.bars ? [this.bars.x] : [])];
    // There is no round between two rounds.
    this.whole = places.some((x) => x.length) && [...new Set(places)].every((x) => x.every(Number.isInteger));
    this.endsAcross = this.#endsAcross();
    this.endsUp = this.#endsUp();
    /** @type {Float64Array|null} */
    this.stops_ = null;
  }

  /** Every place where something stands, in order. */
  get stops() {
    this.stops_ ??= stopsOf([...this.curves.map((curve) => curve.x), ...(this.bars ? [this.bars.x] : [])]);
    return this.stops_;
  }

  /** @param {number} count @param {[number, number]} ends */
  ticksAcross(count, ends) {
    if (this.places.length) return this.places.filter((tick) => tick.value >= ends[0] && tick.value <= ends[1]);
    return this.log ? logTicks(ends[0], ends[1], count) : linearTicks(ends[0], ends[1], count, this.whole);
  }

  /** @param {[number, number]} ends */
  marksAcross(ends) {
    return this.log && !this.places.length ? betweenDecades(ends[0], ends[1]) : [];
  }

  /** @param {number} count */
  ticksUp(count) {
    const [low, high] = this.endsUp;
    if (!this.percent) return linearTicks(low, high, count);
    return linearTicks(100 * low, 100 * high, count).map((tick) => ({
      value: Math.min(high, Math.max(low, tick.value / 100)),
      label: `${tick.label}\u00a0%`,
    }));
  }

  /** A place on a scale where the axis is even. @param {number} value */
  even(value) {
    return this.log ? log10(Math.max(value, 1e-300)) : value;
  }

  /** @returns {[number, number]} */
  #endsAcross() {
    let [low, high] = [Infinity, -Infinity];
    const take = (/** @type {number} */ value) => {
      if (value < low) low = value;
      if (value > high) high = value;
    };
    for (const { x, rising } of this.curves) {
      if (rising && x.length) [x[0], x[x.length - 1]].forEach(take);
      else x.forEach(take);
    }
    if (this.bars) {
      const half = this.bars.apart / 2;
      for (const x of this.bars.x) [x - half, x + half].forEach(take);
    }
    if (low > high) return this.log ? [1, 10] : [0, 1];
    if (this.log && high < low * 1.0001) return [low / 2, high * 2];
    return high - low > 1e-9 * Math.max(Math.abs(low), Math.abs(high)) ? [low, high] : span(low, high);
  }

  /** @returns {[number, number]} */
  #endsUp() {
    let [low, high] = [Infinity, -Infinity];
    const take = (/** @type {ArrayLike<number>} */ values) => {
      for (let i = 0; i < values.length; i++) {
        const value = values[i];
        if (value < low && value > -Infinity) low = value;
        if (value > high && value < Infinity) high = value;
      }
    };
    for (const curve of this.curves) {
      take(curve.y);
      if (curve.low && curve.high) [curve.low, curve.high].forEach(take);
    }
    if (this.bars) take([0, ...this.bars.totals]);
    take(this.rules.map((rule) => rule.value));
    [low, high] = span(low, high);
    if (this.bars) [low, high] = [0, high > 0 && low >= 0 ? high : Math.max(high, 1)];
    low = this.spec.lowest ?? low;
    high = this.spec.highest ?? high;
    return low < high ? [low, high] : [low, low + 1];
  }

  /** Names of columns, and a row for every place: of each curve its value and its band, bars, then the rules.
   * @returns {{header: string[], rows: (number|undefined)[][]}} */
  rows() {
    const all = [...this.curves, ...(this.bars ? [this.bars] : [])];
    // Curves of one experiment stand at the same places: then nothing has to be looked up.
    if (all.length && all.every((part) => part.rising && part.x.length === this.stops.length)) return this.#aligned();
    const header = [this.spec.across];
    /** @type {Map<string, {x: number, time: number, cells: (number|undefined)[]}>} */
    const places = new Map();
    const column = (/** @type {Float64Array} */ x, /** @type {Float64Array} */ values) => {
      const at = header.length - 1;
      /** @type {Map<number, number>} */
      const seen = new Map();
      x.forEach((place, i) => {
        // A curve may stand twice at one place: then there are two rows.
        const time = seen.get(place) ?? 0;
        seen.set(place, time + 1);
        const key = `${place} ${time}`;
        let row = places.get(key);
        if (!row) places.set(key, (row = { x: place, time, cells: [] }));
        row.cells[at] = values[i];
      });
    };
    for (const curve of this.curves) {
      column(curve.x, curve.y);
      header.push(curve.name);
      if (curve.low && curve.high && curve.low.length) {
        column(curve.x, curve.low);
        header.push(`${curve.name} low`);
        column(curve.x, curve.high);
        header.push(`${curve.name} high`);
      }
    }
    for (const stack of this.bars?.stacks ?? []) {
      column(/** @type {any} */ (this.bars).x, stack.values);
      header.push(stack.name);
    }
    const filled = header.length - 1;
    header.push(...this.rules.map((rule) => rule.name));
    const rows = [...places.values()].sort((one, other) => one.x - other.x || one.time - other.time);
    return {
      header,
      rows: rows.map(({ x, cells }) => {
        cells.length = filled;
        return [x, ...cells, ...this.rules.map((rule) => rule.value)];
      }),
    };
  }

  /** @returns {{header: string[], rows: (number|undefined)[][]}} */
  #aligned() {
    /** @type {[string, ArrayLike<number>][]} */
    const columns = [[this.spec.across, this.stops]];
    for (const { name, y, low, high } of this.curves) {
      columns.push([name, y]);
      if (low?.length && high) columns.push([`${name} low`, low], [`${name} high`, high]);
    }
    for (const { name, values } of this.bars?.stacks ?? []) columns.push([name, values]);
    const rules = this.rules.map((rule) => rule.value);
    return {
      header: [...columns.map(([name]) => name), ...this.rules.map((rule) => rule.name)],
      rows: Array.from(this.stops, (_, i) => [...columns.map(([, values]) => values[i]), ...rules]),
    };
  }

  /** The numbers, byte for byte what Python writes. */
  csv() {
    const { header, rows } = this.rows();
    const only = header.length === 1;
    const lines = [header.map((name) => quoted(harmless(name), only)), ...rows.map((row) => row.map(exact))];
    return lines.map((line) => line.join(",") + "\n").join("");
  }
}

/** @param {Numbers} values */
function numbers(values) {
  const made = new Float64Array(values.length);
  for (let i = 0; i < made.length; i++) made[i] = values[i] ?? NaN;
  return made;
}

/** ``numbers`` and ``rises`` that do not work twice on the same list. */
function remembering() {
  /** @type {Map<Numbers, Float64Array>} */
  const made = new Map();
  /** @type {Map<Float64Array, boolean>} */
  const known = new Map();
  return {
    /** @param {Numbers} values */
    numbers(values) {
      const found = made.get(values) ?? numbers(values);
      made.set(values, found);
      return found;
    },
    /** @param {Float64Array} x */
    rises(x) {
      const found = known.get(x) ?? rises(x);
      known.set(x, found);
      return found;
    },
  };
}

/** @param {Float64Array} x */
function rises(x) {
  for (let i = 1; i < x.length; i++) if (!(x[i] > x[i - 1])) return false;
  return true;
}

/** @param {NonNullable<Spec["bars"]>} bars */
function barsOf(bars) {
  const x = numbers(bars.x);
  const stacks = bars.stacks.map((stack) => ({
    name: stack.name,
    values: numbers(stack.values),
    colour: (stack.colour ?? 0) % COLOURS,
  }));
  const totals = new Float64Array(x.length);
  for (const { values } of stacks) for (let i = 0; i < totals.length; i++) totals[i] += values[i] > 0 ? values[i] : 0;
  const ordered = rises(x) ? x : x.slice().sort();
  let apart = Infinity;
  for (let i = 1; i < ordered.length; i++) apart = Math.min(apart, ordered[i] - ordered[i - 1]);
  return { x, stacks, totals, apart: apart < Infinity ? apart : 1, rising: rises(x) };
}

/** @param {Float64Array[]} all */
function stopsOf(all) {
  const longest = all.reduce((one, other) => (other.length > one.length ? other : one), new Float64Array());
  // Curves of one experiment stand at the same places: sorting all of them anew would be most of the work.
  const same = (/** @type {Float64Array} */ x) =>
    x === longest || (x.length === longest.length && x.every((place, i) => place === longest[i]));
  if (rises(longest) && all.every(same)) return longest;
  return Float64Array.from(new Set(all.flatMap((x) => [...x]))).sort();
}

/** As Python writes a number: exactly, and whole ones without a point. @param {number|undefined} value */
export function exact(value) {
  if (value === undefined || !Number.isFinite(value)) return "";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  const [before, power] = value.toExponential().split("e");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    return `${before}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  const digits = before.replace(/[-.]/g, "");
  const sign = value < 0 ? "-" : "";
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const filled = digits.padEnd(exponent + 1, "0");
  return `${sign}${filled.slice(0, exponent + 1)}.${filled.slice(exponent + 1) || "0"}`;
}

/** @param {string} text @param {boolean} only */
function quoted(text, only) {
  return /[",\r\n]/.test(text) || (only && !text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A name as a spreadsheet takes it for text: a label is a stranger's, and might begin as a formula does.
 * @param {string} name */
function harmless(name) {
  return /^[=+\-@\t\r]/.test(name) ? `'${name}` : name;
}
