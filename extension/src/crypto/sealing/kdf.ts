/** HKDF-SHA256 (RFC 5869), and HPKE's labelled form of it (RFC 9180 §4). It answers at once, as its hash does. */

import { bigEndian, concat, utf8, type Bytes } from "../../bytes.ts";
import { LocalProtocolError } from "../../errors.ts";
import { hmacSha256 } from "../hashes.ts";

/** The KDF's number in HPKE's registry. */
export const HKDF_SHA256 = 0x0001;
/** Bytes of a SHA-256 digest. */
export const HASH_BYTES = 32;

const VERSION = utf8("HPKE-v1");

/** Concentrate what is secret in `ikm` into a key of 32 bytes. */
export function extract(salt: Uint8Array, ...ikm: readonly Uint8Array[]): Bytes {
  return hmacSha256(salt, ...ikm);
}

/** Stretch a key to `length` bytes that are good for one purpose. */
export function expand(prk: Uint8Array, info: Uint8Array, length: number): Bytes {
  if (!(0 <= length && length <= 255 * HASH_BYTES)) {
    throw new LocalProtocolError(`HKDF-SHA256 gives at most ${255 * HASH_BYTES} bytes`);
  }
  const blocks: Bytes[] = [];
  for (let counter = 1; blocks.length * HASH_BYTES < length; counter++) {
    blocks.push(hmacSha256(prk, blocks.at(-1) ?? new Uint8Array(), info, Uint8Array.of(counter)));
  }
  return concat(...blocks).slice(0, length);
}

/** What `LabeledExtract` of RFC 9180 §4 hands to `extract`, without the secret at its end. */
export function labeledIkm(suiteId: Uint8Array, label: string): Bytes {
  return concat(VERSION, suiteId, utf8(label));
}

/** `LabeledExtract` of RFC 9180 §4, without salt. */
export function labeledExtract(suiteId: Uint8Array, label: string, ikm: Uint8Array): Bytes {
  return extract(new Uint8Array(), labeledIkm(suiteId, label), ikm);
}

/** What `LabeledExpand` of RFC 9180 §4 hands to `expand`. */
export function labeledInfo(suiteId: Uint8Array, label: string, info: Uint8Array, length: number): Bytes {
  return concat(bigEndian(length, 2), VERSION, suiteId, utf8(label), info);
}

/** `LabeledExpand` of RFC 9180 §4. */
export function labeledExpand(
  suiteId: Uint8Array,
  prk: Uint8Array,
  label: string,
  info: Uint8Array,
  length: number,
): Bytes {
  return expand(prk, labeledInfo(suiteId, label, info, length), length);
}
