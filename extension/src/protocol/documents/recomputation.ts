/**
 * Is this really the next model? One step played again from the published tally, exactly.
 *
 *     state t = rule(state t-1, tally t-1)        weights = a pure function of the state        round 1 starts from zero
 *
 * Whoever has a state that it believes, and the tally that an opening names, needs no weights from anybody: it computes
 * all three blobs and compares their digests with those that were signed. A wrong step, another λ, a forged normaliser,
 * another class weight, weights that are not the state's: each gives another digest.
 *
 * What this does **not** show is that the tally is true. A coordinator can invent packages, within what budget and relays
 * allow, and the step then follows all the same: "step follows", never "round correct". `afterOpened` says whether there
 * is a step at all, so that coordinator, devices and auditors cannot disagree about which rounds change the model (§31).
 *
 * `Caps` are a further rule, for whoever wants one: how far weights and bias may go at most. A published model can be
 * made to single somebody out; a cap bounds how loudly.
 */

import type { Bytes } from "../../bytes.ts";
import { ArithmeticRangeError, BadInputError } from "../../errors.ts";
import type { State } from "../../learning/aggregate/descent/rule.ts";
import { evaluationWeights, start, step, trainingWeights } from "../../learning/aggregate/index.ts";
import { explains, type Tally } from "../../learning/aggregate/tally.ts";
import { Ratio } from "../../learning/ratio.ts";
import type { Weights } from "../../learning/weights.ts";
import { digestOf } from "../canonical.ts";
import type { ModelNames } from "../log/entries.ts";
import type { ExperimentDocument } from "./experiment.ts";

const ZERO = new Ratio(0);

interface ModelFields {
  readonly state: State;
  readonly training: Weights;
  readonly evaluation: Weights;
}

/** A descent state, and the weights that follow from it. */
export class Model implements ModelFields {
  readonly state: State;
  readonly training: Weights;
  readonly evaluation: Weights;
  #stateBytes: Bytes | null = null;
  #names: ModelNames | null = null;

  constructor({ state, training, evaluation }: ModelFields) {
    this.state = state;
    this.training = training;
    this.evaluation = evaluation;
  }

  /** The state as it is kept. */
  get stateBytes(): Bytes {
    return (this.#stateBytes ??= this.state.toBytes());
  }

  /** Its blobs: the state, the training weights, the evaluation weights. */
  get blobs(): readonly [Bytes, Bytes, Bytes] {
    return [this.stateBytes, this.training.toBytes(), this.evaluation.toBytes()];
  }

  /** The digests under which a manifest must name it. */
  get names(): ModelNames {
    const [state, training, evaluation] = this.blobs;
    return (this.#names ??= [digestOf(state), digestOf(training), digestOf(evaluation)]);
  }
}

/** The model that a state is. */
export function modelOf({ experiment }: ExperimentDocument, state: State): Model {
  const [training, evaluation] = [trainingWeights(experiment, state), evaluationWeights(experiment, state)];
  return new Model({ state, training, evaluation });
}

/** What round 1 starts from: zero. */
export function firstModel(document: ExperimentDocument): Model {
  return modelOf(document, start(document.experiment));
}

// ── caps ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

interface CapsFields {
  /** Of the Euclidean norm of each model's weights, without the bias. */
  readonly norm?: Ratio | null;
  /** Of each model's bias, in absolute value. */
  readonly bias?: Ratio | null;
}

/** How far a model may go before a device takes no part; null: as far as it likes. */
export class Caps implements CapsFields {
  readonly norm: Ratio | null;
  readonly bias: Ratio | null;

  constructor({ norm = null, bias = null }: CapsFields = {}) {
    if ([norm, bias].some((cap) => cap !== null && cap.compare(ZERO) < 0)) {
      throw new BadInputError("a cap must not be below zero");
    }
    this.norm = norm;
    this.bias = bias;
  }

  /** Why these weights go too far, or null. Exact: no rounding decides. */
  refuses({ mantissas, unit }: Weights): string | null {
    for (const row of mantissas) {
      // The squares of many mantissas do not fit into a double.
      const units = Array.from(row, BigInt);
      const bias = new Ratio(units.pop()!).times(unit);
      const size = bias.compare(ZERO) < 0 ? ZERO.minus(bias) : bias;
      if (this.bias !== null && size.compare(this.bias) > 0) {
        return "the model's bias is larger than this device allows";
      }
      const squared = new Ratio(units.reduce((sum, m) => sum + m * m, 0n)).times(unit).times(unit);
      if (this.norm !== null && squared.compare(this.norm.times(this.norm)) > 0) {
        return "the model's weights are larger than this device allows";
      }
    }
    return null;
  }
}

// ── after a round ────────────────────────────────────────────────────────────────────────────────────────────────────

/** Why an opened round does not change the model. */
export const STAYED = {
  FLOOR: "it had fewer submissions than the floor",
  UNEXPLAINED: "a cell has more than its submissions and cover explain",
  NOBODY: "after cover is taken off nobody is left who trained",
  RANGE: "the step leaves the range of exact numbers",
} as const;
export type Stayed = keyof typeof STAYED;

/** What a round made of a state. */
export interface After {
  readonly model: Model;
  /** null: the round was stepped. */
  readonly stayed: Stayed | null;
}

/** The model after a round that was opened with this net tally; `clients` is M of the entry relay's count. */
export function afterOpened(
  document: ExperimentDocument,
  state: State,
  net: Tally,
  { clients }: { clients: number },
): After {
  const stepped = stepOrReason(document, state, net, clients);
  if (typeof stepped === "string") return { model: modelOf(document, state), stayed: stepped };
  return { model: modelOf(document, stepped), stayed: null };
}

function stepOrReason(document: ExperimentDocument, state: State, net: Tally, clients: number): State | Stayed {
  if (clients < document.floor) return "FLOOR";
  if (!explains(document.relayCover, net, clients)) return "UNEXPLAINED";
  try {
    return step(document.experiment, state, net);
  } catch (fault) {
    if (fault instanceof ArithmeticRangeError) return "RANGE";
    // Noise alone may do this to an honest round of few people.
    if (fault instanceof BadInputError) return "NOBODY";
    throw fault;
  }
}
