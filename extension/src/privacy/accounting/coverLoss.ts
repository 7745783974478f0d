/**
 * What one look at one cell tells: a cell with a person's unit against the same cell without, both under cover.
 *
 * X is the honest cover, NB(r, p). A unit that is sent with chance q makes the law (1-q) X + q (X+1); against X the
 * likelihood ratio at a count of k is
 *
 *     1 - q + q · P(X = k-1) / P(X = k) = 1 - q + q · k / ((k + r - 1) p)
 *
 * The two directions differ: taking a unit away and adding one are two losses.
 */

import { BadInputError } from "../../errors.ts";
import { discretise, type PrivacyLoss } from "./pld.ts";
import { dot, exp, log, log1p, logGamma, sumOnce, total } from "./reals.ts";

/** Counts are written down until what is left has at most this chance; the rest gets an infinite loss. */
const LOG_LEFT = log(1e-30);
/** Γ of more than this is compared by Stirling's series. */
const STIRLING = 1e4;
/** Rounding alone makes a loss that is always the same seem to vary by this share of it. */
const NO_SPREAD = 1e-9;
/** More counts than this are not written down. */
const MOST_COUNTS = 2 ** 22;

/**
 * An upper bound on ln P(X > above) for X = NB(shape, p): the next term times a geometric series.
 *
 * Where the ratio of two terms is 1 or more the bound is 0, that is, nothing is promised.
 */
export function logTail(shape: number, p: number, above: number): number {
  const k = above + 1;
  const ratio = Math.max(p, (p * (k + shape)) / (k + 1));
  return ratio >= 1 ? 0 : Math.min(0, logMass(shape, p, k) - log1p(-ratio));
}

/** Ln P(X = k) for X = NB(shape, p), rounded up by more than its terms can be off. */
export function logMass(shape: number, p: number, k: number): number {
  return sumRoundedUp([logRising(shape, k), -logGamma(k + 1), shape * log1p(-p), k * log(p)]);
}

/** A sum of terms each of which is good to a few units of its last place. */
export function sumRoundedUp(terms: readonly number[]): number {
  return sumOnce(terms) + 1e-9 + 16 * 2 ** -52 * sumOnce(terms.map(Math.abs));
}

/**
 * The logarithm of Γ(shape + k) / Γ(shape).
 *
 * By Stirling's series for large shapes, where the difference of two ln Γ would be all rounding.
 */
function logRising(shape: number, k: number): number {
  if (shape < STIRLING) return logGamma(shape + k) - logGamma(shape);
  const end = shape + k;
  const main = (shape - 0.5) * log1p(k / shape) + k * log(end) - k;
  return main + (1 / end - 1 / shape) / 12 - (1 / (end * end * end) - 1 / (shape * shape * shape)) / 360;
}

/** The least whole number above 0 for which it holds, where it holds for all after; sought from `from` on. */
export function least(holds: (number: number) => boolean, from = 1): number {
  let [low, high] = [0, from];
  while (!holds(high)) [low, high] = [high, 2 * high];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    [low, high] = holds(middle) ? [low, middle] : [middle, high];
  }
  return high;
}

/** The logarithms of P(X = k) for k = 0 … K, where P(X > K) ≤ 1e-30. */
function logMasses(shape: number, p: number): Float64Array {
  const last = least((cap) => logTail(shape, p, cap) <= LOG_LEFT);
  if (last > MOST_COUNTS) throw new BadInputError("this is more noise than any relay could add");
  const masses = new Float64Array(last + 1);
  const [start, logP] = [shape * log1p(-p), log(p)];
  masses[0] = start + 0;
  let sum = 0;
  for (let k = 1; k <= last; k++) {
    sum += logP + log(k + shape - 1) - log(k);
    masses[k] = start + sum;
  }
  return masses;
}

/** The losses (of with against without, of without against with) of one cell whose unit is sent with chance q. */
export function cellLosses(shape: number, p: number, q: number, step: number): readonly [PrivacyLoss, PrivacyLoss] {
  const { masses, ratios, there } = ratiosOf(shape, p, q);
  const losses = ratios.map(log);
  const without = masses.subarray(there).map(exp);
  const withUnit = without.map((mass, i) => mass * ratios[i]!);
  // X + 1 is beyond the last count that is written down where X is at it, or beyond.
  const left = exp(logTail(shape, p, masses.length - 2));
  const taken = discretise(losses, withUnit, { infinite: left, step });
  // Without a unit a count of 0 may be seen that with one (q = 1) cannot.
  const unseen = total(masses.subarray(0, there).map(exp));
  return [taken, discretise(losses.map((loss) => -loss), without, { infinite: left + unseen, step })];
}

/**
 * The standard deviation of a cell's loss: what a grid must be fine against.
 *
 * A geometric law (a shape of 1) loses the same at every count but 0; there it is the loss itself.
 */
export function spreadOfLoss(shape: number, p: number, q: number): number {
  const { masses, ratios, there } = ratiosOf(shape, p, q);
  const law = masses.subarray(there).map(exp);
  const losses = ratios.map(log);
  const mean = dot(law, losses) / total(law);
  const deviation = Math.sqrt(dot(law, losses.map((loss) => (loss - mean) * (loss - mean))));
  return deviation > NO_SPREAD * Math.abs(mean) ? deviation : Math.abs(mean);
}

/** Logarithms of the law's masses, and likelihood ratios from the first count on that has one above 0. */
function ratiosOf(shape: number, p: number, q: number) {
  const masses = logMasses(shape, p);
  const ratios = masses.map((_, k) => 1 - q + (q * k) / (k > 0 ? (k + shape - 1) * p : 1));
  // With q = 1 the unit is always there, and a count of 0 cannot be.
  const there = ratios[0]! > 0 ? 0 : 1;
  return { masses, ratios: ratios.subarray(there), there };
}
