/**
 * The one arithmetic: how a ratio becomes an integer, how integers become mantissas. Everybody rounds here.
 *
 * All exact, all the same in any language (docs/protocol.md §3): `toFixed`, `divideFixed`, `mantissas`, `ceilRatio`.
 */

import { ArithmeticRangeError, BadInputError } from "../errors.ts";
import { divideHalfEven, floorDivide, gcd, Ratio } from "./ratio.ts";

/** Fraction bits of the descent state. */
export const FIXED_BITS = 32n;
/** Largest absolute value of a published mantissa. */
export const MAX_MANTISSA = 2 ** 31 - 1;
/** State entries stay below this, so that one more addition cannot wrap. */
export const MAX_STATE = 2n ** 61n;
/** Thresholds are clipped here: scores stay below 2^53, so beyond it the verdict no longer changes. */
export const MAX_THRESHOLD = 2n ** 60n;
/** Numbers as text: a fraction or a decimal. Its length is bounded: 1e-999999999 would keep a device busy for hours. */
const NUMBER = /^([+-]?)([0-9]{0,80})(?:\/([0-9]{1,80})|(?:\.([0-9]{0,80}))?(?:[eE]([+-]?[0-9]{1,3}))?)$/;
const QUOTED = 80;
/** Added to a double below 2^51 and taken off again, it leaves the nearest integer, of two the even one. */
const ROUNDER = 1.5 * 2 ** 52;

/** A parameter as the rational a person meant: the float 0.1 is 1/10, as its shortest decimal says. */
export function exact(number: Ratio | bigint | number | string): Ratio {
  if (number instanceof Ratio) return number;
  const text = String(number);
  const [, sign, digits = "", denominator, decimals = "", exponent = "0"] = NUMBER.exec(text) ?? [];
  if (sign === undefined || digits + decimals === "" || Number(denominator ?? "1") === 0) {
    throw new BadInputError(`${text.slice(0, QUOTED)} is not a number`);
  }
  const numerator = BigInt(`${digits}${decimals}`) * (sign === "-" ? -1n : 1n);
  if (denominator !== undefined) return new Ratio(numerator, BigInt(denominator));
  return new Ratio(numerator).times(powerOf(10n, Number(exponent) - decimals.length));
}

/** 2^exponent as a rational. */
export function powerOfTwo(exponent: bigint | number): Ratio {
  return powerOf(2n, exponent);
}

function powerOf(base: bigint, exponent: bigint | number): Ratio {
  return exponent < 0 ? new Ratio(1n, base ** -BigInt(exponent)) : new Ratio(base ** BigInt(exponent));
}

/** The largest absolute value. */
export function largestOf(values: ArrayLike<bigint>): bigint {
  let largest = 0n;
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    if (value > largest) largest = value;
    else if (-value > largest) largest = -value;
  }
  return largest;
}

/** round_half_even(2^32 · numerators · scale), elementwise and exact. */
export function toFixed(numerators: ArrayLike<bigint>, scale: Ratio): BigInt64Array<ArrayBuffer> {
  if (((largestOf(numerators) * scale.p) << FIXED_BITS) / scale.q >= MAX_STATE) {
    throw new ArithmeticRangeError("a step would leave the range of the state");
  }
  return BigInt64Array.from(numerators, (n) => divideHalfEven((n * scale.p) << FIXED_BITS, scale.q));
}

/** round_half_even(values · 2^extraBits / divisor), elementwise and exact. */
export function divideFixed(values: BigInt64Array, divisor: bigint, extraBits: bigint): BigInt64Array<ArrayBuffer> {
  if ((largestOf(values) << extraBits) / divisor >= MAX_STATE) {
    throw new ArithmeticRangeError("an average would leave the range of the state");
  }
  return BigInt64Array.from(values, (value) => divideHalfEven(value << extraBits, divisor));
}

/** round_half_even(values / 2^bits). */
export function shiftRightHalfEven(values: BigInt64Array, bits: bigint): BigInt64Array<ArrayBuffer> {
  return BigInt64Array.from(values, (value) => divideHalfEven(value, 1n << bits));
}

