/**
 * Guarantee: what cover is worth to one person, over all rounds and after one, in both comparisons.
 *
 * **ε is always that of zero-out**: what the device sends, against nothing of its own. Beside it stands ε of a flipped
 * label, which is larger: the same features with another label. It is what a ledger charges.
 *
 * **The best attacker.** What a whole curve δ(ε) leaves anybody to find out is an AUC: with x false alarms and y hits
 *
 *     y ≤ δ + e^ε x       and       y ≤ 1 - e^-ε (1 - δ - x)
 *
 * at every point (ε, δ) at once. The area below the lowest of these lines is the largest AUC that any attacker has.
 */

import { ADJACENCIES, type Adjacency, type Mechanism } from "./accountant.ts";
import { exp, sumOnce } from "./reals.ts";
import { remembered } from "./remembered.ts";

/** Nothing is certain before an ε of this size, to a float. */
const CERTAIN = 700;
/** From here on a guarantee is none worth the name: who knows all the others finds the label nearly surely. */
export const NO_PROTECTION = 8;
/** Where the curve δ(ε) is looked at for an AUC; 0 is the total variation. */
const CURVE = [0, 0.1, 0.2, 0.4, 0.7, 1.1, 1.6, 2.4];

/** The largest AUC under all of these (ε, δ), each of which holds in both directions. No point: 1. */
export function aucAtMost(points: readonly (readonly [epsilon: number, delta: number])[]): number {
  const lines: (readonly [low: number, slope: number])[] = [[1, 0]];
  for (const [epsilon, delta] of points) {
    if (epsilon < 0 || !(0 <= delta && delta <= 1)) {
      throw new RangeError("a guarantee has an ε that is not negative, and a δ from 0 to 1");
    }
    if (epsilon >= CERTAIN) continue;
    lines.push([delta, exp(epsilon)], [1 - exp(-epsilon) * (1 - delta), exp(-epsilon)]);
  }
  // Between two points where lines cross, the lowest is one line: trapezoids are exact.
  const places = new Set([0, 1]);
  for (const [i, [low, slope]] of lines.entries()) {
    for (const [other, steep] of lines.slice(i + 1)) {
      const x = (other - low) / (slope - steep);
      if (slope !== steep && 0 < x && x < 1) places.add(x);
    }
  }
  const ordered = [...places].sort((a, b) => a - b);
  const heights = ordered.map((x) => Math.min(...lines.map(([low, slope]) => low + slope * x)));
  const trapezoids = heights.slice(1).map((height, i) => {
    return ((ordered[i + 1]! - ordered[i]!) * (heights[i]! + height)) / 2;
  });
  return Math.min(1, Math.max(0.5, sumOnce(trapezoids)));
}

/** (ε, δ) of one mechanism; ∞: none. */
export interface Guarantee {
  readonly delta: number;
  /** Zero-out: this device sends nothing of its own. Over all rounds, and after one. */
  readonly epsilon: number;
  readonly epsilonRound: number;
  /** Label flip: the same features with the other label. */
  readonly epsilonFlip: number;
  readonly epsilonFlipRound: number;
  /** The largest AUC of anybody who asks for the label, over all rounds, from the whole curve δ(ε) under label flip. */
  readonly auc: number;
}

/** ε that a ledger charges for all rounds: the label's. */
export function chargedOf({ epsilon, epsilonFlip }: Guarantee): number {
  return Math.max(epsilon, epsilonFlip);
}

/** As JSON, with Python's keys. An infinite ε is null. */
export function guaranteeContent({ delta, auc, ...worth }: Guarantee) {
  return {
    delta,
    epsilon: finite(worth.epsilon),
    epsilon_round: finite(worth.epsilonRound),
    epsilon_flip: finite(worth.epsilonFlip),
    epsilon_flip_round: finite(worth.epsilonFlipRound),
    auc_at_most: auc,
  };
}

/** What a mechanism is worth at δ. */
export function guaranteeOf(mechanism: Mechanism, delta: number): Guarantee {
  const { rounds } = mechanism.contribution;
  return {
    delta,
    epsilon: epsilonAfter(mechanism, rounds, delta),
    epsilonRound: epsilonAfter(mechanism, 1, delta),
    epsilonFlip: epsilonAfter(mechanism, rounds, delta, "label flip"),
    epsilonFlipRound: epsilonAfter(mechanism, 1, delta, "label flip"),
    auc: aucOfCurve(mechanism),
  };
}

/** ε at δ when a device has joined so many of the rounds; 0: none. */
export const epsilonAfter = remembered(
  1024,
  (mechanism: Mechanism, rounds: number, delta: number, adjacency: Adjacency = "zero-out") =>
    `${mechanism.key} ${rounds} ${delta} ${adjacency}`,
  (mechanism, rounds, delta, adjacency = "zero-out") =>
    rounds === 0 ? 0 : mechanism.after(rounds).epsilon(delta, adjacency),
);

/** δ at an ε that somebody claims, over all rounds. */
export const deltaAt = remembered(
  128,
  (mechanism: Mechanism, epsilon: number) => `${mechanism.key} ${epsilon}`,
  (mechanism, epsilon) => mechanism.deltas([epsilon], "zero-out")[0]!,
);

/** What a ledger charges for so many rounds: ε of a flipped label, never less than that of zero-out. */
export function chargedAfter(mechanism: Mechanism, rounds: number, delta: number): number {
  return Math.max(...ADJACENCIES.map((adjacency) => epsilonAfter(mechanism, rounds, delta, adjacency)));
}

/** The largest AUC that the curve δ(ε) of a flipped label leaves, over all rounds. No δ is in it. */
export function aucOfCurve(mechanism: Mechanism): number {
  return aucAtMost(curve(mechanism));
}

/** The total variation of a flipped label, δ(0): by how much any event's chance may differ. */
export function variationOf(mechanism: Mechanism): number {
  return curve(mechanism)[0]![1];
}

const curve = remembered(
  128,
  (mechanism: Mechanism) => mechanism.key,
  (mechanism) => {
    const deltas = mechanism.deltas(CURVE, "label flip");
    return CURVE.map((epsilon, i) => [epsilon, deltas[i]!] as const);
  },
);

/** A number as JSON has it: none that is infinite. */
export function finite(number: number): number | null {
  return Number.isFinite(number) ? number : null;
}
