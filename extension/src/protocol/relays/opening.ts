/**
 * Openings and endings: how a round ended, and an experiment, in the coordinator's envelope (docs/protocol.md §31).
 *
 * An opening holds both counts and both reveals as the relays signed them, the seed of the count key, the digest of the
 * net tally and the root of the shards. A round of which anything is missing is *unopened*: then seed, tally and shards
 * are null. After the last round there is no next manifest. The ending names the last round's manifest and opening, and
 * the state and weights that follow from them; devices predict with these.
 *
 * A round is opened when nothing is missing from its opening and nothing in it is false. `openingFaults` is total: it
 * takes any opening that can be read, and says all that is wrong. What is left to an auditor needs the capsules: that
 * they are under the mixing relay's root, that the opened parts are among them, and that they give the tally and the
 * shards.
 */

import { equal, type Bytes } from "../../bytes.ts";
import { sha256 } from "../../crypto/hashes.ts";
import { X25519PrivateKey } from "../../crypto/sealing/kem.ts";
import type { VerifyKey } from "../../crypto/signing.ts";
import { BadSignatureError, MalformedMessageError } from "../../errors.ts";
import type { ExperimentDocument } from "../documents/experiment.ts";
import {
  faultsOf,
  OPENING_FAULTS,
  type Inconsistency,
  type Missing,
  type OpeningFault,
} from "../documents/faults.ts";
import { COORDINATOR_RECORD, MODEL_RECORD, modelNames } from "../log/entries.ts";
import { DIGEST, documentType, HASH, nullable, whole, words, type DocumentReader, type ValueOf } from "../records.ts";
import { ENDING_TYPE, MAX_ROUND, OPENING_TYPE } from "../version.ts";
import {
  ENTRY_COUNT,
  ENTRY_REVEAL,
  entryAddsUp,
  entryRevealFaults,
  MIX_COUNT,
  MIX_REVEAL,
  mixAddsUp,
  mixRevealFaults,
} from "./counts.ts";
import { entryCommitmentOf, labelOfRound, mixCommitmentOf, type RelayedManifest } from "./manifest.ts";
import { enclosed, enveloped, readStatement } from "./statements.ts";

export const MAX_OPENING_BYTES = 2 ** 14;

/** The end of one round. What it holds is well formed; **no signature in it is checked**. */
export const OPENING = documentType(
  { purpose: OPENING_TYPE, title: "the opening", longest: MAX_OPENING_BYTES },
  {
    ...COORDINATOR_RECORD,
    label: HASH,
    /** Envelopes, as the relays signed them; null where there is none. */
    entryCount: nullable(enveloped(ENTRY_COUNT)),
    mixCount: nullable(enveloped(MIX_COUNT)),
    entryReveal: nullable(enveloped(ENTRY_REVEAL)),
    mixReveal: nullable(enveloped(MIX_REVEAL)),
    /** From which the count key grows; null where the round is unopened, as the next two. */
    countSeed: nullable(HASH),
    /** Digest of the net tally. */
    tally: nullable(DIGEST),
    /** Root of the shards. */
    shards: nullable(HASH),
  },
  (opening) => {
    const isWhole = missingFrom(opening).length === 0;
    if ([opening.countSeed, opening.tally, opening.shards].some((part) => (part !== null) !== isWhole)) {
      throw new MalformedMessageError("seed, tally and shards stand in an opening exactly where nothing is missing");
    }
  },
);
export type Opening = ValueOf<typeof OPENING>;

interface Parts {
  readonly entryCount: Bytes | null;
  readonly mixCount: Bytes | null;
  readonly entryReveal: Bytes | null;
  readonly mixReveal: Bytes | null;
  readonly countSeed: Bytes | null;
}

/** All that is not there, in the order in which it should have come. */
export function missingFrom({ entryCount, mixCount, entryReveal, mixReveal, countSeed }: Parts): Missing[] {
  return faultsOf<Missing>({
    ENTRY_COUNT: entryCount !== null,
    MIX_COUNT: mixCount !== null,
    ENTRY_REVEAL: entryReveal !== null,
    MIX_REVEAL: mixReveal !== null,
    SEED: countSeed !== null,
  });
}

/** All T rounds, or nothing more is learnt; or its operator stopped it. */
export type Why = "finished" | "stopped";

/** The end of one experiment. */
export const ENDING = documentType(
  { purpose: ENDING_TYPE, title: "the ending", longest: 4096 },
  {
    ...MODEL_RECORD,
    /** The last round; 0 where there was none, and then the next two are null. */
    roundNumber: whole(0, MAX_ROUND, { name: "round" }),
    manifest: nullable(DIGEST),
    opening: nullable(DIGEST),
    why: words<Why>("finished", "stopped"),
  },
  ({ roundNumber, manifest, opening }) => {
    if (new Set([roundNumber === 0, manifest === null, opening === null]).size !== 1) {
      throw new MalformedMessageError(
        "an ending names the last round with its manifest and its opening, or no round",
      );
    }
  },
);
export type RelayedEnding = ValueOf<typeof ENDING>;

