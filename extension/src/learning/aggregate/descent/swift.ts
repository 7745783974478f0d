/**
 * Swift: normalised rows, popularity preconditioning, momentum, averaging. Few rounds, few packages.
 *
 * In round 1 the weights are zero and everybody violates, so that round's tally *is* the popularity of the bins:
 *
 *     p_j = (N_j⁺ + N_j⁻) / (ρ N), never below 0        P_j = (p_j + .1 p̄)^(-3/4)        s = Σ p_j / Σ p_j P_j
 *     v ← .9 v + (N⁺ - N⁻) / (ρ N), then held     w ← (1 - decay) w + (100 s / √t) P v     served: a ← ½ a + ½ w
 *
 * *Held*: v loses as much of p as makes the mean person's score move by at most
 *
 *     c = 1/200 + 3/20 · |n⁺ - n⁻| / (n⁺ + n⁻)        in one round, where the move is (100 s / √t) Σ p_j P_j v_j
 *
 * and n± are the participants of the two sides, class weights included.
 *
 * The arithmetic is elementwise in doubles with + - × ÷ √ only, each correctly rounded by IEEE 754, in the order
 * written here; x^(-3/4) is 1 / (√x √√x); sums run from left to right in ascending bin order.
 */

import { mantissas, powerOfTwo, sumInOrder } from "../../arithmetic.ts";
import { declared, number } from "../../declared.ts";
import { Ratio } from "../../ratio.ts";
import { Weights } from "../../weights.ts";
import type { Direction } from "../direction.ts";
import { firstWeights, State, type DescentRule, type Floats } from "./rule.ts";

const SETTINGS = {
  stepSize: number(100, { above: 0, atMost: "1e6" }),
  momentum: number("0.9", { atLeast: 0, below: 1 }),
  floor: number("0.1", { above: 0, atMost: "1e6" }),
  decay: number(0, { atLeast: 0, below: 1 }),
  meanMove: number("1/200", { atLeast: 0 }),
  meanMoveImbalance: number("3/20", { atLeast: 0 }),
};
const NAMES = ["average", "popularity", "precondition", "velocity", "weights"] as const;
type Named = Record<(typeof NAMES)[number], Floats>;

/** The quick rule. */
export class Swift extends declared(SETTINGS) implements DescentRule {
  readonly name = "swift";
  readonly normalised = true;

  start(nModels: number, nBins: number): State {
    const zeros = (): Floats[] => Array.from({ length: nModels }, () => new Float64Array(nBins + 1));
    return new State({ rule: this.name, step: 0, vectors: Object.fromEntries(NAMES.map((name) => [name, zeros()])) });
  }

  step(state: State, direction: Direction): State {
    const models = direction.numerators.map((_, model) => this.#stepped(state, direction, model));
    const vectors = Object.fromEntries(NAMES.map((name) => [name, models.map((each) => each[name])]));
    return new State({ rule: this.name, step: state.step + 1, vectors });
  }

  /** The next vectors of one model. */
  #stepped(state: State, direction: Direction, model: number): Named {
    const t = state.step + 1;
    const old = Object.fromEntries(NAMES.map((name) => [name, state.vectors[name]![model]])) as Named;
    const rate = this.stepSize.toNumber() / Math.sqrt(t);
    let { popularity, precondition } = old;
    // A one-vs-one pair may meet its first people later.
    if (t === 1 || popularity.every((p) => p === 0)) {
      popularity = over(direction.totals[model]!, direction.totalScales[model]!).map((p) => (p > 0 ? p : 0));
      precondition = this.#precondition(popularity);
    }
    const mean = over(direction.numerators[model]!, direction.scales[model]!);
    const momentum = this.momentum.toNumber();
    const moved = mean.map((m, bin) => momentum * old.velocity[bin]! + m);
    const cap = this.meanMove.plus(this.meanMoveImbalance.times(direction.imbalances[model]!)).toNumber();
    const velocity = held(moved, popularity, precondition, rate, cap);
    const kept = 1 - this.decay.toNumber();
    const weights = velocity.map((v, bin) => kept * old.weights[bin]! + rate * precondition[bin]! * v);
    const average = t === 1 ? weights : weights.map((w, bin) => 0.5 * old.average[bin]! + 0.5 * w);
    return { average, popularity, precondition, velocity, weights };
  }

  /** The factor s P_j from the popularity of round 1; s is folded in once. */
  #precondition(popularity: Floats): Floats {
    const total = sumInOrder(popularity);
    if (total === 0) return new Float64Array(popularity.length);
    const floor = this.floor.toNumber() * (total / popularity.length);
    const power = popularity.map((p) => {
      const root = Math.sqrt(p + floor);
      return 1 / (root * Math.sqrt(root));
    });
    const scale = total / sumInOrder(popularity.map((p, bin) => p * power[bin]!));
    return power.map((p) => p * scale);
  }

  trainingWeights(state: State): Weights {
    return published(state, "weights");
  }

  evaluationWeights(state: State): Weights {
    return published(state, "average");
  }
}

function published(state: State, name: "weights" | "average"): Weights {
  const rows = state.vectors[name] as readonly Floats[];
  if (state.step === 0) return firstWeights(rows, true);
  const { mantissas: integers, exponent } = mantissas(rows);
  return new Weights({ mantissas: integers, unit: powerOfTwo(exponent), normalised: true });
}

/** The velocity without so much of the popularity that the mean person's score would move by more than `cap`. */
function held(velocity: Floats, popularity: Floats, precondition: Floats, rate: number, cap: number): Floats {
  const weighed = popularity.map((p, bin) => p * precondition[bin]!);
  const move = rate * sumInOrder(weighed.map((w, bin) => w * velocity[bin]!));
  if (-cap <= move && move <= cap) return velocity;
  const excess = move > 0 ? move - cap : move + cap;
  const share = excess / (rate * sumInOrder(weighed.map((w, bin) => w * popularity[bin]!)));
  return velocity.map((v, bin) => v - share * popularity[bin]!);
}

/** Counts times a rational: one conversion, one division (or zero when nobody took part). */
function over(counts: ArrayLike<bigint>, scale: Ratio): Floats {
  if (scale.p === 0n) return new Float64Array(counts.length);
  const divisor = new Ratio(scale.q, scale.p).toNumber();
  return Float64Array.from(counts, (count) => Number(count) / divisor);
}
