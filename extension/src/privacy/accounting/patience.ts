/**
 * Patience: a few numbers of a document can ask for hours of computation, and whoever asks may say how long they wait.
 *
 * Inside of `withPatience` the accountant asks now and then whether it has taken long enough, and then gives up.
 */

import { BadInputError } from "../../errors.ts";

let enough: (() => boolean) | null = null;

/** What is reckoned, or a `BadInputError` as soon as `isEnough` says so. */
export function withPatience<T>(isEnough: () => boolean, reckon: () => T): T {
  const before = enough;
  enough = isEnough;
  try {
    return reckon();
  } finally {
    enough = before;
  }
}

/** Enough is when so many seconds are over, by a clock in milliseconds. */
export function until(now: () => number, seconds: number): () => boolean {
  const end = now() + 1000 * seconds;
  return () => now() >= end;
}

/** Throws a `BadInputError` where it has lasted long enough. */
export function keepPatience(): void {
  // No `BadExperimentError`: nothing is wrong with the experiment but that.
  if (enough?.()) throw new BadInputError("its guarantee takes longer to calculate than anybody waits here");
}
