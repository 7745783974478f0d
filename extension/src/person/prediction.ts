/**
 * Prediction: the label that the last trusted model gives to the person of this device. That is what the model is for,
 * and nothing is sent.
 *
 * All features of the vault's source take part, not the sample that an experiment may see: nobody else learns of it.
 */

import { BadInputError } from "../errors.ts";
import { formatGeneral } from "../formatting.ts";
import type { Experiment } from "../learning/experiment.ts";
import type { BinnedVector } from "../learning/individual/binning.ts";
import { score, squaredNorm } from "../learning/individual/update.ts";
import type { Weights } from "../learning/weights.ts";
import { readPublished, type ExperimentDocument } from "../protocol/documents/experiment.ts";
import type { DeviceState } from "../storage/state.ts";
import type { Vault } from "../storage/vault.ts";
import { binned, binningOf } from "./pinning.ts";

/** What a model says of a person. Secret. */
export interface Prediction {
  /** The label, or the number as text. */
  readonly label: string;
  /** How clearly: the winner's score, in units of the margin; null where the label is a number. */
  readonly margin: number | null;
  /** After how many rounds the model is, as `experiment export` counts them. */
  readonly rounds: number;
}

/** The weights of this digest that the device kept. Throws a `BadInputError` where they are not there. */
export type Shelf = (digest: string, document: ExperimentDocument) => Promise<Weights>;

/** The label that the last trusted model of an experiment gives to the person of this vault. */
export async function predictFor(digest: string, state: DeviceState, vault: Vault, shelf: Shelf): Promise<Prediction> {
  const [record, model] = [state.record(digest), state.model(digest)];
  if (record === null) throw new BadInputError("this device does not know that experiment");
  if (model === null) throw new BadInputError("there is no model of that experiment on this device yet");
  const document = await readPublished(record.envelope, { digest });
  const weights = await shelf(model.weights, document);
  if (weights.first) {
    throw new BadInputError("the model has learnt nothing yet", { nextStep: "Ask again after the next round." });
  }
  const features = await vault.features(document.features.source);
  const vector = binned(document, features, binningOf(document, record.salt));
  return { ...answerOf(document.experiment, weights, vector), rounds: model.rounds };
}

/** What the weights say of a vector. */
export function answerOf(
  experiment: Experiment,
  weights: Weights,
  vector: BinnedVector,
): { label: string; margin: number | null } {
  const { models, labels } = experiment;
  const scores = Array.from({ length: models.nModels }, (_, model) => score(weights, model, vector));
  const unit = weights.unit.toNumber() / (weights.normalised ? Math.sqrt(squaredNorm(vector)) : 1);
  if (experiment.loss.regression) {
    const number = scores[0]! * unit * experiment.targetSpread.toNumber() + experiment.targetCentre.toNumber();
    return { label: formatGeneral(number), margin: null };
  }
  const winner = models.predict(scores);
  // Of the models in which the winner has a side of its own: one against all, or its pairs; the weakest of them.
  const oneAgainstAll = labels.length > 2 && experiment.multiclass === "ovr";
  const own = models.signs[winner]!.flatMap((sign, model) => (sign === 0 ? [] : [sign * scores[model]!]));
  return { label: labels[winner]!, margin: (oneAgainstAll ? scores[winner]! : Math.min(...own)) * unit };
}
