/**
 * Counting: which inner capsules count, and for which cell; a rule that says something of all bytes (§31).
 *
 * A capsule counts when it has 80 bytes, opens with the round's count key, and holds a package of this experiment and
 * round that names only what the experiment has. Everything else is junk, and never an error: a wrong length, an exchange
 * that is zero, a wrong tag, bytes that are no package, a package of elsewhere. So whoever has the published seed counts
 * the same. A null package counts for no cell, and is no junk. Cells of all kinds are numbered through (§26):
 *
 *     train            model · (bins + 1) · 2 + bin · 2 + (0 for +1, 1 for −1), the bias bin last
 *     participation    cohort · labels + label, cohort 0 train, 1 test
 *     test             true · labels + predicted; none where the label is a number
 */

import type { Bytes } from "../../bytes.ts";
import { X25519PrivateKey } from "../../crypto/sealing/kem.ts";
import { innerLayer } from "../../crypto/sealing/layers.ts";
import { MalformedMessageError, OpeningError, RefusedPackageError } from "../../errors.ts";
import { COHORTS } from "../../learning/coverLaw.ts";
import type { Experiment } from "../../learning/experiment.ts";
import type { Package } from "../../learning/package.ts";
import { checkPackage, decode } from "../codec.ts";
import type { ExperimentDocument } from "../documents/experiment.ts";
import { labelOfRound, type RelayedManifest } from "./manifest.ts";
import { writeSubTally } from "./shards.ts";

interface CellsFields {
  readonly models: number;
  /** Without the bias. */
  readonly bins: number;
  readonly labels: number;
  /** False where the label is a number. */
  readonly tested: boolean;
}

/** How many cells an experiment has of each kind, and which package is in which. */
export class Cells implements CellsFields {
  readonly models: number;
  readonly bins: number;
  readonly labels: number;
  readonly tested: boolean;

  constructor({ models, bins, labels, tested }: CellsFields) {
    this.models = models;
    this.bins = bins;
    this.labels = labels;
    this.tested = tested;
  }

  /** Those of an experiment. */
  static of({ models, nBins, labels, loss }: Experiment): Cells {
    return new Cells({ models: models.nModels, bins: nBins, labels: labels.length, tested: !loss.regression });
  }

  /** Train cells; the first participation cell has this number. */
  get train(): number {
    return this.models * (this.bins + 1) * 2;
  }

  /** Participation cells. */
  get participation(): number {
    return COHORTS * this.labels;
  }

  /** Test cells. */
  get test(): number {
    return this.tested ? this.labels ** 2 : 0;
  }

  /** All of them. */
  get count(): number {
    return this.train + this.participation + this.test;
  }

  /** The cell of a package that belongs to the experiment; null for a null. */
  cellOf(content: Package): number | null {
    switch (content.kind) {
      case "train":
        return (content.model * (this.bins + 1) + content.binIndex) * 2 + (content.sign === 1 ? 0 : 1);
      case "participation":
        return this.train + (content.cohort === "train" ? 0 : this.labels) + content.classIndex;
      case "test":
        return this.train + this.participation + content.trueClass * this.labels + content.predictedClass;
      case "null":
        return null;
    }
  }
}

/** What stands for a cell where a package is in none, and where there is no package. */
export const NULL = -1;
export const JUNK = -2;

interface CountedCapsules {
  readonly document: ExperimentDocument;
  readonly label: Bytes;
  readonly roundNumber: number;
  readonly key: X25519PrivateKey;
}

/** Whoever has the count key of a round, and counts. Does not show the key when printed. */
export class CapsuleReader {
  readonly document: ExperimentDocument;
  readonly label: Bytes;
  readonly roundNumber: number;
  readonly #key: X25519PrivateKey;
  readonly #cells: Cells;

  constructor({ document, label, roundNumber, key }: CountedCapsules) {
    this.document = document;
    this.label = label;
    this.roundNumber = roundNumber;
    this.#key = key;
    this.#cells = Cells.of(document.experiment);
  }

  /** With the seed of the round's count key, which `openingFaults` has compared with the manifest. */
  static async of(document: ExperimentDocument, manifest: RelayedManifest, seed: Bytes): Promise<CapsuleReader> {
    const { roundNumber } = manifest;
    const key = await X25519PrivateKey.derive(seed);
    return new CapsuleReader({ document, label: labelOfRound(manifest), roundNumber, key });
  }

  /** What a capsule counts as; null: junk. */
  async package(capsule: Bytes): Promise<Package | null> {
    try {
      return this.packageOf(await innerLayer(this.label).open(this.#key, capsule));
    } catch (fault) {
      if (!(fault instanceof OpeningError)) throw fault;
      return null;
    }
  }

  /** The same of what was under the seal, for whoever opens many at once. */
  packageOf(content: Bytes): Package | null {
    const { experimentId, experiment } = this.document;
    try {
      return checkPackage(decode(content), { experimentId, experiment, roundNumber: this.roundNumber });
    } catch (fault) {
      if (!(fault instanceof MalformedMessageError || fault instanceof RefusedPackageError)) throw fault;
      return null;
    }
  }

  /** The cell of each of these capsules of 80 bytes, which lie side by side, or `NULL`, or `JUNK`. */
  async cells(capsules: Bytes): Promise<number[]> {
    const contents = await innerLayer(this.label).openAll(this.#key, capsules);
    return contents.map((content) => {
      const counted = content === null ? null : this.packageOf(content);
      return counted === null ? JUNK : (this.#cells.cellOf(counted) ?? NULL);
    });
  }
}

/** Packages per cell of a shard, as its sub-tally writes them. */
export function subTallyOf(cells: readonly number[]): Bytes {
  const counts = new Map<number, number>();
  for (const cell of cells) if (cell >= 0) counts.set(cell, (counts.get(cell) ?? 0) + 1);
  return writeSubTally(counts);
}
