/** Weights: a model as it is published: int32 mantissas and the exact value of one mantissa unit. */

import { bytesOfWords, concat, utf8, type Bytes } from "../bytes.ts";
import type { Ratio } from "./ratio.ts";

const MAGIC = utf8("secvm-weights-v1\n");

interface WeightsFields {
  /** One row per model; the bias is the last column. */
  readonly mantissas: readonly Int32Array<ArrayBuffer>[];
  /** What one mantissa unit is worth: weight = mantissa · unit, exactly. */
  readonly unit: Ratio;
  /** Whether scores are divided by the Euclidean norm of the person's vector before they are compared. */
  readonly normalised?: boolean;
  /** The weights before the first step: in that round everybody violates. */
  readonly first?: boolean;
}

/** The weights of all models of an experiment. Public. */
export class Weights implements Required<WeightsFields> {
  readonly mantissas: readonly Int32Array<ArrayBuffer>[];
  readonly unit: Ratio;
  readonly normalised: boolean;
  readonly first: boolean;

  constructor({ mantissas, unit, normalised = false, first = false }: WeightsFields) {
    this.mantissas = mantissas;
    this.unit = unit;
    this.normalised = normalised;
    this.first = first;
  }

  get nModels(): number {
    return this.mantissas.length;
  }

  /** Magic line, one line of JSON, the mantissas little-endian row by row. */
  toBytes(): Bytes {
    const header = {
      bins: this.mantissas[0]!.length,
      first: this.first,
      models: this.nModels,
      normalised: this.normalised,
      unit: `${this.unit.p}/${this.unit.q}`,
    };
    return concat(MAGIC, utf8(`${JSON.stringify(header)}\n`), ...this.mantissas.map(bytesOfWords));
  }
}
