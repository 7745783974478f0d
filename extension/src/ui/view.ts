/**
 * What the page shows, from what the device keeps: one value, made of numbers and plain sentences, as Python's
 * `participant/ui/view.py` makes it.
 *
 * It shows nothing that the device does not keep for other reasons, and keeps nothing more for the page. So the time of
 * a request is one still to come: it is forgotten with the request. Times are told by quarters of an hour; nobody needs
 * the second. No feature and no label of the person is in it: those are asked for one by one (`desk.ts`).
 */

import { hex } from "../bytes.ts";
import { figures as ledgerFigures, inWords, isApart, Ledger, readLedger, type Spending } from "../consent/ledger.ts";
import type { Consent, Statement } from "../consent/policies.ts";
import { figures, whatLeaves, whoAsks } from "../person/disclosure.ts";
import { inWords as riskInWords, up } from "../privacy/risk.ts";
import { contents, say, type Sentence } from "../privacy/sentences.ts";
import type { ExperimentDocument } from "../protocol/documents/experiment.ts";
import { logKeyOf } from "../protocol/log/policy.ts";
import { windowOf } from "../protocol/relays/manifest.ts";
import { RelayedSession } from "../protocol/relays/session.ts";
import { SESSION_HEADER } from "../protocol/relays/sessionEvents.ts";
import { bytesOfARound } from "../sending/sealing.ts";
import type { ExperimentRecord } from "../storage/kept.ts";
import type { DeviceState } from "../storage/state.ts";
import type { Reading } from "../storage/vault.ts";
import { inAList, trustReport, type Held, type TrustReport } from "../trust/evidence.ts";
import type { TrustPolicy } from "../trust/trustPolicy.ts";
import { troubleOf } from "./troubles.ts";

const [DAY_MS, QUARTER_MS] = [86_400_000, 900_000];

/** As a page is given it. */
export type Json = { readonly [name: string]: unknown };

/** How much the vault holds, never what. */
export interface VaultLook {
  /** Number of features by source. */
  readonly sources: ReadonlyMap<string, number>;
  /** How each source was read, where that is known. */
  readonly readings: ReadonlyMap<string, Reading>;
  /** Questions that the person has answered. */
  readonly answered: ReadonlySet<string>;
  readonly bytes: number;
}

/** What a page is made of. */
export interface Looked {
  readonly state: DeviceState;
  readonly vault: VaultLook;
  readonly held: readonly Held[];
  /** The experiments that this device knows, with their documents. */
  readonly known: readonly (readonly [ExperimentRecord, ExperimentDocument])[];
  readonly statementOf: (document: ExperimentDocument) => Statement;
  /** How many askings in a row nobody answered. */
  readonly unanswered: (digest: string) => number;
  readonly consent: Consent;
  readonly policy: TrustPolicy;
  readonly dailyBytes: number;
  readonly now: number;
}

/** Everything but what is offered (`offers.ts`). */
export async function view(looked: Looked): Promise<Json> {
  const { state, vault, held, known, consent, dailyBytes, now } = looked;
  const ledger = readLedger(state, consent);
  const taken = known.filter(([{ status }]) => status !== "declined");
  const declined = known.filter(([{ status }]) => status === "declined");
  const experiments: Json[] = [];
  for (const [record, document] of taken) experiments.push(await experimentView(looked, ledger, record, document));
  return {
    now,
    runs: true,
    vault: vaultView(vault),
    budget: budget(ledger, consent, { today: state.traffic(Math.floor(now / DAY_MS)), dailyBytes }),
    experiments,
    declined: declined.map(([{ digest }, { title }]) => ({ digest, title })),
    evidence: inAList(held),
  };
}

function vaultView({ sources, readings, answered, bytes }: VaultLook): Json {
  const rows = [...sources].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, features]) => {
    const reading = readings.get(name);
    return { name, features, read: reading ? { at: reading.readAt, days: reading.days } : null };
  });
  const features = rows.reduce((sum, row) => sum + row.features, 0);
  return { labels: answered.size, bytes, changed_at: null, locked: false, sources: rows, features };
}

/** What may be told and sent, how much of it is spent; a limit of null is none at all. */
export function budget(ledger: Ledger, consent: Consent, traffic: { today: number; dailyBytes: number }): Json {
  // What was accepted for one experiment alone is counted there, and not here.
  const common = new Ledger(ledger.spendings.filter((entry) => !isApart(entry)));
  const { today, dailyBytes } = traffic;
  return {
    epsilon: meter(up(common.charged, 100), consent.budget.epsilon),
    // Only of experiments without a guarantee, in which no browser takes part.
    auc: null,
    bytes: meter(today, dailyBytes),
    words: contents(inWords(ledger)),
    figures: contents(ledgerFigures(ledger, consent)),
    unsafe: consent.unsafe,
  };
}

/** Spent, limit and the share of it that is left, 0 to 1. */
function meter(spent: number, limit: number): Json {
  if (limit === Infinity) return { spent: finite(spent), limit: null, left: null };
  const left = limit <= 0 ? 0 : Math.max(0, Math.min(1, (limit - spent) / limit));
  return { spent: finite(spent), limit, left };
}

