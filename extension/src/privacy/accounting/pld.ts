/**
 * Privacy-loss distributions on a grid: how much two worlds differ after many independent looks, never too little.
 *
 * The steps are those of Python's `secvm.privacy.accounting.pld`, which says why each of them moves away from the truth
 * towards a larger δ: an atom is split between its two grid points, what lies beyond counts as +∞, and sums are those of
 * a circular transform of tilted laws, with what falls off added.
 */

import { BadInputError } from "../../errors.ts";
import { keepPatience } from "./patience.ts";
import { dot, exp, expm1, hartley, log, log1p, sumOnce, total } from "./reals.ts";

/** The search for ε goes up by this factor. */
const GROWTH = 1.3;
/** Nothing is protected long before. */
const MAX_EPSILON = 32;
/** A look's share of the transform's rounding, in units of the largest coefficient, 1: 2^-52 times a generous 64. */
const ROUNDING = 64 * 2 ** -52;
/** Relative. */
const MARGIN = 1e-9;
const NEARLY_NOTHING = 1e-24;
const NEGLIGIBLE = 1e-6;
/** A window holds so many standard deviations of the tilted sum on either side. */
const DEVIATIONS = 10;
const MAX_WINDOW = 1 << 24;
/** Losses from near nothing to far more would ask for more places than this. */
const MOST_PLACES = 1 << 22;
/** Exponents are cut here, where a double still holds e^x. */
const MOST_EXPONENT = 700;

/** The law under P of the loss of one look: `mass[i]` at the loss (first + i) · step, and `infinite` at +∞. */
export class PrivacyLoss {
  readonly step: number;
  readonly first: number;
  readonly mass: Float64Array;
  readonly infinite: number;
  readonly losses: Float64Array;

  constructor({ step, first, mass, infinite }: { step: number; first: number; mass: Float64Array; infinite: number }) {
    [this.step, this.first, this.mass, this.infinite] = [step, first, mass, infinite];
    this.losses = mass.map((_, i) => (first + i) * step);
  }

  /** The finite part times e^(tilt · loss), made to sum to 1, and the logarithm of what it summed to. */
  tilted(tilt: number): readonly [law: Float64Array, logSum: number] {
    const { mass, losses } = this;
    let top = -Infinity;
    for (const loss of losses) top = Math.max(top, tilt * loss);
    const weights = new Float64Array(mass.length);
    for (let i = 0; i < mass.length; i++) weights[i] = mass[i]! * exp(tilt * losses[i]! - top);
    const whole = total(weights);
    for (let i = 0; i < weights.length; i++) weights[i]! /= whole;
    return [weights, top + log(whole)];
  }
}

/** Atoms with finite losses onto a grid: each is split between its two points, and long tails of nothing are cut. */
export function discretise(
  losses: Float64Array,
  mass: Float64Array,
  { infinite, step }: { infinite: number; step: number },
): PrivacyLoss {
  const places = losses.map((loss) => Math.floor(loss / step));
  let [first, last] = [Infinity, -Infinity];
  for (const place of places) [first, last] = [Math.min(first, place), Math.max(last, place)];
  if (!(last - first <= MOST_PLACES)) {
    throw new BadInputError("this noise hides some counts and not others: its guarantee cannot be calculated");
  }
  const [lower, upper] = [new Float64Array(last - first + 2), new Float64Array(last - first + 2)];
  const whole = expm1(-step);
  for (let i = 0; i < places.length; i++) {
    const share = (mass[i]! * expm1(-(losses[i]! - places[i]! * step))) / whole;
    // Rounding may leave an atom a hair outside its two points: no negative mass.
    const above = Math.min(Math.max(share, 0), mass[i]!);
    lower[places[i]! - first]! += mass[i]! - above;
    upper[places[i]! - first + 1]! += above;
  }
  const grid = lower.map((below, i) => below + upper[i]!);
  // Long tails of nearly nothing cost time: the upper one becomes infinite, the lower one moves up to its end.
  const low = placesBefore(grid);
  const high = grid.length - placesBefore(grid.slice().reverse());
  if (low >= high) return new PrivacyLoss({ step, first, mass: grid.slice(0, 0), infinite: 1 });
  const kept = grid.slice(low, high);
  kept[0]! += total(grid.subarray(0, low));
  return new PrivacyLoss({ step, first: first + low, mass: kept, infinite: infinite + total(grid.subarray(high)) });
}

