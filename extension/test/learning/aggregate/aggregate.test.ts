import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { hex, unhex } from "../../../src/bytes.ts";
import { sha256 } from "../../../src/crypto/hashes.ts";
import { BadExperimentError, BadInputError } from "../../../src/errors.ts";
import { State } from "../../../src/learning/aggregate/descent/rule.ts";
import { ruleByName } from "../../../src/learning/aggregate/descent/rules.ts";
import { Swift } from "../../../src/learning/aggregate/descent/swift.ts";
import { evaluationWeights, knownMeans, start, step, trainingWeights } from "../../../src/learning/aggregate/index.ts";
import { clipped } from "../../../src/learning/aggregate/robust.ts";
import { explains, Tally, uncovered } from "../../../src/learning/aggregate/tally.ts";
import { Noise, RelayCover } from "../../../src/learning/coverLaw.ts";
import { Experiment, Robust } from "../../../src/learning/experiment.ts";
import { Loss } from "../../../src/learning/losses.ts";
import { Ratio } from "../../../src/learning/ratio.ts";
import { Thinning } from "../../../src/learning/thinning.ts";
import { refused, vectors } from "../../vectors.ts";
import { countsOf, experimentOf, packageOf, tallyOf } from "../told.ts";

test("each round's tally gives the bytes of the next state", () => {
  for (const { experiment: told, start: first, rounds } of vectors("state").cases) {
    const experiment = experimentOf(told);
    let state = start(experiment);
    assert.equal(hex(state.toBytes()), first);
    for (const round of rounds) {
      state = step(experiment, state, tallyOf(round));
      assert.equal(hex(state.toBytes()), round.state, JSON.stringify(told));
      assert.equal(hex(sha256(state.toBytes())), round.sha256);
      assert.equal(hex(State.fromBytes(unhex(round.state)).toBytes()), round.state);
    }
  }
});

test("weights follow from the state", () => {
  for (const { rule: told, state: bytes, training, evaluation } of vectors("weights").cases) {
    const rule = ruleByName(told.name, told.parameters);
    const state = State.fromBytes(unhex(bytes));
    for (const [weights, expected] of [
      [rule.trainingWeights(state), training],
      [rule.evaluationWeights(state), evaluation],
    ]) {
      assert.deepEqual(weights.mantissas.map((row: Int32Array) => [...row]), expected.mantissas);
      assert.equal(`${weights.unit.p}/${weights.unit.q}`, expected.unit);
      assert.deepEqual([weights.normalised, weights.first], [expected.normalised, expected.first]);
      assert.equal(hex(weights.toBytes()), expected.bytes);
    }
  }
});

test("bytes that are no state are refused", async () => {
  const { good, cases } = vectors("bad_states");
  State.fromBytes(unhex(good));
  await refused(cases, ({ bytes }) => State.fromBytes(unhex(bytes)), BadInputError);
});

test("packages are counted, and those with a place nowhere are refused", async () => {
  const { n_models, n_bins, n_labels, cases } = vectors("bad_packages");
  const empty = Tally.empty({ nModels: n_models, nBins: n_bins, nLabels: n_labels });
  await refused(cases, (told) => empty.count([packageOf(told.package)]), BadInputError);
  const told = [
    { kind: "train", model: 1, bin: 3, sign: -1 },
    { kind: "train", model: 1, bin: 3, sign: 1 },
    { kind: "participation", cohort: "train", class: 2 },
    { kind: "participation", cohort: "test", class: 2 },
    { kind: "test", true_class: 0, predicted_class: 1 },
    { kind: "null" },
  ];
  const counted = empty.count(told.map(packageOf));
  assert.deepEqual(counted.plus, counted.minus);
  assert.deepEqual(counted.plus, [countsOf([0, 0, 0, 0]), countsOf([0, 0, 0, 1])]);
  assert.deepEqual(counted.participants, countsOf([0, 0, 1]));
  assert.deepEqual(counted.cells[0], countsOf([0, 1, 0]));
  assert.ok(empty.plus.every((row) => row.every((count) => count === 0n)));
});

test("experiments that are no question are refused", async () => {
  const { good, cases } = vectors("bad_experiments");
  experimentOf(good);
  await refused(cases, ({ experiment }) => experimentOf(experiment), BadInputError);
});

