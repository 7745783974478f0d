/**
 * Features to bins: a salted hash into few bins, or a public vocabulary as the bins.
 *
 * The rules, in the order they apply (docs/protocol.md §2):
 *
 *  1. A feature is text, taken as its UTF-8 bytes and never normalised. Its value is an integer; zero means absent.
 *  2. Hash r of a feature is SipHash-2-4 under key r; its upper 32 bits, scaled, are the bin. Key r is BLAKE2b of the
 *     salt, the number of bins and r.
 *  3. Values that land in one bin add; a bin whose values cancel is absent. In an experiment with cover a bin is there
 *     or not: 1 for whatever lands in it.
 *  4. One more bin, the bias, is always there with value 1, is not hashed, and has the last index.
 *  5. With a vocabulary the bins are its words, in its order; other features are dropped. Its digest names it.
 */

import { concat, hex, littleEndian, utf8 as encoded, type Bytes } from "../../bytes.ts";
import { blake2b } from "../../crypto/hashes.ts";
import { ArithmeticRangeError, BadExperimentError, BadInputError } from "../../errors.ts";
import { MAX_BINS, MAX_HASHES, whole } from "../declared.ts";
import { reduceToBin, siphash24 } from "../_kernels/siphash.ts";
import { MAX_UNITS } from "../rows.ts";

const KEY_TAG = "secvm-v1-binning";
const VOCABULARY_TAG = "secvm-v1-vocab";
const LINE_FEED = Uint8Array.of(10);

const BINS = whole(1, { atLeast: 1, atMost: MAX_BINS });
const HASHES = whole(1, { atLeast: 1, atMost: MAX_HASHES });

/** One person's integer counts per bin, without the bias. Secret. */
export class BinnedVector {
  /** Bin to value, ascending, no zeros. */
  readonly values: ReadonlyMap<number, number>;
  readonly nBins: number;

  constructor(values: ReadonlyMap<number, number>, nBins: number) {
    this.values = values;
    this.nBins = nBins;
  }

  /** All bins of the person, the bias bin last. */
  withBias(): Map<number, number> {
    return new Map([...this.values, [this.nBins, 1]]);
  }
}

/** How features become bins. */
export interface Binning {
  readonly nBins: number;
  /** The bin of each hash of a feature; one bin may come twice. */
  binsOf(feature: string): number[];
}

/** Bins by salted hash. */
export class HashBinning implements Binning {
  readonly nBins: number;
  /** The 16-byte SipHash key of each hash. */
  readonly keys: readonly Bytes[];

  /** `salt`: public randomness nobody chose. */
  constructor({ nBins, salt, nHashes = 1 }: { nBins: number; salt: Uint8Array; nHashes?: number }) {
    this.nBins = BINS.read("bins", nBins);
    this.keys = Array.from({ length: HASHES.read("hashes", nHashes) }, (_, r) =>
      blake2b(concat(salt, littleEndian(nBins, 8), littleEndian(r, 4)), { size: 16, person: KEY_TAG }),
    );
  }

  binsOf(feature: string): number[] {
    const data = utf8(feature);
    return this.keys.map((key) => reduceToBin(siphash24(key, data), this.nBins));
  }
}

/** A public list of words as the bins. */
export class VocabularyBinning implements Binning {
  readonly words: readonly string[];
  readonly #index: ReadonlyMap<string, number>;

  constructor(words: readonly string[]) {
    this.words = words;
    this.#index = new Map(words.map((word, place) => [word, place]));
    if (!words.length) throw new BadExperimentError("the vocabulary has no words");
    if (this.#index.size !== words.length) throw new BadExperimentError("the vocabulary has a word twice");
    if (words.some((word) => word.includes("\n"))) {
      throw new BadExperimentError("a word of the vocabulary has a line break in it");
    }
  }

  get nBins(): number {
    return this.words.length;
  }

  /** BLAKE2b-256 of the words, one a line, in hexadecimal: the name of this vocabulary. */
  get digest(): string {
    const lines = this.words.flatMap((word) => [utf8(word), LINE_FEED]);
    return hex(blake2b(concat(...lines), { size: 32, person: VOCABULARY_TAG }));
  }

  /** The bin of a word, or none. */
  binsOf(feature: string): number[] {
    const place = this.#index.get(feature);
    return place === undefined ? [] : [place];
  }
}

/** The bytes of a feature. Half a surrogate pair has none. */
export function utf8(text: string): Bytes {
  if (!text.isWellFormed()) throw new BadInputError("a feature is no valid Unicode text");
  return encoded(text);
}

/**
 * One person's features, as values per bin.
 *
 * With `presence` every feature of positive value counts 1; a negative value has no presence and is refused.
 * `onePerBin` is presence after hashing, too: two features of one person in one bin are one unit. Experiments with
 * cover need it, because their guarantee is about one unit.
 */
export function binFeatures(
  features: ReadonlyMap<string, number>,
  binning: Binning,
  options: { presence?: boolean; onePerBin?: boolean } = {},
): BinnedVector {
  const { presence = false, onePerBin = false } = options;
  const counts = presence || onePerBin;
  const totals = new Map<number, number>();
  for (const [feature, value] of features) {
    if (counts && value < 0) {
      throw new BadInputError("a feature has a negative value, which has no meaning as presence");
    }
    if (value === 0) continue;
    for (const bin of binning.binsOf(feature)) {
      totals.set(bin, onePerBin ? 1 : (totals.get(bin) ?? 0) + (counts ? 1 : value));
    }
  }
  const units = [...totals.values()].reduce((sum, value) => sum + Math.abs(value), 0);
  if (units >= MAX_UNITS) {
    throw new ArithmeticRangeError(
      `a person has ${MAX_UNITS} units or more; sums would no longer be exact everywhere`,
    );
  }
  const there = [...totals].filter(([, value]) => value !== 0).sort(([a], [b]) => a - b);
  return new BinnedVector(new Map(there), binning.nBins);
}
