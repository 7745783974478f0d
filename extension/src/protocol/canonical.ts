/**
 * Canonical documents: JSON with exactly one way to write each content (docs/protocol.md §10).
 *
 * RFC 8785, restricted as `secvm.protocol.canonical` says. `decodeDocument` writes what it has read again and compares;
 * `Fields` then takes each field once, with its type and range, and refuses what is left over, at every depth.
 */

import { equal, hex, textOf, unbase64, unhex, utf8, type Bytes } from "../bytes.ts";
import { sha256 } from "../crypto/hashes.ts";
import { LocalProtocolError, MalformedMessageError } from "../errors.ts";
import { Ratio } from "../learning/ratio.ts";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type Content = { readonly [key: string]: Json };

export const MAX_INTEGER = Number.MAX_SAFE_INTEGER;
export const MAX_DEPTH = 8;
export const DIGEST_BYTES = 32;

const KEY = /^[a-z][a-z0-9_]{0,63}$/;
const RATIO = /^(0|-?[1-9][0-9]{0,79})(\/[1-9][0-9]{0,79})?$/;

/** The name of a document or blob: SHA-256 of its bytes as served, in lower-case hexadecimal. */
export function digestOf(data: Uint8Array): string {
  return hex(sha256(data));
}

/** These bytes, if the digest is theirs. */
export function checkDigest(data: Bytes, digest: string): Bytes {
  if (digestOf(data) !== digest) throw new MalformedMessageError("the bytes are not those that the digest names");
  return data;
}

/** The canonical bytes. */
export function encodeDocument(content: Content): Bytes {
  const fault = faultOf(content, 0);
  if (fault !== null) throw new LocalProtocolError(`a document cannot say this: ${fault}`);
  return utf8(written(content));
}

/** The content of canonical bytes. */
export function decodeDocument(data: Uint8Array, options: { maxBytes: number }): Content {
  if (data.length > options.maxBytes) {
    throw new MalformedMessageError(`a document of ${data.length} bytes; at most ${options.maxBytes} are read`);
  }
  let content: Json;
  try {
    content = JSON.parse(textOf(data)) as Json;
  } catch {
    throw new MalformedMessageError("the bytes are no canonical document");
  }
  if (!isObject(content) || faultOf(content, 0) !== null || !equal(utf8(written(content)), data)) {
    throw new MalformedMessageError("the bytes are no canonical document");
  }
  return content;
}

/** A rational as documents write it. */
export function ratioText(number: Ratio): string {
  const text = number.toString();
  if (!RATIO.test(text)) throw new LocalProtocolError("a rational has more digits than a document may hold");
  return text;
}

export function isObject(value: unknown): value is Content {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

function written(value: Json): string {
  if (isList(value)) return `[${value.map(written).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const items = Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${written(value[key]!)}`);
  return `{${items.join(",")}}`;
}

/** What a document cannot say about a value; null: it can say all of it. */
function faultOf(value: Json, depth: number): string | null {
  if (depth > MAX_DEPTH) return "too deep";
  if (value === null || typeof value === "boolean") return null;
  if (typeof value === "string") return value.isWellFormed() ? null : "half a letter";
  if (typeof value === "number") return Number.isSafeInteger(value) ? null : "an integer too large, or none";
  if (isList(value)) return firstFault(value, depth);
  if (!isObject(value)) return typeof value;
  if (!Object.keys(value).every((key) => KEY.test(key))) return "a key of other letters";
  return firstFault(Object.values(value), depth);
}

function firstFault(values: readonly Json[], depth: number): string | null {
  for (const value of values) {
    const fault = faultOf(value, depth + 1);
    if (fault !== null) return fault;
  }
  return null;
}

/** The fields of a document, taken one by one. Whatever does not fit throws a `MalformedMessageError`. */
export class Fields {
  readonly #left: Map<string, Json>;
  readonly #where: string;

  constructor(content: Json, where: string) {
    if (!isObject(content)) throw new MalformedMessageError(`${where} is no object`);
    this.#left = new Map(Object.entries(content));
    this.#where = where;
  }

