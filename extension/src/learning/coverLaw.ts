/**
 * The law of two relays' cover: how many packages each relay adds to every cell of a round, and what is taken off.
 *
 * A relay adds cover in S *parts* (docs/protocol.md §29). One part of each relay is opened after the round and taken off
 * exactly; what stays is S - 1 parts of each. So the law is written for S - 1 parts of **one** relay: they add to each
 * cell of a kind a negative binomial of shape r and odds θ, P(k) = C(k+r-1, k) (1-p)^r p^k with p = θ / (1 + θ), mean
 * r θ, variance r θ (1 + θ). Shapes add where the odds are the same: a part has the shape r / (S - 1), and both relays
 * together 2 r.
 */

import { BadExperimentError } from "../errors.ts";
import { quantileBeyond } from "./coverQuantile.ts";
import { formatGeneral } from "../formatting.ts";
import { Ratio } from "./ratio.ts";

/** Train and test: participation cells are numbered cohort by cohort. */
export const COHORTS = 2;
/** Relays whose cover a net tally holds. */
export const RELAYS = 2;
/** S: with fewer parts one opened part would be too large a share of what the guarantee rests on. */
export const MIN_PARTS = 4;
export const MAX_PARTS = 64;
/** D of one relay in one round is below this. */
export const MAX_PACKAGES = 2 ** 32;
/** Odds beyond this are no noise that anyone can pay; and the tables of sizes grow with the odds. */
export const MAX_ODDS = 1 << 14;
export const MAX_SHAPE = 1 << 16;
/** Packages that one relay adds to one cell on average; the quantile is summed up from zero. */
export const MAX_MEAN_PER_CELL = 1 << 20;

const ZERO = new Ratio(0);
const ONE = new Ratio(1);

/** What any S - 1 parts of one relay add to each cell of one kind, in every round of an experiment. Public. */
export class Noise {
  readonly cells: number;
  /** r of the negative binomial. */
  readonly shape: Ratio;
  /** p / (1 - p). */
  readonly odds: Ratio;

  constructor({ cells, shape, odds }: { cells: number; shape: Ratio; odds: Ratio }) {
    this.cells = cells;
    this.shape = shape;
    this.odds = odds;
    if (cells < 1) throw new BadExperimentError(`noise for ${cells} cells: there must be at least 1`);
    if (!isWithin(shape, MAX_SHAPE)) {
      throw new BadExperimentError(`a shape of ${short(shape)} lies outside of 0 … ${MAX_SHAPE}`);
    }
    if (!isWithin(odds, MAX_ODDS)) {
      throw new BadExperimentError(`odds of ${short(odds)} lie outside of 0 … ${MAX_ODDS}`);
    }
    if (this.mean.compare(new Ratio(MAX_MEAN_PER_CELL)) > 0) {
      throw new BadExperimentError(
        `a relay would add ${short(this.mean)} packages to a cell on average, and ${MAX_MEAN_PER_CELL} are the` +
          " limit: plan with smaller odds",
      );
    }
  }

  /** The negative binomial's p. */
  get p(): Ratio {
    return this.odds.over(ONE.plus(this.odds));
  }

  /** Packages per cell on average, of S - 1 parts of one relay. */
  get mean(): Ratio {
    return this.shape.times(this.odds);
  }

  /** Of the number of packages per cell, of S - 1 parts of one relay. */
  get variance(): Ratio {
    return this.mean.times(ONE.plus(this.odds));
  }

  /** What is taken off a cell of a net tally: the mean of both relays' S - 1 parts, half to even. */
  get knownMean(): bigint {
    return new Ratio(RELAYS).times(this.mean).round();
  }

  /** The shape that one of S parts adds to each cell. */
  part(parts: number): Ratio {
    return this.shape.over(new Ratio(parts - 1));
  }

  /** q: the least number with P(count of a cell ≤ q) ≥ 1 - 1e-12, for S - 1 parts of one relay. */
  get quantile(): number {
    return quantileBeyond(this.shape, this.odds);
  }
}

export interface RelayCoverFields {
  readonly train: Noise;
  readonly participation: Noise;
  /** null where nobody is tested. */
  readonly test: Noise | null;
  /** S. */
  readonly parts: number;
  /** D, cover packages of one relay in a round, nulls included. */
  readonly packages: number;
  /** The share of devices in the train cohort. */
  readonly trainShare?: Ratio;
}

