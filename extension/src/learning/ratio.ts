/** Rationals in lowest terms, as Python's `Fraction` holds them. */

export class Ratio {
  readonly p: bigint;
  readonly q: bigint;

  constructor(p: bigint | number, q: bigint | number = 1n) {
    let numerator = BigInt(p);
    let denominator = BigInt(q);
    if (denominator === 0n) throw new RangeError("a ratio over zero");
    if (denominator < 0n) [numerator, denominator] = [-numerator, -denominator];
    const divisor = gcd(numerator, denominator);
    this.p = numerator / divisor;
    this.q = denominator / divisor;
  }

  /** The ratio of `p/q` or `p`; throws a SyntaxError where it is none. */
  static of(text: string): Ratio {
    const parts = /^(-?[0-9]+)(?:\/([0-9]+))?$/.exec(text);
    if (!parts || /^0*$/.test(parts[2] ?? "1")) throw new SyntaxError("no ratio");
    return new Ratio(BigInt(parts[1]!), BigInt(parts[2] ?? "1"));
  }

  /** What a double holds, exactly. */
  static ofNumber(value: number): Ratio {
    if (!Number.isFinite(value)) throw new RangeError("no finite number");
    // Doubling is exact.
    let [scaled, shift] = [value, 0n];
    while (!Number.isInteger(scaled)) [scaled, shift] = [scaled * 2, shift + 1n];
    return new Ratio(BigInt(scaled), 1n << shift);
  }

  plus(other: Ratio): Ratio {
    return new Ratio(this.p * other.q + other.p * this.q, this.q * other.q);
  }

  minus(other: Ratio): Ratio {
    return new Ratio(this.p * other.q - other.p * this.q, this.q * other.q);
  }

  times(other: Ratio): Ratio {
    return new Ratio(this.p * other.p, this.q * other.q);
  }

  over(other: Ratio): Ratio {
    return new Ratio(this.p * other.q, this.q * other.p);
  }

  /** Negative where this is the smaller, 0 where they are equal. */
  compare(other: Ratio): number {
    const difference = this.p * other.q - other.p * this.q;
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  }

  equals(other: Ratio): boolean {
    return this.p === other.p && this.q === other.q;
  }

  floor(): bigint {
    return floorDivide(this.p, this.q);
  }

  ceil(): bigint {
    return -floorDivide(-this.p, this.q);
  }

  /** The nearest integer; of two, the even one. */
  round(): bigint {
    return divideHalfEven(this.p, this.q);
  }

  /** The nearest double; of two, the one with an even last bit, as Python's division of integers gives it. */
  toNumber(): number {
    return nearestDouble(this.p, this.q);
  }

  toString(): string {
    return this.q === 1n ? `${this.p}` : `${this.p}/${this.q}`;
  }
}

export function gcd(a: bigint, b: bigint): bigint {
  let [x, y] = [a < 0n ? -a : a, b < 0n ? -b : b];
  while (y) [x, y] = [y, x % y];
  return x;
}

/** ⌊a / b⌋ for b > 0. */
export function floorDivide(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a % b < 0n ? quotient - 1n : quotient;
}

/** a / b rounded half to even, for b > 0. */
export function divideHalfEven(a: bigint, b: bigint): bigint {
  const whole = floorDivide(a, b);
  const twice = 2n * (a - whole * b);
  return twice > b || (twice === b && whole % 2n !== 0n) ? whole + 1n : whole;
}

function bitLength(value: bigint): number {
  return value === 0n ? 0 : value.toString(2).length;
}

function nearestDouble(p: bigint, q: bigint): number {
  if (p < 0n) return -nearestDouble(-p, q);
  if (p === 0n) return 0;
  // So many bits that the quotient has 53 or 54, fewer only where the result is subnormal.
  const shift = Math.max(-1074, bitLength(p) - bitLength(q) - 53);
  const quotient = shift < 0 ? quotientOnce(p << BigInt(-shift), q) : quotientOnce(p, q << BigInt(shift));
  return quotient * 2 ** shift;
}

/** The quotient as a double: rounded once, half to even, whether it has 53 or 54 bits. */
function quotientOnce(a: bigint, b: bigint): number {
  const whole = a / b;
  if (bitLength(whole) <= 53) return Number(divideHalfEven(a, b));
  return Number(divideHalfEven(a, 2n * b)) * 2;
}
