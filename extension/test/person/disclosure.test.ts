import assert from "node:assert/strict";
import { test } from "node:test";

import { Consent } from "../../src/consent/policies.ts";
import { chosenRelays, figures, inShort, whatLeaves, whoAsks } from "../../src/person/disclosure.ts";
import type { Sentence } from "../../src/privacy/sentences.ts";
import type { ExperimentDocument } from "../../src/protocol/documents/experiment.ts";
import { TrustPolicy } from "../../src/trust/trustPolicy.ts";
import { covered } from "../consent/covered.ts";
import { published } from "./world.ts";

const POLICY = new TrustPolicy({ relays: () => [] });
const [PLAIN] = published({}, "plain_experiment_document");
const keys = (sentences: readonly Sentence[]): string[] => sentences.map(({ key }) => key);
const statementOf = (document: ExperimentDocument) => new Consent().statement(document);

test("who asks is what the signed document says", () => {
  assert.deepEqual(keys(whoAsks(covered()[0])), ["asks.unknown"]);
  const asked = covered({ operator: "Us", contact: "us@example.org", purpose: "To know." })[0];
  assert.deepEqual(keys(whoAsks(asked)), ["asks.by.contact", "asks.purpose", "asks.unchecked"]);
  assert.equal(String(whoAsks(asked)[0]), "Asked by Us. Contact: us@example.org");
  assert.match(String(chosenRelays(asked)), /entry\.example \(Entry e\.V\.\) and mix\.example \(Mix Ltd\.\)/);
});

test("in short: the risk, who must be honest, what leaves, and a way out", () => {
  const [document] = covered();
  const said = inShort(document, statementOf(document));
  assert.deepEqual(keys(said), ["risk.two", "short.either", "short.looks", "short.sends.once", "short.leave"]);
  assert.match(String(said[2]), /looks at: Words that the person has written\. It does so here/);
  assert.match(String(said[3]), /In each of up to 20 rounds .* within 10 minutes: \d+\.\d kB\./);
  const [unsafe] = covered({ operator: "Mix Ltd." });
  assert.deepEqual(keys(inShort(unsafe, statementOf(unsafe))).slice(0, 2), ["risk.unbounded", "short.none"]);
});

test("what leaves, and who can break it", () => {
  const [document] = covered({ tokens: true });
  const said = keys(whatLeaves(document, statementOf(document), POLICY));
  assert.deepEqual(said, [
    ...["risk.two", "honest", "break", "leaves.learnt", "leaves.looks.some", "leaves.sends.once", "leaves.says"],
    ...["leaves.canary", "leaves.two-relays", "leaves.terms", "leaves.token"],
  ]);
  const [faint] = covered({ odds: "1/100" });
  assert.deepEqual(keys(whatLeaves(faint, statementOf(faint), POLICY)).slice(0, 2), ["risk.unbounded", "none.faint"]);
});

test("figures are for those who know the words", () => {
  const [document] = covered();
  const said = figures(document, statementOf(document));
  assert.deepEqual(keys(said), [
    ...["figures.claim", "figures.auc", "figures.epsilon", "figures.flip", "figures.seen", "figures.without"],
  ]);
  const [broken] = covered({ epsilon: "1/2", rounds: 1, odds: "1" });
  const worth = keys(figures(broken, statementOf(broken)));
  assert.ok(worth.includes("figures.broken") && worth.includes("figures.epsilon.one"), `${worth}`);
});

test("a plain experiment is shown for what it is", () => {
  const statement = statementOf(PLAIN);
  assert.deepEqual(keys(inShort(PLAIN, statement)).slice(0, 2), ["risk.unbounded", "short.none"]);
  const said = keys(whatLeaves(PLAIN, statement, POLICY));
  assert.deepEqual(said.slice(0, 4), ["risk.unbounded", "none.noise", "none.chosen", "alone"]);
  assert.match(figures(PLAIN, statement)[0]!.key, /^figures\.(plain|plain\.one|no-law)$/);
});
