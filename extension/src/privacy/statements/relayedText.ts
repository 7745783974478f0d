/**
 * A statement about an experiment with two relays as sentences, for the person who is to decide.
 *
 * What somebody must know to decide comes first: the risk, who must be honest, what leaves. `figures` come after.
 */

import { NO_PROTECTION, type Guarantee } from "../accounting/guarantee.ts";
import { exp } from "../accounting/reals.ts";
import { inWords, up } from "../risk.ts";
import { say, type Sentence } from "../sentences.ts";
import type { Operators } from "./operators.ts";
import type { CellChances, RelayedStatement } from "./relayed.ts";

/** The risk, who must be honest, and who learns what although all is well. */
export function plainly(statement: RelayedStatement): Sentence[] {
  const { own, risk, terms, whyNoGuarantee } = statement;
  return [
    inWords(risk, terms.experiment),
    ...(own === null ? [say("none.operators", { why: whyNoGuarantee! })] : restsOn(terms.operators, own)),
    say("leaves.learnt", { entry: terms.operators.entry }),
  ];
}

/** ε, δ, AUC and the chances of being seen, for those who know the words. */
export function figures(statement: RelayedStatement): Sentence[] {
  const guaranteed = statement.own === null ? [] : guaranteedBy(statement, statement.own);
  return [...guaranteed, seen(statement), leaked(statement)];
}

/** Who must be honest, and everybody who is enough to break it. */
function restsOn(operators: Operators, { epsilon }: Guarantee): Sentence[] {
  // Where nothing holds, there is nothing to break.
  if (epsilon === Infinity) return [say("none.faint")];
  return [say("honest", { relay: reliedOn(operators) }), say("break", { who: operators.enough })];
}

function reliedOn({ entry, mix, ofCoordinator, reliedOn: [first] }: Operators): Sentence {
  if (ofCoordinator.length === 0) return say("relay.either", { entry, mix });
  const kept = ofCoordinator.includes("entry") ? "mix" : "entry";
  return say(`relay.${kept}`, { [kept]: first! });
}

function guaranteedBy(statement: RelayedStatement, own: Guarantee): Sentence[] {
  if (own.epsilon === Infinity) return [];
  const { rounds, claimed } = statement.terms;
  const numbers = {
    factor: up(exp(own.epsilon), 10),
    one_in: Math.floor(1 / own.delta),
    epsilon: up(own.epsilon, 100),
  };
  const sentences = [
    say("figures.auc", { auc: up(statement.risk, 1000) }),
    rounds > 1
      ? say("figures.epsilon", { rounds, epsilon_round: up(own.epsilonRound, 100), ...numbers })
      : say("figures.epsilon.one", numbers),
    own.epsilonFlip === Infinity
      ? say("figures.flip.none")
      : say("figures.flip", { epsilon: up(own.epsilonFlip, 100), epsilon_round: up(own.epsilonFlipRound, 100) }),
  ];
  if (own.epsilon >= NO_PROTECTION) sentences.push(say("figures.weak", { least: NO_PROTECTION }));
  if (!statement.kept) {
    const worth = statement.planned!.epsilon;
    const claim = { claimed: String(claimed) };
    sentences.push(
      worth === Infinity
        ? say("figures.broken.none", claim)
        : say("figures.broken", { ...claim, epsilon: up(worth, 100) }),
    );
  }
  return sentences;
}

function seen({ caught, terms }: RelayedStatement): Sentence {
  return say("figures.seen", {
    mix: terms.operators.mix,
    people: Number(terms.expected),
    parts: caught.falseCover,
    blindly: caught.blindly99,
    mean: cellInWords(caught.meanCell),
    fullest: cellInWords(caught.fullestCell),
    canary: caught.canary,
  });
}

function cellInWords({ people, cover, packages90: likely, packages99: surely, atMost }: CellChances): Sentence {
  const packages = people + cover;
  if (likely === null) return say("cell.never", { packages, missed: 1 - atMost });
  if (surely === null) return say("cell.likely", { packages, likely });
  return say("cell.both", { packages, likely, surely });
}

function leaked({ leak, terms: { floor } }: RelayedStatement): Sentence {
  if (leak === null) return say("figures.no-law");
  return say("figures.without", { floor, one: leak.aucRound, all: leak.auc });
}
