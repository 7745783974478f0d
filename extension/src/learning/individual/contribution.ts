/**
 * Everything one person sends in one round, package by package.
 *
 *  1. One participation package.
 *  2. Train cohort: for every model the update (or none), split into units, thinned; all models together cut to the
 *     budget.
 *     Test cohort: the confusion cell of one prediction (a number as the label has none).
 *  3. Padding with nulls up to the budget, where the experiment has one. Cover is added by relays, and by no device.
 *
 * An update becomes |x| unit packages of sign y sgn(x) in each bin. The units of an update are numbered through its
 * bins in ascending order, the bias last; the number is what the dice of thinning are thrown for.
 */

import { BadInputError, LocalProtocolError } from "../../errors.ts";
import type { Experiment } from "../experiment.ts";
import type { LabelModels } from "../labelModels.ts";
import type { Cohort, Package, TestPackage, TrainPackage } from "../package.ts";
import { ALWAYS } from "../thinning.ts";
import type { Weights } from "../weights.ts";
import type { BinnedVector } from "./binning.ts";
import { cut, smallest, type Dice } from "./dice.ts";
import { fixedEpsilon, localUpdate, score, squaredNorm, type Update } from "./update.ts";

/** All unit packages of an update, in the order of their numbers. */
export function split(update: Update, model: number): TrainPackage[] {
  return [...update.values].flatMap(([binIndex, value]) => {
    const unit: TrainPackage = { kind: "train", model, binIndex, sign: value > 0 ? 1 : -1 };
    return Array<TrainPackage>(Math.abs(value)).fill(unit);
  });
}

/** Each package stays with probability keep53 / 2^53. */
export function thin(
  packages: readonly TrainPackage[],
  { keep53, dice, round, model }: { keep53: bigint; dice: Dice; round: number; model: number },
): TrainPackage[] {
  if (keep53 === ALWAYS) return [...packages];
  const words = dice.words("thinning", round, model, packages.length);
  return packages.filter((_, i) => cut(words[i]!) < keep53);
}

/**
 * At most `budget` packages: those with the smallest dice words stay, in their order.
 *
 * A person above the budget contributes less than its update: a bias of the model, and the reason to choose the
 * features per person so that it does not happen.
 */
export function fitBudget(
  packages: readonly TrainPackage[],
  { budget, dice, round }: { budget: number | null; dice: Dice; round: number },
): TrainPackage[] {
  if (budget === null || packages.length <= budget) return [...packages];
  return smallest(packages, dice.words("budget", round, 0, packages.length), budget);
}

/** Exactly `budget` packages, filled up with nulls. */
export function pad(packages: readonly Package[], budget: number): Package[] {
  if (packages.length > budget) throw new BadInputError("there are more packages than the budget allows");
  return [...packages, ...Array<Package>(budget - packages.length).fill({ kind: "null" })];
}

/** The confusion cell of one test person. */
export function evaluatePerson(
  weights: Weights,
  models: LabelModels,
  vector: BinnedVector,
  trueClass: number,
): TestPackage {
  const scores = Array.from({ length: models.nModels }, (_, model) => score(weights, model, vector));
  return { kind: "test", trueClass, predictedClass: models.predict(scores) };
}

/** One person as an experiment sees it. Secret. */
export interface Individual {
  readonly vector: BinnedVector;
  /** Index of the label; 0 when the label is a number. */
  readonly label: number;
  /** The number as the label, centred, scaled, in units of 2^-32 (`update.fixedTarget`). */
  readonly target: bigint;
  readonly cohort: Cohort;
}

/** What a person contributes to. */
export interface Round {
  readonly experiment: Experiment;
  readonly training: Weights;
  readonly evaluation: Weights;
  readonly dice: Dice;
  readonly round: number;
}

/** The packages of one person in one round. */
export function contribute(person: Individual, asked: Round): Package[] {
  const { experiment, evaluation } = asked;
  let packages: Package[] = [{ kind: "participation", cohort: person.cohort, classIndex: person.label }];
  if (person.cohort === "train") {
    packages = packages.concat(trainPackages(person, asked));
  } else if (!experiment.loss.regression) {
    packages.push(evaluatePerson(evaluation, experiment.models, person.vector, person.label));
  }
  return experiment.budget === null ? packages : pad(packages, experiment.budget);
}

/** The unit packages of a train person: all models, thinned, within the budget. */
export function trainPackages(
  person: Individual,
  { experiment, training, dice, round }: Omit<Round, "evaluation">,
): TrainPackage[] {
  const { vector, label } = person;
  const { loss, models, thinning } = experiment;
  if (experiment.cover !== null && [...vector.values.values()].some((value) => value !== 1)) {
    throw new LocalProtocolError("with cover a person has one unit in a bin, or none");
  }
  const keep53 = thinning.keep53(BigInt(squaredNorm(vector)));
  const signs = models.signs[label]!;
  let sent: TrainPackage[] = [];
  for (let model = 0; model < models.nModels; model++) {
    const labelSign = loss.regression ? null : signs[model]!;
    if (labelSign === 0) continue;
    let [threshold, width] = [person.target, 0n];
    if (loss.regression) {
      width = fixedEpsilon(loss, experiment.targetSpread);
    } else {
      threshold = loss.threshold(loss.tossesCoins ? cut(dice.words("coin", round, model, 1)[0]!) : 0n);
    }
    const update = localUpdate({ weights: training, model, vector, labelSign, threshold, width });
    if (update !== null) {
      sent = sent.concat(thin(split(update, model), { keep53, dice, round, model }));
    }
  }
  return fitBudget(sent, { budget: experiment.trainBudget, dice, round });
}
