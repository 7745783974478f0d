import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { hex, unhex } from "../../src/bytes.ts";
import { LocalProtocolError, MalformedMessageError, RefusedPackageError } from "../../src/errors.ts";
import { Experiment } from "../../src/learning/experiment.ts";
import { Loss } from "../../src/learning/losses.ts";
import type { Package } from "../../src/learning/package.ts";
import { checkPackage, decode, encode } from "../../src/protocol/codec.ts";
import { refused, vectors, type Vector } from "../vectors.ts";

/** A package as the vectors write it. */
function packageOf(told: Vector): Package {
  const { kind } = told;
  if (kind === "train") return { kind, model: told.model, binIndex: told.bin, sign: told.sign };
  if (kind === "test") return { kind, trueClass: told.true_class, predictedClass: told.predicted_class };
  return kind === "participation" ? { kind, cohort: told.cohort, classIndex: told.class } : { kind };
}

test("packages are written and read as the vectors have them", () => {
  for (const { experiment_id, round, package: told, bytes } of vectors("packages").cases) {
    const addressed = { experimentId: unhex(experiment_id), roundNumber: round, package: packageOf(told) };
    assert.equal(hex(encode(addressed)), bytes);
    assert.deepEqual(decode(unhex(bytes)), addressed);
  }
});

test("the bad encodings of the vectors are refused", async () => {
  const { good, cases } = vectors("bad_encodings");
  for (const bytes of good) assert.equal(hex(encode(decode(unhex(bytes)))), bytes);
  await refused(cases, ({ bytes }) => decode(unhex(bytes)), MalformedMessageError);
});

test("two encodings are two packages", () => {
  const good: Uint8Array[] = vectors("bad_encodings").good.map(unhex);
  const changed = fc.tuple(fc.constantFrom(...good), fc.array(fc.tuple(fc.nat(31), fc.nat(255)), { maxLength: 3 }));
  fc.assert(
    fc.property(changed, ([data, changes]) => {
      const other = Uint8Array.from(data);
      for (const [at, value] of changes) other[at] = value;
      try {
        assert.deepEqual(encode(decode(other)), other);
      } catch (fault) {
        if (!(fault instanceof MalformedMessageError)) throw fault;
      }
    }),
  );
});

test("what no experiment has a place for is not written", () => {
  const experimentId = new Uint8Array(16);
  const none: Package[] = [
    { kind: "train", model: 4096, binIndex: 0, sign: 1 },
    { kind: "train", model: 0, binIndex: -1, sign: 1 },
    { kind: "test", trueClass: 0, predictedClass: 0.5 },
    { kind: "participation", cohort: "test", classIndex: 5000 },
  ];
  for (const content of none) {
    assert.throws(() => encode({ experimentId, roundNumber: 1, package: content }), LocalProtocolError);
  }
  const one: Package = { kind: "null" };
  assert.throws(() => encode({ experimentId, roundNumber: 2 ** 20, package: one }), /a round is from 1 to 1048575/);
  assert.throws(() => encode({ experimentId: new Uint8Array(15), roundNumber: 1, package: one }), /an experiment's id/);
});

test("a package counts where its round and all that it names are there", () => {
  const rule = { name: "pegasos", normalised: false, content: () => ({}) };
  const experiment = new Experiment({ nBins: 2, labels: ["tea", "coffee"], rule });
  const numbers = new Experiment({ nBins: 2, labels: ["age"], rule, loss: new Loss("pinball", "1/2") });
  const experimentId = Uint8Array.of(...Array(16).keys());
  const round = { experimentId, experiment, roundNumber: 3 };
  const check = (content: Package, other = {}): Package =>
    checkPackage({ experimentId, roundNumber: 3, package: content }, { ...round, ...other });
  const bias: Package = { kind: "train", model: 0, binIndex: 2, sign: -1 };
  assert.equal(check(bias), bias);
  assert.deepEqual(check({ kind: "null" }), { kind: "null" });
  const others: [() => Package, string][] = [
    [() => check(bias, { roundNumber: 4 }), "wrong-round"],
    [() => check(bias, { experimentId: new Uint8Array(16) }), "unknown-experiment"],
    [() => check({ ...bias, binIndex: 3 }), "bin-out-of-range"],
    [() => check({ ...bias, model: 1 }), "unknown-model"],
    [() => check({ kind: "test", trueClass: 0, predictedClass: 2 }), "unknown-class"],
    [() => check({ kind: "test", trueClass: 0, predictedClass: 0 }, { experiment: numbers }), "unknown-class"],
    [() => check({ kind: "participation", cohort: "train", classIndex: 2 }), "unknown-class"],
  ];
  for (const [take, problem] of others) {
    assert.throws(take, (fault) => fault instanceof RefusedPackageError && fault.problem === problem, problem);
  }
});
