/**
 * What stands under the seal of a fetch: a path as binary HTTP, and the gateway's answer (docs/protocol.md §19.3).
 *
 * Lengths say nothing: requests for files come in steps of 256 bytes, which every path of §19.2 fits into, and answers
 * in steps of 4,096: a manifest, a proof and a checkpoint look alike to a relay.
 */

import { concat, type Bytes } from "../../bytes.ts";
import { decodeResponse, encodeGet } from "../../crypto/sealing/binaryHttp.ts";
import { MalformedMessageError } from "../../errors.ts";

/** A fetch and its answer have multiples of these. */
export const FETCH_REQUEST_STEP = 256;
export const FETCH_ANSWER_STEP = 4096;

/** A name that no resolver has (RFC 6761): the gateway is found by its key, not by this. */
const AUTHORITY = "gateway.invalid";

/** What the gateway said. */
export interface Answer {
  readonly status: number;
  readonly content: Bytes;
  /** The server's clock, as HTTP writes dates. */
  readonly date: string | null;
}

/** The request for a public file, padded to the next multiple of `FETCH_REQUEST_STEP`. */
export function fetchRequest(path: string): Bytes {
  const request = encodeGet(AUTHORITY, path);
  const padding = -request.length & (FETCH_REQUEST_STEP - 1);
  return concat(request, new Uint8Array(padding));
}

/** What was in the gateway's answer. Throws a `MalformedMessageError` and nothing else. */
export function readAnswer(data: Uint8Array): Answer {
  const response = decodeResponse(data);
  const dates = response.headers.filter(([name]) => name === "date").map(([, value]) => value);
  if (dates.length > 1 || dates.some((date) => /[^\x00-\x7f]/.test(date))) {
    throw new MalformedMessageError("the answer has more than one date, or one that is none");
  }
  return { status: response.status, content: response.content, date: dates[0] ?? null };
}
