/** Whether a person sends its update: scores, bands and verdicts, on the edges above all. */

import { BinnedVector } from "../../src/learning/individual/binning.ts";
import { band, fixedNorm, localUpdate, score, squaredNorm } from "../../src/learning/individual/update.ts";
import { exact } from "../../src/learning/arithmetic.ts";
import { Weights } from "../../src/learning/weights.ts";
import type { Vector } from "../vectors.ts";

export function answerMargin(asked: Vector): unknown {
  const mantissas = [Int32Array.from(asked.mantissas as number[])];
  const { normalised, first } = asked;
  const weights = new Weights({ mantissas, unit: exact(asked.unit), normalised, first });
  const vector = new BinnedVector(new Map(asked.values), asked.mantissas.length - 1);
  const [threshold, width] = [BigInt(asked.threshold), BigInt(asked.width)];
  const norm = normalised ? fixedNorm(squaredNorm(vector)) : null;
  const update = localUpdate({ weights, model: 0, vector, labelSign: asked.sign, threshold, width });
  return {
    score: score(weights, 0, vector),
    norm: norm === null ? null : String(norm),
    band: band({ threshold, width, norm, unit: weights.unit }).map(String),
    update: update && [...update.values],
  };
}
