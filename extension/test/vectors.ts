/** The test vectors, from `vectors/v2`. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import * as errors from "../src/errors.ts";

/* Vectors are checked by what is compared, not by types. */
export type Vector = any;

export function vectors(name: string): Vector {
  return JSON.parse(readFileSync(new URL(`../../vectors/v2/${name}.json`, import.meta.url), "utf8"));
}

type FaultClass = abstract new (...details: any[]) => Error;

const FAULTS: Record<string, FaultClass> = {
  malformed: errors.MalformedMessageError,
  signature: errors.BadSignatureError,
  inconsistent: errors.InconsistentManifestError,
  equivocation: errors.EquivocationError,
  stale: errors.StaleCheckpointError,
  "stale round": errors.StaleRoundError,
  proof: errors.BadProofError,
};

/** Each of these cases is refused: with one of these errors, or with the very one that the case names. */
export async function refused(
  cases: readonly Vector[],
  read: (vector: Vector) => unknown,
  ...faults: readonly FaultClass[]
): Promise<void> {
  for (const vector of cases) {
    const isOne = (fault: any): boolean =>
      faults.length ? faults.some((kind) => fault instanceof kind) : fault.constructor === FAULTS[vector.fault];
    await assert.rejects(async () => read(vector), isOne, vector.why);
  }
}
