/**
 * Operators: who runs which party of a round with two relays, and on whom its guarantee rests.
 *
 * (ε, δ) holds as long as one of the two relays is honest. The coordinator is taken for hostile: where its operator runs
 * one of the relays, the guarantee rests on the other alone, and one operator of both relays is none. Names are compared
 * without regard to case and to white space at their ends: two names are no proof of two parties, but one name is one.
 */

import { folded } from "../../formatting.ts";
import type { RelayRole } from "../../protocol/documents/terms.ts";
import { say, type Sentence } from "../sentences.ts";

/** Of a person's settings: they agree that the coordinator's operator runs one of the relays. */
const ONE_RELAY = "one relay";
/** What those can do who have both relays, as the rest of a sentence about them. */
export const CAN_LINK = "link for ever who sent what, and choose the count";
const ROLES: readonly RelayRole[] = ["entry", "mix"];

/** Who runs what, as the document and the person name them. */
export class Operators {
  readonly entry: string;
  readonly mix: string;
  /** Every name that the coordinator's operator goes by; an empty one says nothing. */
  readonly coordinators: readonly string[];

  constructor({ entry, mix, coordinators }: { entry: string; mix: string; coordinators: readonly string[] }) {
    [this.entry, this.mix, this.coordinators] = [entry, mix, coordinators];
  }

  /** Whether one operator has both relays. */
  get same(): boolean {
    return areSame(this.entry, this.mix);
  }

  /** Roles of relays that the coordinator's operator has. */
  get ofCoordinator(): readonly RelayRole[] {
    return ROLES.filter((role) => this.coordinators.some((own) => own.trim() !== "" && areSame(this[role], own)));
  }

  /** Operators of whom one must be honest, as they are named; none: nobody is left. */
  get reliedOn(): readonly string[] {
    const { ofCoordinator } = this;
    if (this.same) return ofCoordinator.length ? [] : [this.entry];
    return ROLES.filter((role) => !ofCoordinator.includes(role)).map((role) => this[role]);
  }

  /** In one sentence; null: two parties run the relays, or the person agrees that one of them is enough. */
  whyNoGuarantee({ oneRelay }: { oneRelay: boolean }): string | null {
    const [role, ...others] = this.ofCoordinator;
    if (this.same) return `both relays are run by ${this.entry}, who alone can link everything`;
    if (others.length) {
      return `${this.entry} and ${this.mix} both run the coordinator, and together can link everything`;
    }
    if (role === undefined || oneRelay) return null;
    return (
      `${this[role]} runs the coordinator and ${relayOf(role)}, so that it would rest on ${this.reliedOn[0]} alone;` +
      ` who agrees to that sets profile = "${ONE_RELAY}" under [trust]`
    );
  }

  /** Who is enough, without anybody's help, to link for ever who sent what. */
  get enough(): Sentence | string {
    if (!this.same) return say("together", { a: this.#runs("entry"), b: this.#runs("mix") });
    const runs = this.ofCoordinator.length ? "both relays and the coordinator" : "both relays";
    return `${this.entry} (${runs}) alone`;
  }

  #runs(role: RelayRole): Sentence {
    return say(`runs.${role}${this.ofCoordinator.includes(role) ? "-coordinator" : ""}`, { name: this[role] });
  }
}

/** A role as a sentence names it. */
function relayOf(role: RelayRole): string {
  return role === "entry" ? "the entry relay" : "the mixing relay";
}

function areSame(name: string, other: string): boolean {
  return folded(name.trim()) === folded(other.trim());
}
