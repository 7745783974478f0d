import assert from "node:assert/strict";
import { after, test, type TestContext } from "node:test";

import { BadInputError } from "../../src/errors.ts";
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
