/**
 * Thinning: a device sends each unit of its update only with some probability; the coordinator divides by it.
 *
 * Without it every unit is sent; `q` sends a constant share; `rho` sends min(1, ρ / ‖x‖) with the Euclidean norm, the
 * bias unit included. A probability is an integer of 53 bits, rounded down; a unit is sent when the 53-bit dice word
 * drawn for it is below.
 */

import { BadExperimentError } from "../errors.ts";
import { integerRoot } from "./arithmetic.ts";
import { declared, number, type GivenOf } from "./declared.ts";
import { Ratio } from "./ratio.ts";

export const KEEP_BITS = 53n;
export const ALWAYS = 1n << KEEP_BITS;

const SETTINGS = {
  q: number(null, { above: 0, atMost: 1 }),
  rho: number(null, { above: 0, atMost: 2 ** 20 }),
};

/** How much of an update is sent: everything, a constant share `q`, or `rho` over the norm. */
export class Thinning extends declared(SETTINGS) {
  constructor(given: GivenOf<typeof SETTINGS> = {}) {
    super(given);
    if (this.q !== null && this.rho !== null) throw new BadExperimentError("thinning is by q or by rho, not both");
  }

  /** Whether anything is thinned at all. */
  get active(): boolean {
    return this.q !== null || this.rho !== null;
  }

  /** What the coordinator divides counts by. */
  get divisor(): Ratio {
    return this.q ?? this.rho ?? new Ratio(1);
  }

  /** The 53-bit probability with which a unit of a person with this squared norm is sent. */
  keep53(squaredNorm: bigint): bigint {
    if (this.q !== null) return (this.q.p << KEEP_BITS) / this.q.q;
    if (this.rho === null) return ALWAYS;
    // floor(ρ 2^53 / sqrt(n)) = isqrt(floor(ρ² 2^106 / n))
    const kept = integerRoot((this.rho.p ** 2n << (2n * KEEP_BITS)) / (this.rho.q ** 2n * squaredNorm));
    return kept < ALWAYS ? kept : ALWAYS;
  }
}
