/**
 * What beacons serve, as bytes: read strictly, because anybody may have written it.
 *
 * Other people's JSON: any order of keys and any white space are theirs to choose, so these are no canonical documents.
 * Everything else is fixed: exactly the fields that are expected, no key twice, no float, no integer beyond 2^53, and
 * hexadecimal of exactly the length that is expected, in either case of letters. Whatever does not fit throws a
 * `BadBeaconError` and nothing else.
 */

import { textOf, unhex, type Bytes } from "../../bytes.ts";
import { BadBeaconError } from "../../errors.ts";

/** A pulse of NIST's has about 4 kB, a certificate with its issuers about 8; drand's rounds have 250 bytes. */
export const MAX_RECORD_BYTES = 2 ** 16;

/** What a beacon said, **verified**. */
export interface BeaconOutput {
  /** NIST: 64 bytes. drand, and the local one: 32. */
  readonly value: Bytes;
  /** Before this instant, in milliseconds, nobody outside the beacon knew it. */
  readonly at: number;
}

/** The one JSON object that these bytes are. */
export function readObject(data: Uint8Array, what: string): BeaconFields {
  if (data.length > MAX_RECORD_BYTES) {
    throw new BadBeaconError(`${what} has ${data.length} bytes; at most ${MAX_RECORD_BYTES} are read`);
  }
  let content: unknown;
  try {
    const text = textOf(data);
    content = JSON.parse(text);
    checkTokens(text);
  } catch {
    throw new BadBeaconError(`${what} is no JSON of the kind that beacons serve`);
  }
  return new BeaconFields(content, what);
}

/** No key twice, and no float: what `JSON.parse` lets pass. */
function checkTokens(text: string): void {
  const keys: Set<string>[] = [];
  for (const [token, key, number] of text.matchAll(/("(?:[^"\\]|\\.)*")(?:\s*:)?|(-?[0-9][0-9.eE+-]*)|[{}]/g)) {
    if (token === "{") keys.push(new Set());
    else if (token === "}") keys.pop();
    else if (number !== undefined && /[.eE]/.test(number)) throw new SyntaxError("a float");
    else if (key !== undefined && token.endsWith(":")) {
      const name = JSON.parse(key) as string;
      if (keys.at(-1)!.has(name)) throw new SyntaxError("a key twice");
      keys.at(-1)!.add(name);
    }
  }
}

/** The fields of an object, by name; those that are there must be exactly those that are asked for. */
export class BeaconFields {
  readonly #content: Map<string, unknown>;
  readonly #what: string;

  constructor(content: unknown, what: string) {
    if (typeof content !== "object" || content === null || Array.isArray(content)) {
      throw new BadBeaconError(`${what} is no object`);
    }
    this.#content = new Map(Object.entries(content));
    this.#what = what;
  }

  /** The object itself, if these are its fields. */
  hasExactly(...names: readonly string[]): BeaconFields {
    if (this.#content.size !== names.length || !names.every((name) => this.#content.has(name))) {
      throw new BadBeaconError(`${this.#what} has other fields than it should`);
    }
    return this;
  }

  /** ASCII. */
  text(name: string): string {
    const value = this.#content.get(name);
    if (typeof value !== "string" || /[^\x00-\x7f]/.test(value)) throw this.#refuse(name);
    return value;
  }

  integer(name: string, limits: { bits: number }): number {
    const value = this.#content.get(name);
    if (!Number.isSafeInteger(value) || !(0 <= Number(value) && Number(value) < 2 ** limits.bits)) {
      throw this.#refuse(name);
    }
    return Number(value);
  }

  hexadecimal(name: string, length: number): Bytes {
    const value = this.#content.get(name);
    if (typeof value !== "string" || !/^[0-9a-fA-F]*$/.test(value) || value.length !== 2 * length) {
      throw this.#refuse(name);
    }
    return unhex(value.toLowerCase());
  }

  inner(name: string): BeaconFields {
    return new BeaconFields(this.#content.get(name), `${this.#what}'s ${name}`);
  }

  innerList(name: string): BeaconFields[] {
    const value = this.#content.get(name);
    if (!Array.isArray(value)) throw this.#refuse(name);
    return value.map((item) => new BeaconFields(item, `${this.#what}'s ${name}`));
  }

  #refuse(name: string): BadBeaconError {
    return new BadBeaconError(`${this.#what}'s ${name} is not as it should be`);
  }
}
