/**
 * Binary HTTP (RFC 9292), as far as a device needs it: it writes requests without fields and content, and reads
 * responses of known or indeterminate length, padded or not.
 *
 * Reading is strict. What the RFC calls invalid is refused whole: unknown framing, a length that points beyond the end,
 * field names that are no lower-case tokens, values HTTP/2 would call malformed, pseudo-fields out of place, statuses
 * out of range, padding that is not zero. What it allows is read: integers longer than needed, chunks, truncation.
 */

import { concat, fromBigEndian, utf8, type Bytes } from "../../bytes.ts";
import { LocalProtocolError, MalformedMessageError } from "../../errors.ts";

/** A field line: name in lower case, value; each letter is a byte. */
export type Field = readonly [name: string, value: string];

/** A response 1xx, before the one that counts. */
export interface InformationalResponse {
  readonly status: number;
  readonly headers: readonly Field[];
}

/** An HTTP response. */
export interface Response {
  readonly status: number;
  readonly headers: readonly Field[];
  readonly content: Bytes;
  readonly trailers: readonly Field[];
  readonly informational: readonly InformationalResponse[];
}

const KNOWN_REQUEST = 0;
const KNOWN_RESPONSE = 1;
const INDETERMINATE_RESPONSE = 3;
/** Lengths from here on are written with more than one byte. */
const SHORT = 64;

/** HTTP/2 (RFC 9113 §8.2.1) allows no upper case; pseudo-fields begin with a colon. */
const NAME = /^:?[!#$%&'*+\-.^_`|~0-9a-z]+$/;
const BAD_VALUE = /[\0\n\r]|^[ \t]|[ \t]$/;
const PATH = /^\/[\x21-\x7e]*$/;
/** These stand in the control data; as fields they would say it twice. */
const CONTROL_FIELDS = [":method", ":scheme", ":authority", ":path", ":status"];

/** A GET without fields and content, of known length. */
export function encodeGet(authority: string, path: string): Bytes {
  if (!PATH.test(path)) throw new LocalProtocolError("the path of a request is visible ASCII and begins with a slash");
  const control = ["GET", "https", authority, path].map((text) => prefixed(utf8(text)));
  return concat(Uint8Array.of(KNOWN_REQUEST), ...control, new Uint8Array(3));
}

function prefixed(data: Bytes): Bytes {
  const { length } = data;
  if (length >= 2 ** 14) throw new LocalProtocolError(`${length} bytes of a request's control data: at most 16383`);
  // QUIC's variable-length integer (RFC 9000 §16), on the fewest bytes.
  return concat(length < SHORT ? Uint8Array.of(length) : Uint8Array.of(0x40 | (length >> 8), length & 255), data);
}

/** The response of these bytes. */
export function decodeResponse(data: Uint8Array): Response {
  const reader = new Reader(data);
  const framing = reader.integer();
  if (framing !== KNOWN_RESPONSE && framing !== INDETERMINATE_RESPONSE) {
    throw new MalformedMessageError("the framing is not that of a response");
  }
  const indeterminate = framing === INDETERMINATE_RESPONSE;
  const informational: InformationalResponse[] = [];
  let status = reader.integer();
  for (; 100 <= status && status <= 199; status = reader.integer()) {
    informational.push({ status, headers: checkedFields(reader.fieldSection(indeterminate)) });
  }
  if (!(200 <= status && status <= 599)) throw new MalformedMessageError("a status that is not from 200 to 599");
  // Parts that are missing at the end are empty.
  const headers = reader.isAtEnd ? [] : reader.fieldSection(indeterminate);
  const content = reader.isAtEnd ? new Uint8Array() : reader.content(indeterminate);
  const trailers = reader.isAtEnd ? [] : reader.fieldSection(indeterminate);
  reader.padding();
  checkedFields(headers);
  checkedFields(trailers, { areTrailers: true });
  return { status, headers, content, trailers, informational };
}

/** RFC 9292 §3.6, with RFC 9113 §8.2.1. */
function checkedFields(fields: readonly Field[], options: { areTrailers?: boolean } = {}): readonly Field[] {
  let ordinary = options.areTrailers ?? false;
  for (const [name, value] of fields) {
    if (!NAME.test(name)) throw new MalformedMessageError("a field's name is no token in lower case");
    if (!name.startsWith(":")) ordinary = true;
    else if (ordinary || CONTROL_FIELDS.includes(name)) {
      throw new MalformedMessageError("a pseudo-field where none may be");
    }
    if (BAD_VALUE.test(value)) {
      throw new MalformedMessageError(
        "a field's value begins or ends with a blank, or holds a line end or a zero byte",
      );
    }
  }
  return fields;
}

/** Bytes and how far they are read. Every method throws a `MalformedMessageError` where they end too early. */
class Reader {
  readonly #data: Uint8Array;
  #at = 0;

  constructor(data: Uint8Array) {
    this.#data = data;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#data.length;
  }

  take(count: number): Bytes {
    if (count > this.#data.length - this.#at) throw new MalformedMessageError("the message ends too early");
    this.#at += count;
    return Uint8Array.from(this.#data.subarray(this.#at - count, this.#at));
  }

  /** One beyond 2^53 is rounded, and still longer than any message. */
  integer(): number {
    const first = this.take(1)[0]!;
    const rest = this.take((1 << (first >> 6)) - 1);
    return Number(fromBigEndian(concat(Uint8Array.of(first & 0x3f), rest)));
  }

  prefixed(): Bytes {
    return this.take(this.integer());
  }

  fieldSection(indeterminate: boolean): Field[] {
    const fields: Field[] = [];
    if (indeterminate) {
      for (let length = this.integer(); length > 0; length = this.integer()) fields.push(this.#fieldLine(length));
      return fields;
    }
    const section = new Reader(this.prefixed());
    // A name of no bytes is refused with the other bad names.
    while (!section.isAtEnd) fields.push(section.#fieldLine(section.integer()));
    return fields;
  }

  #fieldLine(nameLength: number): Field {
    return [letters(this.take(nameLength)), letters(this.prefixed())];
  }

  content(indeterminate: boolean): Bytes {
    if (!indeterminate) return this.prefixed();
    const chunks: Bytes[] = [];
    for (let length = this.integer(); length > 0; length = this.integer()) chunks.push(this.take(length));
    return concat(...chunks);
  }

  padding(): void {
    if (this.#data.subarray(this.#at).some((byte) => byte !== 0)) {
      throw new MalformedMessageError("padding that is not zero");
    }
  }
}

/** A letter for each byte. */
function letters(data: Bytes): string {
  let text = "";
  for (const byte of data) text += String.fromCharCode(byte);
  return text;
}
