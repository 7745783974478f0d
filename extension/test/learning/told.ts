/** Experiments, packages and counts as the vectors tell them. */

import { ruleByName } from "../../src/learning/aggregate/descent/rules.ts";
import { Tally, type Counts } from "../../src/learning/aggregate/tally.ts";
import { exact } from "../../src/learning/arithmetic.ts";
import { Experiment, Robust } from "../../src/learning/experiment.ts";
import { Loss } from "../../src/learning/losses.ts";
import type { Package } from "../../src/learning/package.ts";
import { Thinning } from "../../src/learning/thinning.ts";
import type { Vector } from "../vectors.ts";

export function experimentOf(told: Vector): Experiment {
  return new Experiment({
    nBins: told.n_bins,
    labels: told.labels,
    multiclass: told.multiclass,
    rule: ruleByName(told.rule.name, told.rule.parameters),
    loss: new Loss(told.loss.name, told.loss.parameter),
    thinning: new Thinning(told.thinning),
    classWeights: told.class_weights.map(exact),
    budget: told.budget,
    robust: told.robust === null ? null : new Robust(told.robust),
  });
}

export function packageOf(told: Vector): Package {
  if (told.kind === "train") return { kind: "train", model: told.model, binIndex: told.bin, sign: told.sign };
  if (told.kind === "test") {
    return { kind: "test", trueClass: told.true_class, predictedClass: told.predicted_class };
  }
  if (told.kind === "participation") return { kind: "participation", cohort: told.cohort, classIndex: told.class };
  return { kind: "null" };
}

export function countsOf(row: readonly number[]): Counts {
  return BigInt64Array.from(row, BigInt);
}

/** A tally that has counted nobody of the test cohort. */
export function tallyOf(told: Vector): Tally {
  const labels = told.participants.length;
  return new Tally({
    plus: told.plus.map(countsOf),
    minus: told.minus.map(countsOf),
    participants: countsOf(told.participants),
    cells: Array.from({ length: labels }, () => new BigInt64Array(labels)),
  });
}
