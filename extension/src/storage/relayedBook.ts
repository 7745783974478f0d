/**
 * What a device keeps of experiments with two relays.
 *
 * - `label`: the one label of each round that was joined, and `bound`: what must not come again in another round. Both
 *   stay for ever: a device that forgot them could be made to send twice.
 * - `request`: a sealed request, from before its first byte leaves until its receipt, or until nobody takes it any
 *   more.
 * - `canary`: of each round with a receipt, until the canary was seen or is known to be missing.
 * - `unopened`: rounds that had a receipt and no complete opening.
 * - `token_seed`: from which a round's anonymous token follows, until its packages are sealed.
 * - `refusal`: in which round, and how often in a row, a relay did not answer.
 *
 * Documents are bytes here: whoever takes them out reads them, and says where they are not whole.
 */

import { equal, hex, type Bytes } from "../bytes.ts";
import { Book } from "./books.ts";
import type { Row } from "./tables.ts";

/** What a device believes of an experiment with two relays. */
export interface BelievedChain {
  /** Envelopes of the newest manifest, and of its opening where that is believed too. */
  readonly manifest: Bytes | null;
  readonly opening: Bytes | null;
  /** The descent state of that manifest. */
  readonly state: Bytes;
}

/** A request as it was stored. */
export interface RequestRow {
  readonly body: Bytes;
  readonly canary: Bytes;
}

/** A canary whose receipt is held. */
export interface KeptCanary {
  readonly roundNumber: number;
  readonly canary: Bytes;
  /** Payload of its manifest, and of the opening where the round is opened. */
  readonly manifest: Bytes;
  readonly opening: Bytes | null;
  /** So often nothing that verifies came. */
  readonly tries: number;
}

/** What a device keeps of experiments with two relays. */
export class RelayedBook extends Book {
  // ── what is believed ───────────────────────────────────────────────────────────────────────────────────────────────

  /** What is believed; null: nothing yet. */
  trust(experiment: string): BelievedChain | null {
    const row = this.row<{ manifest: Bytes | null; opening: Bytes | null; state: Bytes }>("relayed_trust", experiment);
    return row === undefined ? null : { manifest: row.manifest, opening: row.opening, state: row.state };
  }

  /** What was seen of the coordinator's log; null: nothing yet, or the experiment has none. */
  log(experiment: string): Bytes | null {
    return this.row<{ log: Bytes | null }>("relayed_trust", experiment)?.log ?? null;
  }

  /** From now on this is believed; `manifests` are those that were not before, with what is bound in them. */
  putTrust(
    experiment: string,
    { manifest, opening, state }: BelievedChain,
    manifests: Iterable<{ readonly roundNumber: number; readonly bound: Iterable<Bytes> }>,
    log: Bytes | null,
  ): void {
    if (this.takesPart(experiment)) this.put("relayed_trust", { experiment, manifest, opening, state, log });
    for (const { roundNumber, bound } of manifests) {
      for (const value of bound) this.add("bound", { experiment, value, round: roundNumber });
    }
  }

  /** What was seen in rounds that were believed, in hexadecimal, and in which. */
  bound(experiment: string): Map<string, number> {
    const rows = this.rows<{ value: Bytes; round: number }>("bound", experiment);
    return new Map(rows.map(({ value, round }) => [hex(value), round]));
  }

  // ── a round ────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Take this label for the round, for ever; false: the round has another one. */
  bind(experiment: string, round: number, label: Bytes): boolean {
    this.add("label", { experiment, round, label });
    return equal(this.label(experiment, round)!, label);
  }

  /** The label of a round that was joined. */
  label(experiment: string, round: number): Bytes | null {
    return this.row<{ label: Bytes }>("label", experiment, round)?.label ?? null;
  }

  /** The request that is on its way. */
  request(experiment: string): RequestRow | null {
    const row = this.row<{ body: Bytes; canary: Bytes }>("request", experiment);
    return row === undefined ? null : { body: row.body, canary: row.canary };
  }

