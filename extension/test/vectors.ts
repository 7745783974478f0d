/** The test vectors, from `vectors/v2`. */

import assert from "node:assert/strict";
import { appendFileSync, readFileSync } from "node:fs";

import * as errors from "../src/errors.ts";

/* Vectors are checked by what is compared, not by types. */
export type Vector = any;

/** A file to which is added what is read of them: file and list. Of tests that pass, everything that is read is right. */
const NOTES = process.env["VECTORS_READ"];

export function vectors(name: string): Vector {
  const file = JSON.parse(readFileSync(new URL(`../../vectors/v2/${name}.json`, import.meta.url), "utf8"));
  if (NOTES === undefined) return file;
  const note = (part: string | symbol): void => appendFileSync(NOTES, `${name} ${String(part)}\n`);
  return new Proxy(file, {
    get: (target, part) => (note(part), target[part]),
  });
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
