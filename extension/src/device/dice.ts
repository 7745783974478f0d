/**
 * A device's dice: the browser's, and nothing else where people take part.
 *
 * Both ways take `randomBytes`, which the outermost shell fills with `crypto.getRandomValues`. Everything that could
 * tell devices apart (order, times, phases, sealing) is thrown with these, also in tests. Only what is *learnt* may be
 * thrown with seeded dice, so that a run can be compared with an offline one, and only where the experiment is marked as
 * a test.
 */

import { fromLittleEndian } from "../bytes.ts";
import type { RandomBytes } from "../crypto/sealing/kem.ts";
import { UnsafeSeededDice, type Dice, type Purpose } from "../learning/individual/dice.ts";
import type { ExperimentDocument } from "../protocol/documents/experiment.ts";

const WORD_BYTES = 8;
/** Words are fetched in blocks: a call to the system costs more than the bytes. */
const BLOCK_WORDS = 64;

/** Whose dice decide what is learnt in an experiment. */
export type DiceFor = (document: ExperimentDocument) => Dice;

/** Dice that cannot be thrown again, for every purpose the same. */
export class SystemDice implements Dice {
  readonly #randomBytes: RandomBytes;

  constructor(randomBytes: RandomBytes) {
    this.#randomBytes = randomBytes;
  }

  words(_purpose: Purpose, _round: number, _model: number, count: number): bigint[] {
    return wordsOf(this.#randomBytes(WORD_BYTES * count));
  }
}

/** Uniform 64-bit words without end, as schedules take them. */
export function* systemWords(randomBytes: RandomBytes): Generator<bigint, never> {
  for (;;) yield* wordsOf(randomBytes(WORD_BYTES * BLOCK_WORDS));
}

function wordsOf(data: Uint8Array): bigint[] {
  return Array.from({ length: data.length / WORD_BYTES }, (_, i) =>
    fromLittleEndian(data.subarray(WORD_BYTES * i, WORD_BYTES * (i + 1))),
  );
}

/** The system's dice for every experiment. */
export function safeDice(randomBytes: RandomBytes): DiceFor {
  return () => new SystemDice(randomBytes);
}

/** Seeded dice for tests; asked for a real experiment's, it throws a `LocalProtocolError`. */
export function unsafeSeededDice(seed: Uint8Array, participant: number): DiceFor {
  return (document) => {
    document.checkSeededDice();
    return new UnsafeSeededDice(seed, participant);
  };
}
