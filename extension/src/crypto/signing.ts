/**
 * Signed envelopes: Ed25519 (RFC 8032) over a payload *and* what the signature is for.
 *
 * The bytes are those of `secvm.crypto.signing`. A device signs nothing; its tests do (`test/crypto/signers.ts`).
 */

import { compare, concat, equal, fromLittleEndian, hex, littleEndian, utf8, type Bytes } from "../bytes.ts";
import { BadSignatureError, LocalProtocolError, MalformedMessageError } from "../errors.ts";
import { sha256 } from "./hashes.ts";

export const PUBLIC_KEY_BYTES = 32;
export const SIGNATURE_BYTES = 64;
export const KEY_ID_BYTES = 16;
/** Coordinator keys, a relay or two; more would only be there to keep a verifier busy. */
export const MAX_SIGNATURES = 16;
/** A manifest has a few kilobytes; weights and tallies are named by digest and need no signature of their own. */
export const MAX_PAYLOAD_BYTES = 2 ** 20;

const MAGIC = utf8("secvm-envelope-v1\n");
const SIGNED_TAG = utf8("secvm-v1-signed\n");
const KEY_TAG = utf8("secvm-v1-key\n");
const SLOT = KEY_ID_BYTES + SIGNATURE_BYTES;
const P = 2n ** 255n - 19n;
const ORDER_8 = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n;
/** The y of the eight points whose order divides 8: of order 1, 2, 4 and, the last two, 8. */
const SMALL_ORDER: readonly bigint[] = [1n, P - 1n, 0n, ORDER_8, P - ORDER_8];

/**
 * A public key under which a signature binds somebody.
 *
 * Under a key of small order anybody can write signatures that are right, without a private key. A key with y ≥ p is a
 * second spelling of another one, with an id of its own. Either kind throws a `MalformedMessageError`.
 */
export class VerifyKey {
  readonly data: Bytes;
  /** Which key this is, in an envelope. */
  readonly keyId: Bytes;

  constructor(data: Uint8Array) {
    if (data.length !== PUBLIC_KEY_BYTES) throw new LocalProtocolError(`a public key has ${PUBLIC_KEY_BYTES} bytes`);
    // The last bit is the sign of x.
    const y = fromLittleEndian(data) & (2n ** 255n - 1n);
    if (y >= P || SMALL_ORDER.includes(y)) {
      throw new MalformedMessageError(
        "a public key under which anybody can sign, or a second spelling of one, is refused",
        { nextStep: "Ask its owner for the key that their own program shows." },
      );
    }
    this.data = Uint8Array.from(data);
    this.keyId = sha256(KEY_TAG, data).slice(0, KEY_ID_BYTES);
  }

  equals(other: VerifyKey): boolean {
    return equal(this.data, other.data);
  }

  /** That the owner of this key signed the message, or throw a `BadSignatureError`. */
  async check(signature: Bytes, message: Bytes): Promise<void> {
    if (!(await this.#fits(signature, message))) {
      throw new BadSignatureError("a signature does not fit what it is said to sign");
    }
  }

  async #fits(signature: Bytes, message: Bytes): Promise<boolean> {
    const { subtle } = crypto;
    let key;
    try {
      key = await subtle.importKey("raw", this.data, "Ed25519", false, ["verify"]);
    } catch {
      return false; // The key is no point.
    }
    return subtle.verify("Ed25519", key, signature, message);
  }
}

/** A payload with its signatures. **Nothing in it is checked**: `verify` does that. */
export interface Envelope {
  readonly payload: Bytes;
  /** Key id and signature. */
  readonly signatures: readonly (readonly [Bytes, Bytes])[];
}

export const Envelope = {
  /** Take an envelope apart without checking its signatures; anything but a whole encoding is refused. */
  fromBytes(data: Uint8Array): Envelope {
    const start = MAGIC.length + 1;
    if (data.length < start || !equal(data.subarray(0, MAGIC.length), MAGIC)) {
      throw new MalformedMessageError("these bytes are not an envelope");
    }
    const count = data[MAGIC.length]!;
    const body = start + count * SLOT + 4;
    if (count < 1 || count > MAX_SIGNATURES || data.length < body) {
      throw new MalformedMessageError("an envelope without its signatures");
    }
    const signatures = Array.from({ length: count }, (_, i) => {
      const slot = Uint8Array.from(data.subarray(start + i * SLOT, start + (i + 1) * SLOT));
      return [slot.slice(0, KEY_ID_BYTES), slot.slice(KEY_ID_BYTES)] as const;
    });
    if (signatures.some(([id], i) => i > 0 && compare(signatures[i - 1]![0], id) >= 0)) {
      throw new MalformedMessageError("an envelope's signatures are out of order, or one comes twice");
    }
    const length = Number(fromLittleEndian(data.subarray(body - 4, body)));
    if (length > MAX_PAYLOAD_BYTES || data.length !== body + length) {
      throw new MalformedMessageError("an envelope's payload does not have the length it says");
    }
    return { payload: Uint8Array.from(data.subarray(body)), signatures };
  },
};

/** What a signature is over. */
export function signedBytes(purpose: string, payload: Uint8Array): Bytes {
  const named = utf8(purpose);
  return concat(SIGNED_TAG, littleEndian(named.length, 8), named, littleEndian(payload.length, 8), payload);
}

/**
 * The payload, if at least `threshold` of these keys signed it for this purpose.
 *
 * Signatures of other keys are passed over: an envelope may carry some for other readers. A wrong signature in the
 * name of a trusted key is never passed over. Throws a `MalformedMessageError` where the bytes are no envelope, and a
 * `BadSignatureError` where too few of the keys signed it, or a signature is wrong.
 */
export async function verify(
  data: Uint8Array,
  options: { purpose: string; keys: Iterable<VerifyKey>; threshold?: number },
): Promise<Bytes> {
  const { purpose, keys, threshold = 1 } = options;
  const trusted = new Map([...keys].map((key) => [hex(key.keyId), key]));
  if (threshold < 1 || threshold > trusted.size) {
    throw new LocalProtocolError("a threshold lies between one and the number of trusted keys");
  }
  const { payload, signatures } = Envelope.fromBytes(data);
  const message = signedBytes(purpose, payload);
  let good = 0;
  for (const [keyId, signature] of signatures) {
    const key = trusted.get(hex(keyId));
    if (key === undefined) continue;
    await key.check(signature, message);
    good += 1;
  }
  if (good < threshold) throw new BadSignatureError();
  return payload;
}
