/**
 * PrivacyTarget: the (ε, δ) that somebody asks for, over all rounds of an experiment.
 *
 * ε always means zero-out: what a device sends against nothing sent. What it comes to for a flipped label is computed
 * from the plan, and stated beside it (`accounting/guarantee.ts`).
 */

import { formatGeneral } from "../formatting.ts";
import { declared, number } from "../learning/declared.ts";

/** ε beyond this is no guarantee that anybody would state, and no document carries it (docs/protocol.md §26). */
export const MOST_EPSILON = 32;

const SETTINGS = {
  epsilon: number(1, { above: 0, atMost: MOST_EPSILON }),
  delta: number("1e-6", { above: 0, below: 1 }),
};

/** (ε, δ) as rationals: the float 0.1 is 1/10. */
export class PrivacyTarget extends declared(SETTINGS) {
  override toString(): string {
    return `ε = ${formatGeneral(this.epsilon.toNumber())}, δ = ${formatGeneral(this.delta.toNumber())}`;
  }
}

/** What is meant where nobody says anything. */
export const USUAL = new PrivacyTarget();
