/**
 * The ledger: all that a device has told about its person, over rounds and experiments, and whether a round still fits.
 *
 *  1. **Counts before it sends.** A round is written down, on the disk, before its packages are made. Whatever happens
 *     then, abandoned, cut off by a dying worker, given up half-way, it counts. The same round counts once, so a device
 *     that was killed goes on with it.
 *  2. **Refuses when the budget is spent.** The check and the entry are one step: nothing happens in between.
 *  3. **Looks at public values only**: documents, and which rounds were joined. A refusal tells nothing of the person.
 *  4. **Is never forgotten**, with `forget` neither. Who wipes the device has a new one, and nobody could know.
 *
 * How it adds up. Within an experiment: privacy losses over the rounds really joined. Over experiments: the sum of their
 * ε, each at a δ fixed in advance, and the sum of those δ. ε means zero-out here as everywhere. What the budget is
 * **charged** with is ε of another label, about 1.4 times that, because the label is what is asked for. An experiment for
 * which the person has accepted more than the device would is counted, but against what was accepted.
 */

import { Envelope } from "../crypto/signing.ts";
import { ConsentRefusedError, MalformedMessageError } from "../errors.ts";
import { formatGeneral } from "../formatting.ts";
import { Ratio } from "../learning/ratio.ts";
import { aucOfCurve, chargedAfter, epsilonAfter, finite, variationOf } from "../privacy/accounting/guarantee.ts";
import { sumOnce } from "../privacy/accounting/reals.ts";
import { CERTAIN, timesInTen, together, up } from "../privacy/risk.ts";
import { say, type Sentence } from "../privacy/sentences.ts";
import { ExperimentDocument } from "../protocol/documents/experiment.ts";
import { relayedTermsOf } from "../protocol/documents/privacyTerms.ts";
import type { Accepted } from "../storage/books.ts";
import type { DeviceState } from "../storage/state.ts";
import type { RoundConsent } from "../trust/surroundings.ts";
import type { Consent } from "./policies.ts";

/** What a device has told in one experiment. */
export interface Spending {
  readonly digest: string;
  readonly title: string;
  readonly rounds: number;
  /** ε at δ, and what the budget is charged with, ε of another label; ∞: nothing bounds it. */
  readonly epsilon: number;
  readonly charged: number;
  readonly delta: number;
  /** What was accepted for it alone. */
  readonly accepted: Accepted;
  /** After these rounds (`risk.ts`), and the total variation that goes with it. */
  readonly risk: number;
  readonly variation: number;
}

/** Whether it is counted against what was accepted for it, and not against the budget of all. */
export function isApart({ accepted }: Spending): boolean {
  return accepted.epsilon !== null;
}

/** What was told in all experiments. */
export class Ledger {
  readonly spendings: readonly Spending[];

  constructor(spendings: readonly Spending[]) {
    this.spendings = spendings;
  }

  /** The sum over experiments, at the sum of their δ. */
  get epsilon(): number {
    return sumOnce(this.spendings.map(({ epsilon }) => epsilon));
  }

  /** What they come to for another label: this is held to the budget. */
  get charged(): number {
    return sumOnce(this.spendings.map(({ charged }) => charged));
  }

  get delta(): number {
    return sumOnce(this.spendings.map(({ delta }) => delta));
  }

  /** What all of it leaves somebody who bets on the person's answers. */
  get risk(): number {
    return together(this.spendings);
  }

  /** Those that are counted against the budget of all. */
  get common(): Ledger {
    return new Ledger(this.spendings.filter((entry) => !isApart(entry)));
  }

  /** Whether all this may have been told, asked for the experiment that was entered last: null, or why not. */
  fits({ budget }: Consent, entered: string): Sentence | null {
    const last = this.spendings.find(({ digest }) => digest === entered)!;
    const { epsilon: accepted } = last.accepted;
    if (accepted !== null) {
      return last.epsilon > accepted ? say("refused.accepted.epsilon", { most: accepted }) : null;
    }
    const { charged, delta } = this.common;
    if (charged > budget.epsilon) {
      return say("refused.budget.epsilon", { most: budget.epsilon, would: up(charged, 100) });
    }
    if (delta <= budget.delta) return null;
    return say("refused.budget.delta", { most: Number(Ratio.ofNumber(1 / budget.delta).round()) });
  }

  /** As JSON, with Python's keys; an infinite number is null. */
  content({ budget }: Consent) {
    return {
      epsilon: finite(this.epsilon),
      epsilon_charged: finite(this.charged),
      delta: this.delta,
      epsilon_budget: finite(budget.epsilon),
      delta_budget: finite(budget.delta),
      risk: this.risk,
      experiments: this.spendings.map((entry) => ({
        experiment: entry.digest,
        title: entry.title,
        rounds: entry.rounds,
        epsilon: finite(entry.epsilon),
        epsilon_charged: finite(entry.charged),
        delta: entry.delta,
        accepted_epsilon: entry.accepted.epsilon,
      })),
    };
  }
}

