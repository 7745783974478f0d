// Where the curves of a drawing are, and how values become places and places values.
// @ts-check

/** @typedef {import("./figure.js").Figure} Figure */

/** What is left free above the curves. */
export const TOP = 30;

/** To a tenth, halves to the even side. @param {number} value */
export function tenth(value) {
  const scaled = value * 10;
  const below = Math.floor(scaled);
  // Far from a half the quick way is exact.
  if (Math.abs(scaled - below - 0.5) > 1e-6) return Math.round(scaled) / 10;
  if (Number.isInteger(value * 4)) return (below % 2 === 0 ? below : below + 1) / 10;
  return Number(value.toFixed(1));
}

/** Where the curves are, and how values become places. */
export class Box {
  /** @param {Figure} figure @param {[number, number]} across @param {number} left @param {number} right
   * @param {number} bottom */
  constructor(figure, across, left, right, bottom) {
    this.figure = figure;
    this.across = across;
    this.left = left;
    this.right = right;
    this.bottom = bottom;
    this.top = TOP;
    this.low = figure.even(across[0]);
    this.long = figure.even(across[1]) - this.low;
    [this.least, this.most] = figure.endsUp;
  }

  /** Of a value across, wherever it lies. @param {number} value */
  exactX(value) {
    return this.left + ((this.figure.even(value) - this.low) / this.long) * (this.right - this.left);
  }

  /** Of a value across, at the edge if it lies beyond. @param {number} value */
  x(value) {
    const share = Math.min(1, Math.max(0, (this.figure.even(value) - this.low) / this.long));
    return tenth(this.left + share * (this.right - this.left));
  }

  /** Of a value up, at the edge if it lies beyond. @param {number} value */
  exactY(value) {
    const share = Math.min(1, Math.max(0, (value - this.least) / (this.most - this.least)));
    return this.bottom - share * (this.bottom - TOP);
  }

  /** @param {number} value */
  y(value) {
    return tenth(this.exactY(value));
  }

  /** The value across at a place of the drawing. @param {number} x */
  value(x) {
    const even = this.low + ((x - this.left) / (this.right - this.left)) * this.long;
    return this.figure.log ? 10 ** even : even;
  }
}
