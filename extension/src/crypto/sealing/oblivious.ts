/**
 * Oblivious HTTP (RFC 9458), the device's side: a request sealed for the gateway, and the answer for this device alone.
 *
 *     const sealed = await sealRequest(configuration, request, dice); // sealed.capsule travels
 *     const response = await sealed.openResponse(answer);
 *
 * Requests and responses are binary HTTP (`binaryHttp.ts`), but nothing here looks inside them. A capsule has seven
 * clear bytes that name key and algorithms, then `enc`, then the ciphertext; an answer has a nonce, then the
 * ciphertext.
 */

import { bigEndian, concat, equal, fromBigEndian, utf8, type Bytes } from "../../bytes.ts";
import { MalformedMessageError, UnknownKeyError } from "../../errors.ts";
import { AEAD_KEY_BYTES, AEAD_NONCE_BYTES, aeadOpen, AES_128_GCM, Schedule, TAG_BYTES, type Context } from "./hpke.ts";
import { expand, extract, HKDF_SHA256 } from "./kdf.ts";
import { KEY_BYTES, thrown, X25519, X25519PublicKey, type RandomBytes } from "./kem.ts";

export const KEYS_MEDIA_TYPE = "application/ohttp-keys";
export const REQUEST_MEDIA_TYPE = "message/ohttp-req";
export const RESPONSE_MEDIA_TYPE = "message/ohttp-res";

const REQUEST_LABEL = "message/bhttp request";
const RESPONSE_LABEL = "message/bhttp response";
/** Of an answer: as long as the longer of the AEAD's key and nonce. */
const ANSWER_NONCE_BYTES = Math.max(AEAD_KEY_BYTES, AEAD_NONCE_BYTES);
/** An AEAD that other devices have, and this one has not. */
const CHACHA20_POLY1305 = 0x0003;
const NO_AAD = new Uint8Array();

/** Numbers of a KDF and an AEAD in HPKE's registries. */
export type Algorithms = readonly [kdf: number, aead: number];

/** What a device must know of a gateway's key (RFC 9458 §3.1). Public. */
export class KeyConfiguration {
  /** One byte that travels in clear. It must not tell the relay more than which key is current. */
  readonly keyId: number;
  readonly publicKey: X25519PublicKey;
  /** The gateway's choices, the best liked first; there may be some that are not known here. */
  readonly algorithms: readonly Algorithms[];

  constructor(keyId: number, publicKey: X25519PublicKey, algorithms: readonly Algorithms[]) {
    this.keyId = keyId;
    this.publicKey = publicKey;
    this.algorithms = algorithms;
  }

  /** One configuration whose KEM is known here. Throws a `MalformedMessageError` and nothing else. */
  static fromBytes(data: Uint8Array): KeyConfiguration {
    if (!isKnown(data)) throw new MalformedMessageError("a key configuration of a kind that is not known here");
    const listed = data.subarray(5 + KEY_BYTES);
    if (data.length < 5 + KEY_BYTES || number(data, 3 + KEY_BYTES) !== listed.length) {
      throw new MalformedMessageError("a key configuration whose lengths do not add up");
    }
    if (!listed.length || listed.length % 4) {
      throw new MalformedMessageError("a key configuration without a whole number of algorithms");
    }
    const algorithms = Array.from({ length: listed.length / 4 }, (_, i): Algorithms => [
      number(listed, 4 * i),
      number(listed, 4 * i + 2),
    ]);
    return new KeyConfiguration(data[0]!, new X25519PublicKey(data.subarray(3, 3 + KEY_BYTES)), algorithms);
  }

  /**
   * What stands before a capsule for this key. Where other devices would take ChaCha20-Poly1305, which this one has
   * not, an `UnknownKeyError` is thrown: to take the next best would tell a browser from them.
   */
  get header(): Bytes {
    const first = this.algorithms.find(
      ([kdf, aead]) => kdf === HKDF_SHA256 && (aead === AES_128_GCM || aead === CHACHA20_POLY1305),
    );
    if (first?.[1] !== AES_128_GCM) {
      throw new UnknownKeyError("the gateway's key has no algorithm that is known here");
    }
    return concat(Uint8Array.of(this.keyId), ...[X25519, HKDF_SHA256, AES_128_GCM].map((each) => bigEndian(each, 2)));
  }
}

