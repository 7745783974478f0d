/** Whoever signs what a device reads: private keys from seeds, as the tests of the other parties have them. */

import { createPrivateKey, createPublicKey, sign } from "node:crypto";

import { base64, bigEndian, compare, concat, littleEndian, unhex, utf8, type Bytes } from "../../src/bytes.ts";
import { COSIGNATURE, NoteKey, PLAIN, signedText } from "../../src/crypto/notes.ts";
import { signedBytes, VerifyKey } from "../../src/crypto/signing.ts";

/** What stands before the seed in a private key, and before the point in a public one (RFC 8410). */
const PKCS8 = unhex("302e020100300506032b657004220420");
const SPKI_BYTES = 12;

export class SigningKey {
  readonly public: VerifyKey;
  readonly #key;

  constructor(seed: Uint8Array) {
    this.#key = createPrivateKey({ key: Buffer.from(concat(PKCS8, seed)), format: "der", type: "pkcs8" });
    this.public = new VerifyKey(createPublicKey(this.#key).export({ format: "der", type: "spki" }).subarray(SPKI_BYTES));
  }

  sign(message: Uint8Array): Bytes {
    return Uint8Array.from(sign(null, message, this.#key));
  }
}

/** An envelope around the payload, signed by all these keys. */
export function signed(payload: Uint8Array, options: { purpose: string; keys: readonly SigningKey[] }): Bytes {
  const message = signedBytes(options.purpose, payload);
  const keys = [...options.keys].sort((a, b) => compare(a.public.keyId, b.public.keyId));
  const slots = keys.flatMap((key) => [key.public.keyId, key.sign(message)]);
  const head = concat(utf8("secvm-envelope-v1\n"), Uint8Array.of(keys.length), ...slots);
  return concat(head, littleEndian(payload.length, 4), payload);
}

/** A line under this text, without a time or as a witness who saw it at this time, in seconds. */
export function signatureLine(text: string, options: { name: string; key: SigningKey; time?: bigint }): string {
  const { name, key, time = null } = options;
  const { keyId } = new NoteKey(name, key.public, time === null ? PLAIN : COSIGNATURE);
  const seen = time === null ? new Uint8Array() : bigEndian(time, 8);
  return `\u2014 ${name} ${base64(concat(keyId, seen, key.sign(signedText(text, time))))}\n`;
}
