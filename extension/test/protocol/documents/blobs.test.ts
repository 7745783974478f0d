/** Tallies, states and weights as bytes: named by digest, of one experiment, in one spelling. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";

import { concat, textOf, unhex, utf8, type Bytes } from "../../../src/bytes.ts";
import { LocalProtocolError, MalformedMessageError } from "../../../src/errors.ts";
import { Pegasos } from "../../../src/learning/aggregate/descent/pegasos.ts";
import { Swift } from "../../../src/learning/aggregate/descent/swift.ts";
import { emptyTally, evaluationWeights, start, step, trainingWeights } from "../../../src/learning/aggregate/index.ts";
import { Tally } from "../../../src/learning/aggregate/tally.ts";
import { Experiment } from "../../../src/learning/experiment.ts";
import { Thinning } from "../../../src/learning/thinning.ts";
import { digestOf } from "../../../src/protocol/canonical.ts";
import {
  decodeState,
  decodeTally,
  decodeWeights,
  readTallyBytes,
  tallyDigest,
  unpack,
} from "../../../src/protocol/documents/blobs.ts";
import { ExperimentDocument } from "../../../src/protocol/documents/experiment.ts";
import { refused, vectors } from "../../vectors.ts";

const PEGASOS = new Experiment({ nBins: 3, labels: ["a", "b", "c"], rule: new Pegasos(), budget: 5 });
const THINNING = new Thinning({ rho: 3 });
const SWIFT = new Experiment({ nBins: 3, labels: ["a", "b"], rule: new Swift(), thinning: THINNING, budget: 5 });
const deflated = (...bytes: readonly number[]): Bytes => Uint8Array.from(deflateSync(Uint8Array.from(bytes)));
const zeros = (count: number): number[] => Array.from({ length: count }, () => 0);

test("tallies of the vectors are read, whatever way they were deflated", async () => {
  const { covered, plain, cases } = vectors("tallies");
  for (const { why, cover, entries, digest, bytes } of cases) {
    const { experiment } = ExperimentDocument.fromBytes(utf8(cover ? covered : plain));
    for (const data of bytes) {
      const { plus, minus, participants, cells } = await decodeTally(unhex(data), { digest, experiment });
      const found = [...plus, ...minus, participants, ...cells].flatMap((counts) => [...counts]);
      assert.deepEqual(found.map(String), entries.map(String), why);
    }
    await assert.rejects(decodeTally(unhex(bytes[0]), { digest: "0".repeat(64), experiment }), MalformedMessageError);
  }
});

test("the bad tallies of the vectors are refused", async () => {
  const { experiment: document, good, cases } = vectors("bad_tallies");
  const { experiment } = ExperimentDocument.fromBytes(utf8(document));
  await readTallyBytes(unhex(good), experiment);
  await refused(cases, ({ bytes }) => readTallyBytes(unhex(bytes), experiment), MalformedMessageError);
});

test("bytes that are no tally of the experiment are refused", async () => {
  const named = { digest: tallyDigest(emptyTally(PEGASOS)), experiment: PEGASOS };
  assert.deepEqual(await decodeTally(deflated(...zeros(36)), named), emptyTally(PEGASOS));
  await assert.rejects(decodeTally(deflated(...zeros(20)), named), MalformedMessageError);
  for (const planes of [[1, ...zeros(35)], [...zeros(6 * 36), 0x40, ...zeros(35)]]) {
    await assert.rejects(readTallyBytes(deflated(...planes), PEGASOS), /out of range/);
  }
});

test("numbers of up to seven planes are read, and a bomb is left alone", async () => {
  // -2^55 and 2^55 - 1 are folded to 2^56 - 1 and 2^56 - 2.
  const planes = Array.from({ length: 7 }, (_, i) => (i === 0 ? [255, 254, 1] : [255, 255, 0])).flat();
  assert.deepEqual([...(await unpack(deflated(...planes), 3))], [-(2n ** 55n), 2n ** 55n - 1n, -1n]);
  await assert.rejects(unpack(deflated(...planes, 1, 1, 1), 3), MalformedMessageError);
  const bomb = Uint8Array.from(deflateSync(new Uint8Array(2 ** 26)));
  await assert.rejects(unpack(bomb, 1000), /these bytes are not 1000 packed numbers/);
});

test("a tally of counts out of range has no name", () => {
  for (const count of [-1n, 2n ** 53n]) {
    const tally = new Tally({ ...emptyTally(PEGASOS), participants: BigInt64Array.of(count, 0n, 0n) });
    assert.throws(() => tallyDigest(tally), LocalProtocolError);
  }
});

test("states and weights are read back exactly, and only for their experiment", () => {
  for (const [experiment, other] of [[PEGASOS, SWIFT], [SWIFT, PEGASOS]] as const) {
    const tally = new Tally({
      ...emptyTally(experiment).withTrain(
        emptyTally(experiment).plus.map((row) => row.with(1, 3n)),
        emptyTally(experiment).minus.map((row) => row.with(2, 4n)),
      ),
      participants: new BigInt64Array(experiment.labels.length).fill(5n),
    });
    let state = start(experiment);
    for (let round = 0; round < 3; round++) {
      const data = state.toBytes();
      const digest = digestOf(data);
      assert.deepEqual(decodeState(data, { digest, experiment }), state);
      assert.throws(() => decodeState(data, { digest: "0".repeat(64), experiment }), MalformedMessageError);
      assert.throws(() => decodeState(data, { digest, experiment: other }), /belongs to another experiment/);
      const short = data.slice(0, -1);
      assert.throws(() => decodeState(short, { digest: digestOf(short), experiment }), MalformedMessageError);
      for (const weights of [trainingWeights(experiment, state), evaluationWeights(experiment, state)]) {
        const bytes = weights.toBytes();
        const named = { digest: digestOf(bytes), experiment };
        assert.deepEqual(decodeWeights(bytes, named), weights);
        assert.throws(() => decodeWeights(bytes, { ...named, experiment: other }), MalformedMessageError);
      }
      state = step(experiment, state, tally);
    }
  }
});

test("bytes that are no weights are refused", () => {
  const good = trainingWeights(PEGASOS, start(PEGASOS)).toBytes();
  const changes = [
    ["v1", "v2"],
    ['"unit":"1/1"', '"unit":"2/2"'],
    ['"unit":"1/1"', '"unit":"1"'],
    ['"unit":"1/1"', '"unit":"1/0"'],
    ['"unit":"1/1"', '"unit":"-1/1"'],
    ['"unit":"1/1"', '"unit":1'],
    ['"first":true', '"first":1'],
    ['"first":true', '"first": true'],
    ['"first":true,', ""],
    ['"models":3', '"models":1'],
    ['"normalised":false', '"normalised":true'],
    ["{", "["],
  ] as const;
  const others = changes.map(([old, now]) => utf8(textOf(good).replace(old, now)));
  for (const data of [...others, good.slice(0, -1), concat(good, Uint8Array.of(0)), new Uint8Array()]) {
    assert.notDeepEqual(data, good);
    assert.throws(() => decodeWeights(data, { digest: digestOf(data), experiment: PEGASOS }), MalformedMessageError);
  }
});