/** All that is not true of what the opening holds; what is missing is not looked at. The manifest was accepted. */
export async function openingFaults(
  opening: Opening,
  manifest: RelayedManifest,
  document: ExperimentDocument,
): Promise<OpeningFault[]> {
  const label = labelOfRound(manifest);
  const { packages, parts } = document.relayCover;
  const faults = new Set<OpeningFault>();
  const named = opening.experiment === document.digest && opening.roundNumber === manifest.roundNumber;
  if (!named || !equal(opening.label, label)) faults.add("OTHER_ROUND");

  /** A statement that is there and is not its relay's is a fault; one that is not there is only missing. */
  const read = async <T extends { readonly label: Bytes }>(
    kind: DocumentReader<T>,
    envelope: Bytes | null,
    key: VerifyKey,
    fault: OpeningFault,
  ): Promise<T | null> => {
    const statement = envelope === null ? null : await statementOrNull(kind, envelope, key);
    if (envelope !== null && (statement === null || !equal(statement.label, label))) faults.add(fault);
    return statement;
  };

  const [entryKey, mixKey] = [document.entryRelay.key, document.mixRelay.key];
  const entryCount = await read(ENTRY_COUNT, opening.entryCount, entryKey, "ENTRY_COUNT");
  const mixCount = await read(MIX_COUNT, opening.mixCount, mixKey, "MIX_COUNT");
  const entryReveal = await read(ENTRY_REVEAL, opening.entryReveal, entryKey, "ENTRY_REVEAL");
  const mixReveal = await read(MIX_REVEAL, opening.mixReveal, mixKey, "MIX_REVEAL");
  if (entryCount && !entryAddsUp(entryCount, { budget: document.budget, packages })) faults.add("ENTRY_EQUATION");
  if (entryCount && mixCount) {
    if (mixCount.entryCount !== ENTRY_COUNT.digest(entryCount)) faults.add("OTHER_ENTRY_COUNT");
    if (!mixAddsUp(mixCount, entryCount, { packages })) faults.add("MIX_EQUATION");
  }
  if (mixCount && entryReveal) {
    const revealed = { label, mixCount: MIX_COUNT.digest(mixCount), parts };
    const ofEntry = entryRevealFaults(entryReveal, { ...revealed, commitment: entryCommitmentOf(manifest) });
    for (const fault of ofEntry) faults.add(fault);
    if (mixReveal) {
      const ofMix = { ...revealed, commitment: mixCommitmentOf(manifest), entryReveal };
      for (const fault of mixRevealFaults(mixReveal, ofMix)) faults.add(fault);
    }
  }
  const ofSeed = opening.countSeed === null ? null : await seedFault(opening.countSeed, manifest);
  if (ofSeed !== null) faults.add(ofSeed);
  return (Object.keys(OPENING_FAULTS) as OpeningFault[]).filter((fault) => faults.has(fault));
}

async function statementOrNull<T>(kind: DocumentReader<T>, envelope: Bytes, key: VerifyKey): Promise<T | null> {
  try {
    return await readStatement(kind, envelope, key);
  } catch (fault) {
    if (fault instanceof MalformedMessageError || fault instanceof BadSignatureError) return null;
    throw fault;
  }
}

/** Whether the round counts as opened, as far as can be told without its capsules. */
export async function isOpened(
  opening: Opening,
  manifest: RelayedManifest,
  document: ExperimentDocument,
): Promise<boolean> {
  return missingFrom(opening).length === 0 && (await openingFaults(opening, manifest, document)).length === 0;
}

/** M: submissions of an opened round. Zero where no count is there. */
export function clientsOf(opening: Opening): number {
  return opening.entryCount === null ? 0 : enclosed(ENTRY_COUNT, opening.entryCount).clients;
}

/**
 * What contradicts the opening of the round before; both manifests were accepted, and the opening read.
 *
 * State and weights stay where the round was not opened, or had fewer submissions than the floor.
 */
export async function followingFaults(
  manifest: RelayedManifest,
  before: RelayedManifest,
  opening: Opening,
  document: ExperimentDocument,
): Promise<Inconsistency[]> {
  const steps = (await isOpened(opening, before, document)) && clientsOf(opening) >= document.floor;
  const [named, stayed] = [modelNames(manifest), modelNames(before)];
  const follows = manifest.opening === OPENING.digest(opening) && equal(opening.label, labelOfRound(before));
  return faultsOf<Inconsistency>({
    OTHER_OPENING: follows,
    UNOPENED_STEP: steps || named.every((name, i) => name === stayed[i]),
  });
}

async function seedFault(seed: Bytes, manifest: RelayedManifest): Promise<OpeningFault | null> {
  if (!equal(sha256(seed), manifest.countSeedHash)) return "COUNT_SEED";
  const key = await X25519PrivateKey.derive(seed);
  return equal(key.publicKey.data, manifest.countKey) ? null : "COUNT_KEY";
}
