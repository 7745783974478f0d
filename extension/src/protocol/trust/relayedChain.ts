/**
 * RelayedChain: which rounds of an experiment a device believes, one after the other (docs/protocol.md §27, §31).
 *
 *     manifest 1, opening 1, manifest 2, opening 2, …, ending        in this order, and in the log in this order
 *
 *  1. Every manifest since the last one believed is signed, fits the document and the manifest before, and names its
 *     opening. Its count key and commitments were never seen in another round (`Seen`).
 *  2. Every opening is signed and of its round. Whether the round is *opened* is judged by all that needs no capsules.
 *  3. Every model since follows: where the round before was opened, from its net tally by the one rule for that; else
 *     it is the same. The weights are the device's own.
 *
 * `RelayedChain.check` changes nothing; whoever calls `believe` has stored what it believes now, durably. That
 * everybody is shown the same is the log's part: `Believing.documents` have the lines that must stand in it.
 *
 * What the coordinator *signed* and cannot explain is an `InconsistentManifestError`; anything else is another
 * `RemoteProtocolError`, and is asked for again.
 */

import type { Bytes } from "../../bytes.ts";
import { Envelope } from "../../crypto/signing.ts";
import { InconsistentManifestError, LocalProtocolError, StaleRoundError } from "../../errors.ts";
import type { Tally } from "../../learning/aggregate/tally.ts";
import type { ExperimentDocument } from "../documents/experiment.ts";
import type { Document, ModelNames } from "../log/entries.ts";
import { boundBy, MANIFEST, readAccepted, readManifest, type RelayedManifest } from "../relays/manifest.ts";
import { OPENING, type Opening, type RelayedEnding } from "../relays/opening.ts";
import { manifestDocument, openingDocument, Walk } from "./relayedWalk.ts";

/** What must never come again, in hexadecimal, and in which round it came. */
export type Seen = ReadonlyMap<string, number>;

/** A descent state and what names it, as far as is asked here. */
export interface Named {
  /** The digests under which a manifest must name it. */
  readonly names: ModelNames;
  /** The state as it is kept. */
  readonly stateBytes: Bytes;
}

/** The one rule by which rounds become models. */
export interface Judging<Model extends Named> {
  /** What round 1 starts from. */
  first(document: ExperimentDocument): Model;
  /** The model of the state of this digest. */
  model(state: Bytes, of: { digest: string; document: ExperimentDocument }): Model;
  /** The tally of this digest. */
  tally(data: Bytes, of: { digest: string; document: ExperimentDocument }): Promise<Tally>;
  /** The model after a round that was opened with this net tally, and why it stayed, where it did. */
  after(
    document: ExperimentDocument,
    model: Model,
    net: Tally,
    of: { clients: number },
  ): { readonly model: Model; readonly stayed: unknown };
}

/** What a device has fetched for one look at an experiment. **Nothing in it is checked.** */
export interface Served {
  /** Envelopes of every manifest after the last one believed, in their order. */
  readonly manifests: readonly Bytes[];
  /** Envelopes of openings by their round. */
  readonly openings: ReadonlyMap<number, Bytes>;
  /** Bytes of net tallies by digest. */
  readonly tallies: ReadonlyMap<string, Bytes>;
  readonly ending: Bytes | null;
}

/** What a device keeps of what it believes. */
export interface RelayedTrust {
  /** Envelopes of the newest manifest, and of its opening where that is believed too. */
  readonly manifest: Bytes | null;
  readonly opening: Bytes | null;
  /** The descent state of that manifest. */
  readonly state: Bytes;
}

/** How a round ended. */
export interface Ended {
  readonly manifest: RelayedManifest;
  readonly opening: Opening;
  /** Whether nothing is missing, and nothing in it is false. */
  readonly opened: boolean;
}

/** What a device may believe from now on. Only `RelayedChain.check` makes one. */
export interface Believing<Model extends Named> {
  /** To be stored, durably, before anything is done with the rest. */
  readonly trust: RelayedTrust;
  /** The newest manifest, whose model the next is. */
  readonly manifest: RelayedManifest | null;
  readonly opening: Opening | null;
  readonly model: Model;
  /** New manifests, and how rounds ended of which nothing was believed yet. */
  readonly manifests: readonly RelayedManifest[];
  readonly ended: readonly Ended[];
  readonly ending: RelayedEnding | null;
  /** Of which the log must hold exactly the lines, in their order. */
  readonly documents: readonly Document[];
  readonly steps: number;
}

