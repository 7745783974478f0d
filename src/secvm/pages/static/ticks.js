// Where an axis carries numbers, and how they are written.
//
// Places are integers times a power of ten, so that labels are exact. Powers of ten are found by digits, not by
// logarithms, which differ between machines in their last bit.
// @ts-check

/** @typedef {{value: number, label: string}} Tick */
/** An exact decimal: n · 10^e. @typedef {{n: number, e: number}} Exact */

const NARROW = 1e-9;
const DECADES = 2.5;
const SHORT = 0.75;
const FINE = 6;
/** @type {Record<string, string>} */
const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** A range that holds everything from low to high with a little room, and zero where that is near anyway.
 * @param {number} low @param {number} high @returns {[number, number]} */
export function span(low, high) {
  if (!(low <= high)) return [0, 1];
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (high - low <= NARROW * size) {
    const room = size / 10 || 0.5;
    return [low - room, high + room];
  }
  const room = 0.05 * (high - low);
  const bottom = low >= 0 && low < (high - low) / 2 ? 0 : low - room;
  return [bottom, high === 1 && bottom >= 0 ? high : high + room];
}

/** About so many round numbers; of things that are counted, whole ones. @param {number} low @param {number} high
 * @returns {Tick[]} */
export function linearTicks(low, high, count = 6, whole = false) {
  let { n: factor, e: exponent } = step(high - low, count);
  if (whole && exponent < 0) [factor, exponent] = [1, 0];
  const length = factor * ten(exponent);
  const first = Math.ceil(low / length - NARROW);
  const last = Math.floor(high / length + NARROW);
  const exact = [];
  for (let place = first; place <= last; place++) exact.push({ n: place * factor + 0, e: exponent });
  const labels = written(exact);
  return exact.map((value, i) => ({ value: Math.min(high, Math.max(low, float(value))), label: labels[i] }));
}

/** Powers of ten; over few decades also their doubles and fives. @param {number} low @param {number} high
 * @returns {Tick[]} */
export function logTicks(low, high, count = 7) {
  const { decades, first, last } = decadesOf(low, high);
  const factors = decades >= DECADES ? [1] : [1, 2, 5];
  const every = Math.max(1, Math.ceil(decades / count));
  /** @type {Exact[]} */
  let exact = [];
  for (let e = first; e <= last; e++) if (e % every === 0) exact.push(...factors.map((n) => ({ n, e })));
  exact = exact.filter((value) => low <= float(value) && float(value) <= high);
  if (exact.length <= 1 || decades < SHORT) return linearTicks(low, high, count);
  const plain = float(exact[0]) >= 0.001 && float(exact[exact.length - 1]) < 1e6;
  return exact.map((value) => ({
    value: float(value),
    label: plain ? fixed(value, 0, Math.max(0, -value.e)) : power(value),
  }));
}

/** Small marks between powers of ten. @param {number} low @param {number} high @returns {number[]} */
export function betweenDecades(low, high) {
  const { decades, first, last } = decadesOf(low, high);
  if (decades < 1 || decades > FINE) return [];
  const marks = [];
  for (let e = first; e <= last; e++) for (let n = 2; n < 10; n++) marks.push(float({ n, e }));
  return marks.filter((mark) => low <= mark && mark <= high);
}

/** Exact at powers of ten, where a browser's own may miss the last bit. @param {number} value */
export function log10(value) {
  const found = Math.log10(value);
  const whole = Math.round(found);
  return Math.abs(found - whole) < 1e-13 * Math.max(1, Math.abs(whole)) ? whole : found;
}

/** @param {number} exponent */
const ten = (exponent) => Number(`1e${exponent}`);
/** @param {Exact} value */
const float = (value) => Number(`${value.n}e${value.e}`);

/** A positive number's power of ten, and what stands before it. @param {number} value */
function parts(value) {
  const [before, exponent] = value.toExponential().split("e");
  return { exponent: Number(exponent), before: Number(before) };
}

/** @param {number} low @param {number} high */
function decadesOf(low, high) {
  const a = parts(low);
  const b = parts(high);
  const decades = b.exponent - a.exponent + (Math.log10(b.before) - Math.log10(a.before));
  return { decades, first: a.exponent, last: b.exponent + 1 };
}

/** @param {number} length @param {number} count @returns {Exact} */
function step(length, count) {
  const raw = length / Math.max(1, count);
  const { exponent } = parts(raw);
  const factor = [1, 2, 5].find((f) => f * ten(exponent) >= raw * (1 - NARROW));
  return factor === undefined ? { n: 1, e: exponent + 1 } : { n: factor, e: exponent };
}

/** Without zeros at its end. @param {Exact} value @returns {Exact} */
function normal(value) {
  let { n, e } = value;
  while (n !== 0 && n % 10 === 0) {
    n /= 10;
    e += 1;
  }
  return { n, e };
}

/** All in one unit, with as many digits as they need to differ. @param {Exact[]} values */
function written(values) {
  const top = Math.max(0, ...values.map((value) => Math.abs(float(value))));
  const finest = Math.min(...values.filter((value) => value.n).map((value) => normal(value).e), Infinity);
  if (top >= 1e9 || (top && top < 0.001)) return values.map(power);
  const [shift, unit] = top >= 1e6 ? [6, "\u00a0M"] : [0, ""];
  const digits = Math.max(0, shift - (finest === Infinity ? 0 : finest));
  return values.map((value) => fixed(value, shift, digits) + (value.n ? unit : ""));
}

/** n · 10^(e − shift) with so many digits, in groups of three. @param {Exact} value @param {number} shift
 * @param {number} digits */
function fixed(value, shift, digits) {
  const { n, e } = normal(value);
  const whole = (n ? String(Math.abs(n)) + "0".repeat(e - shift + digits) : "0").padStart(digits + 1, "0");
  const cut = whole.length - digits;
  const grouped = whole.slice(0, cut).replace(/\B(?=(\d{3})+$)/g, ",");
  return (n < 0 ? "\u2212" : "") + grouped + (digits ? "." + whole.slice(cut) : "");
}

/** @param {Exact} value */
function power(value) {
  if (!value.n) return "0";
  const { n, e } = normal(value);
  const digits = String(Math.abs(n));
  const factor = digits[0] + (digits.length > 1 ? "." + digits.slice(1) : "");
  const raised = [...String(digits.length + e - 1)].map((letter) => RAISED[letter]).join("");
  return (n < 0 ? "\u2212" : "") + (factor === "1" ? `10${raised}` : `${factor}·10${raised}`);
}
