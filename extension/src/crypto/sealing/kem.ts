/**
 * Key encapsulation by DHKEM(X25519, HKDF-SHA256), RFC 9180 §4.1: a secret for the holder of a private key, in 32 bytes
 * `enc` that anybody may see. Experiments with two relays have no other KEM.
 *
 * A Diffie-Hellman result of zero is refused wherever it could appear: somebody chose a point of low order, so that the
 * "secret" is known to all.
 */

import { bigEndian, concat, equal, fromLittleEndian, unhex, utf8, type Bytes } from "../../bytes.ts";
import { LocalProtocolError, MalformedMessageError, OpeningError } from "../../errors.ts";
import { expand, extract, HASH_BYTES, labeledExpand, labeledExtract, labeledIkm, labeledInfo } from "./kdf.ts";

/** Where random bytes come from: `dice(32)` are 32 fresh ones. Dice that can be thrown again are for tests. */
export type RandomBytes = (count: number) => Bytes;

/** The KEM's number in HPKE's registry. */
export const X25519 = 0x0020;
/** Bytes of a public key, of a private key and of `enc`. */
export const KEY_BYTES = 32;

const SUITE_ID = concat(utf8("KEM"), bigEndian(X25519, 2));
const NOTHING = new Uint8Array();
const ZERO = new Uint8Array(KEY_BYTES);
/** What is the same in `ExtractAndExpand` (RFC 9180 §4.1) of every capsule. */
const EXTRACT_TEXT = labeledIkm(SUITE_ID, "eae_prk");
const EXPAND_TEXT = labeledInfo(SUITE_ID, "shared_secret", NOTHING, HASH_BYTES);
/** What stands before a private key where WebCrypto reads one (RFC 8410). */
const PKCS8 = unhex("302e020100300506032b656e04220420");
const P = 2n ** 255n - 19n;
const ORDER_8 = 325606250916557431795983626356110631294008115727848805560023387167927233504n;
const OTHER_ORDER_8 = 39382357235489614581723060781553021112529911719440698176882885853963445705823n;
/** The u of all points whose order divides 8, on the curve and on its twist. */
const LOW_ORDER: readonly bigint[] = [0n, 1n, P - 1n, ORDER_8, OTHER_ORDER_8];

let basePoint: Promise<CryptoKey> | undefined;

function importPoint(data: Bytes): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", data, "X25519", false, []);
}

function importScalar(data: Bytes): Promise<CryptoKey> {
  return crypto.subtle.importKey("pkcs8", concat(PKCS8, data), "X25519", false, ["deriveBits"]);
}

/** X25519 of RFC 7748; null where the result is zero, which WebCrypto refuses. */
async function multiply(scalar: CryptoKey, point: Promise<CryptoKey>): Promise<Bytes | null> {
  try {
    const algorithm = { name: "X25519", public: await point };
    const shared = new Uint8Array(await crypto.subtle.deriveBits(algorithm, scalar, 256));
    // RFC 9180 §7.1.4 makes it our duty, so it does not rest on WebCrypto.
    return equal(shared, ZERO) ? null : shared;
  } catch {
    return null;
  }
}

/** The public key of a private one: its product with the base point, u = 9. */
async function publicHalf(scalar: CryptoKey): Promise<Bytes> {
  basePoint ??= importPoint(Uint8Array.from(ZERO, (_, i) => (i === 0 ? 9 : 0)));
  const data = await multiply(scalar, basePoint);
  if (data === null) throw new LocalProtocolError("this browser has no X25519");
  return data;
}

/** So many random bytes, or the error that the dice are none. */
export function thrown(dice: RandomBytes, count: number): Bytes {
  const data = dice(count);
  if (data.length !== count) {
    throw new LocalProtocolError(`the dice gave ${data.length} bytes where ${count} were asked for`);
  }
  return data;
}

/** `ExtractAndExpand` of RFC 9180 §4.1. */
function sharedSecret(shared: Bytes, enc: Bytes, publicKey: Bytes): Bytes {
  return expand(extract(NOTHING, EXTRACT_TEXT, shared), concat(EXPAND_TEXT, enc, publicKey), HASH_BYTES);
}

/** Of whoever shall be able to open. */
export class X25519PublicKey {
  readonly data: Bytes;
  #point: Promise<CryptoKey> | undefined;

  constructor(data: Uint8Array) {
    if (data.length !== KEY_BYTES) throw new MalformedMessageError(`an X25519 key has ${KEY_BYTES} bytes`);
    // RFC 7748: the highest bit is not looked at, and u may be written too large.
    if (LOW_ORDER.includes((fromLittleEndian(data) & (2n ** 255n - 1n)) % P)) {
      throw new MalformedMessageError("the public key is a point of low order");
    }
    this.data = Uint8Array.from(data);
  }

  equals(other: X25519PublicKey): boolean {
    return equal(this.data, other.data);
  }

  /** A secret of 32 bytes, and `enc`, from which the private key makes it again. */
  async encapsulate(ephemeral: Bytes): Promise<{ secret: Bytes; enc: Bytes }> {
    if (ephemeral.length !== KEY_BYTES) throw new LocalProtocolError(`an ephemeral secret has ${KEY_BYTES} bytes`);
    const scalar = await importScalar(ephemeral);
    this.#point ??= importPoint(this.data);
    const [enc, shared] = await Promise.all([publicHalf(scalar), multiply(scalar, this.#point)]);
    if (shared === null) throw new LocalProtocolError("points of low order were refused when the key was made");
    return { secret: sharedSecret(shared, enc, this.data), enc };
  }
}

/** Opens. Its secret is held by WebCrypto, which does not hand it out. */
export class X25519PrivateKey {
  readonly publicKey: X25519PublicKey;
  readonly #scalar: CryptoKey;

  private constructor(scalar: CryptoKey, publicKey: X25519PublicKey) {
    this.#scalar = scalar;
    this.publicKey = publicKey;
  }

  /** The key of these 32 bytes. */
  static async of(data: Bytes): Promise<X25519PrivateKey> {
    if (data.length !== KEY_BYTES) throw new LocalProtocolError(`an X25519 key has ${KEY_BYTES} bytes`);
    const scalar = await importScalar(data);
    return new X25519PrivateKey(scalar, new X25519PublicKey(await publicHalf(scalar)));
  }

  /** `DeriveKeyPair` of RFC 9180 §7.1.3: the key that belongs to these secret bytes, 32 or more. */
  static async derive(ikm: Bytes): Promise<X25519PrivateKey> {
    if (ikm.length < KEY_BYTES) {
      throw new LocalProtocolError(`a key is derived from ${KEY_BYTES} secret bytes or more`);
    }
    const prk = labeledExtract(SUITE_ID, "dkp_prk", ikm);
    return X25519PrivateKey.of(labeledExpand(SUITE_ID, prk, "sk", NOTHING, KEY_BYTES));
  }

  /** The secret again; an `enc` that nobody honest sends is refused. */
  async decapsulate(enc: Bytes): Promise<Bytes> {
    const shared = enc.length === KEY_BYTES ? await multiply(this.#scalar, importPoint(enc)) : null;
    if (shared === null) throw new OpeningError("the capsule's ephemeral key is none, or a point of low order");
    return sharedSecret(shared, enc, this.publicKey.data);
  }
}
