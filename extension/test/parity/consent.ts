/** What a person is told and what their device agrees to: statements, refusals, and a ledger over time. */

import { IDBFactory } from "fake-indexeddb";

import { unhex } from "../../src/bytes.ts";
import { Consent } from "../../src/consent/policies.ts";
import { neededFor } from "../../src/consent/policies.ts";
import { checkRoom, enter, figures, inWords, readLedger } from "../../src/consent/ledger.ts";
import { VerifyKey } from "../../src/crypto/signing.ts";
import * as disclosure from "../../src/person/disclosure.ts";
import { contents } from "../../src/privacy/sentences.ts";
import { RelayedStatement } from "../../src/privacy/statements/relayed.ts";
import { readPublished, type ExperimentDocument } from "../../src/protocol/documents/experiment.ts";
import { NOTHING, type Accepted } from "../../src/storage/books.ts";
import { DeviceState } from "../../src/storage/state.ts";
import { Tables } from "../../src/storage/tables.ts";
import { TrustPolicy } from "../../src/trust/trustPolicy.ts";
import type { Vector } from "../vectors.ts";
import { orError, orErrorAtOnce } from "./answers.ts";

const PERSON = { vector: { values: new Map([[1, 1]]), nBins: 10 }, label: 1, target: 0, cohort: "train" } as const;

export async function answerConsent(asked: Vector): Promise<unknown> {
  const { most_epsilon: mostEpsilon, most_rounds: mostRounds, one_relay: oneRelay, ...same } = asked.consent;
  const consent = new Consent({ mostEpsilon, mostRounds, oneRelay, ...same, budget: asked.budget });
  const state = new DeviceState(await Tables.open(new IDBFactory()));
  const envelopes = asked.envelopes.map(unhex);
  const documents: ExperimentDocument[] = await Promise.all(envelopes.map((envelope: Uint8Array) => readPublished(envelope)));
  const accepted: Accepted[] = asked.accepted.map((epsilon: number | null) => ({ auc: null, epsilon }));
  const isRelayed = ({ experiment }: ExperimentDocument): boolean => experiment.cover !== null;
  const told = documents.map((document, i) => toldOf(document, consent, policyOf(asked.known, document), accepted[i]!));
  for (const [i, document] of documents.entries()) {
    if (isRelayed(document)) await state.join(document.digest, envelopes[i], PERSON, { accepted: accepted[i]! });
  }
  const counted: unknown[] = [];
  for (const [which, number] of asked.rounds) {
    const document = documents[which]!;
    if (isRelayed(document)) counted.push(await orError(() => enter(state, document, number, consent)));
  }
  const rooms = documents.flatMap((document, i) => {
    if (!isRelayed(document) || state.ledger.rounds().has(document.digest)) return [];
    return [orErrorAtOnce(() => checkRoom(state, document, consent, accepted[i]!))];
  });
  const spent = readLedger(state, consent);
  return {
    told,
    counted: nulled(counted),
    rooms: nulled(rooms),
    rounds: [...state.ledger.rounds()].sort(([a], [b]) => (a < b ? -1 : 1)),
    ledger: spent.content(consent),
    risks: spent.spendings.map(({ risk, variation }) => [risk, variation]),
    words: contents(inWords(spent)),
    figures: contents(figures(spent, consent)),
  };
}

function policyOf(known: readonly [string, string][], { coordinatorKeys: [key] }: ExperimentDocument): TrustPolicy {
  return new TrustPolicy({ relays: () => known.map(([url, operator]) => ({ url, operator, key: key as VerifyKey })) });
}

function toldOf(document: ExperimentDocument, consent: Consent, policy: TrustPolicy, accepted: Accepted): unknown {
  const statement = consent.statement(document);
  const check = (own: Accepted) => orErrorAtOnce(() => consent.check(document, own)) ?? null;
  return {
    who: contents(disclosure.whoAsks(document)),
    chosen: disclosure.chosenRelays(document).content(),
    short: contents(disclosure.inShort(document, statement)),
    leaves: contents(disclosure.whatLeaves(document, statement, policy)),
    figures: contents(disclosure.figures(document, statement)),
    check: check(NOTHING),
    ...(statement instanceof RelayedStatement && {
      statement: statement.content(),
      needed: neededFor(statement),
      accepted: check(accepted),
      weighed: orErrorAtOnce(() => consent.weigh(statement)) ?? null,
    }),
  };
}

function nulled(answers: readonly unknown[]): unknown[] {
  return answers.map((answer) => answer ?? null);
}
