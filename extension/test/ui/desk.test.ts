import assert from "node:assert/strict";
import { after, test, type TestContext } from "node:test";

import { Consent } from "../../src/consent/policies.ts";
import { BadInputError } from "../../src/errors.ts";
import { IDBObjectStore } from "fake-indexeddb";
import type { ExperimentDocument } from "../../src/protocol/documents/experiment.ts";
import type { Bytes } from "../../src/bytes.ts";
import { asked, LABELS, NOW, Person, PLAIN, type Page } from "./person.ts";

const ASKED = asked();
const [DOCUMENT, ENVELOPE] = ASKED;
const { digest } = DOCUMENT;
const people: Person[] = [];
after(() => Promise.all(people.map((person) => person.stop())));

async function started(_: TestContext, ...experiments: readonly (readonly [ExperimentDocument, Bytes])[]): Promise<Person> {
  const person = await Person.start(...(experiments.length ? experiments : [ASKED]));
  people.push(person);
  return person;
}

const ONION = JSON.parse(new TextDecoder().decode(DOCUMENT.data)).relays.map((relay: object & { role: string }) => {
  return { ...relay, url: `http://${relay.role === "entry" ? "a" : "b"}${"c".repeat(54)}d.onion/r` };
});
const offerOf = (page: Page, of = digest): Page => page.offers.list.find((one: Page) => one.digest === of);
const experimentOf = (page: Page, of = digest): Page => page.experiments.find((one: Page) => one.digest === of);

test("before its first invite a device knows nobody, and asks nobody", async (t) => {
  const person = await started(t);
  const page = await person.page();
  assert.deepEqual([page.offers.possible, page.offers.invites, page.relays, page.experiments], [false, true, [], []]);
  await assert.rejects(person.act("find"), { name: "BadInputError", message: /knows no relay/ });
  await assert.rejects(person.act("invite", { line: "https://entry.example" }), /this is no invite/);
  assert.equal(await person.device.work(), null);
  assert.deepEqual(person.relay.seen, []);
});

