/** Bytes: text, hexadecimal, base64, little-endian integers, comparison. */

/** Bytes in a buffer of their own, as WebCrypto wants them. */
export type Bytes = Uint8Array<ArrayBuffer>;

const ENCODER = new TextEncoder();
const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function utf8(text: string): Bytes {
  return ENCODER.encode(text);
}

/** The text of UTF-8; throws a TypeError where it is none. */
export function textOf(data: Uint8Array): string {
  return DECODER.decode(data);
}

export function concat(...parts: readonly Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && compare(a, b) === 0;
}

/** The order of bytes: negative where `a` comes first, a prefix before what it begins. */
export function compare(a: Uint8Array, b: Uint8Array): number {
  const shared = Math.min(a.length, b.length);
  for (let i = 0; i < shared; i++) {
    const difference = a[i]! - b[i]!;
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

export function hex(data: Uint8Array): string {
  let text = "";
  for (const byte of data) text += byte.toString(16).padStart(2, "0");
  return text;
}

/** The bytes of hexadecimal in lower case; throws a SyntaxError where it is none. */
export function unhex(text: string): Bytes {
  if (!/^([0-9a-f]{2})*$/.test(text)) throw new SyntaxError("no hexadecimal in lower case");
  const data = new Uint8Array(text.length / 2);
  for (let i = 0; i < data.length; i++) data[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return data;
}

export function base64(data: Uint8Array): string {
  let binary = "";
  for (const byte of data) binary += String.fromCharCode(byte);
  return btoa(binary);
}

/** The bytes of base64 in its one spelling; throws a SyntaxError where it is none. */
export function unbase64(text: string): Bytes {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4 !== 0) throw new SyntaxError("no base64");
  const data = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  if (base64(data) !== text) throw new SyntaxError("no base64 in its one spelling");
  return data;
}

/** An integer as so many bytes, the least significant first. */
export function littleEndian(value: bigint | number, size: number): Bytes {
  let rest = BigInt(value);
  if (rest < 0n || rest >= 1n << BigInt(8 * size)) throw new RangeError(`${value} has no ${size} bytes`);
  const data = new Uint8Array(size);
  for (let i = 0; i < size; i++) {
    data[i] = Number(rest & 255n);
    rest >>= 8n;
  }
  return data;
}

/** An integer as so many bytes, the most significant first. */
export function bigEndian(value: bigint | number, size: number): Bytes {
  return littleEndian(value, size).reverse();
}

export function fromLittleEndian(data: Uint8Array): bigint {
  let value = 0n;
  for (let i = data.length - 1; i >= 0; i--) value = (value << 8n) | BigInt(data[i]!);
  return value;
}

export function fromBigEndian(data: Uint8Array): bigint {
  let value = 0n;
  for (const byte of data) value = (value << 8n) | BigInt(byte);
  return value;
}

/** The bytes of a typed array, of each word the least significant first: so is every machine that browsers run on. */
export function bytesOfWords(words: Int32Array | BigInt64Array | Float64Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
}
