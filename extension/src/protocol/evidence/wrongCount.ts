/**
 * WrongCount: a file that shows that the coordinator signed a sub-tally of a shard which is not what its capsules give.
 *
 * Of the files about experiments with two relays (docs/protocol.md §34) this is the one that a device can make. It holds
 * the manifest and the opening in their envelopes, the shard's capsules and its sub-tally, and the way from these to the
 * roots that the opening names and the mixing relay signed.
 */

import { equal, type Bytes } from "../../bytes.ts";
import { INNER_BYTES } from "../../crypto/sealing/layers.ts";
import { MalformedMessageError } from "../../errors.ts";
import { MAX_DOCUMENT_BYTES, readPublished } from "../documents/experiment.ts";
import { documentType, listed, longBytes, nullable, part, words, type ValueOf } from "../records.ts";
import { capsuleDigest, cut } from "../relays/batches.ts";
import { MIX_COUNT } from "../relays/counts.ts";
import { labelOfRound, MANIFEST } from "../relays/manifest.ts";
import { isOpened, OPENING } from "../relays/opening.ts";
import { MAX_CAPSULES_BYTES, Recount } from "../relays/recount.ts";
import { checkShardProof, SHARD_PROOF } from "../relays/shards.ts";
import { enclosed } from "../relays/statements.ts";
import { EVIDENCE_TYPE } from "../version.ts";
import type { Finding } from "./logExamination.ts";

const NOTHING = "the evidence does not show what it says";
const DOCUMENT = longBytes(MAX_DOCUMENT_BYTES + 2 ** 12);

/** The parts, as they were served. **Nothing in it is checked**: `examineCount` does that. */
export const WRONG_COUNT = documentType(
  { purpose: EVIDENCE_TYPE, title: "the evidence", longest: 2 ** 31 },
  {
    kind: words("wrong-count"),
    /** The experiment's envelope. */
    experiment: DOCUMENT,
    /** Envelopes of the manifest and the opening. */
    documents: listed(DOCUMENT, { longest: 3 }),
    statements: listed(DOCUMENT, { longest: 0 }),
    /** The capsules of the shard, and its sub-tally. */
    blobs: listed(longBytes(2 ** 29), { longest: 2 }),
    proof: nullable(part(SHARD_PROOF)),
  },
);
export type WrongCount = ValueOf<typeof WRONG_COUNT>;

/**
 * What this file shows, if it shows it.
 *
 * Throws a `RemoteProtocolError` where it shows nothing: a part is missing, not signed, or does not contradict the others.
 */
export async function examineCount(data: Bytes): Promise<Finding> {
  const { experiment, documents, blobs, proof } = WRONG_COUNT.fromBytes(data);
  if (documents.length !== 2 || blobs.length !== 2 || proof === null) {
    throw new MalformedMessageError("the evidence lacks a part, or has one too many");
  }
  const document = await readPublished(experiment);
  const [capsules, subTally] = blobs as [Bytes, Bytes];
  const manifest = await document.read(MANIFEST, documents[0]!);
  const opening = await document.read(OPENING, documents[1]!);
  const { mixCount, shards } = opening;
  if (mixCount === null || shards === null || !(await isOpened(opening, manifest, document))) {
    throw new MalformedMessageError("the opening of the evidence does not open this round");
  }
  const isOfRound = equal(proof.label, labelOfRound(manifest)) && capsules.length <= MAX_CAPSULES_BYTES;
  if (!isOfRound || capsules.length % INNER_BYTES) {
    throw new MalformedMessageError("the evidence is of a shard of another round, or of none");
  }
  const count = enclosed(MIX_COUNT, mixCount);
  const digests = cut(capsules, INNER_BYTES).map(capsuleDigest);
  checkShardProof(proof, { digests, subTally, capsules: count.capsules, shards, mixRoot: count.root });
  const counted = await (await Recount.of(document, manifest, opening)).count(capsules);
  if (equal(counted.subTally, subTally)) throw new MalformedMessageError(NOTHING);
  const sentence =
    `Of the coordinator: It signed a count of shard ${proof.shard} of round ${manifest.roundNumber} that is not what` +
    ` the ${counted.capsules} capsules of the shard give.`;
  return { kind: "wrong-count", document, sentence };
}
