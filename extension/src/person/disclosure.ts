/**
 * What a person is told before they join: the risk in short, what leaves their device, who may read it, the figures.
 *
 * `inShort` is read before a yes, `whatLeaves` and `figures` by whoever wants to read everything. All are `Sentence`s,
 * which the person's page says in its reader's language.
 */

import type { Statement } from "../consent/policies.ts";
import { inWords as riskInWords } from "../privacy/risk.ts";
import { say, type Sentence } from "../privacy/sentences.ts";
import * as plain from "../privacy/statements/plain.ts";
import { RelayedStatement } from "../privacy/statements/relayed.ts";
import * as relayedText from "../privacy/statements/relayedText.ts";
import { hostOf, type ExperimentDocument } from "../protocol/documents/experiment.ts";
import { RECOUNTED_ONE_IN } from "../protocol/relays/submission.ts";
import { bytesOfARound } from "../sending/sealing.ts";
import type { TrustPolicy } from "../trust/trustPolicy.ts";

const UNITS = [["days", 86_400], ["hours", 3600], ["minutes", 60], ["seconds", 1]] as const;

/** Who asks, how to reach them and what for, as the signed document says: what a person is shown first. */
export function whoAsks({ operator, contact, purpose }: ExperimentDocument): Sentence[] {
  if (!operator) return [say("asks.unknown")];
  return [
    contact ? say("asks.by.contact", { operator, contact }) : say("asks.by", { operator }),
    ...(purpose ? [say("asks.purpose", { purpose })] : []),
    say("asks.unchecked"),
  ];
}

/** What an invite does to trust: whoever wrote it chose whom the packages go through. */
export function chosenRelays({ relays, experiment }: ExperimentDocument): Sentence {
  const names = relays.map((relay) => `${hostOf(relay)}${relay.operator === null ? "" : ` (${relay.operator})`}`);
  if (experiment.cover === null) return say("chosen.plain", { relays: names.join(", ") });
  return say("chosen.two", { entry: names[0]!, mix: names[1]! });
}

/** The risk, who must be honest, what leaves, and that there is a way out: to be read before a yes. */
export function inShort(document: ExperimentDocument, statement: Statement): Sentence[] {
  const { rounds } = document;
  return [
    riskInWords(statement.risk, document.experiment),
    honest(statement),
    say("short.looks", { looks_at: looksAt(document) }),
    say(`short.sends.${howOften(statement)}`, { rounds, window: windowOf(document), kilobytes: kilobytesOf(document) }),
    say("short.leave"),
  ];
}

/** What taking part means, and what it tells. `policy` knows who runs the relays, as far as the person was told. */
export function whatLeaves(document: ExperimentDocument, statement: Statement, policy: TrustPolicy): Sentence[] {
  const { budget, experiment, features, rounds } = document;
  const looks = { looks_at: looksAt(document), source: features.source };
  const most = experiment.featuresPerPerson;
  const sent = { budget, rounds, window: windowOf(document), kilobytes: kilobytesOf(document) };
  return [
    ...(statement instanceof RelayedStatement ? relayedText.plainly(statement) : plain.plainly(statement)),
    most === null ? say("leaves.looks.all", looks) : say("leaves.looks.some", { most, ...looks }),
    say(`leaves.sends.${howOften(statement)}`, sent),
    say("leaves.says", { share: document.trainShare.toNumber(), bins: experiment.nBins }),
    ...(statement instanceof RelayedStatement ? twoRelays(document, policy) : [oneRelay(document, policy)]),
  ];
}

/** ε, δ, AUC and what else is a number for those who know the words. */
export function figures(document: ExperimentDocument, statement: Statement): Sentence[] {
  if (!(statement instanceof RelayedStatement)) return plain.figures(statement);
  const { packages } = document.relayCover;
  const claim = say("figures.claim", { packages, claimed: String(statement.terms.claimed) });
  return [claim, ...relayedText.figures(statement)];
}

function honest(statement: Statement): Sentence {
  if (!(statement instanceof RelayedStatement) || statement.risk >= 1) return say("short.none");
  const { entry, mix, ofCoordinator, reliedOn } = statement.terms.operators;
  return ofCoordinator.length ? say("short.one", { relay: reliedOn[0]! }) : say("short.either", { entry, mix });
}

function howOften(statement: Statement): "once" | "spread" {
  return statement instanceof RelayedStatement ? "once" : "spread";
}

function looksAt({ features }: ExperimentDocument): string {
  // Its own sentence goes on after it.
  return features.description.trim().replace(/\.+$/, "");
}

function kilobytesOf(document: ExperimentDocument): number {
  return bytesOfARound(document) / 1000;
}

function windowOf({ windows: { lengthS } }: ExperimentDocument): Sentence {
  const [name, each] = UNITS.find(([, seconds]) => lengthS % seconds === 0)!;
  const n = lengthS / each;
  return n === 1 ? say(`duration.${name}.one`) : say(`duration.${name}`, { n });
}

function oneRelay(document: ExperimentDocument, policy: TrustPolicy): Sentence {
  const { length } = document.relays;
  if (length === 0) return say("leaves.no-relay");
  return say(length === 1 ? "leaves.one-relay" : "leaves.relays", { relays: policy.relaysInWords(document) });
}

function twoRelays(document: ExperimentDocument, policy: TrustPolicy): Sentence[] {
  return [
    say("leaves.canary"),
    say("leaves.two-relays", { relays: policy.relaysInWords(document), recounted: RECOUNTED_ONE_IN }),
    say("leaves.terms"),
    ...(document.tokens ? [say("leaves.token", { host: hostOf(document.entryRelay) })] : []),
  ];
}
