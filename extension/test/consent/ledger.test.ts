import assert from "node:assert/strict";
import { test } from "node:test";

import type { Bytes } from "../../src/bytes.ts";
import { checkRoom, enter, figures, inWords, readLedger, roundConsent } from "../../src/consent/ledger.ts";
import { Consent } from "../../src/consent/policies.ts";
import { ConsentRefusedError } from "../../src/errors.ts";
import type { ExperimentDocument } from "../../src/protocol/documents/experiment.ts";
import { NOTHING, type Accepted } from "../../src/storage/books.ts";
import type { DeviceState } from "../../src/storage/state.ts";
import { deviceOf } from "../person/world.ts";
import { covered } from "./covered.ts";

const PERSON = { vector: { values: new Map([[1, 1]]), nBins: 10 }, label: 1, target: 0, cohort: "train" } as const;
const [FIRST, SECOND] = [covered({ title: "first" }), covered({ title: "second" })];

/** Agrees to so much in all. */
const upTo = (epsilon: number, delta = 1e-5): Consent => new Consent({ budget: { epsilon, delta } });

async function joined(
  ...experiments: readonly (readonly [document: ExperimentDocument, envelope: Bytes, accepted?: Accepted])[]
): Promise<DeviceState> {
  const { state } = await deviceOf();
  for (const [{ digest }, envelope, accepted = NOTHING] of experiments) {
    await state.join(digest, envelope, PERSON, { accepted });
  }
  return state;
}

/** What a round comes to, by the ledger itself. */
async function chargeOf(rounds: number): Promise<number> {
  const state = await joined(FIRST);
  for (let round = 1; round <= rounds; round++) await enter(state, FIRST[0], round, upTo(Infinity));
  return readLedger(state, upTo(Infinity)).charged;
}

test("nothing is told before the first round", async () => {
  const state = await joined(FIRST);
  const ledger = readLedger(state, new Consent());
  assert.deepEqual([ledger.spendings, ledger.epsilon, ledger.risk], [[], 0, 0.5]);
  assert.deepEqual(inWords(ledger).map(({ key }) => key), ["ledger.empty"]);
  assert.deepEqual(figures(ledger, new Consent()), []);
});

test("rounds of all experiments are counted until the budget is spent", async () => {
  const consent = upTo(2 * (await chargeOf(1)) + 1e-9);
  const state = await joined(FIRST, SECOND);
  await enter(state, FIRST[0], 1, consent);
  await enter(state, SECOND[0], 1, consent);
  await assert.rejects(enter(state, SECOND[0], 2, consent), (fault: ConsentRefusedError) => {
    return fault instanceof ConsentRefusedError && /budget over all experiments is spent: ε = /.test(fault.message);
  });
  const ledger = readLedger(state, consent);
  assert.deepEqual(ledger.spendings.map(({ title, rounds }) => [title, rounds]).sort(), [["first", 1], ["second", 1]]);
  assert.ok(ledger.charged > ledger.epsilon && ledger.risk > 0.5);
  assert.equal(ledger.delta, 2e-6);
  // A third one is not even joined.
  const [third] = covered({ title: "third" });
  assert.throws(() => checkRoom(state, third, consent, NOTHING), /is spent/);
  checkRoom(state, third, consent, { auc: null, epsilon: 5 });
});

test("a round that was cut off goes on and counts once, and one that is refused counts nothing", async () => {
  const consent = upTo(await chargeOf(1));
  const state = await joined(FIRST);
  for (let life = 0; life < 3; life++) await enter(state, FIRST[0], 4, consent);
  assert.deepEqual([...state.ledger.rounds().values()], [1]);
  await assert.rejects(enter(state, FIRST[0], 5, consent), ConsentRefusedError);
  assert.deepEqual([...state.ledger.rounds().values()], [1]);
});

test("rounds of one experiment together tell less than each by itself", async () => {
  assert.ok((await chargeOf(3)) < 3 * (await chargeOf(1)));
});

test("δ has a budget too", async () => {
  const consent = upTo(100, 1.5e-6);
  const state = await joined(FIRST, SECOND);
  await enter(state, FIRST[0], 1, consent);
  await assert.rejects(enter(state, SECOND[0], 1, consent), /δ of one in 666,667/);
});

test("what was accepted for one experiment is a budget of its own", async () => {
  const one = await chargeOf(1);
  const consent = upTo(one);
  const state = await joined(FIRST, [...SECOND, { auc: null, epsilon: 0.9 * one }]);
  await enter(state, FIRST[0], 1, consent);
  await enter(state, SECOND[0], 1, consent);
  await assert.rejects(async () => {
    for (let round = 2; round < 20; round++) await enter(state, SECOND[0], round, consent);
  }, /what you accepted for this experiment is spent: ε = /);
  const ledger = readLedger(state, consent);
  assert.equal(ledger.common.spendings.length, 1);
  assert.deepEqual(inWords(ledger).map(({ key }) => key), ["risk.together", "ledger.stays", "ledger.apart"]);
});

test("what was told stays told, also when the person is forgotten", async () => {
  const state = await joined(FIRST);
  await enter(state, FIRST[0], 1, new Consent());
  const before = readLedger(state, new Consent());
  await state.forget(FIRST[0].digest);
  assert.deepEqual(readLedger(state, new Consent()), before);
  assert.equal(before.content(new Consent()).experiments[0]!.rounds, 1);
});

test("made-up people have no limit, and what nothing bounds is said as it is", async () => {
  const [faint, envelope] = covered({ odds: "1/100" });
  const state = await joined([faint, envelope]);
  const consent = Consent.unsafeAcceptAnything();
  await enter(state, faint, 1, consent);
  const ledger = readLedger(state, consent);
  assert.equal(ledger.charged, Infinity);
  assert.equal(ledger.content(consent).epsilon_charged, null);
  assert.match(String(figures(ledger, consent)[0]), /has spent ε = inf .* its budget is ∞/);
});

test("a round asks for consent, and then for its place", async () => {
  const state = await joined(FIRST);
  const { agree, enter } = roundConsent(state, new Consent());
  await agree(FIRST[0]);
  await enter(FIRST[0], 1);
  assert.equal(state.ledger.joined(FIRST[0].digest, 1), true);
  const strict = roundConsent(state, new Consent({ mostEpsilon: 0.1 }));
  assert.throws(() => strict.agree(FIRST[0]), ConsentRefusedError);
});
