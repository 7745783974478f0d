/**
 * Pegasos with full batches: the paper's rule.
 *
 * With η = 1/(λ t) and w₁ = 0 the model is an integer vector and a scale: w_{t+1} = S_t / (λ t), where S_t adds up
 * every round's direction g/N. S has 64 bits in units of 2^-32, each summand rounded half to even once; nothing else is
 * rounded until the weights are published. Evaluation averages the last k weight vectors, so the state keeps k sums.
 *
 * `stepCap` is a remedy for the two-cycle: from a first round in which everybody violates, the rule knows the mean
 * vector, and halves a step until the mean person's score moves by at most `stepCap`.
 */

import { ArithmeticRangeError } from "../../../errors.ts";
import {
  divideFixed,
  FIXED_BITS,
  largestOf,
  mantissas,
  MAX_STATE,
  powerOfTwo,
  shiftRightHalfEven,
  toFixed,
} from "../../arithmetic.ts";
import { declared, number, whole } from "../../declared.ts";
import { Ratio } from "../../ratio.ts";
import { Weights } from "../../weights.ts";
import type { Direction } from "../direction.ts";
import { table, type Counts } from "../tally.ts";
import { firstWeights, State, type DescentRule } from "./rule.ts";

/** More bits for the sums divided by their step number, so that a word of one person in a million still counts. */
const AVERAGE_BITS = 8n;
const MAX_AVERAGING = 64;
const MAX_HALVINGS = 62n;

// Where the label is a number, steps must be smaller and the mean longer: signs of residuals never vanish.
const SETTINGS = {
  lambda_: number("1e-4", { name: "lambda", atLeast: "1e-12", atMost: "1e6", forNumbers: "0.01" }),
  averaging: whole(2, { atLeast: 1, atMost: MAX_AVERAGING, forNumbers: 8 }),
  stepCap: number(null, { above: 0, below: 1, forNumbers: "0.1" }),
};

/** The paper's rule; `lambda_` is λ, `averaging` the number of weight vectors averaged for evaluation. */
export class Pegasos extends declared(SETTINGS) implements DescentRule {
  readonly name = "pegasos";
  readonly normalised = false;

  start(nModels: number, nBins: number): State {
    const names = [...this.#sums, ...(this.stepCap === null ? [] : ["popularity"])];
    const vectors = Object.fromEntries(names.map((name) => [name, table(nModels, nBins + 1)]));
    return new State({ rule: this.name, step: 0, vectors });
  }

  /** The names of the last sums, the newest first. */
  get #sums(): string[] {
    return Array.from({ length: this.averaging }, (_, i) => `sum_${i}`);
  }

  step(state: State, direction: Direction): State {
    const t = state.step + 1;
    const fixed = (rows: readonly ArrayLike<bigint>[], scales: readonly Ratio[]) =>
      rows.map((row, model) => toFixed(row, scales[model]!));
    let increment = fixed(direction.numerators, direction.scales);
    const vectors: Record<string, readonly Counts[]> = { ...(state.vectors as { [name: string]: readonly Counts[] }) };
    if (this.stepCap !== null) {
      if (t === 1) vectors["popularity"] = fixed(direction.totals, direction.totalScales);
      const limit = this.stepCap.times(this.lambda_).times(new Ratio(t)).times(powerOfTwo(2n * FIXED_BITS));
      increment = increment.map((row, model) => capped(row, vectors["popularity"]![model]!, limit));
    }
    const oldest = vectors["sum_0"]!;
    const newest = oldest.map((row, model) => row.map((sum, bin) => sum + increment[model]![bin]!));
    checkRange(newest, "the state would leave its range");
    const sums = this.#sums;
    for (let i = sums.length - 1; i > 0; i--) vectors[sums[i]!] = vectors[sums[i - 1]!]!;
    vectors["sum_0"] = newest;
    return new State({ rule: this.name, step: t, vectors });
  }

  trainingWeights(state: State): Weights {
    const newest = state.vectors["sum_0"] as readonly Counts[];
    if (state.step === 0) return firstWeights(newest, false);
    return published(newest, FIXED_BITS, this.lambda_.times(new Ratio(state.step)));
  }

  evaluationWeights(state: State): Weights {
    const newest = state.vectors["sum_0"] as readonly Counts[];
    if (state.step === 0) return firstWeights(newest, false);
    const used = Math.min(this.averaging, state.step);
    let total: readonly Counts[] = table(newest.length, newest[0]!.length);
    for (let i = 0; i < used; i++) {
      const sums = state.vectors[`sum_${i}`] as readonly Counts[];
      const parts = sums.map((row) => divideFixed(row, BigInt(state.step - i), AVERAGE_BITS));
      // Each part stays below 2^61, so checking after each addition is soon enough.
      total = total.map((row, model) => row.map((sum, bin) => sum + parts[model]![bin]!));
      checkRange(total, "an average would leave the range of the state");
    }
    return published(total, FIXED_BITS + AVERAGE_BITS, this.lambda_.times(new Ratio(used)));
  }
}

/** A model's step halved until the mean person's score moves by no more than the limit. */
function capped(row: Counts, popularity: Counts, limit: Ratio): Counts {
  const moved = row.reduce((sum, value, bin) => sum + (value < 0n ? -value : value) * popularity[bin]!, 0n);
  let halvings = 0n;
  while (moved * limit.q > limit.p << halvings) halvings += 1n;
  return shiftRightHalfEven(row, halvings < MAX_HALVINGS ? halvings : MAX_HALVINGS);
}

function checkRange(rows: readonly Counts[], message: string): void {
  if (rows.some((row) => largestOf(row) >= MAX_STATE)) throw new ArithmeticRangeError(message);
}

/** Fixed-point vectors over a divisor, as weights. */
function published(rows: readonly Counts[], bits: bigint, divisor: Ratio): Weights {
  const { mantissas: integers, exponent } = mantissas(rows);
  return new Weights({ mantissas: integers, unit: powerOfTwo(BigInt(exponent) - bits).over(divisor) });
}
