/**
 * What the public tallies of an honest run give away of a label: from d'² to an AUC.
 *
 * Who knows a person's bins asks whether the label is a or b. In a model where a and b have different signs, the person
 * stands on another side (or on none); each side on which it may stand adds q · bins / V, with V the people who send on
 * that side:
 *
 *     d'² = q · bins · Σ 1/V      over models in which the signs differ, and the sides that a or b stand on
 *
 * The pair that is easiest to tell apart counts. Everybody who trains sends, labels are equally frequent, and thinning's
 * q is that of a person with as many features as the experiment takes.
 */

import type { Experiment } from "../learning/experiment.ts";
import { ALWAYS } from "../learning/thinning.ts";
import { erf, total } from "./accounting/reals.ts";

/** Fewer people than this on a side are as good as none. */
const NOBODY = 1e-9;
/** Labels whose pairs are looked at. */
const COMPARED = 32;

/** The chance to rank a random person of one label above one of the other: Φ(d' / √2). */
export function aucOf(dSquared: number): number {
  return 0.5 * (1 + erf(Math.sqrt(Math.max(0, dSquared)) / 2));
}

/** What all rounds together would give away, if each were as planned. */
export interface PlannedLeak {
  readonly aucRound: number;
  /** Over all rounds, as if the others were new people every time. */
  readonly auc: number;
}

/** At so many train participants in a round, of all labels together; null: the label is a number, and has no law. */
export function plannedLeak(
  experiment: Experiment,
  { trainParticipants, rounds, hashes }: { trainParticipants: number; rounds: number; hashes: number },
): PlannedLeak | null {
  if (experiment.loss.regression) return null;
  const once = keepShare(experiment, hashes) * experiment.nBins * easiest(experiment, trainParticipants);
  return { aucRound: aucOf(once), auc: aucOf(rounds * once) };
}

/** The share q of a person with as many features as the experiment takes; 1 where there is no bound on them. */
function keepShare({ featuresPerPerson: features, nBins, thinning }: Experiment, hashes: number): number {
  if (features === null) return thinning.q === null ? 1 : thinning.q.toNumber();
  const held = Math.min(features * hashes, nBins);
  return Number(thinning.keep53(BigInt(held + 1))) / Number(ALWAYS);
}

/** The largest Σ 1/V of any two labels. */
function easiest({ labels, models }: Experiment, people: number): number {
  const { signs, nModels } = models;
  const ofOneLabel = people * (1 / labels.length);
  const side = (sign: 1 | -1): Float64Array => {
    const senders = new Float64Array(nModels);
    for (const row of signs) for (const [model, own] of row.entries()) senders[model]! += own === sign ? ofOneLabel : 0;
    return senders.map((count) => 1 / Math.max(count, NOBODY));
  };
  const [plus, minus] = [side(1), side(-1)];
  // What a label's side adds in every model.
  const added = signs.map((row) => Float64Array.from(row, (sign, m) => (sign > 0 ? plus[m]! : sign < 0 ? minus[m]! : 0)));
  // Of very many labels only those that stand out most are compared with each other.
  const weights = added.map((row) => row.reduce((sum, one) => sum + one, 0));
  const rows = weights.map((_, label) => label).sort((a, b) => weights[b]! - weights[a]!).slice(0, COMPARED);
  const pairs = rows.flatMap((first, i) => rows.slice(i + 1).map((second) => [first, second] as const));
  const sums = pairs.map(([first, second]) => {
    const differ = (m: number): boolean => signs[first]![m] !== signs[second]![m];
    return total(added[first]!.map((one, m) => (differ(m) ? one + added[second]![m]! : 0)));
  });
  return Math.max(...sums);
}
