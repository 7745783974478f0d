/** What a device demands of a server before it joins an experiment, as its person has decided. */

import { equal, hex } from "../bytes.ts";
import { BadInputError } from "../errors.ts";
import { Operators } from "../privacy/statements/operators.ts";
import { say, type Sentence } from "../privacy/sentences.ts";
import { hostOf, type ExperimentDocument } from "../protocol/documents/experiment.ts";
import { Caps } from "../protocol/documents/recomputation.ts";
import { quorumOf, type LogPolicy } from "../protocol/log/policy.ts";
import type { KnownRelay } from "../storage/settingsBook.ts";

/** A device holds a state in memory, and a few more of its size while it computes. */
export const MOST_STATE_BYTES = 2 ** 29;

interface Demanded {
  /** The only relays that packages take, as far as invites have named them by now. */
  readonly relays: () => readonly KnownRelay[];
  /** Which log, and which witnesses are enough; null: as the experiment says. */
  readonly logPolicy: LogPolicy | null;
  readonly caps: Caps;
  /** Fresh looks at the log in each window. */
  readonly refetches: number;
  /** So many rounds in a row without one answered fresh look, and no further one is joined. */
  readonly mostUnseen: number;
  /** Take part where nobody can tell whether all are told the same. */
  readonly withoutLog: boolean;
  /** That one relay is enough, where the coordinator's operator runs the other. */
  readonly oneRelay: boolean;
  /** Take salts from the development beacon; in test experiments only. */
  readonly unsafeBeacons: boolean;
}

const USUAL = {
  ...{ logPolicy: null, caps: new Caps(), refetches: 2, mostUnseen: 2, withoutLog: false, unsafeBeacons: false },
  oneRelay: false,
} as const;

/** The fields stand on it. */
export interface TrustPolicy extends Demanded {}

/** What a device demands of a server. */
export class TrustPolicy {
  constructor(demanded: Partial<Demanded> & Pick<Demanded, "relays">) {
    Object.assign(this, USUAL, demanded);
  }

  /** Throws a `BadInputError` where the person would not want to join this. */
  check(document: ExperimentDocument): void {
    if (document.stateBytes > MOST_STATE_BYTES) {
      throw new BadInputError("this experiment's model is larger than a device can hold");
    }
    const unknown = this.unknownRelay(document);
    if (unknown !== null) {
      throw new BadInputError(unknown, { nextStep: "Ask whoever invited you for an invite that names its relays." });
    }
    const oneHand = this.oneHand(document);
    if (oneHand !== null) {
      throw new BadInputError(oneHand, {
        nextStep: "Two relays that one party runs hide nothing from it: nothing on this device helps.",
      });
    }
    const { log: terms } = document;
    if (terms !== null) quorumOf(terms, this.logPolicy);
    else if (!document.test && !this.withoutLog) {
      throw new BadInputError(
        "this experiment has no log, so nobody can tell whether everybody is told the same",
        { nextStep: "Ask its operator for one: this extension joins none without." },
      );
    }
  }

  /** In a sentence, the first of the experiment's relays that the person has not named; null: there is none. */
  unknownRelay(document: ExperimentDocument): string | null {
    for (const relay of document.relays) {
      const known = this.#known(relay.url);
      if (known === undefined) {
        return `this experiment's packages go through the relay ${hostOf(relay)}, which this device does not know`;
      }
      if (!equal(known.key.data, relay.key.data)) {
        return (
          `this experiment names the relay ${hostOf(relay)} with the key ${hex(relay.key.data).slice(0, 16)}…, and this` +
          " device knows it by another"
        );
      }
    }
    return null;
  }

  /**
   * In a sentence, why two relays may be in one hand; null: they are not, as far as anybody has said.
   *
   * By the operators that the person was told, and by those that the document names: each pair must differ.
   */
  oneHand(document: ExperimentDocument): string | null {
    if (document.experiment.cover === null) return null;
    const both = [document.entryRelay, document.mixRelay];
    const pairs = [both.map(({ url }) => this.#known(url)?.operator ?? ""), both.map(({ operator }) => operator ?? "")];
    for (const [entry, mix] of pairs as [string, string][]) {
      const why = new Operators({ entry, mix, coordinators: [document.operator] }).whyNoGuarantee(this);
      if (why !== null) return why;
    }
    return null;
  }

  /** Each relay of the experiment by its host, and by its operator where the person was told one. */
  relaysInWords(document: ExperimentDocument): Sentence {
    const named = document.relays.map((relay) => {
      const [host, known] = [hostOf(relay), this.#known(relay.url)];
      return known === undefined ? say("unnamed", { host }) : say("named", { host, operator: known.operator });
    });
    return named.reduce((a, b) => say("and", { a, b }));
  }

  #known(url: string): KnownRelay | undefined {
    return this.relays().find((known) => known.url === url);
  }
}