/** Integers of 32 bits, and the power of two that each of them is worth. */
export interface Mantissas {
  readonly mantissas: readonly Int32Array<ArrayBuffer>[];
  readonly exponent: number;
}

/**
 * The rows as round_half_even(values · 2^-exponent), with the smallest exponent that fits all of them.
 *
 * Integers keep an exponent of at least zero; floats may take a negative one and so use all 31 bits. All zeros give 0.
 */
export function mantissas(rows: readonly BigInt64Array[] | readonly Float64Array[]): Mantissas {
  return areFloats(rows) ? floatMantissas(rows) : integerMantissas(rows);
}

function areFloats(rows: readonly BigInt64Array[] | readonly Float64Array[]): rows is readonly Float64Array[] {
  return rows[0] instanceof Float64Array;
}

function integerMantissas(rows: readonly BigInt64Array[]): Mantissas {
  const largest = rows.map(largestOf).reduce((a, b) => (a > b ? a : b), 0n);
  const smallest = Math.max(0, (largest === 0n ? 0 : largest.toString(2).length) - 31);
  // Rounding up may reach 2^31.
  const reaches = divideHalfEven(largest, 1n << BigInt(smallest)) > MAX_MANTISSA;
  const exponent = smallest + (reaches ? 1 : 0);
  const shifted = rows.map((row) => Int32Array.from(shiftRightHalfEven(row, BigInt(exponent)), Number));
  return { mantissas: shifted, exponent };
}

function floatMantissas(rows: readonly Float64Array[]): Mantissas {
  let largest = 0;
  for (const row of rows) {
    for (const value of row) {
      if (!Number.isFinite(value)) throw new ArithmeticRangeError("a weight is not a finite number");
      if (Math.abs(value) > largest) largest = Math.abs(value);
    }
  }
  if (largest === 0) return { mantissas: rows.map((row) => new Int32Array(row.length)), exponent: 0 };
  let exponent = binaryExponent(largest) - 31;
  // Scaling stays far from subnormals.
  if (exponent <= -900 || exponent >= 900) {
    throw new ArithmeticRangeError("a weight is too large or too small to be published");
  }
  if (roundHalfEven(largest * 2 ** -exponent) > MAX_MANTISSA) exponent += 1;
  const scale = 2 ** -exponent;
  return { mantissas: rows.map((row) => Int32Array.from(row, (value) => roundHalfEven(value * scale))), exponent };
}

/** e of value = m · 2^e with m in [1/2, 1), for a normal number above zero. */
function binaryExponent(value: number): number {
  return ((new DataView(new Float64Array([value]).buffer).getUint32(4, true) >>> 20) & 0x7ff) - 1022;
}

function roundHalfEven(value: number): number {
  return value + ROUNDER - ROUNDER;
}

/** A threshold inside the range in which it can decide anything. */
export function clipThreshold(threshold: bigint): bigint {
  if (threshold > MAX_THRESHOLD) return MAX_THRESHOLD;
  return threshold < -MAX_THRESHOLD ? -MAX_THRESHOLD : threshold;
}

/** The smallest integer not below numerator / denominator, for a denominator above zero. */
export function ceilRatio(numerator: bigint, denominator: bigint): bigint {
  return -floorDivide(-numerator, denominator);
}

/** The largest integer whose square is not above this one, which is not negative. */
export function integerRoot(value: bigint): bigint {
  if (value < 1n << 52n) return BigInt(Math.floor(Math.sqrt(Number(value))));
  let root = 1n << BigInt(Math.ceil(value.toString(2).length / 2));
  for (;;) {
    const next = (root + value / root) >> 1n;
    if (next >= root) return root;
    root = next;
  }
}

/** The sum from left to right. */
export function sumInOrder(values: Float64Array): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum;
}

/** Rationals as the smallest integers in the same proportion. */
export function commonIntegers(weights: readonly Ratio[]): bigint[] {
  const denominator = weights.reduce((least, { q }) => (least / gcd(least, q)) * q, 1n);
  const integers = weights.map(({ p, q }) => p * (denominator / q));
  const divisor = integers.reduce(gcd, 0n) || 1n;
  return integers.map((integer) => integer / divisor);
}
