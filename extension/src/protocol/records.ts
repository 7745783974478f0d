/**
 * Records: parts of documents that declare their fields once, and are read and written by that declaration.
 *
 *     const SEAT = record({ row: whole(1, 40), holder: nullable(text({ longest: 80 })) });
 *     type Seat = ValueOf<typeof SEAT>;
 *     SEAT.fromFields(new Fields({ row: 3, holder: null }, "the seat"))   // { row: 3, holder: null }
 *
 * An attribute `hinge_loss` of a document is `hingeLoss` here, unless its kind names it otherwise.
 */

import type { Bytes } from "../bytes.ts";
import { base64, hex } from "../bytes.ts";
import { MAX_PROOF_HASHES } from "../crypto/merkle.ts";
import { PUBLIC_KEY_BYTES, VerifyKey } from "../crypto/signing.ts";
import { LocalProtocolError, MalformedMessageError } from "../errors.ts";
import type { Ratio } from "../learning/ratio.ts";
import {
  decodeDocument,
  digestOf,
  DIGEST_BYTES,
  encodeDocument,
  Fields,
  MAX_INTEGER,
  ratioText,
  type Content,
  type Json,
} from "./canonical.ts";
import { MAX_ROUND } from "./version.ts";

/** How one kind of value is read from a document, and written into one. */
export interface FieldKind<T> {
  /** Takes the field of this name. */
  read(fields: Fields, name: string): T;
  write(value: T): Json;
  /** The field's name in documents, where it is not the attribute's. */
  readonly name?: string;
  /** Whether the document has such a value; else it is the one of `otherwise`. */
  isMissing?(fields: Fields, name: string): boolean;
  readonly otherwise?: T;
  /** Whether the value is left out of the document. */
  isLeftOut?(value: T): boolean;
  /** The inner record whose fields stand beside the others. */
  readonly beside?: RecordType<any>;
}

type Shape = { readonly [attribute: string]: FieldKind<any> };
export type ValuesOf<S extends Shape> = { readonly [A in keyof S]: S[A] extends FieldKind<infer T> ? T : never };
export type ValueOf<R> = R extends RecordType<infer S> ? ValuesOf<S> : never;

/** An integer in this range. */
export function whole(low: number, high: number = MAX_INTEGER, options: { name?: string } = {}): FieldKind<number> {
  return { read: (fields, name) => fields.integer(name, low, high), write: (value) => value, ...options };
}

/** One line of printable characters. */
export function text(limits: { longest: number; shortest?: number; pattern?: string }): FieldKind<string> {
  return { read: (fields, name) => fields.text(name, limits), write: (value) => value };
}

/** Bytes of this number, in hexadecimal. */
export function shortBytes(size: number, options: { name?: string } = {}): FieldKind<Bytes> {
  const limits = { shortest: size, longest: size };
  return { read: (fields, name) => fields.hexadecimal(name, limits), write: hex, ...options };
}

/** At most so many bytes, in base64. */
export function longBytes(longest: number): FieldKind<Bytes> {
  return { read: (fields, name) => fields.base64(name, { longest }), write: base64 };
}

/** One of these words. */
export function words<Word extends string>(...allowed: readonly Word[]): FieldKind<Word> {
  return { read: (fields, name) => fields.oneOf(name, allowed), write: (value) => value };
}

/** A list of values of another kind. */
export function listed<T>(
  item: FieldKind<T>,
  limits: { longest: number; shortest?: number },
): FieldKind<readonly T[]> {
  return {
    read: (fields, name) => fields.each(name, limits).map((each) => item.read(each, "item")),
    write: (values) => values.map((value) => item.write(value)),
  };
}

/** A record in an object of its own. */
export function part<S extends Shape>(inner: RecordType<S>): FieldKind<ValuesOf<S>> {
  return { read: (fields, name) => inner.fromFields(fields.inner(name)), write: (value) => inner.toContent(value) };
}

/** A record whose fields stand beside the others. */
export function beside<S extends Shape>(inner: RecordType<S>): FieldKind<ValuesOf<S>> {
  return { read: (fields) => inner.take(fields), write: (value) => inner.toContent(value), beside: inner };
}

/** A value that may be null; of a record that stands beside the others, none of the fields are there then. */
export function nullable<T>(kind: FieldKind<T>): FieldKind<T | null> {
  const inner = kind.beside;
  return {
    ...kind,
    write: (value) => (value === null ? null : kind.write(value)),
    isMissing: inner
      ? (fields) => !inner.names().some((name) => fields.has(name))
      : (fields, name) => fields.isNull(name),
    otherwise: null,
    isLeftOut: (value) => inner !== undefined && value === null,
  } as FieldKind<T | null>;
}

/** A value that is left out of the document where it is `otherwise`. */
export function omitted<T>(kind: FieldKind<T>, otherwise: T): FieldKind<T> {
  return {
    ...kind,
    isMissing: (fields, name) => !fields.has(name),
    otherwise,
    isLeftOut: (value) => value === otherwise,
  };
}

