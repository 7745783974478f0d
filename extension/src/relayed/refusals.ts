/**
 * Which relays do not answer this device: three refusals, then silence for the rest of the round's window.
 *
 * Whoever blocks a relay by its name, or runs one that is dead, would else be asked hundreds of times in a window. A
 * refusal is that nobody answers at all; whatever an answer says, it ends the counting. After a refusal the next attempt
 * has a random moment in what is left of the window: a relay that is started anew meanwhile is not taken for dead, and
 * costs nobody a round. After the third the round is given up: the next round begins from zero.
 *
 * Counts are on the disk, for a worker dies between two attempts.
 */

import type { Relay } from "../protocol/documents/experiment.ts";
import type { RelayedManifest } from "../protocol/relays/manifest.ts";
import { below } from "../protocol/schedule.ts";
import type { Surroundings } from "../trust/surroundings.ts";

/** So often nobody may answer. */
export const MOST_REFUSALS = 3;

/** The refusals of one experiment's relays. */
export class Refusals {
  readonly #around: Surroundings;
  readonly #experiment: string;

  constructor(around: Surroundings, experiment: string) {
    this.#around = around;
    this.#experiment = experiment;
  }

  /** A relay has answered, or nobody has. */
  async heard({ url }: Relay, { roundNumber }: RelayedManifest, answered: boolean): Promise<void> {
    const { state } = this.#around;
    const count = answered ? 0 : state.relayed.refusals(this.#experiment, url, roundNumber) + 1;
    if (count === state.relayed.refusals(this.#experiment, url, roundNumber)) return;
    await state.writing(() => state.relayed.putRefusals(this.#experiment, url, roundNumber, count));
  }

  /** Whether nothing more is asked of this relay in the round. */
  isSilent({ url }: Relay, { roundNumber }: RelayedManifest): boolean {
    return this.#around.state.relayed.refusals(this.#experiment, url, roundNumber) >= MOST_REFUSALS;
  }

  /** Whether nobody answered the last time that something was asked of it. */
  isRefused({ url }: Relay, { roundNumber }: RelayedManifest): boolean {
    return this.#around.state.relayed.refusals(this.#experiment, url, roundNumber) > 0;
  }

  /** So long to wait for the next attempt, up to the end of the window. */
  wait({ instants }: RelayedManifest, now: number): number {
    return below(Math.max(1, instants.closesAt - now), this.#around.words);
  }
}
