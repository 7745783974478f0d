/**
 * Packages as bytes: one fixed size and one encoding for every kind (docs/protocol.md §9).
 *
 *     byte   0        protocol version, 1
 *            1        kind: 1 train, 2 test, 3 participation, 4 null
 *            2 …17    experiment: the first half of its digest
 *           18 …21    round, LE
 *           22 …23    train: model            test: true label         participation: label       LE
 *           24 …27    train: bin              test: predicted label                               LE
 *           28        train: 1 for +1, 2 for -1                        participation: 1 train, 2 test
 *           29 …31    zero
 *
 * What a kind does not use is zero. `decode` takes nothing else, so two different encodings are two different packages.
 * It knows no experiment: whether model, bin and label exist is `checkPackage`'s question. Sealing makes a capsule of
 * these bytes; in clear they never leave the device.
 */

import { equal, type Bytes } from "../bytes.ts";
import { LocalProtocolError, MalformedMessageError, RefusedPackageError } from "../errors.ts";
import { MAX_BINS } from "../learning/declared.ts";
import type { Experiment } from "../learning/experiment.ts";
import { MAX_MODELS } from "../learning/labelModels.ts";
import type { Package } from "../learning/package.ts";
import { MAX_ROUND, PROTOCOL_VERSION } from "./version.ts";

export const PACKAGE_BYTES = 32;
export const EXPERIMENT_ID_BYTES = 16;
export const TRAIN = 1;
export const TEST = 2;
export const PARTICIPATION = 3;
export const NULL = 4;
const COHORTS = ["train", "test"] as const;

/** A package and the round it is for. It names no one. */
export interface AddressedPackage {
  readonly experimentId: Bytes;
  readonly roundNumber: number;
  readonly package: Package;
}

/** The 32 bytes of a package. */
export function encode({ experimentId, roundNumber, package: content }: AddressedPackage): Bytes {
  const [kind, a, b, c] = fieldsOf(content);
  if (!isRound(roundNumber)) throw new LocalProtocolError(`a round is from 1 to ${MAX_ROUND}, not ${roundNumber}`);
  if (experimentId.length !== EXPERIMENT_ID_BYTES) {
    throw new LocalProtocolError(`an experiment's id has ${EXPERIMENT_ID_BYTES} bytes`);
  }
  const data = new Uint8Array(PACKAGE_BYTES);
  const view = new DataView(data.buffer);
  data.set([PROTOCOL_VERSION, kind]);
  data.set(experimentId, 2);
  view.setUint32(18, roundNumber, true);
  view.setUint16(22, a, true);
  view.setUint32(24, b, true);
  data[28] = c;
  return data;
}

/** Kind, and what stands in the three fields after the round. */
function fieldsOf(content: Package): readonly [kind: number, a: number, b: number, c: number] {
  switch (content.kind) {
    case "train": {
      const { model, binIndex, sign } = content;
      if (!isBelow(model, MAX_MODELS) || !isBelow(binIndex, MAX_BINS + 1)) break;
      return [TRAIN, model, binIndex, sign === 1 ? 1 : 2];
    }
    case "test": {
      const { trueClass, predictedClass } = content;
      if (!isBelow(trueClass, MAX_MODELS) || !isBelow(predictedClass, MAX_MODELS)) break;
      return [TEST, trueClass, predictedClass, 0];
    }
    case "participation": {
      const { cohort, classIndex } = content;
      if (!isBelow(classIndex, MAX_MODELS)) break;
      return [PARTICIPATION, classIndex, 0, COHORTS.indexOf(cohort) + 1];
    }
    case "null":
      return [NULL, 0, 0, 0];
  }
  throw new LocalProtocolError("no experiment has a place for this package");
}

/** The package of an encoding; anything that `encode` would not write is refused. */
export function decode(data: Uint8Array): AddressedPackage {
  if (data.length !== PACKAGE_BYTES) {
    throw new MalformedMessageError(`a package of ${data.length} bytes; one has ${PACKAGE_BYTES}`, {
      problem: "wrong-size",
    });
  }
  const view = new DataView(data.buffer, data.byteOffset);
  const roundNumber = view.getUint32(18, true);
  if (data[0] !== PROTOCOL_VERSION) throw new MalformedMessageError("a package of another version of the protocol");
  if (!isRound(roundNumber)) throw new MalformedMessageError("a package for a round that cannot be");
  const content = contentOf(data[1]!, view.getUint16(22, true), view.getUint32(24, true), data[28]!);
  if (content === null || data[29] || data[30] || data[31]) {
    throw new MalformedMessageError("these bytes are no package of any kind");
  }
  return { experimentId: Uint8Array.from(data.subarray(2, 18)), roundNumber, package: content };
}

function contentOf(kind: number, a: number, b: number, c: number): Package | null {
  const isOneOfTwo = c === 1 || c === 2;
  if (kind === TRAIN && isOneOfTwo && a < MAX_MODELS && b <= MAX_BINS) {
    return { kind: "train", model: a, binIndex: b, sign: c === 1 ? 1 : -1 };
  }
  if (kind === TEST && c === 0 && a < MAX_MODELS && b < MAX_MODELS) {
    return { kind: "test", trueClass: a, predictedClass: b };
  }
  if (kind === PARTICIPATION && isOneOfTwo && a < MAX_MODELS && b === 0) {
    return { kind: "participation", cohort: COHORTS[c - 1]!, classIndex: a };
  }
  return kind === NULL && c === 0 && a === 0 && b === 0 ? { kind: "null" } : null;
}

/** The round in which a package would count. */
export interface CountedRound {
  readonly experimentId: Uint8Array;
  readonly experiment: Experiment;
  readonly roundNumber: number;
}

/** The package, if it belongs to this round and names only what the experiment has; else a `RefusedPackageError`. */
export function checkPackage(addressed: AddressedPackage, round: CountedRound): Package {
  const { experiment } = round;
  const labels = experiment.labels.length;
  const content = addressed.package;
  if (!equal(addressed.experimentId, round.experimentId)) {
    throw new RefusedPackageError("a package of another experiment", { problem: "unknown-experiment" });
  }
  if (addressed.roundNumber !== round.roundNumber) {
    throw new RefusedPackageError("a package of another round", { problem: "wrong-round" });
  }
  if (content.kind === "train" && content.model >= experiment.models.nModels) {
    throw new RefusedPackageError("a package names an unknown model", { problem: "unknown-model" });
  }
  if (content.kind === "train" && content.binIndex > experiment.nBins) {
    throw new RefusedPackageError("a package names a bin out of range", { problem: "bin-out-of-range" });
  }
  const isUnknown =
    (content.kind === "test" &&
      (Math.max(content.trueClass, content.predictedClass) >= labels || experiment.loss.regression)) ||
    (content.kind === "participation" && content.classIndex >= labels);
  if (isUnknown) throw new RefusedPackageError("a package names an unknown class", { problem: "unknown-class" });
  return content;
}

function isRound(roundNumber: number): boolean {
  return Number.isInteger(roundNumber) && roundNumber >= 1 && roundNumber <= MAX_ROUND;
}

function isBelow(value: number, limit: number): boolean {
  return Number.isInteger(value) && value >= 0 && value < limit;
}
