/**
 * Robust rounds: how far a few devices can move a model, bounded from public tallies alone.
 *
 * **Clipping.** The net count of a bin is at most c times what chance alone would give it. With A, B the integer
 * weights of the two sides, P = A² N⁺, M = B² N⁻, and V the variance of cover in a cell:
 *
 *     |A N⁺ - B N⁻|  ≤  floor( c √( min(P + M, 4 min(P, M) + 8 (A² + B²)) + (A² + B²) V ) )
 *
 * What is above is cut off the sign that has more.
 *
 * **Trimming.** The direction of a round is, bin by bin, the median of the last k rounds' (k odd, zeros before the
 * first).
 */

import { FIXED_BITS, integerRoot, powerOfTwo, toFixed } from "../arithmetic.ts";
import type { Robust } from "../experiment.ts";
import { floorDivide, Ratio } from "../ratio.ts";
import type { Direction } from "./direction.ts";
import type { Vectors } from "./descent/rule.ts";
import { table, type Counts, type Tally } from "./tally.ts";

/** Of the limit: so many times the smaller count, and so many units on top, speak for a bin. */
const OTHER_SIGN = 4n;
const ON_TOP = 8n;

/** The vectors of `Robust.names` before round 1. */
export function rememberedAtStart(robust: Robust, nModels: number, nBins: number): Vectors {
  return Object.fromEntries(robust.names.map((name) => [name, table(nModels, nBins + 1)]));
}

/** The tally with every bin's net within its limit. `sides`: A and B of each model; `variance`: V. */
export function clipped(
  robust: Robust,
  tally: Tally,
  sides: readonly (readonly [bigint, bigint])[],
  variance: Ratio,
): Tally {
  const { clip } = robust;
  if (clip === null) return tally;
  const plus = tally.plus.map((counts) => counts.slice());
  const minus = tally.minus.map((counts) => counts.slice());
  sides.forEach(([up, down], model) => {
    const limit = limits(up, down, clip, variance);
    const [ours, theirs] = [tally.plus[model]!, tally.minus[model]!];
    ours.forEach((above, bin) => {
      const below = theirs[bin]!;
      const most = limit(above, below);
      plus[model]![bin] = cut(above, below, up, down, most);
      minus[model]![bin] = cut(below, above, down, up, most);
    });
  });
  return tally.withTrain(plus, minus);
}

/** The limit of a bin's net, as above; under cover a count below zero counts as none. */
function limits(up: bigint, down: bigint, clip: Ratio, variance: Ratio): (plus: bigint, minus: bigint) => bigint {
  const both = up * up + down * down;
  const noise = variance.times(new Ratio(both)).floor();
  const [above, below] = [clip.p ** 2n, clip.q ** 2n];
  return (plus, minus) => {
    const p = plus > 0n ? plus * up * up : 0n;
    const m = minus > 0n ? minus * down * down : 0n;
    const vouched = smaller(p + m, OTHER_SIGN * smaller(p, m) + ON_TOP * both);
    return integerRoot(((vouched + noise) * above) / below);
  };
}

/** Our count, so many at most that weight · ours - other · theirs ≤ limit. */
function cut(ours: bigint, theirs: bigint, weight: bigint, other: bigint, limit: bigint): bigint {
  return weight === 0n ? ours : smaller(ours, floorDivide(limit + theirs * other, weight));
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

/** The median direction, in units of 2^-32, and what is to be remembered for the next round. */
export function trimmed(robust: Robust, direction: Direction, recent: Vectors): [Direction, Vectors] {
  if (robust.trim === 1) return [direction, {}];
  const now = direction.numerators.map((row, model) => toFixed(row, direction.scales[model]!));
  const rounds = [now, ...robust.names.map((name) => recent[name] as readonly Counts[])];
  const unit = powerOfTwo(-FIXED_BITS);
  const numerators = now.map((row, model) =>
    row.map((_, bin) => BigInt64Array.from(rounds, (round) => round[model]![bin]!).sort()[robust.trim >> 1]!),
  );
  const remembered = Object.fromEntries(robust.names.map((name, i) => [name, rounds[i]!]));
  return [{ ...direction, numerators, scales: numerators.map(() => unit) }, remembered];
}
