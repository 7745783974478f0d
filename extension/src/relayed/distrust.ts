/**
 * What has made one experiment stop, or may (docs/protocol.md §32).
 *
 * Four things make a device stop: its canary is missing; two of any ten consecutive rounds for which it holds a receipt
 * were never opened; the coordinator signed what cannot be; the log is not what it was, or nobody answers looks at it.
 * Each follows from the canary and from public files, and from nothing else that this device knows. No round is joined,
 * and no request sent, until the person resumes. Evidence against the coordinator or its log stops it for good: a person
 * who resumes does not change what was signed.
 */

import type { DeviceState } from "../storage/state.ts";
import { OPENING } from "../protocol/relays/opening.ts";
import type { Ended } from "../protocol/trust/relayedChain.ts";
import { convicts } from "../trust/evidence.ts";
import type { CanaryLoss } from "./canaries.ts";

/** Two unopened rounds among so many consecutive numbers are too many. */
export const UNOPENED_AMONG = 10;

/** What has made one experiment stop, or may. */
export class RelayedDistrust {
  readonly #state: DeviceState;
  readonly #digest: string;

  constructor(state: DeviceState, digest: string) {
    this.#state = state;
    this.#digest = digest;
  }

  /** Why no round is joined, in one sentence; null: it takes part. */
  get why(): string | null {
    const kept = this.#state.trust.distrust(this.#digest);
    return kept ?? (this.convicted ? "this device holds evidence against the coordinator or its log" : null);
  }

  /** Whether evidence is held that stops it for good. */
  get convicted(): boolean {
    return convicts(this.#state, this.#digest);
  }

  /** Take no part from now on. */
  async put(sentence: string): Promise<void> {
    await this.#state.writing(() => this.#state.trust.putDistrust(this.#digest, sentence));
  }

  /** Stop because of the log; with what shows it, in one transaction. */
  async convict(round: number, sentence: string, evidence: Uint8Array | null): Promise<void> {
    await this.#state.writing(() => this.#stop(round, sentence, evidence));
  }

  /** Stop because of a canary; with what shows it, in one transaction. */
  async lose({ roundNumber, sentence, evidence }: CanaryLoss): Promise<void> {
    const state = this.#state;
    await state.writing(() => {
      state.relayed.dropCanary(this.#digest, roundNumber);
      state.trust.count(this.#digest, "missing");
      this.#stop(roundNumber, sentence, evidence);
    });
  }

  #stop(round: number, sentence: string, evidence: Uint8Array | null): void {
    const shown = evidence === null ? [] : [Uint8Array.from(evidence)];
    this.#state.putAbstention(this.#digest, round, { reason: "DISTRUST", sentence, evidence: shown });
    this.#state.trust.putDistrust(this.#digest, sentence);
  }

  /** How rounds ended, inside the transaction that stores what is believed; of those with a receipt. */
  settle(ended: readonly Ended[]): void {
    const book = this.#state.relayed;
    const kept = new Set(book.canaries(this.#digest).map(({ roundNumber }) => roundNumber));
    for (const { manifest, opening, opened } of ended) {
      if (!kept.has(manifest.roundNumber)) continue;
      if (opened) book.putOpening(this.#digest, manifest.roundNumber, OPENING.toBytes(opening));
      else book.putUnopened(this.#digest, manifest.roundNumber);
    }
  }

  /** No opening of this round was served, as often as it was looked for. */
  async withoutOpening(number: number): Promise<void> {
    const book = this.#state.relayed;
    const isKept = book.canaries(this.#digest).some((one) => one.roundNumber === number && one.opening === null);
    if (isKept) await this.#state.writing(() => book.putUnopened(this.#digest, number));
  }

  /** Stop where two of any ten rounds with a receipt stayed unopened. */
  async countUnopened(): Promise<void> {
    const numbers = [...this.#state.relayed.unopened(this.#digest)].sort((a, b) => a - b);
    const near = numbers.findIndex((number, i) => i > 0 && number - numbers[i - 1]! < UNOPENED_AMONG);
    if (this.why !== null || near < 0) return;
    const [first, second] = [numbers[near - 1], numbers[near]];
    await this.put(`rounds ${first} and ${second} had this device's request and were never opened`);
  }
}