  /** Keep a sealed request; there is never another one of the same round. */
  putRequest(experiment: string, { body, canary }: RequestRow): void {
    if (this.takesPart(experiment)) this.put("request", { experiment, body, canary });
  }

  /** It was taken, or nobody takes it any more. */
  dropRequest(experiment: string): void {
    this.drop(experiment, "request");
  }

  // ── after a round ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** A receipt has come. */
  putCanary(experiment: string, round: number, canary: Bytes, manifest: Bytes): void {
    if (!this.takesPart(experiment)) return;
    this.add("canary", { experiment, round, canary, manifest, opening: null, tries: 0 });
  }

  /** All that are kept, the oldest round first. */
  canaries(experiment: string): KeptCanary[] {
    const rows = this.rows<CanaryRow>("canary", experiment);
    return rows.map(({ round: roundNumber, canary, manifest, opening, tries }) => {
      return { roundNumber, canary, manifest, opening, tries };
    });
  }

  /** How many are kept. */
  countCanaries(experiment: string): number {
    return this.rows("canary", experiment).length;
  }

  /** The round is opened: its canary can be looked for. */
  putOpening(experiment: string, round: number, opening: Bytes): void {
    this.#changeCanary(experiment, round, { opening });
  }

  /** So often nothing that verifies came by now. */
  putTries(experiment: string, round: number, tries: number): void {
    this.#changeCanary(experiment, round, { tries });
  }

  /** It was seen, is missing, or cannot be looked for any more. */
  dropCanary(experiment: string, round: number): void {
    this.tables.delete("canary", experiment, round);
  }

  /** Rounds that had a receipt and stayed unopened. */
  unopened(experiment: string): Set<number> {
    return this.numbers("unopened", experiment);
  }

  /** A round with a receipt stayed unopened; its canary cannot be looked for. */
  putUnopened(experiment: string, round: number): void {
    this.add("unopened", { experiment, round });
    this.dropCanary(experiment, round);
  }

  /** The person has seen it, and goes on. */
  clearUnopened(experiment: string): void {
    this.drop(experiment, "unopened");
  }

  /** Drop all that is about this device's part; labels and what is bound stay. */
  forget(experiment: string): void {
    this.drop(experiment, "relayed_trust", "request", "canary", "unopened", "token_seed", "refusal");
  }

  // ── tokens ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** The seed of this round, if it asked for tokens before. */
  tokenSeed(experiment: string, round: number): Bytes | null {
    const row = this.row<{ round: number; seed: Bytes }>("token_seed", experiment);
    return row?.round === round ? row.seed : null;
  }

  /** Keep it, in place of another round's. */
  putTokenSeed(experiment: string, round: number, seed: Bytes): void {
    this.put("token_seed", { experiment, round, seed });
  }

  /** The token is sealed in the round's request. */
  dropTokenSeed(experiment: string): void {
    this.drop(experiment, "token_seed");
  }

  // ── relays that do not answer ──────────────────────────────────────────────────────────────────────────────────────

  /** So often in a row this relay did not answer in this round. */
  refusals(experiment: string, relay: string, round: number): number {
    const row = this.row<{ round: number; count: number }>("refusal", experiment, relay);
    return row?.round === round ? row.count : 0;
  }

  /** Count them, in place of another round's. */
  putRefusals(experiment: string, relay: string, round: number, count: number): void {
    if (this.takesPart(experiment)) this.put("refusal", { experiment, relay, round, count });
  }

  #changeCanary(experiment: string, round: number, changed: Row): void {
    const row = this.row<CanaryRow>("canary", experiment, round);
    if (row !== undefined) this.put("canary", { ...row, ...changed });
  }
}

type CanaryRow = {
  readonly round: number;
  readonly canary: Bytes;
  readonly manifest: Bytes;
  readonly opening: Bytes | null;
  readonly tries: number;
};
