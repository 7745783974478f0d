/**
 * RelayedManifest: the statement that defines a round with two relays; the same bytes for everyone (§27).
 *
 * Its digest is the round's **label**: route, name of the batch, and part of both seals. It carries the count key with
 * the hash of its seed, the key that fetches are sealed to, and both relays' commitments. `manifestFaults` says what of
 * it contradicts the experiment or the round before; devices and relays refuse a manifest with any. What was seen in
 * *any* other round (a count key, a commitment, other bytes for the same round) only somebody with a memory can tell:
 * `boundBy` is what to remember.
 */

import { hex, unhex, type Bytes } from "../../bytes.ts";
import { X25519PublicKey } from "../../crypto/sealing/kem.ts";
import { decodeKeyConfigurations, leavesNoChoice } from "../../crypto/sealing/oblivious.ts";
import { Envelope } from "../../crypto/signing.ts";
import { BadSignatureError, InconsistentManifestError, MalformedMessageError } from "../../errors.ts";
import type { ExperimentDocument } from "../documents/experiment.ts";
import { faultsOf, INCONSISTENCIES, type Inconsistency } from "../documents/faults.ts";
import { MODEL_RECORD } from "../log/entries.ts";
import {
  beside,
  DIGEST,
  documentType,
  HASH,
  longBytes,
  nullable,
  record,
  whole,
  type DocumentReader,
  type ValueOf,
} from "../records.ts";
import type { Window } from "../schedule.ts";
import { MANIFEST_TYPE } from "../version.ts";
import {
  ENTRY_COMMITMENT,
  MIX_COMMITMENT,
  SEALING_KEY,
  type EntryCommitment,
  type MixCommitment,
} from "./commitments.ts";
import { enclosed, enveloped, readStatement } from "./statements.ts";

export const MAX_MANIFEST_BYTES = 4096;
/** Enough for one configuration of any KEM; what else stands there is a fault of the manifest and evidence. */
const MAX_FETCH_KEYS = 2 ** 11;

/** When what of a round happens, in milliseconds and in this order. */
export const INSTANTS = record({
  opensAt: whole(0),
  closesAt: whole(0),
  /** Submissions are taken until then. */
  acceptUntil: whole(0),
  /** The entry relay hands on. */
  batchBy: whole(0),
  /** The mixing relay hands on. */
  mixBy: whole(0),
  /** Both relays have opened a part. */
  revealBy: whole(0),
  /** The opening is in the log, or the round is unopened. */
  openBy: whole(0),
});
export type Instants = ValueOf<typeof INSTANTS>;

/** One round of one experiment. */
export const MANIFEST = documentType(
  { purpose: MANIFEST_TYPE, title: "the manifest", longest: MAX_MANIFEST_BYTES },
  {
    ...MODEL_RECORD,
    /** Digest of the manifest of the round before, and of that round's opening; null in round 1. */
    previous: nullable(DIGEST),
    opening: nullable(DIGEST),
    /** They stand beside the other fields. */
    instants: beside(INSTANTS),
    /** pk_C, for which inner capsules are sealed, and SHA-256 of the seed that it grows from. */
    countKey: SEALING_KEY,
    countSeedHash: HASH,
    /** Key configurations (§18.4), exactly one: to this key fetches are sealed once the manifest is believed. */
    fetchKeys: longBytes(MAX_FETCH_KEYS),
    /** Envelopes of the relays' commitments. */
    mix: enveloped(MIX_COMMITMENT),
    entry: enveloped(ENTRY_COMMITMENT),
  },
  ({ instants, roundNumber, previous, opening }) => {
    const times = inOrder(instants);
    if (times.some((time, i) => i > 0 && times[i - 1]! > time) || times[0] === times[1]) {
      throw new MalformedMessageError("a manifest's instants do not follow each other, from opens_at to open_by");
    }
    if (new Set([roundNumber === 1, previous === null, opening === null]).size !== 1) {
      throw new MalformedMessageError("round 1 follows nothing, and every other round follows one and its opening");
    }
  },
);
export type RelayedManifest = ValueOf<typeof MANIFEST>;

function inOrder({ opensAt, closesAt, acceptUntil, batchBy, mixBy, revealBy, openBy }: Instants): readonly number[] {
  return [opensAt, closesAt, acceptUntil, batchBy, mixBy, revealBy, openBy];
}

/** When devices send. */
export function windowOf({ instants: { opensAt, closesAt } }: RelayedManifest): Window {
  return { opensAt, closesAt };
}

/** The manifest's digest in bytes: what relays and seals call the round. */
export function labelOfRound(manifest: RelayedManifest): Bytes {
  return unhex(MANIFEST.digest(manifest));
}

/** What the mixing relay is bound to; **its signature is not checked here**. */
export function mixCommitmentOf(manifest: RelayedManifest): MixCommitment {
  return enclosed(MIX_COMMITMENT, manifest.mix);
}

/** What the entry relay is bound to; **its signature is not checked here**. */
export function entryCommitmentOf(manifest: RelayedManifest): EntryCommitment {
  return enclosed(ENTRY_COMMITMENT, manifest.entry);
}

