/**
 * Tally: what a round counted. Counts of +1 and -1 per model and bin, of participants, and of test cells.
 *
 * Relays' cover in a net tally: what is taken off it (`uncovered`), and which counts it cannot explain (`explains`).
 */

import { BadInputError } from "../../errors.ts";
import type { RelayCover } from "../coverLaw.ts";
import type { Package } from "../package.ts";

/** Integers of 64 bits. */
export type Counts = BigInt64Array<ArrayBuffer>;

interface TallyFields {
  /** Models × (bins + 1): positive units. */
  readonly plus: readonly Counts[];
  /** The same of negative units. */
  readonly minus: readonly Counts[];
  /** Per label: train participants. */
  readonly participants: Counts;
  /** Labels × labels: true label by predicted label, of test participants. */
  readonly cells: readonly Counts[];
}

/** The counts of one round. Public. */
export class Tally implements TallyFields {
  readonly plus: readonly Counts[];
  readonly minus: readonly Counts[];
  readonly participants: Counts;
  readonly cells: readonly Counts[];

  constructor({ plus, minus, participants, cells }: TallyFields) {
    this.plus = plus;
    this.minus = minus;
    this.participants = participants;
    this.cells = cells;
  }

  /** Nothing counted yet. */
  static empty({ nModels, nBins, nLabels }: { nModels: number; nBins: number; nLabels: number }): Tally {
    return new Tally({
      plus: table(nModels, nBins + 1),
      minus: table(nModels, nBins + 1),
      participants: new BigInt64Array(nLabels),
      cells: table(nLabels, nLabels),
    });
  }

  /** These packages counted on top. That each is counted once is the caller's work: a package has no name. */
  count(packages: Iterable<Package>): Tally {
    const counted = this.#mapped((counts) => counts.slice());
    for (const told of packages) {
      if (told.kind === "train") {
        check(told.sign === 1 || told.sign === -1);
        add((told.sign === 1 ? counted.plus : counted.minus)[told.model], told.binIndex, 1n);
      } else if (told.kind === "participation") {
        add(counted.participants, told.classIndex, told.cohort === "train" ? 1n : 0n);
      } else if (told.kind === "test") {
        add(counted.cells[told.trueClass], told.predictedClass, 1n);
      }
    }
    return counted;
  }

  /** The tally with other train counts. */
  withTrain(plus: readonly Counts[], minus: readonly Counts[]): Tally {
    return new Tally({ ...this, plus, minus });
  }

  #mapped(change: (counts: Counts) => Counts): Tally {
    return new Tally({
      plus: this.plus.map(change),
      minus: this.minus.map(change),
      participants: change(this.participants),
      cells: this.cells.map(change),
    });
  }
}

/** Rows of zeros. */
export function table(rows: number, columns: number): Counts[] {
  return Array.from({ length: rows }, () => new BigInt64Array(columns));
}

function add(counts: Counts | undefined, index: number, count: bigint): void {
  check(counts !== undefined && counts[index] !== undefined);
  counts![index]! += count;
}

function check(fits: boolean): void {
  if (!fits) {
    throw new BadInputError("a package names a model, bin, sign or label that the experiment does not have");
  }
}

/** What is taken off each cell of a net tally, as a tally of this shape (docs/protocol.md §31). */
export function means(cover: RelayCover, like: Tally): Tally {
  const filled = (mean: bigint) => (counts: Counts) => new BigInt64Array(counts.length).fill(mean);
  return new Tally({
    plus: like.plus.map(filled(cover.train.knownMean)),
    minus: like.minus.map(filled(cover.train.knownMean)),
    participants: filled(cover.participation.knownMean)(like.participants),
    cells: like.cells.map(filled(cover.test === null ? 0n : cover.test.knownMean)),
  });
}

/**
 * A *net* tally, from which both opened parts are off already, without the mean of all other parts.
 *
 * Whole numbers. Counts of train cells may be negative: noise is. Numbers of people are not. Without cover the tally
 * stays as it is.
 */
export function uncovered(cover: RelayCover | null, tally: Tally): Tally {
  if (cover === null) return tally;
  const less = (mean: bigint) => (counts: Counts) => counts.map((count) => count - mean);
  const people = (mean: bigint) => (counts: Counts) => counts.map((count) => (count > mean ? count - mean : 0n));
  return new Tally({
    plus: tally.plus.map(less(cover.train.knownMean)),
    minus: tally.minus.map(less(cover.train.knownMean)),
    participants: people(cover.participation.knownMean)(tally.participants),
    cells: tally.cells.map(people(cover.test === null ? 0n : cover.test.knownMean)),
  });
}

/** Whether no cell of a net tally is above `RelayCover.mostInACell`. */
export function explains(cover: RelayCover, tally: Tally, devices: number): boolean {
  const [train, participation, test] = cover.mostInACell(devices);
  const within = (counts: Counts, most: number): boolean => counts.every((count) => count <= most);
  return (
    [...tally.plus, ...tally.minus].every((counts) => within(counts, train!)) &&
    within(tally.participants, participation!) &&
    (test === undefined || tally.cells.every((counts) => within(counts, test)))
  );
}