/** How many places there are before their sum is worth anything. */
function placesBefore(grid: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < grid.length; i++) {
    sum += grid[i]!;
    if (sum >= NEARLY_NOTHING) return i;
  }
  return grid.length;
}

/** A loss, and so many looks that have it. */
export type Part = readonly [loss: PrivacyLoss, looks: number];

/** Many looks: each loss so many times, all on the same grid. */
export class Looks {
  readonly #parts: readonly Part[];

  constructor(parts: readonly Part[]) {
    this.#parts = parts;
  }

  /** Upper bounds on δ at several ε, from one transform: sharp at the smallest. */
  deltas(epsilons: readonly number[]): number[] {
    if (this.#parts.some(([{ infinite }]) => infinite >= 1)) return epsilons.map(() => 1);
    const most = this.#sum((loss) => loss.losses.at(-1)!);
    const asked = epsilons.filter((epsilon) => epsilon < most);
    const finite = new Map(asked.length ? this.#finite(asked).map((delta, i) => [asked[i]!, delta]) : []);
    return epsilons.map((epsilon) => Math.min(1, (1 + MARGIN) * ((finite.get(epsilon) ?? 0) + this.unbounded)));
  }

  /** What δ(ε) never falls below, however large ε is: the chance of an infinite loss. */
  get unbounded(): number {
    return -expm1(this.#sum(({ infinite }) => log1p(-infinite)));
  }

  #finite(epsilons: readonly number[]): number[] {
    keepPatience();
    const smallest = Math.min(...epsilons);
    const tilt = this.#tilt(smallest);
    // Chernoff's bound on the whole answer: where it is nothing beside the rest, it is the answer.
    const cumulant = this.#cumulant(tilt);
    const atMost = exp(Math.min(0, cumulant - tilt * smallest));
    if (atMost < NEGLIGIBLE * Math.max(this.unbounded, NEARLY_NOTHING)) return epsilons.map(() => atMost);
    const { step } = this.#parts[0]![0];
    let [mean, variance, first] = [0, 0, 0];
    const laws = this.#parts.map(([loss, n]) => {
      const [law] = loss.tilted(tilt);
      const centre = dot(law, loss.losses);
      mean += n * centre;
      variance += n * dot(law, loss.losses.map((one) => (one - centre) * (one - centre)));
      first += n * loss.first;
      return [law, n] as const;
    });
    const { lowest, size, above } = this.#window({ half: DEVIATIONS * Math.sqrt(variance) + 2 * step, mean, tilt, atMost });
    // Place i of the circle is every index that leaves the rest i when the firsts are taken off.
    const circle = convolved(laws.map(([law, n]) => [wrapped(law, size), n]));
    const turn = (((lowest - first) % size) + size) % size;
    const rounding = ROUNDING * this.#parts.reduce((sum, [, n]) => sum + n, 0);
    const losses = new Float64Array(size);
    const untilted = new Float64Array(size);
    const sums = new Float64Array(size);
    for (let i = 0; i < size; i++) {
      const loss = step * (lowest + i);
      losses[i] = loss;
      untilted[i] = exp(Math.min(cumulant - tilt * loss, MOST_EXPONENT));
      sums[i] = Math.max(circle[(i + turn) % size]!, 0) + rounding;
    }
    return epsilons.map((epsilon) => {
      if (lowest * step > epsilon) return 1;
      const start = losses.findIndex((loss) => loss > epsilon);
      const inside = start < 0 ? size : start;
      const shares = losses.slice(inside);
      for (let i = 0; i < shares.length; i++) shares[i] = -expm1(epsilon - shares[i]!) * sums[inside + i]!;
      return dot(shares, untilted.subarray(inside)) + above;
    });
  }

