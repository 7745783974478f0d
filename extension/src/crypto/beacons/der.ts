/** DER (X.690), as far as certificates of NIST's beacon need it. Whatever else the bytes are throws a `DerError`. */

import { equal, fromBigEndian, hex, textOf, type Bytes } from "../../bytes.ts";

/** The bytes are no DER of the kind that was expected. */
export class DerError extends Error {}

const BOOLEAN = 0x01;
const INTEGER = 0x02;
const BITS = 0x03;
const OCTETS = 0x04;
const OID = 0x06;
const UTC_TIME = 0x17;
const GENERALIZED_TIME = 0x18;
const SEQUENCE = 0x30;

/** One value: its tag and its content. */
export class Der {
  readonly tag: number;
  readonly content: Bytes;
  /** Tag, length and content. */
  readonly whole: Bytes;

  constructor(whole: Bytes, contentAt: number) {
    this.tag = whole[0]!;
    this.whole = whole;
    this.content = whole.slice(contentAt);
  }

  /** The content, if this is the tag. */
  #of(tag: number): Bytes {
    if (this.tag !== tag) throw new DerError(`the tag ${this.tag} in place of ${tag}`);
    return this.content;
  }

  /** The values in a sequence; so many, where `count` says it. */
  sequence(count?: number): Der[] {
    const content = this.#of(SEQUENCE);
    const values: Der[] = [];
    for (let at = 0; at < content.length; at += values.at(-1)!.whole.length) values.push(readFirst(content.slice(at)));
    if (count !== undefined && values.length !== count) throw new DerError(`${values.length} values, not ${count}`);
    return values;
  }

  /** The one value under this explicit tag. */
  inside(tag: number): Der {
    return readDer(this.#of(tag));
  }

  /** A number that is not negative. */
  integer(): bigint {
    const content = this.#of(INTEGER);
    const [first = 0x80, second = 0x80] = content;
    if (first >= 0x80 || (content.length > 1 && first === 0 && second < 0x80)) throw new DerError("a number amiss");
    return fromBigEndian(content);
  }

  boolean(): boolean {
    const content = this.#of(BOOLEAN);
    if (!equal(content, Uint8Array.of(0xff)) && !equal(content, Uint8Array.of(0))) throw new DerError("no boolean");
    return content[0] === 0xff;
  }

  octets(): Bytes {
    return this.#of(OCTETS);
  }

  /** The bytes of a string of bits, the last of which may be filled up. */
  bits(): Bytes {
    const content = this.#of(BITS);
    if (content.length === 0 || content[0]! > 7) throw new DerError("no string of bits");
    return content.slice(1);
  }

  /** The name of an algorithm or an extension: its bytes in hexadecimal. */
  oid(): string {
    return hex(this.#of(OID));
  }

  /** The instant, in milliseconds. */
  time(): number {
    const long = this.tag === GENERALIZED_TIME;
    const text = textOf(long ? this.content : this.#of(UTC_TIME));
    // RFC 5280: two digits of a year are of 1950 to 2049.
    const whole = long ? text : `${Number(text.slice(0, 2)) < 50 ? "20" : "19"}${text}`;
    const iso = whole.replace(/^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6.000Z");
    const at = Date.parse(iso);
    if (iso === whole || Number.isNaN(at) || new Date(at).toISOString() !== iso) throw new DerError("no time");
    return at;
  }
}

/** The one value that these bytes are. */
export function readDer(data: Bytes): Der {
  const value = readFirst(data);
  if (value.whole.length !== data.length) throw new DerError("something behind a value");
  return value;
}

function readFirst(data: Bytes): Der {
  const [tag = 0x1f, first = 0x80] = data;
  // Tags of several bytes and lengths without an end are none of a certificate's.
  if ((tag & 0x1f) === 0x1f || first === 0x80 || first > 0x83) throw new DerError("a tag or a length amiss");
  const sizeBytes = first < 0x80 ? 0 : first & 0x7f;
  const size = sizeBytes === 0 ? first : Number(fromBigEndian(data.subarray(2, 2 + sizeBytes)));
  const isShort = sizeBytes === 0 || size >= (sizeBytes === 1 ? 0x80 : 2 ** (8 * (sizeBytes - 1)));
  const end = 2 + sizeBytes + size;
  if (!isShort || end > data.length) throw new DerError("a length that is not so");
  return new Der(data.slice(0, end), 2 + sizeBytes);
}
