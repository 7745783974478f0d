/**
 * A round with two relays, whole and small: everything that is signed in it follows from texts that everybody knows.
 *
 * Devices' requests are sealed indeed; the relays' cover is made up, and nobody opens it. Relays are honest unless told
 * what to leave out; whatever they leave out they replace, so that their counts still add up, as a liar's would.
 */

import { createHash } from "node:crypto";

import { compare, concat, hex, unhex, utf8, type Bytes } from "../../src/bytes.ts";
import { sha256 } from "../../src/crypto/hashes.ts";
import { Frontier, inclusionProof, leafHash, root } from "../../src/crypto/merkle.ts";
import { X25519PrivateKey } from "../../src/crypto/sealing/kem.ts";
import { INNER_BYTES, OUTER_BYTES, outerLayer } from "../../src/crypto/sealing/layers.ts";
import { OpeningError } from "../../src/errors.ts";
import { ExperimentDocument, type ExperimentDocumentFields } from "../../src/protocol/documents/experiment.ts";
import type { ModelNames } from "../../src/protocol/log/entries.ts";
import { capsuleDigest, capsuleRoot } from "../../src/protocol/relays/batches.ts";
import { ENTRY_COMMITMENT, MIX_COMMITMENT, partEntry } from "../../src/protocol/relays/commitments.ts";
import {
  ENTRY_COUNT,
  ENTRY_REVEAL,
  MIX_COUNT,
  MIX_REVEAL,
  partIndex,
  type EntryCount,
  type EntryReveal,
  type MixCount,
  type MixReveal,
} from "../../src/protocol/relays/counts.ts";
import { labelOfRound, MANIFEST, type Instants, type RelayedManifest } from "../../src/protocol/relays/manifest.ts";
import { OPENING, type Opening } from "../../src/protocol/relays/opening.ts";
import { ShardRun } from "../../src/protocol/relays/shardRuns.ts";
import { SHARD, shardCount, shardEntry } from "../../src/protocol/relays/shards.ts";
import { readRequest, tokenBytes } from "../../src/protocol/relays/submission.ts";
import { signed, SigningKey } from "../crypto/signers.ts";
import { keyDocument } from "../crypto/sealing/gateway.ts";
import { vectors } from "../vectors.ts";

/** So many bytes that follow from a name. */
export function knownBytes(name: string, outputLength = 32): Bytes {
  return Uint8Array.from(createHash("shake256", { outputLength }).update(name).digest());
}

export const [COORDINATOR, ENTRY, MIX, STRANGER] = ["coordinator", "entry relay", "mixing relay", "nobody"].map(
  (name) => new SigningKey(knownBytes(`key of ${name}`)),
) as [SigningKey, SigningKey, SigningKey, SigningKey];

/** The small experiment of the vectors, with such changes. */
export function relayedDocument(changes: Partial<ExperimentDocumentFields> = {}): ExperimentDocument {
  return new ExperimentDocument({ ...ExperimentDocument.fromBytes(utf8(vectors("manifest").document)), ...changes });
}

/** What a liar makes of what it signs. */
export interface Lies {
  readonly entryCount?: (true_: EntryCount) => EntryCount;
  readonly mixCount?: (true_: MixCount) => MixCount;
  readonly entryReveal?: (true_: EntryReveal) => EntryReveal;
  readonly mixReveal?: (true_: MixReveal) => MixReveal;
  readonly opening?: (true_: Opening) => Opening;
}

interface Announced {
  readonly document: ExperimentDocument;
  /** The round before and its opening; null in round 1. */
  readonly before: { readonly manifest: RelayedManifest; readonly opening: Opening } | null;
  readonly model: ModelNames;
  readonly opensAt: number;
}

export interface Concluded {
  /** Requests that the entry relay took. */
  readonly bodies?: readonly Bytes[];
  /** Digest of the net tally. */
  readonly tally: string;
  /** Inner digests, in hexadecimal, that the mixing relay leaves out. */
  readonly leftOut?: ReadonlySet<string>;
  /** A reveal is missing. */
  readonly unopened?: boolean;
  readonly lies?: Lies;
  /** The sub-tally of each shard, from its inner capsules. */
  readonly count?: (capsules: Bytes) => Promise<Bytes>;
}

/** How a round ended, and what is public of its capsules, by path below the experiment. */
export interface Played {
  readonly opening: Opening;
  readonly files: ReadonlyMap<string, Bytes>;
}