  /** Where the circle begins, how large it is, and a bound on what falls off above. */
  #window({ half, mean, tilt, atMost }: { half: number; mean: number; tilt: number; atMost: number }) {
    const { step } = this.#parts[0]![0];
    for (let [size, wide] = [256, half]; ; wide *= 2) {
      while (size < (2 * wide) / step) size *= 2;
      const lowest = Math.floor(mean / step) - size / 2;
      const above = this.#chernoff((lowest + size) * step, tilt);
      if (above < NEGLIGIBLE * atMost || size >= MAX_WINDOW) return { lowest, size, above };
    }
  }

  #cumulant(tilt: number): number {
    return this.#sum((loss) => loss.tilted(tilt)[1]);
  }

  /** P(sum > loss), the best of a few tilts. */
  #chernoff(loss: number, tilt: number): number {
    const exponents = [1, 1.5, 2, 3].map((c) => this.#cumulant(c * tilt) - c * tilt * loss);
    return exp(Math.min(0, ...exponents));
  }

  /** About the tilt that makes ε the mean of the sum, and at least a little. Any is right, this one is sharp. */
  #tilt(epsilon: number): number {
    let [low, high] = [0, 1];
    while (this.#mean(high) < epsilon && high < 2 ** 20) [low, high] = [high, 2 * high];
    for (let i = 0; i < 12; i++) {
      const middle = (low + high) / 2;
      [low, high] = this.#mean(middle) < epsilon ? [middle, high] : [low, middle];
    }
    return Math.max(high, 0.5);
  }

  #mean(tilt: number): number {
    return this.#sum((loss) => dot(loss.tilted(tilt)[0], loss.losses));
  }

  /** Over all looks. */
  #sum(of: (loss: PrivacyLoss) => number): number {
    return sumOnce(this.#parts.map(([loss, n]) => n * of(loss)));
  }
}

/** Real and imaginary parts. */
type Complex = readonly [real: Float64Array, imaginary: Float64Array];

/** Of laws around one circle, each so many times. */
function convolved(laws: readonly (readonly [law: Float64Array, n: number])[]): Float64Array {
  const size = laws[0]![0].length;
  const half = size / 2;
  let product: Complex | null = null;
  for (const [law, n] of laws) {
    const there = hartley(law);
    const [real, imaginary] = [new Float64Array(half + 1), new Float64Array(half + 1)];
    for (let k = 0; k <= half; k++) {
      const back = there[k === 0 ? 0 : size - k]!;
      real[k] = (there[k]! + back) / 2;
      imaginary[k] = (back - there[k]!) / 2;
    }
    const power = powerOf([real, imaginary], n);
    // A large circle takes a second each.
    keepPatience();
    product = product === null ? power : times(product, power);
  }
  const [real, imaginary] = product!;
  const whole = new Float64Array(size);
  for (let k = 0; k <= half; k++) {
    whole[k] = real[k]! - imaginary[k]!;
    if (k > 0 && k < half) whole[size - k] = real[k]! + imaginary[k]!;
  }
  return hartley(whole).map((sum) => sum / size);
}

/** By squaring, for n above 0. */
function powerOf(given: Complex, n: number): Complex {
  let [base, power]: [Complex, Complex | null] = [given, null];
  // So many looks may be more than 32 bits hold.
  for (let left = n; ; base = times(base, base)) {
    if (left % 2 === 1) power = power === null ? base : times(power, base);
    left = Math.floor(left / 2);
    if (left === 0) return power!;
  }
}

function times(a: Complex, b: Complex): Complex {
  const [real, imaginary] = [new Float64Array(a[0].length), new Float64Array(a[0].length)];
  for (let k = 0; k < real.length; k++) {
    const [ar, ai, br, bi] = [a[0][k]!, a[1][k]!, b[0][k]!, b[1][k]!];
    real[k] = ar * br - ai * bi;
    imaginary[k] = ar * bi + ai * br;
  }
  return [real, imaginary];
}

/** A law laid around a circle. */
function wrapped(law: Float64Array, size: number): Float64Array {
  const circle = new Float64Array(size);
  for (let i = 0; i < law.length; i++) circle[i % size]! += law[i]!;
  return circle;
}

/**
 * The smallest ε ≥ `atLeast` with δ(ε) ≤ delta, at most 1e-4 of it too large; +∞ beyond `MAX_EPSILON`.
 *
 * A δ that first falls and then grows may be missed where it is low for less than a step of the search. The answer is
 * then too large, never too small.
 */
export function smallestEpsilon(deltaOf: (epsilon: number) => number, delta: number, atLeast = 0): number {
  let [low, high] = [atLeast, Math.max(GROWTH * atLeast, 0.25)];
  if (deltaOf(low) <= delta) return low;
  while (deltaOf(high) > delta) {
    [low, high] = [high, GROWTH * high];
    if (high > MAX_EPSILON) return Infinity;
  }
  while (high - low > 1e-4 * high) {
    const middle = (low + high) / 2;
    [low, high] = deltaOf(middle) <= delta ? [low, middle] : [middle, high];
  }
  return high;
}
