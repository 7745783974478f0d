/**
 * The margin test: weights, binned vector and label → an integer update, or none.
 *
 * In integers throughout. A person's score is A = Σ M_j x_j over its bins and the bias; its *band* (lower, upper) is
 * derived from the loss, the label and the unit of the weights, and
 *
 *     A < lower   sends +x,      A > upper   sends -x,      otherwise nothing.
 *
 * With weight = M · unit, `y · w·x < θ` is `A < ceil(θ / unit)` for y = +1 and `A > -ceil(θ / unit)` for y = -1:
 * exactly on the threshold nothing is sent. Where the rule normalises rows, θ is multiplied by the person's norm, taken
 * as the integer R = floor(2^16 ‖x‖). In the first round the weights are zero and everybody violates; a number as the
 * label then has the sign of its (centred) value.
 */

import { BadInputError } from "../../errors.ts";
import { ceilRatio, clipThreshold, exact, integerRoot } from "../arithmetic.ts";
import { ONE, THRESHOLD_BITS, type Loss } from "../losses.ts";
import type { Sign } from "../package.ts";
import { floorDivide, Ratio } from "../ratio.ts";
import type { Weights } from "../weights.ts";
import type { BinnedVector } from "./binning.ts";

export const NORM_BITS = 16n;
/** Targets, centred and scaled, stay below this in absolute value. */
export const MAX_TARGET = 2 ** 20;
const FURTHEST = new Ratio(MAX_TARGET - 1);

/** What a person adds for one model: sign times binned vector. Secret. */
export interface Update {
  /** Bin to signed value, the bias bin included, ascending. */
  readonly values: ReadonlyMap<number, number>;
}

/** floor(2^16 ‖x‖) from the integer Σ x². */
export function fixedNorm(squaredNorm: number): bigint {
  return integerRoot(BigInt(squaredNorm) << (2n * NORM_BITS));
}

/**
 * A number as the label, centred and scaled as the experiment says, in units of 2^-32, rounded half to even.
 *
 * One that is too far from the centre is refused, or with `clamp` taken for the furthest there is: where whether
 * somebody takes part must not depend on the label, because who asks chooses centre and spread.
 */
export function fixedTarget(
  target: number,
  { centre, spread, clamp = false }: { centre: Ratio; spread: Ratio; clamp?: boolean },
): bigint {
  if (!Number.isFinite(target)) throw new BadInputError("a label is not a finite number");
  let scaled = exact(target).minus(centre).over(spread);
  const lowest = new Ratio(-FURTHEST.p);
  if (clamp && scaled.compare(FURTHEST) > 0) scaled = FURTHEST;
  if (clamp && scaled.compare(lowest) < 0) scaled = lowest;
  const most = new Ratio(MAX_TARGET);
  if (scaled.compare(most) >= 0 || new Ratio(-scaled.p, scaled.q).compare(most) >= 0) {
    throw new BadInputError("a label is too far from the centre of the experiment's labels");
  }
  return scaled.times(new Ratio(ONE)).round();
}

/** Half the width of a regression's band in units of 2^-32: ε over the spread; zero for pinball. */
export function fixedEpsilon(loss: Loss, spread: Ratio): bigint {
  return loss.halfWidth.over(spread).times(new Ratio(ONE)).round();
}

/**
 * (lower, upper) in units of the score: below `threshold - width`, above `threshold + width`.
 *
 * Thresholds come in units of 2^-32; `norm` is the fixed norm where the rule normalises.
 */
export function band(
  { threshold, width, norm, unit }: { threshold: bigint; width: bigint; norm: bigint | null; unit: Ratio },
): [lower: bigint, upper: bigint] {
  const above = norm === null ? unit.q : unit.q * norm;
  const below = unit.p << (norm === null ? THRESHOLD_BITS : THRESHOLD_BITS + NORM_BITS);
  const lower = ceilRatio((threshold - width) * above, below);
  const upper = floorDivide((threshold + width) * above, below);
  return [clipThreshold(lower), clipThreshold(upper)];
}

/** Σ M_j x_j over a person's bins and the bias. */
export function score(weights: Weights, model: number, vector: BinnedVector): number {
  const row = weights.mantissas[model]!;
  let sum = row[vector.nBins]!;
  for (const [bin, value] of vector.values) sum += row[bin]! * value;
  return sum;
}

/** Σ x² with the bias. */
export function squaredNorm(vector: BinnedVector): number {
  let sum = 1;
  for (const value of vector.values.values()) sum += value * value;
  return sum;
}

/** What decides one person's update for one model. */
export interface MarginTest {
  readonly weights: Weights;
  readonly model: number;
  readonly vector: BinnedVector;
  /** +1 or -1; null when the label is a number and `threshold` is its fixed target. */
  readonly labelSign: Sign | null;
  /** θ (classification) or target (regression) in units of 2^-32. */
  readonly threshold: bigint;
  /** Half width of a regression's band in the same units. */
  readonly width?: bigint;
}

/** One person's update for one model, or null. */
export function localUpdate(asked: MarginTest): Update | null {
  const sign = verdict(asked);
  if (sign === 0) return null;
  return { values: new Map([...asked.vector.withBias()].map(([bin, value]) => [bin, sign * value])) };
}

function verdict({ weights, model, vector, labelSign, threshold, width = 0n }: MarginTest): Sign | 0 {
  if (weights.first) return labelSign ?? (threshold > 0n ? 1 : threshold < 0n ? -1 : 0);
  const total = score(weights, model, vector);
  const norm = weights.normalised ? fixedNorm(squaredNorm(vector)) : null;
  const [lower, upper] = band({ threshold, width, norm, unit: weights.unit });
  if (labelSign !== null) return labelSign * total < lower ? labelSign : 0;
  // Without a width the band may be empty, its ends the wrong way round.
  return (Number(total < lower) - Number(total > upper)) as Sign | 0;
}