export class KnownRound {
  readonly document: ExperimentDocument;
  readonly manifest: RelayedManifest;
  readonly countKey: X25519PrivateKey;
  readonly mixKey: X25519PrivateKey;

  private constructor(document: ExperimentDocument, manifest: RelayedManifest, keys: readonly X25519PrivateKey[]) {
    this.document = document;
    this.manifest = manifest;
    [this.countKey, this.mixKey] = keys as [X25519PrivateKey, X25519PrivateKey];
  }

  /** A round as it is announced. */
  static async announced({ document, before, model, opensAt }: Announced): Promise<KnownRound> {
    const roundNumber = before === null ? 1 : before.manifest.roundNumber + 1;
    const known = (what: string): Bytes => knownBytes(`${what} ${roundNumber}`);
    const [countKey, mixKey, fetchKey] = await Promise.all(
      ["count seed", "mix key", "fetch key"].map((what) => X25519PrivateKey.derive(known(what))),
    );
    const own = { experiment: document.digest, roundNumber };
    const { parts } = document.relayCover;
    const [entryParts, mixParts] = ["entry", "mix"].map((role) => treeOf(partSeeds(role, roundNumber, parts)));
    const mix = { ...own, key: mixKey!.publicKey.data, parts: entryRoot(mixParts!) };
    const entry = { ...own, parts: entryRoot(entryParts!), nonce: sha256(known("nonce")), tokens: null };
    const [state, trainingWeights, evaluationWeights] = model;
    const manifest: RelayedManifest = {
      ...own,
      state,
      trainingWeights,
      evaluationWeights,
      previous: before === null ? null : MANIFEST.digest(before.manifest),
      opening: before === null ? null : OPENING.digest(before.opening),
      instants: planned(document, opensAt),
      countKey: countKey!.publicKey.data,
      countSeedHash: sha256(known("count seed")),
      fetchKeys: keyDocument(roundNumber % 256, fetchKey!),
      mix: signed(MIX_COMMITMENT.toBytes(mix), { purpose: MIX_COMMITMENT.purpose, keys: [MIX] }),
      entry: signed(ENTRY_COMMITMENT.toBytes(entry), { purpose: ENTRY_COMMITMENT.purpose, keys: [ENTRY] }),
    };
    return new KnownRound(document, manifest, [countKey!, mixKey!]);
  }

  get label(): Bytes {
    return labelOfRound(this.manifest);
  }

  /** The end of the round. */
  async concluded(told: Concluded): Promise<Played> {
    const { document, label, manifest } = this;
    const { roundNumber } = manifest;
    const { bodies = [], leftOut = new Set(), unopened = false, lies = {} } = told;
    const sent = bodies.flatMap((body) => readRequest(body, { budget: document.budget, token: tokenBytes(document) }));
    const { packages, parts } = document.relayCover;
    const cover = madeUp(`cover of ${roundNumber}`, packages, OUTER_BYTES);
    const received = sorted(sent);
    const batch = sorted([...sent, ...cover]);
    const opened = (await this.#opened(sent)).filter((inner) => !leftOut.has(hex(capsuleDigest(inner))));
    const count = batch.length + packages;
    const inners = sorted([...opened, ...madeUp(`inner of ${roundNumber}`, count - opened.length, INNER_BYTES)]);
    const digests = inners.map(capsuleDigest);

    const entryCount = said(lies.entryCount, {
      ...{ label, clients: bodies.length, capsules: batch.length },
      received: capsuleRoot(received.map(capsuleDigest)),
      root: capsuleRoot(batch.map(capsuleDigest)),
    });
    const mixCount = said(lies.mixCount, {
      ...{ label, entryCount: ENTRY_COUNT.digest(entryCount), refused: 0 },
      ...{ capsules: inners.length, root: capsuleRoot(digests) },
    });
    const mixCountSigned = signed(MIX_COUNT.toBytes(mixCount), { purpose: MIX_COUNT.purpose, keys: [MIX] });
    const nonce = knownBytes(`nonce ${roundNumber}`);
    const part = partIndex(nonce, MIX_COUNT.digest(mixCount), parts);
    const revealed = (role: "entry" | "mix") => {
      const seeds = partSeeds(role, roundNumber, parts);
      const path = inclusionProof(new Frontier().reader(treeOf(seeds)), part, parts);
      return { label, mixCount: mixCountSigned, part, seed: seeds[part]!, path };
    };
    const entryReveal = said(lies.entryReveal, { ...revealed("entry"), nonce });
    const mixReveal = said(lies.mixReveal, { ...revealed("mix"), entryReveal: ENTRY_REVEAL.digest(entryReveal) });

    const shards = await this.#shards(inners, told.count ?? (async () => new Uint8Array()));
    const opening: Opening = {
      ...{ experiment: document.digest, roundNumber, label },
      entryCount: signed(ENTRY_COUNT.toBytes(entryCount), { purpose: ENTRY_COUNT.purpose, keys: [ENTRY] }),
      mixCount: mixCountSigned,
      entryReveal: signed(ENTRY_REVEAL.toBytes(entryReveal), { purpose: ENTRY_REVEAL.purpose, keys: [ENTRY] }),
      mixReveal: signed(MIX_REVEAL.toBytes(mixReveal), { purpose: MIX_REVEAL.purpose, keys: [MIX] }),
      countSeed: knownBytes(`count seed ${roundNumber}`),
      ...{ tally: told.tally, shards: shards.root },
    };
    const lost = { ...opening, mixReveal: null, countSeed: null, tally: null, shards: null };
    return { opening: said(lies.opening, unopened ? lost : opening), files: unopened ? new Map() : shards.files };
  }

  async #opened(outers: readonly Bytes[]): Promise<Bytes[]> {
    const opened: Bytes[] = [];
    for (const outer of outers) {
      try {
        opened.push(await outerLayer(this.label).open(this.mixKey, outer));
      } catch (fault) {
        if (!(fault instanceof OpeningError)) throw fault;
      }
    }
    return opened;
  }