test("a rule is published with all its constants, and has steps", () => {
  assert.throws(() => ruleByName("swift", { step_size: 1 }), /published without momentum, floor, decay, mean_move/);
  assert.throws(() => ruleByName("newton", {}), /unknown descent rule 'newton'; known are pegasos, swift/);
  const rule = { name: "newton", normalised: false, content: () => ({}) };
  assert.throws(() => start(new Experiment({ nBins: 1, labels: ["a", "b"], rule })), BadExperimentError);
});

const covered = (bins: number, robust: Robust | null = null): Experiment =>
  new Experiment({
    nBins: bins,
    labels: ["a", "b"],
    rule: new Swift(),
    loss: new Loss("hinge"),
    thinning: new Thinning({ rho: 3 }),
    featuresPerPerson: 5,
    robust,
    cover: new RelayCover({
      train: new Noise({ cells: 2 * (bins + 1), shape: new Ratio(15), odds: new Ratio(1, 2) }),
      participation: new Noise({ cells: 4, shape: new Ratio(15), odds: new Ratio(1, 4) }),
      test: new Noise({ cells: 4, shape: new Ratio(15), odds: new Ratio(1, 4) }),
      parts: 4,
      packages: 4_000_000,
    }),
  });

test("cover's mean is taken off, and people are never below zero", () => {
  const experiment = covered(2);
  const known = knownMeans(experiment);
  assert.deepEqual([known.plus[0], known.participants, known.cells[0]], [[15, 15, 15], [8, 8], [8, 8]].map(countsOf));
  const net = tallyOf({ plus: [[15, 20, 0]], minus: [[15, 15, 15]], participants: [3, 40] });
  const people = uncovered(experiment.cover, net);
  assert.deepEqual([people.plus[0], people.participants], [countsOf([0, 5, -15]), countsOf([0, 32])]);
  assert.equal(uncovered(null, net), net);
  const [most] = experiment.cover!.mostInACell(10);
  const highest = (count: number): Tally =>
    tallyOf({ plus: [[0, 0, 0]], minus: [[count, 0, 0]], participants: [0, 0] });
  assert.deepEqual([most!, most! + 1].map((count) => explains(experiment.cover!, highest(count), 10)), [true, false]);
  const nobody = tallyOf({ plus: [[0, 0, 0]], minus: [[0, 0, 0]], participants: [8, 8] });
  assert.throws(() => step(experiment, start(experiment), nobody), /nobody took part in this round/);
});

test("no bin's net is beyond what chance gives it", () => {
  const count = fc.integer({ min: -50, max: 400 });
  const weight = fc.bigInt({ min: 1n, max: 5n });
  fc.assert(
    fc.property(count, count, weight, weight, fc.integer({ min: 1, max: 9 }), (plus, minus, up, down, variance) => {
      const robust = new Robust({ clip: "3/2" });
      const tally = tallyOf({ plus: [[plus]], minus: [[minus]], participants: [1, 1] });
      const cut = clipped(robust, tally, [[up, down]], new Ratio(variance));
      const [p, m] = [Math.max(plus, 0), Math.max(minus, 0)];
      const [a, b] = [Number(up) ** 2 * p, Number(down) ** 2 * m];
      const both = Number(up) ** 2 + Number(down) ** 2;
      const limit = Math.floor(
        Math.sqrt(((Math.min(a + b, 4 * Math.min(a, b) + 8 * both) + both * variance) * 9) / 4),
      );
      const net = up * cut.plus[0]![0]! - down * cut.minus[0]![0]!;
      const before = Number(up) * plus - Number(down) * minus;
      assert.ok(net <= BigInt(limit) && -net <= BigInt(limit));
      if (Math.abs(before) <= limit) assert.deepEqual(cut, tally);
    }),
  );
});

test("a step of ten thousand bins and its weights take little time", () => {
  for (const rule of [new Swift(), ruleByName("pegasos", { lambda: "1/10000", averaging: 8 })]) {
    const bins = 10_000;
    const thinning = new Thinning(rule.normalised ? { rho: 3 } : {});
    const experiment = new Experiment({ nBins: bins, labels: ["a", "b"], rule, thinning });
    const row = (seed: number): number[] => Array.from({ length: bins + 1 }, (_, bin) => (bin * seed) % 997);
    const tally = tallyOf({ plus: [row(31)], minus: [row(57)], participants: [500, 700] });
    const began = performance.now();
    const state = step(experiment, step(experiment, start(experiment), tally), tally);
    const weights = [trainingWeights(experiment, state), evaluationWeights(experiment, state)];
    assert.ok(weights.every((each) => each.toBytes().length > 4 * bins));
    const took = performance.now() - began;
    assert.ok(took < 2000, `${took} ms`);
  }
});