/** As JSON can write it. */
function finite(number: number): number | null {
  return Number.isFinite(number) ? number : null;
}

/** One experiment that this device takes part in, or took part in. */
async function experimentView(
  { state, statementOf, policy, unanswered }: Looked,
  { spendings }: Ledger,
  record: ExperimentRecord,
  document: ExperimentDocument,
): Promise<Json> {
  const { digest } = document;
  const [statement, trust, standing] = [statementOf(document), await trustReport(state, document), standingOf(state, document)];
  const ended = record.ending !== null;
  const unopened = new Set(trust.unopened);
  const rounds = state.history(digest).map(({ roundNumber: round, packages, acknowledged, lost }) => {
    return { round, packages, acknowledged, lost, unopened: unopened.has(round) };
  });
  const sum = (name: "acknowledged" | "lost"): number => rounds.reduce((all, row) => all + row[name], 0);
  const abstentions = state.abstentions(digest).map(([round, reason, sentence]) => ({ round, reason, sentence }));
  const goesOn = record.status === "joined" && !ended && trust.distrust === null;
  const spent = spendings.find((entry) => entry.digest === digest) ?? null;
  return {
    ...about(document),
    ...{ status: record.status, ended, rounds, acknowledged: sum("acknowledged"), lost: sum("lost"), abstentions },
    waiting: standing.waiting,
    means: means(record, ended, trust).content(),
    trouble: goesOn ? troubleOf({ unanswered: unanswered(digest), abstentions, newest: standing.round }) : null,
    risk: riskInWords(statement.risk, document.experiment).content(),
    leaves: contents(whatLeaves(document, statement, policy)),
    figures: contents([...figures(document, statement), spentOf(spent)]),
    window: standing.window,
    times: standing.times,
    trains: record.cohort === null ? null : record.cohort === "train",
    checked: contents(trust.told),
    ...{ distrust: trust.distrust, convicted: trust.convicted },
    model_round: state.model(digest)?.rounds ?? null,
  };
}

function spentOf(spent: Spending | null): Sentence {
  if (spent === null) return say("spent.nothing");
  const { charged, rounds } = spent;
  return Number.isFinite(charged) ? say("spent.epsilon", { epsilon: up(charged, 100), rounds }) : say("spent.unknown", { rounds });
}

function means({ status }: ExperimentRecord, ended: boolean, trust: TrustReport): Sentence {
  if (status === "forgotten") return say("means.forgotten");
  if (trust.convicted) return say("means.convicted");
  if (ended) return say("means.over");
  if (status === "paused") return say("means.paused");
  return trust.distrust === null ? say("means.runs") : say("means.distrust", { why: trust.distrust });
}

/** What an experiment is, and who is behind it: from its signed document alone. */
export function about(document: ExperimentDocument): Json {
  const { windows, log, experiment, features } = document;
  return {
    digest: document.digest,
    title: document.title,
    question: document.question,
    asks: contents(whoAsks(document)),
    labels: experiment.loss.regression ? null : [...experiment.labels],
    source: features.source,
    looks_at: features.description.trim().replace(/\.+$/, ""),
    rounds_planned: document.rounds,
    packages_a_round: document.budget,
    bytes_a_round: bytesOfARound(document),
    guarantee: experiment.cover !== null,
    test: document.test,
    hours: windows.hours.map((span) => [...span]),
    time_zone: windows.timeZone,
    who: {
      coordinator: document.coordinatorKeys.map((key) => hex(key.keyId)),
      note: document.gatewayNote,
      relays: document.relays.map(({ url }) => url),
      witnesses: log === null ? [] : log.witnesses.map(({ name }) => name),
      log: log === null ? null : logKeyOf(log).name,
    },
  };
}

interface Standing {
  /** The newest round that the device knows; 0: none. */
  readonly round: number;
  readonly window: Json | null;
  readonly waiting: number;
  /** When what waits is to be sent: all packages of a round leave at one moment. */
  readonly times: readonly Json[];
}

/** Where a device stands: the newest round that it knows, and what of it is still to be sent. */
function standingOf(state: DeviceState, document: ExperimentDocument): Standing {
  const kept = state.relayedSession(document.digest);
  const session = kept === null ? null : RelayedSession.fromParts(kept.header, kept.request, document);
  if (kept === null || session === null || session.manifest === null) return { round: 0, window: null, waiting: 0, times: [] };
  const { roundNumber: round } = session.manifest;
  const { opensAt, closesAt } = windowOf(session.manifest);
  const waiting = session.phase === "sending" ? document.budget : 0;
  const { at } = SESSION_HEADER.fromBytes(kept.header);
  const times = at === null ? [] : [{ at: at - (at % QUARTER_MS), packages: document.budget }];
  return { round, window: { round, opens_at: opensAt, closes_at: closesAt }, waiting, times };
}
