/** What a device's state holds of experiments, as it comes out and goes in, and how a person's bins are written. */

import { concat, fromLittleEndian, littleEndian, type Bytes } from "../bytes.ts";
import { StoreError } from "../errors.ts";
import type { Cohort } from "../learning/package.ts";
import type { RequestRow } from "./relayedBook.ts";

const NUMBER_BYTES = 8;

/** What the person has decided about an experiment. */
export type Status = "joined" | "paused" | "forgotten" | "declined";

/** The person as an experiment sees it. */
export interface Pinned {
  /** Bin to value, ascending, no zeros. */
  readonly vector: { readonly values: ReadonlyMap<number, number>; readonly nBins: number };
  readonly label: number;
  readonly target: number;
  readonly cohort: Cohort;
}

/** One experiment on this device. */
export interface ExperimentRecord {
  readonly digest: string;
  readonly status: Status;
  /** As it was served. */
  readonly envelope: Bytes;
  readonly cohort: Cohort | null;
  /** The person, pinned when they joined; null: never joined, or forgotten. */
  readonly person: Pinned | null;
  /** The statement that the experiment is over, as it was served. */
  readonly ending: Bytes | null;
  /** The salt that beacons fixed, as it was when the person joined. */
  readonly salt: Bytes | null;
}

/** What left the device in one round. */
export interface RoundHistory {
  readonly roundNumber: number;
  readonly packages: number;
  readonly acknowledged: number;
  readonly lost: number;
}

/** Which model a device believes. */
export interface BelievedModel {
  /** After how many rounds it is: a round's manifest brings the model of the rounds before, an ending that of all. */
  readonly rounds: number;
  /** Digest of the evaluation weights. */
  readonly weights: string;
}

/** A manifest or an ending, for the model that it names. */
export interface Published {
  readonly roundNumber: number;
  readonly evaluationWeights: string;
}

/** What has changed in a session since its owner last asked. */
export interface StoredChanges {
  /** Null: as before. */
  readonly header: Bytes | null;
  /** A request that is new. */
  readonly sealed: RequestRow | null;
  /** The request is done with. */
  readonly forget: boolean;
  /** A canary whose receipt has come. */
  readonly taken: { readonly roundNumber: number; readonly canary: Bytes } | null;
}

/** Why nothing was sent: the name of the reason, its sentence, and signed bytes that show what the server did. */
export interface StoredAbstention {
  readonly reason: string;
  readonly sentence: string;
  readonly evidence: readonly Bytes[];
}

/** The row of an experiment. */
export type ExperimentRow = {
  readonly digest: string;
  readonly envelope: Bytes;
  readonly status: Status;
  readonly cohort: string | null;
  readonly label: number | null;
  readonly target: number | null;
  readonly vector: Bytes | null;
  readonly ending: Bytes | null;
  readonly salt: Bytes | null;
};

/** The experiment of its row. */
export function readRecord(row: ExperimentRow): ExperimentRecord {
  const { digest, status, envelope, label, target, vector, ending, salt } = row;
  const cohort: Cohort | null = row.cohort === "TRAIN" ? "train" : row.cohort === "TEST" ? "test" : null;
  const whole = cohort !== null && label !== null && target !== null && vector !== null;
  const person = whole ? { vector: readVector(vector), label, target, cohort } : null;
  return { digest, status, envelope, cohort, person, ending, salt };
}

/** A vector as Python's state has it: the number of bins, then bin and value, eight bytes each, little-endian. */
export function writeVector({ values, nBins }: Pinned["vector"]): Bytes {
  const numbers = [nBins, ...[...values].flat()];
  return concat(...numbers.map((number) => littleEndian(BigInt.asUintN(64, BigInt(number)), NUMBER_BYTES)));
}

/** The vector of these bytes. */
export function readVector(data: Bytes): Pinned["vector"] {
  const numbers: number[] = [];
  for (let at = 0; at < data.length; at += NUMBER_BYTES) {
    numbers.push(Number(BigInt.asIntN(64, fromLittleEndian(data.subarray(at, at + NUMBER_BYTES)))));
  }
  const [nBins, ...pairs] = numbers;
  if (nBins === undefined || data.length % (2 * NUMBER_BYTES) !== NUMBER_BYTES) {
    throw new StoreError("what the state keeps of a person's bins is not whole");
  }
  const values = new Map<number, number>();
  for (let i = 0; i < pairs.length; i += 2) values.set(pairs[i]!, pairs[i + 1]!);
  return { values, nBins };
}