  /** Index, runs, capsules and sub-tallies of all shards, and the root over these. */
  async #shards(
    inners: readonly Bytes[],
    count: (capsules: Bytes) => Promise<Bytes>,
  ): Promise<{ root: Bytes; files: ReadonlyMap<string, Bytes> }> {
    const { roundNumber } = this.manifest;
    const files = new Map<string, Bytes>();
    const numbers = Array.from({ length: shardCount(inners.length) }, (_, shard) => shard);
    if (numbers.length !== 1) throw new RangeError("rounds of tests have one shard");
    const capsules = concat(...inners);
    const [digests, subTally] = [inners.map(capsuleDigest), await count(capsules)];
    files.set(`shards/${roundNumber}`, concat(...numbers.map((shard) => digests[shard * SHARD]!.slice(0, 8))));
    const run = new ShardRun({ shard: 0, capsules: inners.length, path: [], digests });
    files.set(`shard/${roundNumber}/0`, run.toBytes());
    files.set(`capsules/${roundNumber}/0`, capsules);
    files.set(`tally/${roundNumber}/0`, concat(Uint8Array.of(0), subTally));
    return { root: leafHash(shardEntry(digests, subTally)), files };
  }
}

function said<T>(lie: ((true_: T) => T) | undefined, true_: T): T {
  return lie === undefined ? true_ : lie(true_);
}

function planned({ windows, relayTimes }: ExperimentDocument, opensAt: number): Instants {
  const closesAt = opensAt + 1000 * windows.lengthS;
  const acceptUntil = closesAt + 1000 * windows.graceS;
  const batchBy = acceptUntil + 1000 * relayTimes.batchS;
  const mixBy = batchBy + 1000 * relayTimes.mixS;
  const revealBy = mixBy + 1000 * relayTimes.revealS;
  return { opensAt, closesAt, acceptUntil, batchBy, mixBy, revealBy, openBy: revealBy + 1000 * relayTimes.openS };
}

function partSeeds(role: string, roundNumber: number, parts: number): Bytes[] {
  return Array.from({ length: parts }, (_, part) => knownBytes(`${role} part ${part} of ${roundNumber}`));
}

function treeOf(seeds: readonly Bytes[]): Bytes[] {
  return seeds.map((seed) => leafHash(partEntry(seed)));
}

function entryRoot(leaves: readonly Bytes[]): Bytes {
  return root(new Frontier().reader(leaves), leaves.length);
}

function madeUp(name: string, count: number, size: number): Bytes[] {
  return Array.from({ length: count }, (_, i) => knownBytes(`${name} ${i}`, size));
}

/** Capsules by their digests, each once. */
function sorted(capsules: readonly Bytes[]): Bytes[] {
  const known = new Map(capsules.map((capsule) => [hex(capsuleDigest(capsule)), capsule]));
  return [...known].sort(([a], [b]) => compare(unhex(a), unhex(b))).map(([, capsule]) => capsule);
}
