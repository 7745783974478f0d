/**
 * PrivacyStatement: what taking part in an experiment without cover would tell about a person.
 *
 * Such an experiment adds no noise, so that there is no guarantee, and the **leak** is what the public tallies alone give
 * away of a label in an honest run (`leakage.ts`). This device shows such experiments and joins none of them.
 *
 * **Coalitions.** The separation of who and what ends with any one of the parties that `coalitions` lists. None of them
 * is a claim that somebody cheats; each is what the protocol cannot prevent.
 */

import type { Experiment } from "../../learning/experiment.ts";
import { plannedLeak, type PlannedLeak } from "../leakage.ts";
import { CERTAIN, inWords } from "../risk.ts";
import { say, type Sentence } from "../sentences.ts";

/** What a statement is about. Public. */
export interface Terms {
  readonly experiment: Experiment;
  /** T, the abandoned rounds included. */
  readonly rounds: number;
  readonly hashes: number;
  /** Train participants below which a round is abandoned. */
  readonly floor: number;
  /** How many relays its packages may take. */
  readonly relays: number;
  /** How many cosignatures of its log are enough, of how many witnesses; null: its rounds stand in none. */
  readonly quorum: readonly [enough: number, of: number] | null;
}

/** The numbers. */
export class PrivacyStatement {
  readonly terms: Terms;
  /** What public tallies give away, at the floor; null where no law is known. */
  readonly leak: PlannedLeak | null;
  /** No noise was added. */
  readonly risk = CERTAIN;

  constructor(terms: Terms) {
    this.terms = terms;
    const { experiment, floor: trainParticipants, rounds, hashes } = terms;
    this.leak = plannedLeak(experiment, { trainParticipants, rounds, hashes });
  }
}

/** The risk, and who is enough to find out what. */
export function plainly({ risk, terms }: PrivacyStatement): Sentence[] {
  const named = coalitions(terms).map((coalition, i) => ["abcd"[i]!, coalition]);
  const all = say(`several.${named.length}`, Object.fromEntries(named) as { readonly [letter: string]: Sentence });
  return [inWords(risk, terms.experiment), say("none.noise"), say("none.chosen"), say("alone", { all })];
}

/** What an honest run's tallies give away, for those who know the words. */
export function figures({ leak, terms: { floor, rounds } }: PrivacyStatement): Sentence[] {
  if (leak === null) return [say("figures.no-law")];
  const once = { floor, one: leak.aucRound };
  return [rounds > 1 ? say("figures.plain", { all: leak.auc, rounds, ...once }) : say("figures.plain.one", once)];
}

/** All that are sufficient where nobody adds cover, the smallest first. */
function coalitions(terms: Terms): Sentence[] {
  const { relays } = terms;
  // Without a relay devices go straight to the coordinator.
  const isolating = coalition(say("party.coordinator"), relays ? "can.few" : "can.see");
  const ownKey = coalition(whoGivesKeys(terms), "can.key");
  if (!relays) return [isolating, ownKey];
  const [relay, both] =
    relays === 1
      ? [say("party.relay"), say("party.coordinator-relay")]
      : [say("party.relays", { relays }), say("party.coordinator-relays")];
  return [coalition(relay, "can.alone"), isolating, ownKey, coalition(both, "can.link")];
}

function coalition(parties: Sentence, can: string): Sentence {
  return say("coalition", { parties, can: say(can) });
}

/** Who can give one person a gateway key of their own. */
function whoGivesKeys({ quorum }: Terms): Sentence {
  if (quorum === null) return say("party.no-log");
  const [enough, of] = quorum;
  const both = 2 * enough - of;
  return both <= 0 ? say("party.minority", { enough, of }) : say("party.witnesses", { both, of });
}
