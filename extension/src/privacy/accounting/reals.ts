/**
 * Exponentials, logarithms, sums and transforms of which every machine and every language finds the same double.
 *
 * The steps are those of Python's `secvm.privacy.accounting.reals`: sums, differences, products, quotients, square roots
 * and powers of two, which IEEE 754 rounds correctly, in one written order. `Math.exp`, `Math.log` and their like differ
 * between browsers in the last bit, and are not used.
 */

/** ln 2 as a number of 33 bits, whose products with exponents are exact, and the rest. */
const LN_2 = 6.93147180369123816490e-1;
const LN_2_REST = 1.90821492927058770002e-10;
const PER_LN_2 = 1.4426950408889634;
const HALF = 0.70710678118654752;
/** 1/n!, and 1/(2n + 1). */
const INVERSE_FACTORIALS = inverses(19, (factorial, n) => factorial * Math.max(1, n));
const INVERSE_ODD = Array.from({ length: 12 }, (_, n) => 1 / (2 * n + 1));
const OF_EXP = INVERSE_FACTORIALS.slice(0, 14);
const OF_EXPM1 = INVERSE_FACTORIALS.slice(2, 17);
const OF_ARTANH = INVERSE_ODD.slice(1);
const OF_COSINE = INVERSE_FACTORIALS.filter((_, n) => n % 2 === 0);
const OF_SINE = INVERSE_FACTORIALS.filter((_, n) => n % 2 === 1);
/** So many are added up from left to right. */
const FEW = 512;
/** Beyond, a double is 0. */
const NOTHING = -800;
const TWO_PI = 6.283185307179586;
const HALF_LN_TWO_PI = 0.9189385332046727;
const TWO_PER_ROOT_PI = 1.1283791670955126;
/** From here on Stirling's series is good to 1e-14 of 1. */
const STIRLING = 16;
const STIRLING_TERMS = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188];
/** Added to a double below 2^51 and taken off again, it leaves the nearest integer, of two the even one. */
const ROUNDER = 1.5 * 2 ** 52;
/** 2^-1022 to 2^1023, each exactly. */
const [LEAST_POWER, MOST_POWER] = [-1022, 1023];
const POWERS = powersOfTwo();
const SUBNORMAL = 54;
const DOUBLE = new Float64Array(1);
const WORDS = new DataView(DOUBLE.buffer);
/** Where a double's sign, exponent and first bits lie, as this machine orders bytes. */
const IS_LITTLE = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
const HIGH_WORD = IS_LITTLE ? 4 : 0;

function inverses(count: number, next: (before: number, n: number) => number): readonly number[] {
  let product = 1;
  return Array.from({ length: count }, (_, n) => 1 / (product = next(product, n)));
}

function powersOfTwo(): Float64Array {
  const powers = new Float64Array(MOST_POWER - LEAST_POWER + 1);
  powers[-LEAST_POWER] = 1;
  for (let i = 1 - LEAST_POWER; i < powers.length; i++) powers[i] = powers[i - 1]! * 2;
  for (let i = -LEAST_POWER - 1; i >= 0; i--) powers[i] = powers[i + 1]! / 2;
  return powers;
}

/** Σ c x^n, the last coefficient first. */
function series(x: number, coefficients: readonly number[]): number {
  let value = coefficients[coefficients.length - 1]!;
  for (let i = coefficients.length - 2; i >= 0; i--) value = value * x + coefficients[i]!;
  return value;
}

/** e^x, for x up to 700. */
export function exp(x: number): number {
  const above = Math.max(x, NOTHING);
  const doublings = above * PER_LN_2 + ROUNDER - ROUNDER;
  const value = series(above - doublings * LN_2 - doublings * LN_2_REST, OF_EXP);
  if (doublings >= LEAST_POWER) return value * POWERS[doublings - LEAST_POWER]!;
  // Rounded once, where the number is too small to have all its bits.
  return value * POWERS[doublings + 1000 - LEAST_POWER]! * POWERS[-1000 - LEAST_POWER]!;
}

/** e^x - 1, with no digits lost near 0. */
export function expm1(x: number): number {
  return Math.abs(x) <= 0.5 ? x + x * x * series(x, OF_EXPM1) : exp(x) - 1;
}

/** The natural logarithm of a number above 0. */
export function log(x: number): number {
  if (!(x > 0)) throw new RangeError("only numbers above 0 have a logarithm");
  const isSubnormal = x < POWERS[0]!;
  DOUBLE[0] = isSubnormal ? x * POWERS[SUBNORMAL - LEAST_POWER]! : x;
  const high = WORDS.getUint32(HIGH_WORD, IS_LITTLE);
  let exponent = (high >>> 20) - 1022 - (isSubnormal ? SUBNORMAL : 0);
  // With the exponent of 1/2 the number is its significand.
  WORDS.setUint32(HIGH_WORD, (high & 0xfffff) | (1022 << 20), IS_LITTLE);
  let significand = DOUBLE[0]!;
  if (significand < HALF) [significand, exponent] = [2 * significand, exponent - 1];
  return exponent * LN_2 + (twiceArtanh((significand - 1) / (significand + 1)) + exponent * LN_2_REST);
}

/** ln (1 + x) for x above -1, with no digits lost near 0. */
export function log1p(x: number): number {
  return -0.25 <= x && x <= 0.4 ? twiceArtanh(x / (2 + x)) : log(1 + x);
}

/** ln ((1 + x) / (1 - x)), for |x| up to 0.172. */
function twiceArtanh(x: number): number {
  const square = x * x;
  return 2 * x + 2 * x * square * series(square, OF_ARTANH);
}

