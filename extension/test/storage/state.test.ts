import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { IDBFactory } from "fake-indexeddb";

import { hex, utf8 } from "../../src/bytes.ts";
import { BadInputError, StoreError } from "../../src/errors.ts";
import { readVector, writeVector, type Pinned } from "../../src/storage/kept.ts";
import { DeviceState } from "../../src/storage/state.ts";
import { Tables } from "../../src/storage/tables.ts";

const NOT_WHOLE = /a person's bins is not whole/;
const PERSON: Pinned = {
  vector: { values: new Map([[3, 1], [5, -2]]), nBins: 9 },
  ...{ label: 1, target: -7, cohort: "test" },
};

/** A state that was joined, and the same after its worker died. */
async function joined(): Promise<{ state: DeviceState; again: () => Promise<DeviceState> }> {
  const factory = new IDBFactory();
  const state = new DeviceState(await Tables.open(factory));
  await state.join("d", utf8("envelope"), PERSON);
  return { state, again: async () => new DeviceState(await Tables.open(factory)) };
}

test("a vector comes back as it was, and is written as Python writes it", () => {
  const bins = fc.integer({ min: 0, max: 2 ** 24 });
  const value = fc.integer({ min: -(2 ** 22), max: 2 ** 22 });
  fc.assert(
    fc.property(fc.array(fc.tuple(bins, value)), bins, (pairs, nBins) => {
      const vector = { values: new Map(pairs), nBins };
      assert.deepEqual(readVector(writeVector(vector)), vector);
    }),
  );
  const [nine, three, one] = ["09", "03", "01"].map((byte) => byte + "00".repeat(7));
  assert.equal(hex(writeVector(PERSON.vector)), `${nine}${three}${one}${"05" + "00".repeat(7)}fe${"ff".repeat(7)}`);
  for (const size of [0, 7, 16]) assert.throws(() => readVector(new Uint8Array(size)), { message: NOT_WHOLE });
});

test("what was joined comes back and stays", async () => {
  const { again } = await joined();
  const state = await again();
  const { status, envelope, cohort, person } = state.record("d")!;
  assert.deepEqual({ status, envelope, cohort, person }, {
    ...{ status: "joined", envelope: utf8("envelope"), cohort: "test", person: PERSON },
  });
  await assert.rejects(state.join("d", utf8("envelope"), PERSON), BadInputError);
  await assert.rejects(state.setStatus("e", "paused"), /does not take part/);
  await state.forget("d");
  await assert.rejects(state.join("d", utf8("envelope"), PERSON), /cannot be drawn anew/);
  await assert.rejects(state.setStatus("d", "joined"), /does not take part/);
});

test("who said no may say yes later, and what was joined stays as it is", async () => {
  const { state } = await joined();
  await state.decline("d", utf8("other"));
  assert.equal(state.record("d")!.status, "joined");
  await state.decline("e", utf8("envelope"));
  assert.equal(state.record("e")!.person, null);
  await state.join("e", utf8("envelope"), PERSON, { salt: utf8("salt"), accepted: { auc: 0.6, epsilon: null } });
  assert.deepEqual(state.record("e")!.salt, utf8("salt"));
  assert.deepEqual(state.ledger.accepted("e"), { auc: 0.6, epsilon: null });
  for (const accepted of [{ auc: 1.1, epsilon: null }, { auc: null, epsilon: 0 }, { auc: null, epsilon: Infinity }]) {
    await assert.rejects(state.join("f", utf8("envelope"), PERSON, { accepted }), /to be accepted/);
    assert.equal(state.record("f"), null);
  }
});

test("a request is there until its receipt, and its canary after", async () => {
  const { state, again } = await joined();
  const [sealed, header] = [{ body: utf8("body"), canary: utf8("canary") }, utf8("header")];
  await state.writing(() => {
    assert.equal(state.relayed.bind("d", 1, utf8("label")), true);
    state.ledger.putRound("d", 1);
    state.putJoined("d", 1, 5);
    state.putRelayedSession("d", { header, sealed, forget: false, taken: null }, utf8("manifest"));
  });
  const later = await again();
  assert.deepEqual(later.relayedSession("d"), { header, request: sealed });
  assert.equal(later.relayed.bind("d", 1, utf8("another")), false);
  assert.deepEqual([later.ledger.joined("d", 1), later.ledger.rounds().get("d")], [true, 1]);
  const taken = { roundNumber: 1, canary: utf8("kept") };
  await later.writing(() => {
    later.putRelayedSession("d", { header: null, sealed: null, forget: true, taken }, utf8("manifest"));
    later.putFinished("d", { roundNumber: 1, acknowledged: 5, lost: 0 });
    later.relayed.putOpening("d", 1, utf8("opening"));
    later.relayed.putTries("d", 1, 2);
    later.relayed.putTries("d", 2, 2);
  });
  assert.deepEqual(later.relayedSession("d"), { header, request: null });
  const kept = { ...taken, manifest: utf8("manifest"), opening: utf8("opening"), tries: 2 };
  assert.deepEqual((await again()).relayed.canaries("d"), [kept]);
  await later.writing(() => later.relayed.putUnopened("d", 1));
  assert.deepEqual([later.relayed.countCanaries("d"), later.relayed.unopened("d")], [0, new Set([1])]);
  await later.setStatus("d", "joined");
  assert.deepEqual(later.relayed.unopened("d"), new Set());
});

