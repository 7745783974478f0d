/**
 * Signed notes (c2sp.org/signed-note) and cosignatures (c2sp.org/tlog-cosignature): text with signatures under it.
 *
 * The form is told in `secvm.crypto.notes`. `Note.fromBytes` checks it alone. `NoteKey.check` believes.
 */

import { base64, concat, equal, fromBigEndian, hex, textOf, unbase64, utf8, type Bytes } from "../bytes.ts";
import { BadSignatureError, LocalProtocolError, MalformedMessageError } from "../errors.ts";
import { sha256 } from "./hashes.ts";
import { PUBLIC_KEY_BYTES, SIGNATURE_BYTES, VerifyKey } from "./signing.ts";

export const NOTE_KEY_ID_BYTES = 4;
export const TIME_BYTES = 8;
/** C2SP demands room for at least 16; other people's keys may be post-quantum and have long signatures. */
export const MAX_NOTE_BYTES = 2 ** 17;
export const MAX_NOTE_SIGNATURES = 64;
export const MAX_TIME_S = 2n ** 63n - 1n;

/** What a note's text has not, and what a key's name has not: controls, spaces of any kind, the plus. */
const CONTROL = /[\x00-\x09\x0b-\x1f]/;
const UNNAMEABLE = /[\x00-\x20+\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;

/** What a key signs in a note, by the byte that C2SP assigns to it. */
export type SignatureKind = typeof PLAIN | typeof COSIGNATURE;
export const PLAIN = 0x01;
export const COSIGNATURE = 0x04;

/** One line under a note. **Nothing in it is checked.** */
export interface NoteSignature {
  readonly name: string;
  readonly keyId: Bytes;
  /** Without the key id. */
  readonly data: Bytes;
}

/** Text with signatures under it. **Nothing in it is checked**: `NoteKey.check` does that. */
export interface Note {
  readonly text: string;
  readonly signatures: readonly NoteSignature[];
}

export const Note = {
  /** Take a note apart without checking its signatures; anything but a whole encoding is refused. */
  fromBytes(data: Uint8Array): Note {
    if (data.length > MAX_NOTE_BYTES) throw new MalformedMessageError("the note is too long");
    let whole;
    try {
      whole = textOf(data);
    } catch {
      throw new MalformedMessageError("the note is no text");
    }
    if (CONTROL.test(whole)) throw new MalformedMessageError("the note holds control characters");
    // The text may have empty lines; the last one is the border.
    const border = whole.lastIndexOf("\n\n");
    if (border < 0) throw new MalformedMessageError("the note has no signatures");
    return { text: whole.slice(0, border + 1), signatures: readSignatureLines(whole.slice(border + 2)) };
  },
};

/** Lines as they stand under a note, at least one. */
export function readSignatureLines(text: string): NoteSignature[] {
  const lines = text.split("\n");
  if (lines.pop() !== "" || lines.length < 1 || lines.length > MAX_NOTE_SIGNATURES) {
    throw new MalformedMessageError("there are no signatures, too many, or the last one is not whole");
  }
  return lines.map(readSignatureLine);
}

function readSignatureLine(line: string): NoteSignature {
  const [, name = "", text = ""] = /^\u2014 ([^ ]*) (.*)$/su.exec(line) ?? [];
  const data = readBase64(text);
  if (!isKeyName(name) || data.length <= NOTE_KEY_ID_BYTES) {
    throw new MalformedMessageError("a line under a note is no signature");
  }
  return { name, keyId: data.slice(0, NOTE_KEY_ID_BYTES), data: data.slice(NOTE_KEY_ID_BYTES) };
}

/** A public key with its name, and with what it signs. */
export class NoteKey {
  readonly name: string;
  readonly key: VerifyKey;
  readonly kind: SignatureKind;
  /** Which key this is, on a line under a note. */
  readonly keyId: Bytes;

  constructor(name: string, key: VerifyKey, kind: SignatureKind = PLAIN) {
    if (!isKeyName(name)) throw new LocalProtocolError("a key cannot have this name");
    this.name = name;
    this.key = key;
    this.kind = kind;
    this.keyId = sha256(utf8(`${name}\n`), Uint8Array.of(kind), key.data).slice(0, NOTE_KEY_ID_BYTES);
  }

  /** As people hand keys to each other: name, key id and key, joined by plus signs. */
  toText(): string {
    return `${this.name}+${hex(this.keyId)}+${base64(concat(Uint8Array.of(this.kind), this.key.data))}`;
  }

  /** The key that `toText` wrote; anything else is refused. */
  static fromText(text: string): NoteKey {
    const [name = "", , ...rest] = text.split("+");
    const data = readBase64(rest.join("+"));
    const kind = [PLAIN, COSIGNATURE].find((each) => each === data[0]) as SignatureKind | undefined;
    if (!isKeyName(name) || data.length !== 1 + PUBLIC_KEY_BYTES || kind === undefined) {
      throw new MalformedMessageError("this is no key of a note");
    }
    const key = new NoteKey(name, new VerifyKey(data.subarray(1)), kind);
    if (key.toText() !== text) throw new MalformedMessageError("the id of a note's key is another key's");
    return key;
  }

  /** Whether a line under a note is said to be of this key. */
  isNamedBy(signature: NoteSignature): boolean {
    return signature.name === this.name && equal(signature.keyId, this.keyId);
  }

  /**
   * Whether this key signed the note; of cosignatures the latest time comes back, in seconds, of others null.
   *
   * Signatures of other keys are passed over. A wrong one in the name of this key never is: it throws a
   * `BadSignatureError`, as does a note that this key did not sign.
   */
  async check(note: Note): Promise<number | null> {
    const mine = note.signatures.filter((made) => this.isNamedBy(made));
    if (!mine.length) throw new BadSignatureError("the note is not signed by the key that is trusted for it");
    let latest: number | null = null;
    for (const { data } of mine) {
      const time = await this.#checkOne(note.text, data);
      if (time !== null) latest = Math.max(latest ?? 0, time);
    }
    return latest;
  }

  async #checkOne(text: string, data: Bytes): Promise<number | null> {
    const isTimed = this.kind === COSIGNATURE;
    const time = isTimed ? fromBigEndian(data.subarray(0, TIME_BYTES)) : null;
    const signature = isTimed ? data.slice(TIME_BYTES) : data;
    if (signature.length !== SIGNATURE_BYTES || (time ?? 0n) > MAX_TIME_S) {
      throw new BadSignatureError("a signature under a note has no proper form");
    }
    await this.key.check(signature, signedText(text, time));
    // A time that no longer fits is rounded: it lies millions of years ahead.
    return time === null ? null : Number(time);
  }
}

/** What a plain signature, or the cosignature of this time, is over. */
export function signedText(text: string, time: bigint | null): Bytes {
  return utf8(time === null ? text : `cosignature/v1\ntime ${time}\n${text}`);
}

/** Whether a key can have this name: no spaces of any kind, no plus, no control characters, not empty. */
export function isKeyName(name: string): boolean {
  return name !== "" && name.isWellFormed() && !UNNAMEABLE.test(name);
}

/** Base64 in its one spelling; anything else gives nothing. */
function readBase64(text: string): Bytes {
  try {
    return unbase64(text);
  } catch {
    return new Uint8Array();
  }
}