  #take(name: string): Json {
    const value = this.#left.get(name);
    if (value === undefined) throw new MalformedMessageError(`${this.#where} lacks ${name}`);
    this.#left.delete(name);
    return value;
  }

  /** The error for a field that does not hold what it should; the value may be secret, and is not told. */
  refuse(name: string, expected = "as the protocol says"): MalformedMessageError {
    return new MalformedMessageError(`${name} of ${this.#where} must be ${expected}`);
  }

  has(name: string): boolean {
    return this.#left.has(name);
  }

  /** Whether the field is null; then it is taken. */
  isNull(name: string): boolean {
    return this.#left.get(name) === null && this.#left.delete(name);
  }

  /** A place kept for later versions: must be there and null. */
  null(name: string): void {
    if (!this.isNull(name)) throw this.refuse(name, "there, and null");
  }

  constant(name: string, value: string): void {
    this.oneOf(name, [value]);
  }

  /** One of these words. */
  oneOf<Word extends string>(name: string, allowed: readonly Word[]): Word {
    const value = this.#take(name);
    const word = allowed.find((each) => each === value);
    if (word === undefined) throw this.refuse(name, allowed.join(" or "));
    return word;
  }

  /** Text of so many bytes, in one line of printable characters. */
  text(name: string, limits: { longest: number; shortest?: number; pattern?: string | undefined }): string {
    const { longest, shortest = 0, pattern } = limits;
    const value = this.#take(name);
    const size = typeof value === "string" ? utf8(value).length : -1;
    if (typeof value !== "string" || size < shortest || size > longest) {
      throw this.refuse(name, `a text of ${shortest} to ${longest} bytes`);
    }
    const wrong = firstUnprintable(value);
    if (wrong !== null) {
      const code = [...value][wrong]!.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0");
      throw new MalformedMessageError(
        `${name} of ${this.#where} has U+${code} as character ${wrong + 1}; a text is one line of printable characters`,
      );
    }
    if (pattern !== undefined && !new RegExp(`^(?:${pattern})$`, "u").test(value)) {
      throw this.refuse(name, `a text of the form ${pattern}`);
    }
    return value;
  }

  integer(name: string, low: number, high: number = MAX_INTEGER): number {
    const value = this.#take(name);
    if (typeof value !== "number" || value < low || value > high) {
      const actual = typeof value === "number" ? `, not ${value}` : "";
      throw this.refuse(name, `an integer from ${low} to ${high}${actual}`);
    }
    return value;
  }

  flag(name: string): boolean {
    const value = this.#take(name);
    if (typeof value !== "boolean") throw this.refuse(name, "true or false");
    return value;
  }

  ratio(name: string): Ratio {
    const ratio = asRatio(this.#take(name));
    if (ratio === null) throw this.refuse(name, "a rational in lowest terms, such as 1/2");
    return ratio;
  }

  /** Short bytes. */
  hexadecimal(name: string, limits: { shortest: number; longest: number }): Bytes {
    const { shortest, longest } = limits;
    const value = this.#take(name);
    const data = typeof value === "string" ? orNull(() => unhex(value)) : null;
    if (data === null || data.length < shortest || data.length > longest) {
      const size = shortest === longest ? `${shortest}` : `${shortest} to ${longest}`;
      throw this.refuse(name, `${size} bytes in lower-case hexadecimal`);
    }
    return data;
  }

  digest(name: string): string {
    return hex(this.hexadecimal(name, { shortest: DIGEST_BYTES, longest: DIGEST_BYTES }));
  }

  /** Long bytes. */
  base64(name: string, limits: { longest: number }): Bytes {
    const value = this.#take(name);
    const data = typeof value === "string" ? orNull(() => unbase64(value)) : null;
    if (data === null || data.length > limits.longest) {
      throw this.refuse(name, `at most ${limits.longest} bytes in base64`);
    }
    return data;
  }

  items(name: string, limits: { longest: number; shortest?: number }): readonly Json[] {
    const { longest, shortest = 0 } = limits;
    const value = this.#take(name);
    if (!isList(value) || value.length < shortest || value.length > longest) {
      throw this.refuse(name, `a list of ${shortest} to ${longest} items`);
    }
    return value;
  }

  /** A list of integers from zero. */
  counts(name: string, limits: { longest: number }): number[] {
    return this.each(name, limits).map((item) => item.integer("item", 0));
  }

  /** The object of this name; an item of a list is named by its place already. */
  inner(name: string): Fields {
    return new Fields(this.#take(name), name === "item" ? this.#where : `${this.#where}.${name}`);
  }

  /** The items of a list, each as the one field `item`. */
  each(name: string, limits: { longest: number; shortest?: number }): Fields[] {
    return this.items(name, limits).map((item, i) => new Fields({ item }, `${this.#where}.${name}[${i}]`));
  }

  /** All that is left, each of them text: an object whose keys somebody else checks. */
  restAsText(limits: { longest: number }): Record<string, string> {
    const names = [...this.#left.keys()].sort();
    return Object.fromEntries(names.map((name) => [name, this.text(name, limits)]));
  }

  /** Nothing may be left over. */
  done(): void {
    if (this.#left.size) {
      const names = [...this.#left.keys()].sort().join(", ");
      throw new MalformedMessageError(`${this.#where} has fields that it should not have: ${names}`);
    }
  }
}

/** A rational in its one spelling; null: it is none. */
export function asRatio(value: Json): Ratio | null {
  if (typeof value !== "string" || !RATIO.test(value)) return null;
  const number = Ratio.of(value);
  return number.toString() === value ? number : null;
}

function orNull<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}

const UNPRINTABLE = new RegExp(
  "[" +
    "\\x00-\\x1f\\x7f-\\x9f" + // controls, the line feed among them
    "\\u00ad\\u061c\\u180e\\u200b\\u200e\\u200f" + // soft hyphen, direction marks, spaces without width
    "\\u2028-\\u202e\\u2060-\\u206f" + // ends of lines and paragraphs, directions, invisible operators
    "\\ud800-\\uf8ff" + // halves of surrogate pairs, private use
    "\\ufeff\\ufff9-\\ufffb" + // byte order mark, annotations
    "\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}" + // controls of shorthand and of music
    "\\u{e0000}-\\u{10ffff}" + // tags, selectors of variants, private use
    "]",
  "u",
);

/** The index of the first character that a document's text may not hold; null: there is none. */
export function firstUnprintable(text: string): number | null {
  const at = text.search(UNPRINTABLE);
  return at < 0 ? null : [...text.slice(0, at)].length;
}