/**
 * A document of type `application/ohttp-keys`. Keys of a kind that is not known here are left out; so the result may be
 * empty.
 *
 * With one fault the whole document is refused by a `MalformedMessageError`, as RFC 9458 §3.2 asks: devices that
 * rescued different parts of it could be told apart.
 */
export function decodeKeyConfigurations(data: Uint8Array): KeyConfiguration[] {
  const configurations: KeyConfiguration[] = [];
  for (let at = 0; at < data.length || data.length === 0; ) {
    const length = data.length < at + 2 ? 0 : number(data, at);
    const encoded = data.subarray(at + 2, at + 2 + length);
    if (encoded.length !== length || length < 3) {
      throw new MalformedMessageError("a list of key configurations whose lengths do not add up");
    }
    at += 2 + length;
    if (isKnown(encoded)) configurations.push(KeyConfiguration.fromBytes(encoded));
  }
  return configurations;
}

/**
 * Whether a document of key configurations has exactly one, of X25519 and with the one pair of algorithms alone.
 *
 * The bytes alone decide. Whether the key in it is a good one is seen where something is sealed for it.
 */
export function leavesNoChoice(data: Uint8Array): boolean {
  const length = 3 + KEY_BYTES + 6;
  const tail = concat(...[4, HKDF_SHA256, AES_128_GCM].map((each) => bigEndian(each, 2)));
  return (
    data.length === 2 + length &&
    number(data, 0) === length &&
    number(data, 3) === X25519 &&
    equal(data.subarray(-tail.length), tail)
  );
}

/** A capsule to send, and what is needed to open its answer, which nobody else can. */
export class SealedRequest {
  /** The bytes that travel. */
  readonly capsule: Bytes;
  readonly #context: Context;

  constructor(capsule: Bytes, context: Context) {
    this.capsule = capsule;
    this.#context = context;
  }

  /** What is in the answer. Throws a `MalformedMessageError` or an `OpeningError` and nothing else. */
  async openResponse(answer: Bytes): Promise<Bytes> {
    if (answer.length < ANSWER_NONCE_BYTES + TAG_BYTES) throw new MalformedMessageError("too short for an answer");
    const { key, nonce } = answerKeys(this.#context, answer.slice(0, ANSWER_NONCE_BYTES));
    return aeadOpen(key, nonce, NO_AAD, answer.slice(ANSWER_NONCE_BYTES));
  }
}

/** Seal one request. `dice` must give bytes that nobody can guess and that are never used again. */
export async function sealRequest(
  configuration: KeyConfiguration,
  request: Bytes,
  dice: RandomBytes,
): Promise<SealedRequest> {
  const { header, publicKey } = configuration;
  const context = await requestSchedule(header).sendTo(publicKey, thrown(dice, KEY_BYTES));
  return new SealedRequest(concat(header, context.enc, await context.seal(NO_AAD, request)), context);
}

/** The key schedule of requests under this header. */
export function requestSchedule(header: Uint8Array): Schedule {
  return new Schedule(concat(utf8(REQUEST_LABEL), Uint8Array.of(0), header));
}

/** RFC 9458 §4.4: key and nonce of an answer come from the request's context, its `enc` and a fresh nonce. */
export function answerKeys(context: Context, answerNonce: Bytes): { key: Bytes; nonce: Bytes } {
  const secret = context.export(RESPONSE_LABEL, ANSWER_NONCE_BYTES);
  const prk = extract(concat(context.enc, answerNonce), secret);
  return { key: expand(prk, utf8("key"), AEAD_KEY_BYTES), nonce: expand(prk, utf8("nonce"), AEAD_NONCE_BYTES) };
}

function number(data: Uint8Array, at: number): number {
  return Number(fromBigEndian(data.subarray(at, at + 2)));
}

function isKnown(configuration: Uint8Array): boolean {
  return configuration.length >= 3 && number(configuration, 1) === X25519;
}
