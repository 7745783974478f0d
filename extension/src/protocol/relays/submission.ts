/**
 * Submission: all packages of a device in one round in one request, and what is kept of it (§28, §32).
 *
 *     order    = a permutation of the B places, drawn before anything of the person is looked at; the last one drawn is
 *                the canary's
 *     request  = a token of 64 bytes where the experiment has tokens ‖ B outer capsules of 128 bytes, by digest
 *
 * A request holds exactly B capsules whatever the person has to tell. Its ephemeral secrets are the browser's dice and
 * are gone when it is made: making it again would reuse nonces over other contents. So a request is stored before its
 * first byte leaves, and a retry is the same bytes.
 *
 * The **receipt** is the entry relay's signed word that it has taken the submission, whole. The **canary** is a null,
 * and its place among the device's packages was drawn before the data were looked at: so whoever drops packages by what
 * they say, or by whose they are, learns nothing from what the device does about it. Of all that was sealed in a round
 * the device keeps the canary's two ephemeral secrets, its digests, its way to the receipt's root and the receipt:
 * enough to show anybody that it was taken, and is not there.
 */

import { compare, concat, equal, utf8, type Bytes } from "../../bytes.ts";
import { sha256 } from "../../crypto/hashes.ts";
import {
  EPHEMERAL_BYTES,
  INNER_BYTES,
  innerLayer,
  OUTER_BYTES,
  outerLayer,
  sealBoth,
} from "../../crypto/sealing/layers.ts";
import { TOKEN_BYTES } from "../../crypto/tokens.ts";
import { BadProofError, LocalProtocolError, MalformedMessageError } from "../../errors.ts";
import type { Package } from "../../learning/package.ts";
import { DIGEST_BYTES } from "../canonical.ts";
import { encode } from "../codec.ts";
import type { ExperimentDocument } from "../documents/experiment.ts";
import { documentType, HASH, longBytes, nullable, part, shortBytes, whole, type ValueOf } from "../records.ts";
import { shuffle } from "../schedule.ts";
import { CANARY_TYPE, RECEIPT_TYPE } from "../version.ts";
import { ascend, capsuleDigest, checkPlace, cut, PLACE, placeOf } from "./batches.ts";
import { labelOfRound, sealingKeysOf, type RelayedManifest } from "./manifest.ts";
import { ENVELOPE_BYTES, MAX_STATEMENT_BYTES } from "./statements.ts";

/** For one submission: under which label, and which capsules. */
export const RECEIPT = documentType(
  { purpose: RECEIPT_TYPE, title: "the receipt", longest: MAX_STATEMENT_BYTES },
  {
    label: HASH,
    /** Over the digests of the submission's outer capsules. */
    root: HASH,
    /** B. */
    capsules: whole(1),
  },
);
export type Receipt = ValueOf<typeof RECEIPT>;

export const MAX_RECEIPT_BYTES = MAX_STATEMENT_BYTES + ENVELOPE_BYTES;
export const MEDIA_TYPE = "application/vnd.secvm.submission";
/** Both ephemeral secrets of one package: the inner seal's 32 bytes, then the outer one's. */
export const SECRETS_BYTES = 2 * EPHEMERAL_BYTES;
/** A device counts the shard of one canary of so many again. */
export const RECOUNTED_ONE_IN = 64;
const RECOUNT_TAG = utf8("secvm-v2-recount\n");
const NULL: Package = { kind: "null" };

/** Inner and outer capsule of a round's null sealed with these secrets: everybody who has them makes the same. */
export async function canaryCapsules(
  manifest: RelayedManifest,
  experimentId: Bytes,
  ephemerals: Bytes,
): Promise<[inner: Bytes, outer: Bytes]> {
  const { countKey, mixKey } = sealingKeysOf(manifest);
  const content = encode({ experimentId, roundNumber: manifest.roundNumber, package: NULL });
  return sealBoth(countKey, mixKey, labelOfRound(manifest), ephemerals, content);
}

/**
 * Whether the device with these secrets of a canary counts its shard again.
 *
 * It is drawn with the secrets, for good, and known to nobody.
 */
export function recounts(ephemerals: Uint8Array): boolean {
  return sha256(RECOUNT_TAG, ephemerals)[0]! % RECOUNTED_ONE_IN === 0;
}

/** One round's canary, as a device keeps it. Its secrets show that it took part. */
export const CANARY = documentType(
  // A path, a receipt, and a few hashes.
  { purpose: CANARY_TYPE, title: "the canary", longest: 2 ** 14 },
  {
    roundNumber: whole(1, undefined, { name: "round" }),
    label: HASH,
    ephemerals: shortBytes(SECRETS_BYTES),
    innerDigest: shortBytes(DIGEST_BYTES, { name: "inner" }),
    /** Its outer capsule in the tree over the request's capsules. */
    place: part(PLACE),
    /** B: capsules of the request. */
    capsules: whole(1),
    /** The entry relay's receipt in its envelope; null: none has come yet. */
    receipt: nullable(longBytes(MAX_RECEIPT_BYTES)),
  },
  ({ place, capsules }) => {
    if (place.index >= capsules) throw new MalformedMessageError(`a canary at place ${place.index} of ${capsules}`);
  },
);
export type Canary = ValueOf<typeof CANARY>;