/** What each of the two relays of an experiment adds in every round. Public. */
export class RelayCover implements RelayCoverFields {
  readonly train: Noise;
  readonly participation: Noise;
  readonly test: Noise | null;
  readonly parts: number;
  readonly packages: number;
  readonly trainShare: Ratio;

  constructor({ train, participation, test, parts, packages, trainShare = ONE }: RelayCoverFields) {
    this.train = train;
    this.participation = participation;
    this.test = test;
    this.parts = parts;
    this.packages = packages;
    this.trainShare = trainShare;
    if (parts < MIN_PARTS || parts > MAX_PARTS) {
      throw new BadExperimentError(
        `${parts} parts of a relay's cover: there are ${MIN_PARTS} to ${MAX_PARTS}`,
      );
    }
    if (packages <= 0 || packages >= MAX_PACKAGES || packages % parts !== 0) {
      throw new BadExperimentError(
        `${packages} cover packages of a relay are no positive multiple of its ${parts} parts below ${MAX_PACKAGES}`,
      );
    }
    if (!isWithin(trainShare, 1)) {
      throw new BadExperimentError("the share of devices that train must lie above 0 and at most at 1");
    }
    if (this.meanOfPart.compare(new Ratio(this.partPackages)) > 0) {
      throw new BadExperimentError(
        `a part holds ${this.partPackages} packages, and its cells alone ask for ${this.meanOfPart.ceil()} on` +
          ` average: plan with more than ${packages} packages of a relay`,
      );
    }
  }

  /** Train, participation and, where there is one, test: the order in which cells are numbered and drawn. */
  get kinds(): readonly Noise[] {
    return [this.train, this.participation, ...(this.test === null ? [] : [this.test])];
  }

  /** D / S: exactly so many packages are in each part. */
  get partPackages(): number {
    return this.packages / this.parts;
  }

  /** Packages of one part that name a cell, on average; the others are nulls. */
  get meanOfPart(): Ratio {
    return this.kinds.reduce(
      (sum, noise) => sum.plus(new Ratio(noise.cells).times(noise.part(this.parts)).times(noise.odds)),
      ZERO,
    );
  }

  /** The variance that cover gives to each train cell of a net tally: of 2 (S - 1) parts, whatever is counted. */
  get trainVariance(): Ratio {
    return new Ratio(RELAYS).times(this.train.variance);
  }

  /** The variance that cover gives to each test cell of a net tally: part of every interval. */
  get testVariance(): number {
    return this.test === null ? 0 : new Ratio(RELAYS).times(this.test.variance).toNumber();
  }

  /**
   * Per kind the largest count of a net tally's cell that people and cover explain: M + 2 q.
   *
   * A round with a larger one is opened and not stepped (docs/protocol.md §31).
   */
  mostInACell(devices: number): number[] {
    return this.kinds.map((noise) => devices + RELAYS * noise.quantile);
  }
}

/**
 * B of an experiment with relays' cover: participation, every unit before thinning, and the canary.
 *
 * `violable`: models that one person can violate in a round. A feature has a unit for each hash; the bias is not hashed.
 */
export function relayBudget({ violable, features, hashes = 1 }: {
  violable: number;
  features: number;
  hashes?: number;
}): number {
  return 2 + violable * (hashes * features + 1);
}

/** Refuse a budget that is `relayBudget` for no number of hashes. */
export function checkRelayBudget(budget: number, { violable, features }: { violable: number; features: number }): void {
  const least = relayBudget({ violable, features });
  if (budget < least || (budget - least) % (violable * features) !== 0) {
    throw new BadExperimentError(
      `a budget of ${budget} is not that of relays' cover: it is ${least} with one hash, and` +
        ` ${violable * features} more with each further one`,
    );
  }
}

function isWithin(value: Ratio, most: number): boolean {
  return value.compare(ZERO) > 0 && value.compare(new Ratio(most)) <= 0;
}

function short(number: Ratio): string {
  const text = number.toString();
  return text.length <= 30 ? text : `about ${formatGeneral(number.toNumber(), 6)}`;
}
