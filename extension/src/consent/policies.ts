/**
 * What a device agrees to: limits that are held to a privacy statement, which refuse in one sentence, or do not.
 *
 * `Consent` is all that a person decides about this: the limits of one experiment, the chance that a guarantee may leave
 * aside, and how much may be told in all experiments together (`ledger.ts`). For one experiment they may accept more than
 * their device does by itself (`Accepted`). Nothing here looks at a person's data, so a refusal tells nothing of it: only
 * public documents count, and what the person has decided. An experiment's own claim of ε is never believed, and one
 * without a guarantee is refused.
 */

import { OUTER_BYTES } from "../crypto/sealing/layers.ts";
import { ConsentRefusedError } from "../errors.ts";
import { formatFixed, formatPower } from "../formatting.ts";
import { chargedOf, deltaAt } from "../privacy/accounting/guarantee.ts";
import { remembered } from "../privacy/accounting/remembered.ts";
import { timesInTen, up } from "../privacy/risk.ts";
import { say } from "../privacy/sentences.ts";
import { PrivacyStatement } from "../privacy/statements/plain.ts";
import { RelayedStatement, stateRelayed } from "../privacy/statements/relayed.ts";
import { USUAL } from "../privacy/target.ts";
import type { ExperimentDocument } from "../protocol/documents/experiment.ts";
import { relayedTermsOf, termsOf } from "../protocol/documents/privacyTerms.ts";
import { NOTHING, type Accepted } from "../storage/books.ts";

/** What a policy looks at. */
export type Statement = PrivacyStatement | RelayedStatement;

/** The ε above which a device refuses: by the one risk (`risk.ts`) less than 8 times in 10. */
const MOST_EPSILON = 4;
/** The AUC that is agreed to without a guarantee: a coin's, which no experiment has. */
const MOST_AUC = 0.5;
/** A guarantee was made for a number of rounds; nobody plans with more. */
const MOST_ROUNDS = 1000;
/** Of a δ: documents are planned with the same accountant, on another machine. */
const ROUNDING = 1e-9;
/** δ of everything that a device ever tells; each experiment has `Consent.delta` of it. */
const TOTAL_DELTA = 1e-5;
const KEPT_STATEMENTS = 64;

/** How much a device may tell in its life, in all experiments: the sum of ε, each that of another label, and of δ. */
export interface Budget {
  readonly epsilon: number;
  readonly delta: number;
}

interface Decided {
  /** The largest ε over all rounds. */
  readonly mostEpsilon: number;
  readonly mostRounds: number;
  /** Agrees to everything that has relays' cover, whatever it tells. For made-up people in tests. */
  readonly unsafe: boolean;
  /** The chance that each experiment's guarantee may leave aside. */
  readonly delta: number;
  readonly budget: Budget;
  /** That one relay is enough, where the coordinator's operator runs the other. */
  readonly oneRelay: boolean;
}

const SAFE: Decided = {
  mostEpsilon: MOST_EPSILON,
  mostRounds: MOST_ROUNDS,
  unsafe: false,
  delta: USUAL.delta.toNumber(),
  budget: { epsilon: MOST_EPSILON, delta: TOTAL_DELTA },
  oneRelay: false,
};

/** The fields stand on it. */
export interface Consent extends Decided {}

/** All that a person has decided about what is told of them. */
export class Consent {
  constructor(decided: Partial<Decided> = {}) {
    Object.assign(this, SAFE, decided);
  }

  /** No limit at all. For made-up people. */
  static unsafeAcceptAnything(): Consent {
    return new Consent({ unsafe: true, budget: { epsilon: Infinity, delta: Infinity } });
  }

  /** What this experiment tells about a person. */
  statement(document: ExperimentDocument): Statement {
    return statementOf(document, this.delta, this.oneRelay);
  }

  /** Throws a `ConsentRefusedError` where this device does not agree to the experiment. */
  check(document: ExperimentDocument, accepted: Accepted = NOTHING): void {
    if (this.unsafe && document.experiment.cover !== null) return;
    const statement = this.statement(document);
    if (statement instanceof RelayedStatement) checkKept(statement);
    this.weigh(statement, accepted);
  }

