/**
 * Dice: where a participant's randomness comes from, as a port.
 *
 * Devices throw the browser's dice. Tests throw seeded ones, which are *unsafe* on a device: who knows the seed knows
 * every throw. They are SipHash-2-4 in counter mode: word i of (purpose, round, model) is the hash of
 * `round << 44 | model << 32 | i` as eight little-endian bytes, under a key that is BLAKE2b of seed, participant and
 * purpose. Any word can be had without the others, in any language.
 *
 * What is drawn once, when a person joins an experiment: whether it trains or tests, and which of its features the
 * experiment gets to see.
 */

import { compare, concat, littleEndian, utf8 as encoded, type Bytes } from "../../bytes.ts";
import { blake2b } from "../../crypto/hashes.ts";
import { ArithmeticRangeError, BadInputError } from "../../errors.ts";
import { siphash24 } from "../_kernels/siphash.ts";
import { MAX_MODELS } from "../labelModels.ts";
import type { Cohort } from "../package.ts";
import type { Ratio } from "../ratio.ts";
import { utf8 } from "./binning.ts";

const TAG = "secvm-v1-dice";
/** A 64-bit word is cut to this many bits, which every language holds exactly. */
export const DRAW_BITS = 53n;
const CUT_BITS = 64n - DRAW_BITS;
const MAX_ROUNDS = 1 << 20;

/** What a throw decides; throws for different purposes never share a word. */
export type Purpose = "cohort" | "features" | "coin" | "thinning" | "budget";

/** One participant's dice. */
export interface Dice {
  /** `count` uniform 64-bit words. Seeded dice give the same words for the same arguments. */
  words(purpose: Purpose, round: number, model: number, count: number): bigint[];
}

/** Dice that anyone who knows the seed can throw again: for tests. */
export class UnsafeSeededDice implements Dice {
  readonly #seed: Uint8Array;
  readonly #participant: number;

  constructor(seed: Uint8Array, participant: number) {
    this.#seed = seed;
    this.#participant = participant;
  }

  words(purpose: Purpose, round: number, model: number, count: number): bigint[] {
    const key = diceKey(this.#seed, this.#participant, purpose);
    return Array.from({ length: count }, (_, index) => diceWord(key, round, model, index));
  }
}

/** The SipHash key of one participant's throws for one purpose. */
export function diceKey(seed: Uint8Array, participant: number, purpose: Purpose): Bytes {
  const message = concat(littleEndian(participant, 8), littleEndian(seed.length, 4), seed, encoded(purpose));
  return blake2b(message, { size: 16, person: TAG });
}

/** Word `index` of a seeded stream: 20 bits of round, 12 of model, 32 of index, and not one more. */
export function diceWord(key: Uint8Array, round: number, model: number, index: number): bigint {
  if (!(0 <= round && round < MAX_ROUNDS && 0 <= model && model < MAX_MODELS)) {
    throw new ArithmeticRangeError("dice have words for 2^20 rounds and 2^12 models");
  }
  const counter = new Uint32Array([index, round * MAX_MODELS + model]);
  const { high, low } = siphash24(key, new Uint8Array(counter.buffer));
  return (BigInt(high) << 32n) | BigInt(low);
}

/** A word's upper 53 bits. */
export function cut(word: bigint): bigint {
  return word >> CUT_BITS;
}

/** Train with probability `trainShare`, to 53 bits. */
export function drawCohort(trainShare: Ratio, dice: Dice): Cohort {
  const word = cut(dice.words("cohort", 0, 0, 1)[0]!);
  return word * trainShare.q < trainShare.p << DRAW_BITS ? "train" : "test";
}

/**
 * At most `limit` of a person's features, drawn once per experiment without replacement.
 *
 * Features that are there (value not zero) stand in the order of their UTF-8 bytes, each draws a word, and the smallest
 * words win. The draw does not depend on the round: a new sample each round would empty a history bit by bit.
 */
export function sampleFeatures(
  features: ReadonlyMap<string, number>,
  limit: number | null,
  dice: Dice,
): Map<string, number> {
  const there = [...features].filter(([, value]) => value !== 0);
  if (limit === null || there.length <= limit) return new Map(there);
  if (limit < 1) throw new BadInputError("the number of features per person must be at least 1");
  const ordered = there
    .map((entry) => ({ entry, bytes: utf8(entry[0]) }))
    .sort((a, b) => compare(a.bytes, b.bytes))
    .map(({ entry }) => entry);
  return new Map(smallest(ordered, dice.words("features", 0, 0, ordered.length), limit));
}

/** The `limit` items with the smallest words, in their order; of equal words the first. */
export function smallest<T>(items: readonly T[], words: readonly bigint[], limit: number): T[] {
  const ranked = [...items.keys()].sort((a, b) => (words[a]! < words[b]! ? -1 : words[a]! > words[b]! ? 1 : a - b));
  const chosen = new Set(ranked.slice(0, limit));
  return items.filter((_, i) => chosen.has(i));
}
