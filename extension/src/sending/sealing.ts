/** What sending a round takes in bytes: known before it is sent, and the same for everybody. */

import { OUTER_BYTES } from "../crypto/sealing/layers.ts";
import { TOKEN_BYTES } from "../crypto/tokens.ts";
import type { ExperimentDocument } from "../protocol/documents/experiment.ts";
import { OVERHEAD_BYTES } from "./transport.ts";

/** A package of a plain experiment in its request, which this device shows and never sends. */
const REQUEST_BYTES = 76;
/** Of a capsule of a plain experiment, around its encapsulated key and request: a header and a tag. */
const AROUND_BYTES = 7 + 16;
/** By the KEM's number in HPKE's registry; this device has the first, and shows the numbers of both. */
const ENC_BYTES: Readonly<Record<number, number>> = { 0x0020: 32, 0x647a: 1120 };

/** How long a capsule of a plain experiment is: header, encapsulated key and tag around a request. */
export function capsuleBytes(kem: number): number {
  return AROUND_BYTES + ENC_BYTES[kem]! + REQUEST_BYTES;
}

/** What sending all packages of a round takes, cover and nulls included: estimated, and the same for everybody. */
export function bytesOfARound(document: ExperimentDocument): number {
  const { budget, experiment, kem, tokens } = document;
  if (experiment.cover === null) return budget * (capsuleBytes(kem) + OVERHEAD_BYTES);
  // Asked for by an element, given by another, and in the request.
  const token = tokens ? 3 * TOKEN_BYTES + OVERHEAD_BYTES : 0;
  return budget * OUTER_BYTES + OVERHEAD_BYTES + token;
}