test("of an experiment that was forgotten meanwhile nothing comes back", async () => {
  const { state } = await joined();
  await state.forget("d");
  const taken = { roundNumber: 1, canary: utf8("kept") };
  await state.writing(() => {
    const changes = { header: utf8("h"), sealed: { body: utf8("b"), canary: utf8("c") }, forget: false, taken };
    state.putRelayedSession("d", changes, utf8("manifest"));
    state.relayed.putTrust("d", { manifest: null, opening: null, state: utf8("state") }, [], null);
    state.putModel("d", { roundNumber: 1, evaluationWeights: "w" });
  });
  assert.deepEqual([state.relayedSession("d"), state.relayed.trust("d"), state.model("d")], [null, null, null]);
  assert.deepEqual(state.relayed.canaries("d"), []);
});

test("forgetting leaves nothing of the person, and keeps counts, ledger, labels and what is bound", async () => {
  const { state, again } = await joined();
  await state.writing(() => {
    state.relayed.bind("d", 1, utf8("label"));
    state.ledger.putRound("d", 1);
    const bound = [utf8("key"), utf8("root")];
    const believed = { manifest: utf8("m"), opening: null, state: utf8("state") };
    state.relayed.putTrust("d", believed, [{ roundNumber: 1, bound }], utf8("log"));
    state.relayed.putTokenSeed("d", 1, utf8("seed"));
    state.trust.count("d", "steps", 3);
    state.trust.putUnseen("d", 1);
    state.putModel("d", { roundNumber: 1, evaluationWeights: "w" });
  });
  assert.deepEqual(state.relayed.log("d"), utf8("log"));
  assert.deepEqual(state.relayed.tokenSeed("d", 1), utf8("seed"));
  assert.equal(state.relayed.tokenSeed("d", 2), null);
  await state.forget("d");
  const later = await again();
  const record = later.record("d")!;
  assert.deepEqual([record.status, record.cohort, record.person], ["forgotten", "test", null]);
  assert.deepEqual([later.relayed.trust("d"), later.relayed.tokenSeed("d", 1), later.model("d")], [null, null, null]);
  assert.deepEqual(later.trust.unseen("d"), new Set());
  assert.equal(later.trust.checks("d").steps, 3);
  assert.deepEqual(later.relayed.label("d", 1), utf8("label"));
  assert.deepEqual(later.relayed.bound("d"), new Map([[hex(utf8("key")), 1], [hex(utf8("root")), 1]]));
  assert.equal(later.ledger.joined("d", 1), true);
});

test("history, abstentions, evidence, model and traffic are kept", async () => {
  const { state } = await joined();
  const shown = { reason: "EQUIVOCATION", sentence: "sentence", evidence: [utf8("one"), utf8("two")] };
  await state.writing(() => {
    for (const round of [10, 9, 1]) state.putJoined("d", round, 5);
    state.putFinished("d", { roundNumber: 1, acknowledged: 4, lost: 1 });
    state.putAbstention("d", 2, shown);
    state.putAbstention("d", 2, shown);
    state.putTraffic(10, 7);
    state.putTraffic(10, 5);
    state.putModel("d", { roundNumber: 3, evaluationWeights: "w" });
  });
  assert.deepEqual(state.history("d").map(({ roundNumber, lost }) => [roundNumber, lost]), [[1, 1], [9, 0], [10, 0]]);
  assert.deepEqual(state.abstentions("d"), [[2, "EQUIVOCATION", "sentence"]]);
  assert.deepEqual(state.evidence("d"), shown.evidence);
  assert.deepEqual(state.model("d"), { rounds: 2, weights: "w" });
  assert.deepEqual([state.traffic(10), state.traffic(11)], [12, 0]);
  await state.writing(() => {
    state.putTraffic(30, 1);
    state.putEnding("d", utf8("ending"), { roundNumber: 4, evaluationWeights: "v" });
  });
  assert.equal(state.traffic(10), 0);
  assert.deepEqual(state.model("d"), { rounds: 4, weights: "v" });
});

test("who resumes has seen why the device distrusted", async () => {
  const { state } = await joined();
  await state.writing(() => {
    state.trust.putDistrust("d", "sentence");
    state.trust.putUnseen("d", 4);
  });
  await state.setStatus("d", "paused");
  assert.deepEqual([state.trust.distrust("d"), state.trust.unseen("d")], ["sentence", new Set([4])]);
  await state.setStatus("d", "joined");
  assert.deepEqual([state.trust.distrust("d"), state.trust.unseen("d")], [null, new Set()]);
});

test("a transaction that fails changes nothing", async () => {
  const { state, again } = await joined();
  const failing = state.writing(() => {
    state.ledger.putRound("d", 1);
    throw new StoreError("no");
  });
  await assert.rejects(failing, StoreError);
  await state.writing(() => state.ledger.putRound("d", 2));
  assert.deepEqual([(await again()).ledger.joined("d", 1), state.ledger.joined("d", 2)], [false, true]);
});
