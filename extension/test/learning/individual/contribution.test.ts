import assert from "node:assert/strict";
import { test } from "node:test";

import { unhex } from "../../../src/bytes.ts";
import { BadInputError, LocalProtocolError } from "../../../src/errors.ts";
import { Swift } from "../../../src/learning/aggregate/descent/swift.ts";
import { Noise, RelayCover } from "../../../src/learning/coverLaw.ts";
import { Experiment } from "../../../src/learning/experiment.ts";
import { BinnedVector } from "../../../src/learning/individual/binning.ts";
import { contribute, fitBudget, pad, split, thin } from "../../../src/learning/individual/contribution.ts";
import { diceWord, UnsafeSeededDice, type Dice } from "../../../src/learning/individual/dice.ts";
import type { TrainPackage } from "../../../src/learning/package.ts";
import { Ratio } from "../../../src/learning/ratio.ts";
import { Thinning } from "../../../src/learning/thinning.ts";
import { Weights } from "../../../src/learning/weights.ts";
import { vectors } from "../../vectors.ts";
import { experimentOf, packageOf } from "../told.ts";

const keyed = (key: string): Dice => ({
  words: (_purpose, round, model, count) =>
    Array.from({ length: count }, (_, index) => diceWord(unhex(key), round, model, index)),
});
const unit = ([model, binIndex, sign]: [number, number, 1 | -1]): TrainPackage =>
  ({ kind: "train", model, binIndex, sign });

test("updates are split into units, and cut to the budget", () => {
  const { cases, budget } = vectors("splitting");
  for (const { update, model, packages } of cases) {
    assert.deepEqual(split({ values: new Map(update) }, model), packages.map(unit));
  }
  for (const { packages, key, round, words, budget: most, kept } of budget) {
    assert.deepEqual(keyed(key).words("budget", round, 0, packages.length), words.map(BigInt));
    const options = { budget: most, dice: keyed(key), round };
    assert.deepEqual(fitBudget(packages.map(unit), options), kept.map(unit));
  }
});

test("units are thinned by the dice", () => {
  const { probabilities, cases } = vectors("thinning");
  for (const { q, rho, divisor, squared_norms, keep53 } of probabilities) {
    const thinning = new Thinning({ q, rho });
    assert.deepEqual(thinning.divisor, Ratio.of(divisor));
    assert.deepEqual(squared_norms.map((n: number) => thinning.keep53(BigInt(n))), keep53.map(BigInt));
  }
  for (const { update, model, round, key, keep53, packages } of cases) {
    const units = split({ values: new Map(update) }, model);
    const options = { keep53: BigInt(keep53), dice: keyed(key), round, model };
    assert.deepEqual(thin(units, options), packages.map(unit));
  }
});

test("a person contributes the packages of the vectors", () => {
  for (const told of vectors("contribution").cases) {
    const experiment = experimentOf(told.experiment);
    const weights = new Weights({
      mantissas: told.mantissas.map((row: number[]) => Int32Array.from(row)),
      unit: Ratio.of(told.unit),
      normalised: told.normalised,
    });
    const person = {
      vector: new BinnedVector(new Map(told.vector), experiment.nBins),
      label: told.label,
      target: BigInt(told.target),
      cohort: told.cohort,
    };
    const dice = new UnsafeSeededDice(unhex(told.seed), told.participant);
    const asked = { experiment, training: weights, evaluation: weights, dice, round: told.round };
    assert.deepEqual(contribute(person, asked), told.packages.map(packageOf));
  }
});

test("more packages than the budget, and two units in a bin under cover, are refused", () => {
  assert.equal(pad([{ kind: "null" }], 3).length, 3);
  assert.throws(() => pad(Array(3).fill({ kind: "null" }), 2), BadInputError);
  const noise = (cells: number): Noise => new Noise({ cells, shape: new Ratio(1), odds: new Ratio(1) });
  const cover = new RelayCover({
    train: noise(6), participation: noise(4), test: noise(4), parts: 4, packages: 400,
  });
  const experiment = new Experiment({
    nBins: 2, labels: ["a", "b"], rule: new Swift(), thinning: new Thinning({ rho: 1 }), featuresPerPerson: 5, cover,
    budget: 8,
  });
  const first = new Weights({ mantissas: [new Int32Array(3)], unit: new Ratio(1), normalised: true, first: true });
  const dice = new UnsafeSeededDice(unhex("00"), 1);
  const asked = { experiment, training: first, evaluation: first, dice, round: 1 };
  const person = (value: number) => {
    const vector = new BinnedVector(new Map([[1, value]]), 2);
    return { vector, label: 1, target: 0n, cohort: "train" as const };
  };
  assert.equal(contribute(person(1), asked).length, 8);
  assert.throws(() => contribute(person(2), asked), LocalProtocolError);
});
