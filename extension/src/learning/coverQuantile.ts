/**
 * The quantile of a negative binomial of which everybody must find the same number, so doubles will not do.
 *
 * Numbers of so many bits, with an exponent of their own: each operation is wrong by a few units of the last place, and
 * after the 2^22 terms that a sum may have by less than a thousandth of the slack within which nothing is decided. Only
 * then more bits are taken. What is still open with the most bits differs from 1 - 1e-12 by less than 10^-240 and counts
 * as equal, which for rational laws (whole shapes) it is.
 */

import { Ratio } from "./ratio.ts";

/** One minus this is the quantile beyond which a count is not explained by cover. */
const BEYOND = new Ratio(1n, 10n ** 12n);
/** Decimal digits of the slack, twice as many with which is calculated; more where a quantile is not decided yet. */
const SLACKS = [30, 60, 240];
/** Bits that are lost to sums, and to the largest exponents. */
const SPARE_BITS = 96;

/** The least k with P(count ≤ k) ≥ 1 - 1e-12, for a shape r and odds θ. */
export function quantileBeyond(shape: Ratio, odds: Ratio): number {
  for (const digits of SLACKS) {
    const quantile = firstAbove(shape, odds, digits, digits === SLACKS.at(-1));
    if (quantile !== null) return quantile;
  }
  throw new Error("with equality nothing stays open");
}

/** The quantile, or null where so many digits do not decide it. */
function firstAbove(shape: Ratio, odds: Ratio, digits: number, equal: boolean): number | null {
  const bits = BigInt(Math.ceil(2 * digits * Math.log2(10)) + SPARE_BITS);
  const one = 1n << bits;
  const slack = one / 10n ** BigInt(digits);
  // What is missing from 1 is in units of 2^-bits; the mass may be far smaller, and carries an exponent.
  const start = logarithm(odds.plus(new Ratio(1)), bits);
  let [mass, exponent] = exponential((-start * shape.p) / shape.q, bits);
  const massNow = (): bigint => mass >> BigInt(-exponent);
  let missing = one - massNow() - (one * BEYOND.p) / BEYOND.q;
  // mass(k + 1) = mass(k) · (k + r) / (k + 1) · p
  const above = odds.p;
  const below = (odds.p + odds.q) * shape.q;
  let k = 0;
  while (missing > slack) {
    mass = (mass * (BigInt(k) * shape.q + shape.p) * above) / (below * BigInt(k + 1));
    for (; mass >= one && exponent < 0; exponent += 1) mass >>= 1n;
    for (; mass < one >> 1n; exponent -= 1) mass <<= 1n;
    missing -= massNow();
    k += 1;
  }
  return equal || missing < -slack ? k : null;
}

/** ln of a ratio above 1, in units of 2^-bits. */
function logarithm(value: Ratio, bits: bigint): bigint {
  // value = 2^doublings · near, and near lies between 1/2 and 2.
  const doublings = BigInt(value.floor().toString(2).length - 1);
  const near = value.over(new Ratio(1n << doublings));
  return doublings * artanhTwice(1n, 3n, bits) + artanhTwice(near.p - near.q, near.p + near.q, bits);
}

/** 2 artanh(p / q) = ln((q + p) / (q - p)) for |p / q| ≤ 1/3, in units of 2^-bits. */
function artanhTwice(p: bigint, q: bigint, bits: bigint): bigint {
  let power = ((2n << bits) * p) / q;
  let sum = 0n;
  for (let odd = 1n; power !== 0n; odd += 2n) {
    sum += power / odd;
    power = (power * p * p) / (q * q);
  }
  return sum;
}

/** exp(value · 2^-bits) for a value below zero, as a mantissa between 2^(bits-1) and 2^bits, and its exponent. */
function exponential(value: bigint, bits: bigint): [mantissa: bigint, exponent: number] {
  const ln2 = artanhTwice(1n, 3n, bits);
  const halvings = -value / ln2 + 1n;
  const rest = value + halvings * ln2;
  let [sum, term] = [0n, 1n << bits];
  for (let n = 1n; term !== 0n; n += 1n) {
    sum += term;
    term = (term * rest) / (n << bits);
  }
  return [sum, -Number(halvings)];
}