/** An experiment, how many of its rounds were joined, and what was accepted for it. */
export type Entry = readonly [document: ExperimentDocument, rounds: number, accepted: Accepted];

/** The ledger as it stands. */
export function readLedger(state: DeviceState, consent: Consent): Ledger {
  return spend(entries(state), consent);
}

/** What is written down; `also`: with one more round of that experiment. */
export function entries(state: DeviceState, { also }: { also?: string } = {}): Entry[] {
  const rounds = state.ledger.rounds();
  if (also !== undefined) rounds.set(also, (rounds.get(also) ?? 0) + 1);
  return state.records().flatMap(({ digest, envelope }): Entry[] => {
    const joined = rounds.get(digest);
    return joined === undefined ? [] : [[documentOf(envelope, digest), joined, state.ledger.accepted(digest)]];
  });
}

/** The digest is what the person agreed to; whose signatures stand below it was looked at then. */
function documentOf(envelope: Uint8Array, digest: string): ExperimentDocument {
  const document = ExperimentDocument.fromBytes(Envelope.fromBytes(envelope).payload);
  if (document.digest !== digest) throw new MalformedMessageError("this is another experiment");
  return document;
}

/** What that comes to. It may take a second for numbers that were not asked for before. */
export function spend(lines: readonly Entry[], consent: Consent): Ledger {
  return new Ledger(lines.map(([document, rounds, accepted]) => spending(document, rounds, consent, accepted)));
}

/** Count this round, on the disk when this ends; or throw a `ConsentRefusedError`, and nothing is counted. */
export async function enter(
  state: DeviceState,
  document: ExperimentDocument,
  roundNumber: number,
  consent: Consent,
): Promise<void> {
  await state.writing(() => {
    if (state.ledger.joined(document.digest, roundNumber)) return;
    checkFits(entries(state, { also: document.digest }), document, consent);
    state.ledger.putRound(document.digest, roundNumber);
  });
}

/** Throws a `ConsentRefusedError` where not even one round of an experiment that is to be joined would fit. */
export function checkRoom(
  state: DeviceState,
  document: ExperimentDocument,
  consent: Consent,
  accepted: Accepted,
): void {
  checkFits([...entries(state), [document, 1, accepted]], document, consent);
}

function checkFits(lines: readonly Entry[], entered: ExperimentDocument, consent: Consent): void {
  const why = consent.unsafe ? null : spend(lines, consent).fits(consent, entered.digest);
  if (why !== null) throw new ConsentRefusedError(why, { nextStep: "See on this device's page what it was spent on." });
}

/** What so many rounds of an experiment tell. */
export function spending(
  document: ExperimentDocument,
  rounds: number,
  consent: Consent,
  accepted: Accepted,
): Spending {
  const { digest, title } = document;
  const { mechanism, operators } = relayedTermsOf(document);
  const { delta } = consent;
  const counted = { digest, title, rounds, delta, accepted };
  if (operators.whyNoGuarantee(consent) !== null) {
    return { ...counted, epsilon: Infinity, charged: Infinity, risk: CERTAIN, variation: 1 };
  }
  const soFar = mechanism.after(rounds);
  return {
    ...counted,
    epsilon: epsilonAfter(mechanism, rounds, delta),
    charged: chargedAfter(mechanism, rounds, delta),
    risk: aucOfCurve(soFar),
    variation: variationOf(soFar),
  };
}

/** What a round asks of a person's decisions: it is agreed to, and then counted. */
export function roundConsent(state: DeviceState, consent: Consent): RoundConsent {
  return {
    agree: (document) => consent.check(document, state.ledger.accepted(document.digest)),
    enter: (document, roundNumber) => enter(state, document, roundNumber, consent),
  };
}

/** For the person: the risk of all of it together, and that it stays. */
export function inWords(ledger: Ledger): Sentence[] {
  if (ledger.spendings.length === 0) return [say("ledger.empty")];
  const times = timesInTen(ledger.risk);
  return [
    times >= 10 ? say("risk.unbounded") : say("risk.together", { times }),
    say("ledger.stays"),
    ...(ledger.spendings.some(isApart) ? [say("ledger.apart")] : []),
  ];
}

/** ε and δ, for those who know the words. */
export function figures(ledger: Ledger, { budget }: Consent): Sentence[] {
  const { spendings } = ledger;
  if (spendings.length === 0) return [];
  return [
    say("ledger.epsilon", {
      charged: up(ledger.charged, 100),
      epsilon: up(ledger.epsilon, 100),
      most: budget.epsilon === Infinity ? "∞" : formatGeneral(budget.epsilon),
      one_in: Math.floor(1 / ledger.delta),
      rounds: spendings.reduce((sum, { rounds }) => sum + rounds, 0),
      experiments: spendings.length,
    }),
  ];
}