/** ln Γ(x) for x above 0, good to 1e-13 of the larger of 1 and itself. */
export function logGamma(given: number): number {
  let [x, product] = [given, 1];
  for (; x < STIRLING; x += 1) product *= x;
  let [power, sum] = [1 / x, 0];
  for (const term of STIRLING_TERMS) {
    sum += term * power;
    power = power / x / x;
  }
  return (x - 0.5) * log(x) - x + HALF_LN_TWO_PI + sum - log(product);
}

/** The error function of a number that is not negative. */
export function erf(x: number): number {
  if (x > 6) return 1;
  let [sum, term, odd] = [x, x, 1];
  while (term > 1e-17 * sum) {
    odd += 2;
    term *= (2 * x * x) / odd;
    sum += term;
  }
  return Math.min(1, TWO_PER_ROOT_PI * exp(-x * x) * sum);
}

/** The sum: while there are many, the second half is added to the first, and then from left to right. */
export function total(values: Float64Array): number {
  let folded = values;
  for (let length = values.length; length > FEW; ) {
    const half = 1 << (31 - Math.clz32(length - 1));
    if (folded === values) folded = values.slice();
    for (let i = half; i < length; i++) folded[i - half]! += folded[i]!;
    length = half;
    folded = folded.subarray(0, half);
  }
  if (folded.length === 0) return 0;
  let sum = folded[0]!;
  for (let i = 1; i < folded.length; i++) sum += folded[i]!;
  return sum;
}

/** Σ a b. */
export function dot(a: Float64Array, b: Float64Array): number {
  const products = new Float64Array(a.length);
  for (let i = 0; i < a.length; i++) products[i] = a[i]! * b[i]!;
  return total(products);
}

/** The sum that is rounded once, whatever the order: Python's `math.fsum`. */
export function sumOnce(values: Iterable<number>): number {
  // What has been added up is the sum of these, of which no two share a bit.
  const partials: number[] = [];
  let beyond = 0;
  for (const value of values) {
    if (!Number.isFinite(value)) beyond += value;
    let [x, count] = [value, 0];
    for (const partial of partials) {
      const [large, small] = Math.abs(x) < Math.abs(partial) ? [partial, x] : [x, partial];
      const sum = large + small;
      const rest = small - (sum - large);
      if (rest !== 0) partials[count++] = rest;
      x = sum;
    }
    partials.length = count;
    if (x !== 0) partials.push(x);
  }
  return beyond === 0 ? roundedOnce(partials) : beyond;
}

function roundedOnce(partials: readonly number[]): number {
  let at = partials.length;
  if (at === 0) return 0;
  let [high, low] = [partials[--at]!, 0];
  while (at > 0 && low === 0) {
    const [before, next] = [high, partials[--at]!];
    high = before + next;
    low = next - (high - before);
  }
  // Half way between two doubles the partials below decide.
  if (at > 0 && low !== 0 && low < 0 === partials[at - 1]! < 0) {
    const [twice, rounded] = [2 * low, high + 2 * low];
    if (twice === rounded - high) return rounded;
  }
  return high;
}

const circles = new Map<number, readonly [cosine: Float64Array, sine: Float64Array]>();

/** Cosine and sine of the first half of so many equal parts of a turn. */
function circle(size: number): readonly [cosine: Float64Array, sine: Float64Array] {
  let known = circles.get(size);
  if (known === undefined) circles.set(size, (known = makeCircle(size)));
  return known;
}

function makeCircle(size: number): readonly [cosine: Float64Array, sine: Float64Array] {
  const [cosine, sine] = [new Float64Array(size / 2), new Float64Array(size / 2)];
  const quarter = size / 4;
  if (size === 2) return [cosine.fill(1), sine];
  for (let k = 0; 2 * k <= quarter; k++) {
    const angle = (k / size) * TWO_PI;
    const square = -angle * angle;
    // Of an eighth the rest is mirrored.
    const [c, s] = size === 4 ? [1, 0] : [series(square, OF_COSINE), angle * series(square, OF_SINE)];
    [cosine[k], sine[k]] = [c, s];
    if (k > 0 && 2 * k < quarter) [cosine[quarter - k], sine[quarter - k]] = [s, c];
  }
  [cosine[quarter], sine[quarter]] = [-sine[0]!, cosine[0]!];
  for (let k = 1; k < quarter; k++) [cosine[quarter + k], sine[quarter + k]] = [-sine[k]!, cosine[k]!];
  return [cosine, sine];
}

/** Σ v[j] (cos + sin)(2π j k / n) for all k, of n = 2^m values; twice it is n times the values. */
export function hartley(values: Float64Array): Float64Array {
  const size = values.length;
  let [table, next]: [Float64Array, Float64Array] = [values, new Float64Array(size)];
  // Transforms of every second value make those of all: row k of the table has place k of each.
  for (let rows = 1; rows < size; rows *= 2) {
    const [cosine, sine] = circle(2 * rows);
    const columns = size / rows / 2;
    for (let k = 0; k < rows; k++) {
      const [c, s] = [cosine[k]!, sine[k]!];
      const even = 2 * k * columns;
      const odd = even + columns;
      const mirrored = (k === 0 ? 0 : rows - k) * 2 * columns + columns;
      const [low, high] = [k * columns, (k + rows) * columns];
      for (let j = 0; j < columns; j++) {
        const turned = c * table[odd + j]! + s * table[mirrored + j]!;
        const straight = table[even + j]!;
        next[low + j] = straight + turned;
        next[high + j] = straight - turned;
      }
    }
    [table, next] = [next, table === values ? new Float64Array(size) : table];
  }
  return table;
}
