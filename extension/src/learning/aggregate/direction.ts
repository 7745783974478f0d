/**
 * Tally → direction: class weights, the loss's factor, thinning's divisor and the right normaliser, in exact numbers.
 *
 * For each model the direction is
 *
 *     (a f⁺ N⁺ - b f⁻ N⁻) / (divisor · (a n⁺ + b n⁻))
 *
 * with a, b the weights of the positive and the negative side, f± the loss's factors, n± the participants of each side:
 * the normaliser is the *weighted* number of participants. With one-vs-rest the negative side is a mixture that the
 * tally cannot take apart; its weight is the participants' mean of its labels' weights. It is kept as integers and one
 * rational per model, so that every rule starts from the same exact numbers.
 */

import { BadInputError } from "../../errors.ts";
import { commonIntegers } from "../arithmetic.ts";
import type { LabelModels } from "../labelModels.ts";
import type { Sign } from "../package.ts";
import { Ratio } from "../ratio.ts";
import type { Tally } from "./tally.ts";

/** Integer numerators, models × (bins + 1), and for each model the exact factor that turns them into a mean. */
export interface Direction {
  readonly numerators: readonly ArrayLike<bigint>[];
  readonly scales: readonly Ratio[];
  /** N⁺ + N⁻, unweighted, and its factor: the popularity of bins in a round where everybody violates. */
  readonly totals: readonly ArrayLike<bigint>[];
  readonly totalScales: readonly Ratio[];
  /** |a n⁺ - b n⁻| / (a n⁺ + b n⁻) of each model: 0 for equal sides, 1 when one side is empty. */
  readonly imbalances: readonly Ratio[];
}

/** What turns counts into a direction. */
export interface Weighing {
  readonly models: LabelModels;
  /** One entry per label. */
  readonly classWeights: readonly Ratio[];
  readonly factors: readonly [Ratio, Ratio];
}

const ZERO = new Ratio(0);
const ONE = new Ratio(1);

/** The direction of a tally. */
export function directionOf(tally: Tally, weighing: Weighing, divisor: Ratio): Direction {
  const { models, factors } = weighing;
  const each = Array.from({ length: models.nModels }, (_, model) => {
    const [plus, minus] = [tally.plus[model]!, tally.minus[model]!];
    const totals = plus.map((count, bin) => count + minus[bin]!);
    const [{ n: nPlus, weight: a }, { n: nMinus, weight: b }] = sides(tally, weighing, model);
    if (nPlus + nMinus === 0n) {
      // A one-vs-one pair may have nobody in a round: its counts are zero too, and the model stands still.
      return { numerators: new BigInt64Array(plus.length), scale: ZERO, totals, totalScale: ZERO, imbalance: ZERO };
    }
    const [up, down] = commonIntegers([a.times(factors[0]), b.times(factors[1])]) as [bigint, bigint];
    // Not in 64 bits: class weights may be long.
    const numerators = Array.from(plus, (count, bin) => count * up - minus[bin]! * down);
    const shrunk = up ? a.times(factors[0]).over(new Ratio(up)) : b.times(factors[1]).over(new Ratio(down || 1n));
    const [ours, theirs] = [a.times(new Ratio(nPlus)), b.times(new Ratio(nMinus))];
    const weighted = ours.plus(theirs);
    return {
      numerators,
      scale: weighted.p ? shrunk.over(divisor.times(weighted)) : ZERO,
      totals,
      totalScale: ONE.over(divisor.times(new Ratio(nPlus + nMinus))),
      imbalance: weighted.p ? absolute(ours.minus(theirs)).over(weighted) : ZERO,
    };
  });
  return {
    numerators: each.map(({ numerators }) => numerators),
    scales: each.map(({ scale }) => scale),
    totals: each.map(({ totals }) => totals),
    totalScales: each.map(({ totalScale }) => totalScale),
    imbalances: each.map(({ imbalance }) => imbalance),
  };
}

/** Of each model the integers that multiply N⁺ and N⁻ in its direction. */
export function sideWeights(tally: Tally, weighing: Weighing): (readonly [bigint, bigint])[] {
  const { models, factors } = weighing;
  return Array.from({ length: models.nModels }, (_, model) => {
    const [{ weight: a }, { weight: b }] = sides(tally, weighing, model);
    return commonIntegers([a.times(factors[0]), b.times(factors[1])]) as [bigint, bigint];
  });
}

interface Side {
  readonly n: bigint;
  readonly weight: Ratio;
}

/** The positive and the negative side of a model. */
function sides(tally: Tally, weighing: Weighing, model: number): [Side, Side] {
  const column = weighing.models.signs.map((row) => row[model]!);
  return [sideOf(tally, weighing.classWeights, column, 1), sideOf(tally, weighing.classWeights, column, -1)];
}

/** Participants of one side of a model and their mean weight. */
function sideOf(tally: Tally, classWeights: readonly Ratio[], column: readonly (Sign | 0)[], sign: Sign): Side {
  const members = column.flatMap((of, label) => (of === sign ? [label] : []));
  const n = members.reduce((sum, label) => sum + tally.participants[label]!, 0n);
  if (n === 0n) return { n, weight: members.length ? classWeights[members[0]!]! : ONE };
  const weighed = members.map((label) => classWeights[label]!.times(new Ratio(tally.participants[label]!)));
  return { n, weight: weighed.reduce((sum, part) => sum.plus(part), ZERO).over(new Ratio(n)) };
}

function absolute(value: Ratio): Ratio {
  return value.p < 0n ? ZERO.minus(value) : value;
}

/** A step needs somebody: a round with nobody is abandoned, not divided by zero. */
export function checkParticipants(tally: Tally): void {
  if (tally.participants.every((count) => count === 0n)) throw new BadInputError("nobody took part in this round");
}
