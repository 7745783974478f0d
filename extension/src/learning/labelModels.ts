/**
 * Which binary models an experiment trains, which sign a label has in each, and which label wins.
 *
 * - two labels: one model; label 1 is positive, label 0 negative. Score 0 predicts label 1.
 * - one-vs-rest: model c has label c positive and all others negative. The largest score wins, the first of equals.
 * - one-vs-one: model (a, b), a < b, has b positive, a negative, and nobody else. Most votes win, then the largest sum
 *   of scores, then the first.
 * - a number as the label: one model; the sign is that of the residual, not of the label.
 */

import { BadExperimentError } from "../errors.ts";
import type { Sign } from "./package.ts";

/** Twelve bits of the dice's counter name the model. */
export const MAX_MODELS = 4096;

/** The table of signs: labels × models, entries -1, 0 (takes no part), +1. */
export class LabelModels {
  readonly nLabels: number;
  /** "ovr" or "ovo"; the same for two labels. */
  readonly multiclass: string;
  readonly nModels: number;
  #signs: readonly (readonly (Sign | 0)[])[] | null = null;

  constructor(nLabels: number, multiclass = "ovr") {
    if (multiclass !== "ovr" && multiclass !== "ovo") throw new BadExperimentError("multiclass must be ovr or ovo");
    if (nLabels < 1) throw new BadExperimentError("an experiment needs labels");
    const nModels = nLabels <= 2 ? 1 : multiclass === "ovr" ? nLabels : (nLabels * (nLabels - 1)) / 2;
    if (nModels > MAX_MODELS) {
      throw new BadExperimentError(
        `${nLabels} labels would need ${nModels} models; at most ${MAX_MODELS} are possible`,
      );
    }
    this.nLabels = nLabels;
    this.multiclass = multiclass;
    this.nModels = nModels;
  }

  /** The pairs of one-vs-one, in order. */
  get pairs(): readonly (readonly [number, number])[] {
    const labels = Array.from({ length: this.nLabels }, (_, label) => label);
    return labels.flatMap((low) => labels.slice(low + 1).map((high) => [low, high] as const));
  }

  /** Sign of each label in each model. */
  get signs(): readonly (readonly (Sign | 0)[])[] {
    this.#signs ??= this.#tableOfSigns();
    return this.#signs;
  }

  #tableOfSigns(): (Sign | 0)[][] {
    if (this.nLabels === 1) return [[1]];
    if (this.nLabels === 2) return [[-1], [1]];
    const labels = Array.from({ length: this.nLabels }, (_, label) => label);
    if (this.multiclass === "ovr") return labels.map((label) => labels.map((model) => (model === label ? 1 : -1)));
    const { pairs } = this;
    return labels.map((label) => pairs.map(([low, high]) => (label === high ? 1 : label === low ? -1 : 0)));
  }

  /** In how many models one person takes part at most. */
  get mostPerPerson(): number {
    return this.nLabels <= 2 ? 1 : this.multiclass === "ovr" ? this.nLabels : this.nLabels - 1;
  }

  /** The label that wins with these scores, one per model. */
  predict(scores: readonly number[]): number {
    if (this.nLabels === 2) return scores[0]! >= 0 ? 1 : 0;
    if (this.multiclass === "ovr" || this.nLabels === 1) return scores.indexOf(Math.max(...scores));
    const { votes, sums } = this.votes(scores);
    const most = Math.max(...votes);
    const finalists = votes.flatMap((count, label) => (count === most ? [label] : []));
    return finalists.reduce((best, label) => (sums[label]! > sums[best]! ? label : best));
  }

  /** One-vs-one: how many pairs each label wins, and the sum of its scores. */
  votes(scores: readonly number[]): { votes: number[]; sums: bigint[] } {
    const votes = new Array<number>(this.nLabels).fill(0);
    const sums = new Array<bigint>(this.nLabels).fill(0n);
    this.pairs.forEach(([low, high], model) => {
      const score = scores[model]!;
      votes[score >= 0 ? high : low]! += 1;
      sums[high]! += BigInt(score);
      sums[low]! -= BigInt(score);
    });
    return { votes, sums };
  }
}
