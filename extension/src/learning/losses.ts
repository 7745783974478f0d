/**
 * Losses, all of one shape: a person compares its score with a threshold, and sends its update or nothing.
 *
 *     classification   send +y x   when   y · score < θ
 *     regression       send +x     when   score < lower,      -x when score > upper
 *
 * Every loss says where its threshold θ of a round lies, in units of 2^-32. Some draw it anew in every round, from a
 * coin of 53 bits of the person's dice: what is sent then says no more than on which side of a drawn threshold the score
 * was (docs/protocol.md §5). The coordinator multiplies positive and negative counts with `factors`.
 */

import { BadExperimentError } from "../errors.ts";
import { find, number, type Setting } from "./declared.ts";
import { divideHalfEven, floorDivide, Ratio } from "./ratio.ts";

/** Thresholds and targets are integers in units of 2^-THRESHOLD_BITS. */
export const THRESHOLD_BITS = 32n;
export const ONE = 1n << THRESHOLD_BITS;
/** Bits of a coin. */
export const COIN_BITS = 53n;
const TABLE_BITS = 12n;
/** Of the logarithms under the table's knots. */
const LOGARITHM_BITS = 160n;

/** Where the thresholds of a loss lie. */
interface LossShape {
  /** Whether the label is a number to be predicted. */
  readonly regression: boolean;
  /** Whether a person's threshold is drawn anew in every round. */
  readonly tossesCoins: boolean;
  readonly factors: readonly [Ratio, Ratio];
  /** Of a regression: how far a score may be from the target, in its units. */
  readonly halfWidth: Ratio;
  /** θ for a coin. */
  threshold(coin: bigint): bigint;
}

/** A loss that documents can name: its parameter, if it has one, and the shape that a value of it gives. */
interface LossKind {
  readonly parameter: readonly [name: string, setting: Setting<Ratio>] | null;
  shape(parameter: Ratio): Partial<LossShape>;
}

const PLAIN: LossShape = {
  regression: false,
  tossesCoins: false,
  factors: [new Ratio(1), new Ratio(1)],
  halfWidth: new Ratio(0),
  threshold: () => ONE,
};

function clippedAt(clip: Ratio): Partial<LossShape> {
  const factor = new Ratio(2).times(clip);
  return { tossesCoins: true, factors: [factor, factor], threshold: (coin) => ONE - scaledCoin(coin, clip) };
}

const LOSSES: ReadonlyMap<string, LossKind> = new Map<string, LossKind>([
  ["hinge", { parameter: null, shape: () => ({}) }],
  ["perceptron", { parameter: null, shape: () => ({ threshold: () => 0n }) }],
  ["logistic", { parameter: null, shape: () => ({ tossesCoins: true, threshold: logisticQuantile }) }],
  ["squared-hinge", { parameter: ["clip", number(4, { atLeast: 1, atMost: 1024 })], shape: clippedAt }],
  ["modified-huber", { parameter: null, shape: () => clippedAt(new Ratio(2)) }],
  [
    "epsilon-insensitive",
    {
      parameter: ["epsilon", number("0.1", { atLeast: 0 })],
      shape: (halfWidth) => ({ regression: true, halfWidth }),
    },
  ],
  [
    "pinball",
    {
      parameter: ["quantile", number("1/2", { above: 0, below: 1 })],
      shape: (quantile) => ({ regression: true, factors: [quantile, new Ratio(1).minus(quantile)] }),
    },
  ],
]);

/** A loss by name, with its parameter where it has one: what documents say of it. */
export class Loss implements LossShape {
  readonly name: string;
  readonly parameter: Ratio | null;
  readonly regression: boolean;
  readonly tossesCoins: boolean;
  readonly factors: readonly [Ratio, Ratio];
  readonly halfWidth: Ratio;
  readonly threshold: (coin: bigint) => bigint;

  constructor(name: string, given: Ratio | string | null = null) {
    const kind = find(LOSSES, name, "loss");
    if (kind.parameter === null && given !== null) {
      throw new BadExperimentError(`the loss ${name} has no parameter`);
    }
    this.name = name;
    this.parameter = null;
    if (kind.parameter) {
      const [called, setting] = kind.parameter;
      this.parameter = given === null ? setting.default : setting.read(called, given);
    }
    const shape = { ...PLAIN, ...kind.shape(this.parameter ?? new Ratio(0)) };
    this.regression = shape.regression;
    this.tossesCoins = shape.tossesCoins;
    this.factors = shape.factors;
    this.halfWidth = shape.halfWidth;
    this.threshold = shape.threshold;
  }
}

/** floor(clip · coin · 2^(32 - 53)) for a coin without its lowest 21 bits. */
function scaledCoin(coin: bigint, clip: Ratio): bigint {
  return floorDivide((coin >> (COIN_BITS - THRESHOLD_BITS)) * clip.p, clip.q);
}

let knots: readonly bigint[] | null = null;

/** Knots of the logistic quantile ln((1-p)/p) at p = (k + 1/2) / 2^12, in units of 2^-32, rounded half to even. */
export function logisticTable(): readonly bigint[] {
  if (knots === null) {
    const logarithms = logarithmsOfOdd(2 << Number(TABLE_BITS));
    knots = logarithms.map((below, k) => {
      const above = logarithms[logarithms.length - 1 - k]!;
      return divideHalfEven(above - below, 1n << (LOGARITHM_BITS - THRESHOLD_BITS));
    });
  }
  return knots;
}

/** ln 1, ln 3, ln 5, … below `end`, in units of 2^-LOGARITHM_BITS. */
function logarithmsOfOdd(end: number): bigint[] {
  const logarithms: bigint[] = [];
  let sum = 0n;
  for (let n = 1; n < end; n += 2) {
    logarithms.push(sum);
    // ln(n + 2) - ln(n) = 2 artanh(1 / (n + 1))
    const middle = BigInt(n + 1);
    let power = (2n << LOGARITHM_BITS) / middle;
    for (let odd = 1n; power > 0n; odd += 2n) {
      sum += power / odd;
      power /= middle * middle;
    }
  }
  return logarithms;
}

/** Linear between the knots; flat beyond the outermost two, where |θ| = ln(8191) = 9.01. */
function logisticQuantile(coin: bigint): bigint {
  const table = logisticTable();
  const last = BigInt(table.length - 1);
  // Position of the coin among the knots, in units of 2^-20 of a knot: knot k sits at coin (k + 1/2) · 2^41.
  let position = (coin >> (COIN_BITS - TABLE_BITS - 20n)) - (1n << 19n);
  if (position < 0n) position = 0n;
  if (position > last << 20n) position = last << 20n;
  const knot = position >> 20n < last ? position >> 20n : last - 1n;
  const [low, high] = [table[Number(knot)]!, table[Number(knot) + 1]!];
  return low + (((high - low) * (position - (knot << 20n))) >> 20n);
}
