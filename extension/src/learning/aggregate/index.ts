/**
 * The side of counts: from public tallies to a model. It never sees one person.
 *
 * An `Experiment` is the question; these functions answer it. `step` is the one place where a round becomes a model,
 * and whoever holds the public tallies recomputes it bit for bit.
 */

import { BadExperimentError } from "../../errors.ts";
import type { Experiment } from "../experiment.ts";
import { Ratio } from "../ratio.ts";
import type { Weights } from "../weights.ts";
import { State, type DescentRule } from "./descent/rule.ts";
import { checkParticipants, directionOf, sideWeights, type Weighing } from "./direction.ts";
import { clipped, rememberedAtStart, trimmed } from "./robust.ts";
import { means, Tally, uncovered } from "./tally.ts";

const ZERO = new Ratio(0);

/** The experiment's rule with the steps that go with its constants. */
export function ruleOf({ rule }: Experiment): DescentRule {
  if (!("step" in rule)) throw new BadExperimentError(`${rule.name} has constants and no steps`);
  return rule as DescentRule;
}

/** The state before round 1. */
export function start(experiment: Experiment): State {
  const { models, nBins, robust } = experiment;
  const first = ruleOf(experiment).start(models.nModels, nBins);
  if (robust === null) return first;
  return new State({ ...first, vectors: { ...first.vectors, ...rememberedAtStart(robust, models.nModels, nBins) } });
}

/** State t = rule(state t-1, tally): the one place where a round becomes a model. */
export function step(experiment: Experiment, state: State, tally: Tally): State {
  const { cover, robust, loss, models, classWeights, labels, thinning } = experiment;
  const rule = ruleOf(experiment);
  checkParticipants(tally);
  let counted = tally;
  if (cover !== null) {
    counted = uncovered(cover, tally);
    checkParticipants(counted);
  }
  const weighing: Weighing = {
    models,
    classWeights: classWeights.length ? classWeights : labels.map(() => new Ratio(1)),
    factors: loss.factors,
  };
  if (robust !== null) {
    counted = clipped(robust, counted, sideWeights(counted, weighing), cover === null ? ZERO : cover.trainVariance);
  }
  const direction = directionOf(counted, weighing, thinning.divisor);
  if (robust === null) return rule.step(state, direction);
  const own = Object.entries(state.vectors).filter(([name]) => !robust.names.includes(name));
  const [taken, remembered] = trimmed(robust, direction, state.vectors);
  const stepped = rule.step(new State({ ...state, vectors: Object.fromEntries(own) }), taken);
  return new State({ ...stepped, vectors: { ...stepped.vectors, ...remembered } });
}

/** The weights that decide who violates in the next round. */
export function trainingWeights(experiment: Experiment, state: State): Weights {
  return ruleOf(experiment).trainingWeights(state);
}

/** The weights that test packages and predictions use. */
export function evaluationWeights(experiment: Experiment, state: State): Weights {
  return ruleOf(experiment).evaluationWeights(state);
}

/** A tally with nothing counted. */
export function emptyTally(experiment: Experiment): Tally {
  const { models, nBins, labels } = experiment;
  return Tally.empty({ nModels: models.nModels, nBins, nLabels: labels.length });
}

/** The mean of cover in each cell of a tally, in whole numbers; nothing without cover. */
export function knownMeans(experiment: Experiment): Tally {
  const empty = emptyTally(experiment);
  return experiment.cover === null ? empty : means(experiment.cover, empty);
}