/** SHA-256 of a document, as text. */
export const DIGEST: FieldKind<string> = { read: (fields, name) => fields.digest(name), write: (value) => value };
/** Thirty-two bytes: a label, a root, a key, a seed. */
export const HASH: FieldKind<Bytes> = shortBytes(DIGEST_BYTES);
export const FLAG: FieldKind<boolean> = { read: (fields, name) => fields.flag(name), write: (value) => value };
export const RATIO: FieldKind<Ratio> = { read: (fields, name) => fields.ratio(name), write: ratioText };
/** The key of a party that signs. */
export const SIGNER_KEY: FieldKind<VerifyKey> = {
  read: (fields, name) =>
    new VerifyKey(fields.hexadecimal(name, { shortest: PUBLIC_KEY_BYTES, longest: PUBLIC_KEY_BYTES })),
  write: (key) => hex(key.data),
};
/** The hashes of a proof, from the leaf upwards. */
export const HASH_PATH: FieldKind<readonly Bytes[]> = listed(HASH, { longest: MAX_PROOF_HASHES });
/** The number of a round, from 1 on. */
export const ROUND_NUMBER: FieldKind<number> = whole(1, MAX_ROUND, { name: "round" });

/** A part of a document. */
export interface RecordType<S extends Shape> {
  /** The names of its fields in documents. */
  names(): readonly string[];
  /** As documents write it. */
  toContent(value: ValuesOf<S>): Content;
  /** As documents tell it: these fields and no others. */
  fromFields(fields: Fields): ValuesOf<S>;
  /** The same where further fields stand beside these. */
  take(fields: Fields): ValuesOf<S>;
}

/** The record of this shape; `checkWhole` throws where its fields do not fit together. */
export function record<const S extends Shape>(
  shape: S,
  checkWhole: (value: ValuesOf<S>) => void = () => undefined,
): RecordType<S> {
  const declared = Object.entries(shape).map(([attribute, kind]) => ({
    attribute,
    kind,
    name: kind.name ?? attribute.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
  }));
  const take = (fields: Fields): ValuesOf<S> => {
    const entries = declared.map(({ attribute, kind, name }) => [
      attribute,
      kind.isMissing?.(fields, name) ? kind.otherwise : kind.read(fields, name),
    ]);
    const value = Object.freeze(Object.fromEntries(entries)) as ValuesOf<S>;
    checkWhole(value);
    return value;
  };
  return {
    names: () => declared.flatMap(({ kind, name }) => kind.beside?.names() ?? [name]),
    take,
    fromFields(fields) {
      const value = take(fields);
      fields.done();
      return value;
    },
    toContent(value) {
      const content: Record<string, Json> = {};
      for (const { attribute, kind, name } of declared) {
        const held = value[attribute as keyof S];
        if (kind.isLeftOut?.(held)) continue;
        if (kind.beside) Object.assign(content, kind.write(held));
        else content[name] = kind.write(held);
      }
      return content;
    },
  };
}

interface Kind {
  /** Type of the document, and purpose of its signatures. */
  readonly purpose: string;
  /** What an error calls it. */
  readonly title: string;
  /** Most bytes that are read. */
  readonly longest: number;
  /** Places that are kept for later versions: null. */
  readonly reserved?: readonly string[];
}

/** A kind of document, for whoever only reads it. */
export interface DocumentReader<T> extends Kind {
  /** The document of canonical bytes, complete in itself; nothing is checked against anything else. */
  fromBytes(data: Uint8Array): T;
}

/** A whole document, which carries its type. */
export interface DocumentType<S extends Shape> extends RecordType<S>, DocumentReader<ValuesOf<S>> {
  /** The canonical bytes. */
  toBytes(value: ValuesOf<S>): Bytes;
  /** What other documents and the log call it. What a reader would refuse cannot be written either. */
  digest(value: ValuesOf<S>): string;
}

export function documentType<const S extends Shape>(
  kind: Kind,
  shape: S,
  checkWhole?: (value: ValuesOf<S>) => void,
): DocumentType<S> {
  const inner = record(shape, checkWhole);
  const reserved = kind.reserved ?? [];
  const toBytes = (value: ValuesOf<S>): Bytes =>
    encodeDocument({
      ...inner.toContent(value),
      ...Object.fromEntries(reserved.map((name) => [name, null])),
      type: kind.purpose,
    });
  const fromBytes = (data: Uint8Array): ValuesOf<S> => {
    const fields = new Fields(decodeDocument(data, { maxBytes: kind.longest }), kind.title);
    fields.constant("type", kind.purpose);
    for (const name of reserved) fields.null(name);
    return inner.fromFields(fields);
  };
  return {
    ...inner,
    ...kind,
    toBytes,
    fromBytes,
    digest(value) {
      const data = toBytes(value);
      try {
        fromBytes(data);
      } catch (fault) {
        if (!(fault instanceof MalformedMessageError)) throw fault;
        throw new LocalProtocolError(`${kind.title} cannot be published: ${fault.message}`);
      }
      return digestOf(data);
    },
  };
}