  /** The same of what is told: one sentence, and what the person can do. */
  weigh(statement: Statement, accepted: Accepted = NOTHING): void {
    const { rounds } = statement.terms;
    if (rounds > this.mostRounds) {
      throw new ConsentRefusedError(say("refused.rounds", { rounds, most: this.mostRounds }), {
        nextStep: `This device agrees to experiments of at most ${this.mostRounds} rounds; nothing on it helps.`,
      });
    }
    if (statement instanceof RelayedStatement && statement.formal) againstEpsilon(this, statement, accepted);
    else againstLeakage(statement);
  }
}

const statementOf = remembered(
  KEPT_STATEMENTS,
  (document: ExperimentDocument, delta: number, oneRelay: boolean) => `${document.digest} ${delta} ${oneRelay}`,
  (document, delta, oneRelay): Statement => {
    if (document.experiment.cover === null) return new PrivacyStatement(termsOf(document));
    return stateRelayed(relayedTermsOf(document), { delta, oneRelay, bytesPerPackage: OUTER_BYTES });
  },
);

/** What the person would have to accept for this experiment; null: no number helps. */
export function neededFor(statement: Statement): Accepted | null {
  if (!(statement instanceof RelayedStatement) || statement.own === null) return null;
  const charged = chargedOf(statement.own);
  return charged === Infinity ? null : { auc: null, epsilon: up(charged, 100) };
}

/** Without a formal guarantee nothing limits the risk. */
function againstLeakage({ leak }: Statement): never {
  const said =
    leak === null ? say("refused.no-law") : say("refused.leak", { auc: up(leak.auc, 1000), most: MOST_AUC });
  throw new ConsentRefusedError(said, { nextStep: "This device joins no such experiment; nothing on it helps." });
}

/** With a formal guarantee: ε over all rounds. */
function againstEpsilon(consent: Consent, statement: RelayedStatement, accepted: Accepted): void {
  const limit = Math.max(consent.mostEpsilon, accepted.epsilon ?? 0);
  const own = statement.own!;
  if (own.epsilon <= limit) return;
  // With a smaller δ it might have been agreed to.
  const planned = statement.terms.claimed.delta.toNumber();
  const deltas =
    planned <= own.delta ? null : { own: formatPower(own.delta), planned: formatPower(planned) };
  if (own.epsilon === Infinity) {
    throw new ConsentRefusedError(deltas ? say("refused.faint.delta", deltas) : say("refused.faint"), {
      nextStep:
        `Its operator has to plan it with ${deltas ? `delta = ${deltas.own}` : "more noise"};` +
        " nothing on this device helps.",
    });
  }
  const needed = up(own.epsilon, 100);
  const told = { times: timesInTen(statement.risk), epsilon: needed, most: limit };
  throw new ConsentRefusedError(
    deltas ? say("refused.epsilon.delta", { ...told, ...deltas }) : say("refused.epsilon", told),
    // What the ledger is charged with: with less the device would join, and every round would be refused.
    { nextStep: `To take part anyway, accept ε = ${formatFixed(up(chargedOf(own), 100), 2)} for this experiment.` },
  );
}

/** Throws a `ConsentRefusedError` where relays' cover is no guarantee, or is worth less than the document says. */
export function checkKept({ planned, terms, whyNoGuarantee }: RelayedStatement): void {
  if (planned === null) {
    throw new ConsentRefusedError(say("refused.none", { why: whyNoGuarantee! }), {
      nextStep: "Two parties that do not run the coordinator have to run its relays; nothing on this device helps.",
    });
  }
  const { claimed } = terms;
  const [epsilon, delta] = [claimed.epsilon.toNumber(), claimed.delta.toNumber()];
  // δ at the claimed ε decides: a search for the smallest ε may step over the one that was planned.
  if (deltaAt(terms.mechanism, epsilon) > delta * (1 + ROUNDING)) {
    throw new ConsentRefusedError(say("refused.claim", { claimed: String(claimed), epsilon: up(planned.epsilon, 100) }), {
      nextStep: "Its operator has to plan it with more noise; nothing on this device helps.",
    });
  }
}