/** One experiment's rounds, as this device believes them. */
export class RelayedChain<Model extends Named> {
  trust: RelayedTrust;
  /** The newest manifest believed, and its opening where that is. */
  last: RelayedManifest | null;
  opening: Opening | null;
  readonly #document: ExperimentDocument;
  readonly #judging: Judging<Model>;
  readonly #seen: Map<string, number>;

  /** `seen`: what every round that was ever believed is bound to (`boundBy`). */
  constructor(
    document: ExperimentDocument,
    judging: Judging<Model>,
    { trust = null, seen = new Map() }: { trust?: RelayedTrust | null; seen?: Seen } = {},
  ) {
    this.#document = document;
    this.#judging = judging;
    this.#seen = new Map(seen);
    this.trust = trust ?? { manifest: null, opening: null, state: judging.first(document).stateBytes };
    const { manifest, opening } = this.trust;
    // Their signatures were checked when they were believed.
    this.last = manifest === null ? null : readAccepted(manifest, document);
    this.opening = opening === null ? null : OPENING.fromBytes(Envelope.fromBytes(opening).payload);
  }

  /** The first round of which nothing is believed yet. */
  get nextRound(): number {
    return this.last === null ? 1 : this.last.roundNumber + 1;
  }

  /** The newest manifest believed, and its opening where that is. */
  newest(): Document[] {
    const { manifest, opening } = this.trust;
    const documents: Document[] = [];
    if (this.last !== null && manifest !== null) documents.push(manifestDocument(this.last, manifest));
    if (this.opening !== null && opening !== null) documents.push(openingDocument(this.opening, opening));
    return documents;
  }

  /** The model of the newest manifest believed, from the state that is kept. */
  model(): Model {
    if (this.last === null) return this.#judging.first(this.#document);
    return this.#judging.model(this.trust.state, { digest: this.last.state, document: this.#document });
  }

  /**
   * What a manifest that was just fetched says, if it is newer than what is believed; null if it is that one.
   *
   * Throws a `StaleRoundError` where it is older, an `InconsistentManifestError` where it is another one for the round
   * that is believed, and another `RemoteProtocolError` where it is none.
   */
  async look(envelope: Bytes): Promise<RelayedManifest | null> {
    const manifest = await readManifest(envelope, this.#document);
    const { last } = this;
    if (manifest.roundNumber >= this.nextRound) return manifest;
    if (last === null || manifest.roundNumber < last.roundNumber) {
      throw new StaleRoundError(`round ${manifest.roundNumber} was served, and ${this.nextRound - 1} is believed`);
    }
    if (MANIFEST.digest(manifest) !== MANIFEST.digest(last)) {
      const sentence = `there are two manifests for round ${manifest.roundNumber}`;
      throw new InconsistentManifestError(sentence, [this.trust.manifest!, envelope]);
    }
    return null;
  }

  /** All rules above, or an error; nothing changes here until `believe`. */
  async check(served: Served): Promise<Believing<Model>> {
    const walk = new Walk(this, this.#document, this.#judging, served);
    for (const envelope of served.manifests) await walk.addManifest(envelope, this.#seen);
    await walk.addOpening({ required: served.ending !== null });
    if (served.ending !== null) await walk.addEnding(served.ending);
    if (walk.documents.length === 0) throw new StaleRoundError("nothing newer was served than what is believed");
    return walk.result();
  }

  /** From now on this is what is believed. Whoever calls this has stored it before. */
  believe(believing: Believing<Model>): void {
    const number = believing.manifest === null ? 0 : believing.manifest.roundNumber;
    if (number < this.nextRound - 1) {
      throw new LocalProtocolError(`round ${number} would replace round ${this.nextRound - 1}, which is believed`);
    }
    this.trust = believing.trust;
    this.last = believing.manifest;
    this.opening = believing.opening;
    for (const manifest of believing.manifests) {
      for (const value of boundBy(manifest)) this.#seen.set(value, manifest.roundNumber);
    }
  }
}
