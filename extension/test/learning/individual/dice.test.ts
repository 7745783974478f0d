import assert from "node:assert/strict";
import { test } from "node:test";

import { unhex } from "../../../src/bytes.ts";
import { ArithmeticRangeError, BadInputError } from "../../../src/errors.ts";
import {
  diceKey,
  diceWord,
  drawCohort,
  sampleFeatures,
  smallest,
  UnsafeSeededDice,
} from "../../../src/learning/individual/dice.ts";
import { Ratio } from "../../../src/learning/ratio.ts";
import { vectors } from "../../vectors.ts";

test("words of seeded dice are those of the vectors", () => {
  for (const { seed, participant, purpose, key, round, model, index, word } of vectors("dice").cases) {
    assert.deepEqual(diceKey(unhex(seed), participant, purpose), unhex(key));
    assert.equal(diceWord(unhex(key), round, model, index), BigInt(word));
    if (index < 100) {
      const words = new UnsafeSeededDice(unhex(seed), participant).words(purpose, round, model, index + 1);
      assert.equal(words[index], BigInt(word));
    }
  }
  for (const [round, model] of [[2 ** 20, 0], [0, 4096], [-1, 0]] as const) {
    assert.throws(() => diceWord(new Uint8Array(16), round, model, 0), ArithmeticRangeError);
  }
});

test("cohorts and samples are drawn as the vectors say", () => {
  const { seed, cohorts, samples } = vectors("drawing");
  const diceOf = (participant: number): UnsafeSeededDice => new UnsafeSeededDice(unhex(seed), participant);
  for (const { participant, train_share, cohort } of cohorts) {
    assert.equal(drawCohort(Ratio.of(train_share), diceOf(participant)), cohort);
  }
  for (const { participant, features, limit, sample } of samples) {
    assert.deepEqual([...sampleFeatures(new Map(features), limit, diceOf(participant))], sample);
  }
  assert.throws(() => sampleFeatures(new Map([["a", 1]]), 0, diceOf(0)), /must be at least 1/);
  const odd = new Map([["\ud800", 1], ["a", 1]]);
  assert.throws(() => sampleFeatures(odd, 1, diceOf(0)), BadInputError);
});

test("of equal words the first are the smallest", () => {
  assert.deepEqual(smallest(["a", "b", "c", "d"], [5n, 3n, 5n, 3n], 3), ["a", "b", "d"]);
});