/** pk_C and pk_X, to seal for. */
export function sealingKeysOf(manifest: RelayedManifest): { countKey: X25519PublicKey; mixKey: X25519PublicKey } {
  return {
    countKey: new X25519PublicKey(manifest.countKey),
    mixKey: new X25519PublicKey(mixCommitmentOf(manifest).key),
  };
}

/**
 * What must never come again in another round: hash of the count seed, keys, roots of the parts, nonce.
 *
 * In hexadecimal.
 */
export function boundBy(manifest: RelayedManifest): ReadonlySet<string> {
  const [mix, entry] = [mixCommitmentOf(manifest), entryCommitmentOf(manifest)];
  const bound = [manifest.countSeedHash, manifest.countKey, mix.key, mix.parts, entry.parts, entry.nonce];
  return new Set(bound.map(hex));
}

/** All that contradicts the experiment, or the last manifest that was accepted. */
export async function manifestFaults(
  manifest: RelayedManifest,
  document: ExperimentDocument,
  before: RelayedManifest | null = null,
): Promise<Inconsistency[]> {
  const { opensAt, closesAt, acceptUntil, batchBy, mixBy, revealBy, openBy } = manifest.instants;
  const { windows, relayTimes } = document;
  const steps = [batchBy - acceptUntil, mixBy - batchBy, revealBy - mixBy, openBy - revealBy];
  const planned = [relayTimes.batchS, relayTimes.mixS, relayTimes.revealS, relayTimes.openS];
  const followed = before !== null && manifest.roundNumber === before.roundNumber + 1 ? before : null;
  const bound = boundBy(manifest);
  return faultsOf<Inconsistency>({
    OTHER_EXPERIMENT: manifest.experiment === document.digest,
    TOO_MANY_ROUNDS: manifest.roundNumber <= document.rounds,
    WINDOW_LENGTH: closesAt - opensAt === 1000 * windows.lengthS,
    GRACE: acceptUntil - closesAt === 1000 * windows.graceS,
    RELAY_TIMES: steps.every((step, i) => step === 1000 * planned[i]!),
    BEFORE_START: opensAt >= windows.firstOpening,
    // Nothing can be told of the round before until its mixing relay has handed on.
    OVERLAP: before === null || opensAt >= before.instants.mixBy,
    BROKEN_CHAIN: followed === null || manifest.previous === MANIFEST.digest(followed),
    MIX_COMMITMENT: await isOf(manifest, MIX_COMMITMENT, manifest.mix, document),
    ENTRY_COMMITMENT: await isOf(manifest, ENTRY_COMMITMENT, manifest.entry, document),
    FETCH_KEYS: isFetchKey(manifest, before),
    USED_BEFORE: before === null || bound.isDisjointFrom(boundBy(before)),
  });
}

/**
 * The manifest in an envelope, if enough coordinator keys signed it and nothing contradicts it.
 *
 * Throws a `MalformedMessageError` or a `BadSignatureError` where it is no manifest that this experiment's keys signed,
 * and an `InconsistentManifestError` where it is signed, but not what the experiment or the round before allow.
 */
export async function readManifest(
  data: Uint8Array,
  document: ExperimentDocument,
  before: RelayedManifest | null = null,
): Promise<RelayedManifest> {
  const manifest = await document.read(MANIFEST, data);
  const [fault] = await manifestFaults(manifest, document, before);
  if (fault !== undefined) throw new InconsistentManifestError(INCONSISTENCIES[fault], [data]);
  return manifest;
}

/** The manifest in an envelope, whose signatures were checked when it was believed. */
export function readAccepted(envelope: Uint8Array, document: ExperimentDocument): RelayedManifest {
  const manifest = MANIFEST.fromBytes(Envelope.fromBytes(envelope).payload);
  if (manifest.experiment !== document.digest) {
    throw new MalformedMessageError("the session's manifest is of another experiment");
  }
  return manifest;
}

/** Whether there is one key for fetches, and it is none that opens packages: count seeds are published. */
function isFetchKey(manifest: RelayedManifest, before: RelayedManifest | null): boolean {
  if (!leavesNoChoice(manifest.fetchKeys)) return false;
  const others = boundBy(manifest).union(before === null ? new Set() : boundBy(before));
  try {
    return decodeKeyConfigurations(manifest.fetchKeys).every(({ publicKey }) => !others.has(hex(publicKey.data)));
  } catch (fault) {
    if (!(fault instanceof MalformedMessageError)) throw fault;
    return false;
  }
}

/** Whether the relay of this role signed the commitment, for this round, with a key of tokens where it has some. */
async function isOf(
  manifest: RelayedManifest,
  kind: DocumentReader<MixCommitment | EntryCommitment>,
  envelope: Uint8Array,
  document: ExperimentDocument,
): Promise<boolean> {
  const relay = kind === MIX_COMMITMENT ? document.mixRelay : document.entryRelay;
  let commitment;
  try {
    commitment = await readStatement(kind, envelope, relay.key);
  } catch (fault) {
    if (fault instanceof MalformedMessageError || fault instanceof BadSignatureError) return false;
    throw fault;
  }
  if ("tokens" in commitment && (commitment.tokens !== null) !== document.tokens) return false;
  return commitment.experiment === manifest.experiment && commitment.roundNumber === manifest.roundNumber;
}
