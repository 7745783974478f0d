/**
 * Statement: a small document that one relay signs, and nobody else (docs/protocol.md §27, §28, §30, §31).
 *
 * Each kind has a type, which is also the purpose of its signature, and a most number of bytes. In its envelope stands
 * exactly one signature: so the envelope's size is known wherever it is kept inside another document.
 *
 * Digests of documents are hexadecimal text, as everywhere in `protocol`; labels, roots, keys, seeds and nonces are
 * bytes. The first kind is here: `RELAY_TERMS`, what a relay takes on at all. A relay refuses a document that goes
 * beyond its own, and a device one whose relays' terms are of other URLs or operators.
 */

import { base64, type Bytes } from "../../bytes.ts";
import { Envelope, verify, type VerifyKey } from "../../crypto/signing.ts";
import { MalformedMessageError } from "../../errors.ts";
import { ROLES } from "../documents/terms.ts";
import { documentType, text, whole, words, type DocumentReader, type FieldKind, type ValueOf } from "../records.ts";
import { RELAY_TERMS_TYPE } from "../version.ts";

/** Of an envelope with one signature beside its payload: its first line, a count, key id and signature, a length. */
export const ENVELOPE_BYTES = 18 + 1 + 80 + 4;
/** Most bytes of a statement, where its kind does not say otherwise. */
export const MAX_STATEMENT_BYTES = 1024;

/**
 * The statement in an envelope that this relay signed.
 *
 * Throws a `MalformedMessageError` where it is no envelope with one signature, or no such statement is in it, and a
 * `BadSignatureError` where somebody else signed it, or for another purpose.
 */
export async function readStatement<T>(kind: DocumentReader<T>, envelope: Uint8Array, key: VerifyKey): Promise<T> {
  const statement = enclosed(kind, envelope);
  await verify(envelope, { purpose: kind.purpose, keys: [key] });
  return statement;
}

/** The statement in an envelope with one signature, **which is not checked**. */
export function enclosed<T>(kind: DocumentReader<T>, envelope: Uint8Array): T {
  const most = kind.longest + ENVELOPE_BYTES;
  if (envelope.length > most) {
    throw new MalformedMessageError(`${kind.title} has ${envelope.length} bytes in its envelope; at most are ${most}`);
  }
  const { payload, signatures } = Envelope.fromBytes(envelope);
  if (signatures.length !== 1) {
    throw new MalformedMessageError(`${kind.title} has ${signatures.length} signatures; its relay's is the one`);
  }
  return kind.fromBytes(payload);
}

/** A statement in its envelope, inside another document; **its signature is not checked**. */
export function enveloped(kind: DocumentReader<unknown>): FieldKind<Bytes> {
  return {
    read(fields, name) {
      const envelope = fields.base64(name, { longest: kind.longest + ENVELOPE_BYTES });
      enclosed(kind, envelope); // Refuses what is no such statement.
      return envelope;
    },
    write: base64,
  };
}

/** The terms of one relay. */
export const RELAY_TERMS = documentType(
  { purpose: RELAY_TERMS_TYPE, title: "the relay's terms", longest: 2048 },
  {
    url: text({ longest: 510, shortest: 1 }),
    operator: text({ longest: 200, shortest: 1 }),
    role: words(...ROLES),
    /** Submissions of one client in a round. */
    quota: whole(1),
    /** Cells of an experiment, of all kinds; D; and n₁: at most. */
    cells: whole(1),
    packages: whole(1),
    capsules: whole(1),
    /** Seconds in which it seals or opens a million packages. */
    secondsPerMillion: whole(1),
  },
);
export type RelayTerms = ValueOf<typeof RELAY_TERMS>;
