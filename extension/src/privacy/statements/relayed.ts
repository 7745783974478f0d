/**
 * RelayedStatement: what taking part in an experiment with two relays tells about a person, in numbers, before joining.
 *
 * Everything follows from public values, and nothing that an experiment claims of itself is believed: ε is computed anew
 * from the cover of **one** relay. Neither the number of participants nor a share of honest devices is in it, nor a log.
 * `relayedText.ts` puts it in words.
 */

import type { RelayCover } from "../../learning/coverLaw.ts";
import type { Experiment } from "../../learning/experiment.ts";
import { Ratio } from "../../learning/ratio.ts";
import type { Mechanism } from "../accounting/accountant.ts";
import {
  guaranteeContent,
  guaranteeOf,
  NO_PROTECTION,
  type Guarantee,
} from "../accounting/guarantee.ts";
import { contributionOf, relayMechanism } from "../accounting/relayCover.ts";
import { plannedLeak, type PlannedLeak } from "../leakage.ts";
import { riskOf } from "../risk.ts";
import type { PrivacyTarget } from "../target.ts";
import { blindlyFor, ceilOver, droppedInCell, inCellFor, typicalCell } from "./detection.ts";
import { CAN_LINK, type Operators } from "./operators.ts";

/** How surely somebody who drops shall be seen, where a statement says how much that takes. */
const [LIKELY, NEARLY_SURE] = [new Ratio(9, 10), new Ratio(99, 100)];

interface Stated {
  readonly experiment: Experiment;
  /** T, the unopened rounds included. */
  readonly rounds: number;
  readonly hashes: number;
  /** Train participants below which a round is not stepped. */
  readonly floor: number;
  readonly trainShare: Ratio;
  /** What the document says that it keeps. */
  readonly claimed: PrivacyTarget;
  readonly operators: Operators;
}

/** The fields stand on it. */
export interface CoveredTerms extends Stated {}

/** What a statement is about. Public. */
export class CoveredTerms {
  #mechanism: Mechanism | null = null;

  constructor(stated: Stated) {
    Object.assign(this, stated);
  }

  /** Devices that are expected in a round: so many that those who train are as many as the floor. */
  get expected(): bigint {
    return ceilOver(this.floor, this.trainShare);
  }

  get cover(): RelayCover {
    return this.experiment.cover!;
  }

  /** What an accountant has to know. */
  get mechanism(): Mechanism {
    return (this.#mechanism ??= relayMechanism(contributionOf(this.experiment, this), this.cover));
  }
}

/** Packages of one cell that the mixing relay drops or replaces by content: how many, until it is seen. */
export interface CellChances {
  readonly people: number;
  readonly cover: number;
  /** With a chance of `LIKELY` and `NEARLY_SURE`; null: not even all of them. */
  readonly packages90: number | null;
  readonly packages99: number | null;
  /** The chance if all of them are dropped. */
  readonly atMost: number;
}

/** Chances of being seen, in one round. */
export interface Caught {
  /** Of a relay that falsifies anything of its cover, at least: one in so many. */
  readonly falseCover: number;
  /** Capsules of the entry relay's batch, taken blindly, that are seen with `NEARLY_SURE`. */
  readonly blindly99: number;
  readonly meanCell: CellChances;
  readonly fullestCell: CellChances;
  /** Of an entry relay that drops one of a device's capsules: one in so many. */
  readonly canary: number;
}

interface Numbers {
  readonly terms: CoveredTerms;
  /** Null: a formal guarantee is stated. */
  readonly whyNoGuarantee: string | null;
  /** At the document's δ, and at that of whoever asks; null without a guarantee. */
  readonly planned: Guarantee | null;
  readonly own: Guarantee | null;
  /** What public tallies would give away without cover, at the floor; null where no law is known. */
  readonly leak: PlannedLeak | null;
  readonly caught: Caught;
  /** B, and bytes that leave a device in a round. */
  readonly budget: number;
  readonly bytesPerRound: number;
}

/** The fields stand on it. */
export interface RelayedStatement extends Numbers {}

/** The numbers. `relayedText.ts` has the sentences. */
export class RelayedStatement {
  constructor(numbers: Numbers) {
    Object.assign(this, numbers);
  }

  get formal(): boolean {
    return this.whyNoGuarantee === null;
  }

