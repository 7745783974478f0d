/** The hashes of the protocol. They answer at once, which WebCrypto's do not. */

import { blake2b as nobleBlake2b } from "@noble/hashes/blake2.js";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 as nobleSha256, sha512 as nobleSha512 } from "@noble/hashes/sha2.js";

import { concat, utf8, type Bytes } from "../bytes.ts";

/** SHA-256 of these parts side by side. */
export function sha256(...parts: readonly Uint8Array[]): Bytes {
  const state = nobleSha256.create();
  for (const part of parts) state.update(part);
  return state.digest() as Bytes;
}

export function sha512(...parts: readonly Uint8Array[]): Bytes {
  const state = nobleSha512.create();
  for (const part of parts) state.update(part);
  return state.digest() as Bytes;
}

export function hmacSha256(key: Uint8Array, ...parts: readonly Uint8Array[]): Bytes {
  const state = hmac.create(nobleSha256, key);
  for (const part of parts) state.update(part);
  return state.digest() as Bytes;
}

/** BLAKE2b with so many bytes of output; `person` is filled with zero bytes to sixteen. */
export function blake2b(data: Uint8Array, options: { size: number; person: string; key?: Uint8Array }): Bytes {
  const { size, person, key } = options;
  const personalization = concat(utf8(person), new Uint8Array(16)).slice(0, 16);
  return nobleBlake2b(data, { dkLen: size, personalization, ...(key ? { key } : {}) }) as Bytes;
}
