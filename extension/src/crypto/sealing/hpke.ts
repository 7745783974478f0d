/**
 * HPKE (RFC 9180) in base mode, with exporter: X25519, HKDF-SHA256, AES-128-GCM.
 *
 * The key schedule is our own, over WebCrypto: the ephemeral secret is an argument, since a canary's is kept, and
 * Oblivious HTTP seals its answers with the exporter.
 *
 *     const schedule = new Schedule(utf8("what this is for"));
 *     const sender = await schedule.sendTo(publicKey, ephemeral); // sender.enc travels beside the ciphertext
 *     const ciphertext = await sender.seal(aad, plaintext);
 *     await (await schedule.receive(privateKey, sender.enc)).open(aad, ciphertext);
 */

import { bigEndian, concat, utf8, type Bytes } from "../../bytes.ts";
import { LocalProtocolError, OpeningError } from "../../errors.ts";
import {
  expand,
  extract,
  HASH_BYTES,
  HKDF_SHA256,
  labeledExpand,
  labeledExtract,
  labeledIkm,
  labeledInfo,
} from "./kdf.ts";
import { X25519, type X25519PrivateKey, type X25519PublicKey } from "./kem.ts";

/** The AEAD's number in HPKE's registry. */
export const AES_128_GCM = 0x0001;
/** Bytes that the AEAD adds to what it seals. */
export const TAG_BYTES = 16;
export const AEAD_KEY_BYTES = 16;
export const AEAD_NONCE_BYTES = 12;

const NOTHING = new Uint8Array();
const SUITE_ID = concat(utf8("HPKE"), ...[X25519, HKDF_SHA256, AES_128_GCM].map((number) => bigEndian(number, 2)));
const MODE_BASE = Uint8Array.of(0);
const SECRET_TEXT = labeledIkm(SUITE_ID, "secret");
const PSK_ID_HASH = labeledExtract(SUITE_ID, "psk_id_hash", NOTHING);

/** AES-128-GCM. */
export async function aeadSeal(key: Bytes, nonce: Bytes, aad: Bytes, plaintext: Bytes): Promise<Bytes> {
  const imported = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["encrypt"]);
  const sealing = { name: "AES-GCM", iv: nonce, additionalData: aad };
  return new Uint8Array(await crypto.subtle.encrypt(sealing, imported, plaintext));
}

/** What `aeadSeal` sealed; anything else throws an `OpeningError`. */
export async function aeadOpen(key: Bytes, nonce: Bytes, aad: Bytes, ciphertext: Bytes): Promise<Bytes> {
  const imported = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["decrypt"]);
  try {
    const opening = { name: "AES-GCM", iv: nonce, additionalData: aad };
    return new Uint8Array(await crypto.subtle.decrypt(opening, imported, ciphertext));
  } catch {
    throw new OpeningError("The capsule does not open.");
  }
}

/** RFC 9180's key schedule for one `info`; what is the same for every capsule is done once. */
export class Schedule {
  readonly #keyText: Bytes;
  readonly #nonceText: Bytes;
  readonly #exporterText: Bytes;

  constructor(info: Uint8Array) {
    const context = concat(MODE_BASE, PSK_ID_HASH, labeledExtract(SUITE_ID, "info_hash", info));
    this.#keyText = labeledInfo(SUITE_ID, "key", context, AEAD_KEY_BYTES);
    this.#nonceText = labeledInfo(SUITE_ID, "base_nonce", context, AEAD_NONCE_BYTES);
    this.#exporterText = labeledInfo(SUITE_ID, "exp", context, HASH_BYTES);
  }

  /** `SetupBaseS`: begin to seal for whoever holds the private key. */
  async sendTo(publicKey: X25519PublicKey, ephemeral: Bytes): Promise<Context> {
    const { secret, enc } = await publicKey.encapsulate(ephemeral);
    return this.#context(secret, enc);
  }

  /** `SetupBaseR`. Throws an `OpeningError` for an `enc` that nobody honest sends. */
  async receive(privateKey: X25519PrivateKey, enc: Bytes): Promise<Context> {
    return this.#context(await privateKey.decapsulate(enc), enc);
  }

  #context(sharedSecret: Bytes, enc: Bytes): Context {
    const secret = extract(sharedSecret, SECRET_TEXT);
    const key = expand(secret, this.#keyText, AEAD_KEY_BYTES);
    const nonce = expand(secret, this.#nonceText, AEAD_NONCE_BYTES);
    return new Context(enc, key, nonce, () => expand(secret, this.#exporterText, HASH_BYTES));
  }
}

/**
 * One side of a conversation in one direction: the sender's seals, the recipient's opens.
 *
 * Messages are numbered: they open in the order they were sealed.
 */
export class Context {
  /** What the recipient needs beside the ciphertext; not secret. */
  readonly enc: Bytes;
  readonly #key: Bytes;
  readonly #baseNonce: Bytes;
  readonly #exporter: () => Bytes;
  #sequence = 0;

  constructor(enc: Bytes, key: Bytes, baseNonce: Bytes, exporter: () => Bytes) {
    this.enc = enc;
    this.#key = key;
    this.#baseNonce = baseNonce;
    this.#exporter = exporter;
  }

  /** Seal the next message; `aad` is bound to it but does not travel in it. */
  async seal(aad: Bytes, plaintext: Bytes): Promise<Bytes> {
    const nonce = this.#nonce();
    this.#sequence += 1; // Before the first wait: two messages under one nonce give both away.
    return aeadSeal(this.#key, nonce, aad, plaintext);
  }

  /** Open the next message. Throws an `OpeningError`; the next message is then still this one. */
  async open(aad: Bytes, ciphertext: Bytes): Promise<Bytes> {
    const opened = await aeadOpen(this.#key, this.#nonce(), aad, ciphertext);
    this.#sequence += 1;
    return opened;
  }

  /** A further secret that both sides have, good for the purpose that `context` names. */
  export(context: string, length: number): Bytes {
    return labeledExpand(SUITE_ID, this.#exporter(), "sec", utf8(context), length);
  }

  #nonce(): Bytes {
    if (this.#sequence >= Number.MAX_SAFE_INTEGER) throw new LocalProtocolError("too many messages under one key");
    const sequence = bigEndian(this.#sequence, AEAD_NONCE_BYTES);
    return this.#baseNonce.map((byte, i) => byte ^ sequence[i]!);
  }
}