  /** From 0.5 to 1, for whoever asks. */
  get risk(): number {
    return riskOf(this.own);
  }

  /** Whether there is a guarantee that deserves the name. */
  get protects(): boolean {
    return this.own !== null && this.own.epsilon < NO_PROTECTION;
  }

  /** Whether the document keeps what it claims. */
  get kept(): boolean {
    return this.planned !== null && this.planned.epsilon <= this.terms.claimed.epsilon.toNumber();
  }

  /** As JSON, with Python's keys. An infinite ε is null. */
  content() {
    const { terms, leak, planned, own, caught } = this;
    const { experiment, claimed, operators } = terms;
    return {
      kind: "relays",
      formal: this.formal,
      why_no_guarantee: this.whyNoGuarantee,
      protects: this.protects,
      risk: this.risk,
      claimed: { epsilon: claimed.epsilon.toNumber(), delta: claimed.delta.toNumber() },
      kept: this.kept,
      rounds: terms.rounds,
      bins: experiment.nBins,
      features: experiment.featuresPerPerson,
      labels: experiment.labels.length,
      floor: terms.floor,
      people: Number(terms.expected),
      planned: planned && guaranteeContent(planned),
      own: own && guaranteeContent(own),
      relied_on: operators.reliedOn,
      coalitions: [{ parties: String(operators.enough), can: CAN_LINK }],
      caught: {
        false_cover: 1 / caught.falseCover,
        blindly_99: caught.blindly99,
        mean_cell: cellContent(caught.meanCell),
        fullest_cell: cellContent(caught.fullestCell),
        canary: 1 / caught.canary,
      },
      leak_without_guarantee: leak && { auc_round: leak.aucRound, auc: leak.auc },
      budget: this.budget,
      cover_packages: terms.cover.packages,
      bytes_per_round: this.bytesPerRound,
      tallies_are_public: true,
    };
  }
}

function cellContent({ people, cover, packages90, packages99, atMost }: CellChances) {
  return { people, cover, packages_90: packages90, packages_99: packages99, at_most: atMost };
}

/**
 * The statement about an experiment.
 *
 * `delta` is the chance that whoever asks leaves aside, for one experiment. `oneRelay`: that one relay is enough, where
 * the coordinator's operator runs the other.
 */
export function stateRelayed(
  terms: CoveredTerms,
  { delta, oneRelay, bytesPerPackage }: { delta: number; oneRelay: boolean; bytesPerPackage: number },
): RelayedStatement {
  const { experiment, rounds, hashes, mechanism } = terms;
  const whyNoGuarantee = terms.operators.whyNoGuarantee({ oneRelay });
  const isFormal = whyNoGuarantee === null;
  const budget = experiment.budget!;
  return new RelayedStatement({
    terms,
    whyNoGuarantee,
    planned: isFormal ? guaranteeOf(mechanism, terms.claimed.delta.toNumber()) : null,
    own: isFormal ? guaranteeOf(mechanism, delta) : null,
    // At the floor: from fewer people no step is taken.
    leak: plannedLeak(experiment, { trainParticipants: terms.floor, rounds, hashes }),
    caught: caughtBy(terms, budget),
    budget,
    bytesPerRound: budget * bytesPerPackage,
  });
}

function caughtBy(terms: CoveredTerms, budget: number): Caught {
  const { cover, expected, mechanism } = terms;
  const trained = new Ratio(expected).times(terms.trainShare).toNumber();
  const batch = BigInt(budget) * expected + BigInt(cover.packages);
  return {
    // Anything at all: a part is falsified or it is not.
    falseCover: cover.parts,
    blindly99: blindlyFor(NEARLY_SURE, { part: cover.partPackages, batch }),
    meanCell: cellChances(cover, (trained * mechanism.contribution.meanUnits) / cover.train.cells),
    // Each person has one unit in a cell at most.
    fullestCell: cellChances(cover, trained),
    canary: budget,
  };
}

/** Of a train cell with so many people's packages. */
function cellChances({ train, parts }: RelayCover, people: number): CellChances {
  const count = typicalCell(train, parts, people);
  const cell = { ...count, shape: train.part(parts), parts };
  return {
    ...count,
    packages90: inCellFor(LIKELY.toNumber(), cell),
    packages99: inCellFor(NEARLY_SURE.toNumber(), cell),
    atMost: droppedInCell(count.people + count.cover, cell),
  };
}