/** That this receipt is for the request with this canary. Throws a `BadProofError`. */
export function checkReceipt(canary: Canary, receipt: Receipt): void {
  if (!equal(receipt.label, canary.label) || receipt.capsules !== canary.capsules) {
    throw new BadProofError(
      `the receipt is for another label, or for ${receipt.capsules} capsules in place of ${canary.capsules}`,
    );
  }
  checkPlace(canary.place, { size: canary.capsules, root: receipt.root });
}

/** Where each of a device's packages goes: package i to the i-th of these places, the canary being the last package. */
export type Order = readonly number[];

/** An order of so many packages, every one equally likely. */
export function drawOrder(budget: number, words: Iterator<bigint>): Order {
  if (budget < 1) throw new LocalProtocolError(`an order of ${budget} packages: there is at least the canary`);
  return shuffle(Array.from({ length: budget }, (_, place) => place), words);
}

/** A request, and the one thing that is kept of its making. */
export interface Submission {
  readonly body: Bytes;
  readonly canary: Canary;
}

interface Sealing {
  readonly order: Order;
  /** 64 bytes a place, from the browser's dice, used for this and for nothing else. */
  readonly ephemerals: Bytes;
  /** The one of this round, where the experiment has tokens. */
  readonly token?: Uint8Array;
}

/**
 * The request of a person's packages, nulls up to the budget included; the last null is the canary.
 *
 * Throws a `LocalProtocolError` where there are not exactly B packages with a null at their end, or secrets and places
 * for another number, or a token where there are none.
 */
export async function sealSubmission(
  document: ExperimentDocument,
  manifest: RelayedManifest,
  packages: readonly Package[],
  { order, ephemerals, token = new Uint8Array() }: Sealing,
): Promise<Submission> {
  const { budget, experimentId } = document;
  if (token.length !== tokenBytes(document)) {
    throw new LocalProtocolError(
      `a token of ${token.length} bytes; a request of this one has ${tokenBytes(document)}`,
    );
  }
  if (packages.length !== budget || packages.at(-1)!.kind !== "null") {
    throw new LocalProtocolError(`a submission has exactly ${budget} packages, of which the last is the canary's null`);
  }
  const isOrder = order.length === budget && order.toSorted((a, b) => a - b).every((place, i) => place === i);
  if (!isOrder || ephemerals.length !== budget * SECRETS_BYTES) {
    throw new LocalProtocolError(`an order and secrets of another number than ${budget} packages`);
  }
  const contents = new Array<Bytes>(budget);
  packages.forEach((each, i) => {
    contents[order[i]!] = encode({ experimentId, roundNumber: manifest.roundNumber, package: each });
  });
  const label = labelOfRound(manifest);
  const { countKey, mixKey } = sealingKeysOf(manifest);
  const secrets = cut(ephemerals, EPHEMERAL_BYTES);
  const [ofInner, ofOuter] = [0, 1].map((layer) => concat(...secrets.filter((_, i) => i % 2 === layer)));
  const inner = await innerLayer(label).sealAll(countKey, ofInner!, concat(...contents));
  const outers = cut(await outerLayer(label).sealAll(mixKey, ofOuter!, inner), OUTER_BYTES);
  const capsules = outers.map((capsule) => ({ capsule, digest: capsuleDigest(capsule) }));
  const sorted = capsules.toSorted((a, b) => compare(a.digest, b.digest));
  const digests = sorted.map(({ digest }) => digest);
  if (!ascend(digests)) {
    throw new LocalProtocolError("two capsules of a submission are the same: its secrets are not fresh dice");
  }
  const at = order.at(-1)!;
  const canary: Canary = {
    roundNumber: manifest.roundNumber,
    label,
    ephemerals: cut(ephemerals, SECRETS_BYTES)[at]!,
    innerDigest: capsuleDigest(cut(inner, INNER_BYTES)[at]!),
    place: placeOf(digests, sorted.indexOf(capsules[at]!)),
    capsules: budget,
    receipt: null,
  };
  return { body: concat(token, ...sorted.map(({ capsule }) => capsule)), canary };
}

/** How many bytes of an experiment's request are its token. */
export function tokenBytes(document: ExperimentDocument): number {
  return document.tokens ? TOKEN_BYTES : 0;
}

/**
 * The outer capsules of a request, of which so many bytes are a token.
 *
 * Throws a `MalformedMessageError` where there are not exactly `budget` different capsules, ascending by digest.
 */
export function readRequest(body: Uint8Array, { budget, token = 0 }: { budget: number; token?: number }): Bytes[] {
  const expected = token + budget * OUTER_BYTES;
  if (body.length !== expected) {
    throw new MalformedMessageError(
      `a request of ${body.length} bytes; one of ${budget} capsules has ${expected}`,
    );
  }
  const capsules = cut(body.subarray(token), OUTER_BYTES);
  if (!ascend(capsules.map(capsuleDigest))) {
    throw new MalformedMessageError("the capsules of a request ascend by digest, none twice");
  }
  return capsules;
}
