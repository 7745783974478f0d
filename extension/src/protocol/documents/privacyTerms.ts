/** From a published experiment to what a privacy statement is about. Pure, and nothing that it claims is believed. */

import { LocalProtocolError } from "../../errors.ts";
import { Operators } from "../../privacy/statements/operators.ts";
import type { Terms } from "../../privacy/statements/plain.ts";
import { CoveredTerms } from "../../privacy/statements/relayed.ts";
import type { ExperimentDocument } from "./experiment.ts";

/** What a statement about an experiment without cover takes. */
export function termsOf({ experiment, rounds, binning, floor, relays, log }: ExperimentDocument): Terms {
  const quorum = log === null ? null : ([log.quorum, log.witnesses.length] as const);
  return { experiment, rounds, hashes: binning.hashes, floor, relays: relays.length, quorum };
}

/** What a statement about an experiment with two relays takes. Throws a `LocalProtocolError` where it has none. */
export function relayedTermsOf(document: ExperimentDocument): CoveredTerms {
  const { experiment, rounds, binning, floor, trainShare, privacy: claimed, entryRelay, mixRelay } = document;
  if (claimed === null || entryRelay.operator === null || mixRelay.operator === null) {
    throw new LocalProtocolError("this experiment has not the cover of two relays: its privacy is null");
  }
  const operators = new Operators({
    entry: entryRelay.operator,
    mix: mixRelay.operator,
    coordinators: [document.operator],
  });
  return new CoveredTerms({ experiment, rounds, hashes: binning.hashes, floor, trainShare, claimed, operators });
}
