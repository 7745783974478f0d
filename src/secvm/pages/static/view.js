// Which stretch of the horizontal axis is shown, and how it moves: by itself it knows no page and no pointer.
// @ts-check

import { before } from "./thinning.js";

/** @typedef {import("./figure.js").Figure} Figure */

export class View {
  /** @param {Figure} figure */
  constructor(figure) {
    this.figure = figure;
    /** On the even scale; null is everything. @type {[number, number]|null} */
    this.range = null;
    /** Whether the end is held when more is appended: it is once somebody moved there. */
    this.follows = false;
  }

  /** @returns {[number, number]} */
  get whole() {
    const [low, high] = this.figure.endsAcross;
    return [this.figure.even(low), this.figure.even(high)];
  }

  /** The stretch in values. @returns {[number, number]} */
  get across() {
    if (!this.range) return this.figure.endsAcross;
    const [low, high] = this.range;
    return this.figure.log ? [10 ** low, 10 ** high] : [low, high];
  }

  /** The first and last place that are shown, or nulls for all. @returns {[number|null, number|null]} */
  get shown() {
    if (!this.range) return [null, null];
    const [low, high] = this.across;
    const stops = this.figure.stops;
    const slack = 1e-9 * (high - low);
    const [first, after] = [before(stops, low - slack), before(stops, high + slack, true)];
    return first < after ? [stops[first], stops[after - 1]] : [low, high];
  }

  /** A figure with more or other numbers; the stretch stays, or stays at the end. @param {Figure} figure */
  replace(figure) {
    const end = this.whole[1];
    this.figure = figure;
    if (!this.range) return;
    const moved = this.follows ? this.whole[1] - end : 0;
    this.set(this.range[0] + moved, this.range[1] + moved, this.follows);
  }

  /** Show from one place to another, both whole. @param {number|null} from @param {number|null} to */
  show(from, to) {
    const [low, high] = this.figure.endsAcross;
    const half = (this.figure.bars?.apart ?? 0) / 2;
    const first = from === null ? low : from - half;
    const last = to === null ? high : to + half;
    this.set(this.figure.even(first), this.figure.even(last), false);
  }

  /** @param {number} low @param {number} high on the even scale */
  set(low, high, byHand = true) {
    const [first, last] = this.whole;
    const length = Math.min(last - first, Math.max(this.#shortest(), high - low));
    const middle = (low + high) / 2;
    const start = Math.min(last - length, Math.max(first, length === high - low ? low : middle - length / 2));
    this.range = length >= (last - first) * (1 - 1e-9) ? null : [start, start + length];
    this.follows = byHand && start + length >= last - 1e-9 * (last - first);
  }

  all() {
    this.range = null;
  }

  /** Move by a share of what is shown. @param {number} share */
  pan(share) {
    if (!this.range) return;
    const by = share * (this.range[1] - this.range[0]);
    this.set(this.range[0] + by, this.range[1] + by);
  }

  /** Show so many times as much, keeping a place where it is. @param {number} times @param {number} around 0 to 1 */
  zoom(times, around = 0.5) {
    const [low, high] = this.range ?? this.whole;
    const fixed = low + around * (high - low);
    const length = times * (high - low);
    this.set(fixed - around * length, fixed + (1 - around) * length);
  }

  /** Move so far that a place is seen. @param {number} place */
  reveal(place) {
    if (!this.range) return;
    const [low, high] = this.range;
    const half = (this.figure.bars?.apart ?? 0) / 2;
    const [left, right] = [this.figure.even(place - half), this.figure.even(place + half)];
    if (left < low) this.set(left, left + high - low);
    else if (right > high) this.set(right - (high - low), right);
  }

  /** Less than a few places say nothing. */
  #shortest() {
    const [first, last] = this.whole;
    return ((last - first) * 4) / Math.max(5, this.figure.stops.length);
  }
}
