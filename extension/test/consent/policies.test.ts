import assert from "node:assert/strict";
import { test } from "node:test";

import { checkKept, Consent, neededFor } from "../../src/consent/policies.ts";
import { ConsentRefusedError } from "../../src/errors.ts";
import { RelayedStatement } from "../../src/privacy/statements/relayed.ts";
import type { ExperimentDocument } from "../../src/protocol/documents/experiment.ts";
import { NOTHING, type Accepted } from "../../src/storage/books.ts";
import { published } from "../person/world.ts";
import { covered } from "./covered.ts";

const [DOCUMENT] = covered();

function refusal(document: ExperimentDocument, consent = new Consent(), accepted: Accepted = NOTHING): ConsentRefusedError {
  try {
    consent.check(document, accepted);
  } catch (fault) {
    assert.ok(fault instanceof ConsentRefusedError);
    assert.ok(fault.nextStep);
    return fault;
  }
  return assert.fail("it was agreed to");
}

function statementOf(document: ExperimentDocument, consent = new Consent()): RelayedStatement {
  const statement = consent.statement(document);
  assert.ok(statement instanceof RelayedStatement);
  return statement;
}

test("a guarantee within the limits is agreed to, whatever the document claims above it", () => {
  new Consent().check(DOCUMENT);
  const { own, planned, risk, kept, protects } = statementOf(DOCUMENT);
  assert.ok(own!.epsilon > 1 && own!.epsilon < 4 && own!.epsilonFlip > own!.epsilon);
  assert.equal(planned!.epsilon, own!.epsilon);
  assert.ok(risk > 0.5 && risk < 1);
  assert.deepEqual([kept, protects], [true, true]);
});

test("a claim is not believed", () => {
  const [document] = covered({ epsilon: "1" });
  assert.match(refusal(document).message, /claims ε = 1, δ = 1e-06, and its noise is worth less: ε = [12]\.\d\d at that δ/);
  assert.equal(statementOf(document).kept, false);
  assert.throws(() => checkKept(statementOf(document)), ConsentRefusedError);
});

test("who wants a smaller ε is told the one that they would have to accept, and that is enough", () => {
  const consent = new Consent({ mostEpsilon: 0.5 });
  const { message, nextStep } = refusal(DOCUMENT, consent);
  const needed = neededFor(statementOf(DOCUMENT, consent));
  assert.match(message, /this device agrees to ε = 0\.50 at most/);
  assert.ok(nextStep!.includes(`accept ε = ${needed!.epsilon!.toFixed(2)} for this experiment`));
  consent.check(DOCUMENT, needed!);
  assert.match(refusal(DOCUMENT, consent, { auc: null, epsilon: 0.6 }).message, /ε = 0\.60 at most/);
});

test("the device's own δ counts, and a refusal says so", () => {
  const [document] = covered({ delta: "1/1000", epsilon: "2" });
  const said = refusal(document, new Consent({ mostEpsilon: 1.2 })).message;
  assert.match(said, /at the δ = 1e-06 that this device wants; the experiment plans with 1e-03/);
});

test("noise that is not enough is no guarantee, and no number helps", () => {
  const [document] = covered({ odds: "1/100" });
  assert.match(refusal(document).message, /its noise is worth less|guarantees nothing/);
  assert.equal(neededFor(statementOf(document)), null);
  assert.equal(statementOf(document).content().own!.epsilon, null);
});

test("relays in one hand are no guarantee, and one relay is enough for whoever agrees to that", () => {
  const mine = covered({ operator: " mix LTD. " })[0];
  assert.match(refusal(mine).message, /no guarantee: Mix Ltd\. runs the coordinator and the mixing relay/);
  assert.deepEqual([neededFor(statementOf(mine)), statementOf(mine).risk], [null, 1]);
  new Consent({ oneRelay: true }).check(mine);
});

test("rounds have a limit of their own", () => {
  assert.match(refusal(DOCUMENT, new Consent({ mostRounds: 19 })).message, /20 rounds, and this device agrees to 19/);
});

test("plain experiments are refused, whatever the person says", () => {
  const [plain] = published({}, "plain_experiment_document");
  for (const consent of [new Consent(), Consent.unsafeAcceptAnything()]) {
    assert.match(refusal(plain, consent, { auc: 1, epsilon: 30 }).message, /nothing limits the risk|nobody knows the risk/);
  }
  assert.equal(neededFor(new Consent().statement(plain)), null);
});

test("made-up people agree to all that has relays' cover", () => {
  for (const changes of [{ odds: "1/100" }, { operator: "Mix Ltd." }, { rounds: 2000 }]) {
    Consent.unsafeAcceptAnything().check(covered(changes)[0]);
  }
});