test("from an invite to a yes: shown, read by what was agreed, joined", async (t) => {
  const person = await started(t);
  await person.invite(DOCUMENT);
  let offer = offerOf(await person.page());
  assert.deepEqual([offer.invited, offer.refusal, offer.features_here, offer.answered], [true, null, 0, false]);
  assert.deepEqual(offer.asks.map((one: Page) => one.key), ["asks.by.contact", "asks.unchecked"]);
  assert.equal(offer.short.at(-1).key, "chosen.two");
  assert.deepEqual(offer.profiles, ["history"]);
  await assert.rejects(person.act("join", { digest, answer: LABELS[0], accept: null }), /no features of the source/);

  assert.deepEqual(await person.act("import", { digest, profile: "history" }), { done: true, features: 2 });
  const { vault } = await person.page();
  assert.deepEqual(vault.sources, [{ name: "history-titles", features: 2, read: { at: NOW, days: 30 } }]);
  offer = offerOf(await person.page());
  assert.deepEqual([offer.features_here, offer.further], [2, false]);

  await assert.rejects(person.act("join", { digest, answer: "neither", accept: null }), /none of this experiment's/);
  assert.deepEqual(person.vault.answered(), []);
  await person.act("join", { digest, answer: LABELS[0], accept: null });
  const page = await person.page();
  assert.equal(offerOf(page), undefined);
  const { status, means, waiting, model_round, trouble } = experimentOf(page);
  assert.deepEqual({ status, means: means.key, waiting, model_round, trouble }, {
    ...{ status: "joined", means: "means.runs", waiting: 0, model_round: null, trouble: null },
  });
  assert.deepEqual(page.relays.sort(), ["https://entry.example/", "https://entry.example/r", "https://mix.example/"]);
  assert.deepEqual([person.vault.label(digest), page.vault.labels], [LABELS[0], 1]);
  await assert.rejects(person.act("join", { digest, answer: LABELS[0], accept: null }), /not looked at yet/);
});

test("what was found is there again after the worker died, and a no is remembered", async (t) => {
  const [other, envelope] = asked({ title: "another" });
  const person = await started(t, [DOCUMENT, ENVELOPE], [other, envelope]);
  await person.invite(DOCUMENT);
  await person.act("find");
  await person.wake();
  const page = await person.page();
  assert.deepEqual(page.offers.list.map((one: Page) => one.title), [DOCUMENT.title, "another"]);
  assert.deepEqual([page.offers.asked_at, page.offers.problem], [NOW, null]);
  await person.act("decline", { digest: other.digest });
  await person.wake();
  assert.deepEqual((await person.page()).declined, [{ digest: other.digest, title: "another" }]);
  assert.equal(offerOf(await person.page(), other.digest), undefined);
  await person.act("reconsider", { digest: other.digest });
  assert.equal(offerOf(await person.page(), other.digest).title, "another");
});

test("plain experiments, tests and what a browser does not have are shown and refused in one sentence", async (t) => {
  const words = { kind: "vocabulary", bins: 10, digest: "0".repeat(64) };
  const refused: [readonly [ExperimentDocument, Bytes], string][] = [
    [PLAIN, "refused.plain"],
    [asked({ features: { source: "words", description: "Words.", presence: true } }), "refused.source"],
    [asked({ binning: words }), "refused.words"],
    [asked({ test: true }), "refused.test"],
    [asked({ relays: ONION }), "refused.unreachable"],
  ];
  for (const [other, key] of refused) {
    const person = await started(t, ASKED, other);
    const [{ digest }] = other;
    await person.invite(DOCUMENT);
    await person.act("find");
    const offer = offerOf(await person.page(), digest);
    assert.deepEqual([offer.refusal.key, offer.accept], [key, null]);
    await assert.rejects(person.act("join", { digest, answer: LABELS[0], accept: null }), BadInputError);
    assert.deepEqual(person.state.records(), []);
  }
});

test("a test is taken up only where its relays are on this machine", async (t) => {
  const [document, envelope] = asked({ test: true });
  const person = await started(t, [document, envelope]);
  await assert.rejects(person.invite(document), /marked as a test/);
  assert.equal(person.state.settings.setUp(), null);
});

test("paused, resumed, forgotten: the label, the bins and what waits are gone, and nobody joins anew", async (t) => {
  const person = await started(t);
  await person.join(DOCUMENT);
  await person.act("pause", { digest });
  assert.equal(experimentOf(await person.page()).means.key, "means.paused");
  assert.deepEqual(await person.act("resume", { digest }), { done: true, goes_on: true });
  await person.act("forget", { digest });
  await person.wake();
  assert.deepEqual([person.vault.answered(), person.state.record(digest)!.person], [[], null]);
  assert.equal(experimentOf(await person.page()).means.key, "means.forgotten");
  assert.equal(await person.device.work(), null);
  await assert.rejects(person.act("resume", { digest }), /does not take part/);
  await person.act("find", { digest });
  assert.equal(offerOf(await person.page()), undefined);
});

test("what was read is seen, excluded for good, and removed", async (t) => {
  const person = await started(t);
  await person.invite(DOCUMENT);
  await person.act("import", { digest, profile: "history" });
  const shown = await person.act("examples", { source: "history-titles" });
  assert.deepEqual(shown.examples, [{ feature: "photos", value: 1 }, { feature: "quokka", value: 1 }]);
  await person.act("exclude", { feature: "quokka" });
  await person.act("import", { digest, profile: "history" });
  assert.deepEqual((await person.act("examples", { source: "history-titles" })).examples, [{ feature: "photos", value: 1 }]);
  await person.act("remove", { source: "history-titles" });
  assert.deepEqual((await person.page()).vault.sources, []);
});

test("what was read for another experiment of more days is to be read again", async (t) => {
  const person = await started(t);
  await person.invite(DOCUMENT);
  const days = 365;
  await person.vault.put("history-titles", new Map([["old", 1]]), { reader: "history-titles", readAt: NOW, days });
  assert.equal(offerOf(await person.page()).further, true);
  await person.act("import", { digest, profile: "history" });
  assert.equal(offerOf(await person.page()).further, false);
});

test("who allows no history is read by nobody", async (t) => {
  const person = await started(t);
  await person.invite(DOCUMENT);
  person.allowed = false;
  await assert.rejects(person.act("import", { digest, profile: "history" }), /does not allow/);
  assert.deepEqual((await person.page()).vault.sources, []);
});

test("before there is a model or evidence, a sentence says so; nonsense is refused", async (t) => {
  const person = await started(t);
  await person.join(DOCUMENT);
  await assert.rejects(person.act("predict", { digest }), /no model/);
  await assert.rejects(person.act("evidence", { number: 1 }), /no piece of evidence/);
  const wrong: [string, object][] = [
    ["evidence", { number: "1" }], ["pause", {}], ["pause", { digest: "" }], ["forget", { digest: "x" }],
    ["join", { digest, accept: 1 }], ["join", { digest, accept: { epsilon: -1 } }], ["find", { digest: "xyz" }],
    ["exclude", { feature: "\ud800" }], ["constructor", {}], ["nothing", {}],
  ];
  for (const [action, said] of wrong) await assert.rejects(person.act(action, said), BadInputError, action);
});

/** As a planner made it for some ten people. */
const PLANNED = {
  privacy: {
    ...{ kind: "relays", epsilon: "2", delta: "1/1000000", packages: 9171, parts: 9 },
    participation: { odds: "577/32", shape: "15" },
    test: { odds: "513/128", shape: "15" },
    train: { odds: "257/64", shape: "15" },
  },
  rounds: 2,
};

test("what is riskier than the device likes is joined by whoever accepts it, for this experiment alone", async (t) => {
  const planned = asked(PLANNED);
  const [{ digest: of }] = planned;
  const person = await started(t, planned);
  person.consent = new Consent({ mostEpsilon: 0.5 });
  await (await person.wake()).invite(planned[0]);
  await person.act("import", { digest: of, profile: "history" });
  const { refusal, next_step, accept } = offerOf(await person.page(), of);
  assert.deepEqual([refusal.key, next_step, accept.auc], ["refused.epsilon", null, null]);
  assert.ok(0.5 < accept.epsilon && accept.epsilon < 3, accept.epsilon);
  const join = (accepted: object | null) => person.act("join", { digest: of, answer: LABELS[0], accept: accepted });
  await assert.rejects(join(null), { name: "ConsentRefusedError" });
  await assert.rejects(join({ auc: null, epsilon: 0.6 }), { name: "ConsentRefusedError" });
  assert.deepEqual(person.vault.answered(), []);
  await join(accept);
  assert.deepEqual(person.state.ledger.accepted(of), accept);
});

test("a full storage refuses a yes in one sentence, and what was there before holds", async (t) => {
  const person = await started(t);
  await person.invite(DOCUMENT);
  await person.act("import", { digest, profile: "history" });
  const aborted = new Set<IDBTransaction>();
  const put = t.mock.method(IDBObjectStore.prototype, "put", function (this: IDBObjectStore) {
    if (aborted.has(this.transaction)) return;
    aborted.add(this.transaction);
    this.transaction.abort();
    Object.defineProperty(this.transaction, "error", { value: new DOMException("full", "QuotaExceededError") });
  });
  const full = { name: "StoreError", message: "The browser's storage is full, so nothing was sent." };
  await assert.rejects(person.act("join", { digest, answer: LABELS[0], accept: null }), full);
  await assert.rejects(person.page(), full);
  put.mock.restore();
  await person.wake();
  const page = await person.page();
  assert.deepEqual([page.experiments, page.vault.labels, offerOf(page).features_here], [[], 0, 2]);
  await person.act("join", { digest, answer: LABELS[0], accept: null });
});
