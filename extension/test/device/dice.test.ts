import assert from "node:assert/strict";
import { test } from "node:test";

import { utf8 } from "../../src/bytes.ts";
import { safeDice, systemWords, unsafeSeededDice } from "../../src/device/dice.ts";
import { LocalProtocolError } from "../../src/errors.ts";
import { UnsafeSeededDice } from "../../src/learning/individual/dice.ts";
import { ExperimentDocument } from "../../src/protocol/documents/experiment.ts";
import { vectors } from "../vectors.ts";

const [{ text }] = vectors("experiment_document").cases;
const document = ExperimentDocument.fromBytes(utf8(text));

/** Bytes 0, 1, 2, … without end, and how many were asked for each time. */
function counting(): { dice: (count: number) => Uint8Array<ArrayBuffer>; asked: number[] } {
  let next = 0;
  const asked: number[] = [];
  const dice = (count: number): Uint8Array<ArrayBuffer> => {
    asked.push(count);
    return Uint8Array.from({ length: count }, () => next++ & 255);
  };
  return { dice, asked };
}

test("the system's dice are its bytes, the lowest first", () => {
  const { dice, asked } = counting();
  const words = safeDice(dice)(document).words("coin", 1, 0, 2);
  assert.deepEqual(words, [0x0706050403020100n, 0x0f0e0d0c0b0a0908n]);
  const endless = systemWords(dice);
  assert.equal(endless.next().value, 0x1716151413121110n);
  for (let i = 0; i < 64; i++) endless.next();
  assert.deepEqual(asked, [16, 512, 512]);
});

test("seeded dice are for tests alone", () => {
  const diceFor = unsafeSeededDice(utf8("seed"), 7);
  const real = Object.create(document, { test: { value: false } }) as ExperimentDocument;
  assert.throws(() => diceFor(real), LocalProtocolError);
  const trial = Object.create(document, { test: { value: true } }) as ExperimentDocument;
  assert.deepEqual(diceFor(trial).words("coin", 3, 1, 2), new UnsafeSeededDice(utf8("seed"), 7).words("coin", 3, 1, 2));
});
