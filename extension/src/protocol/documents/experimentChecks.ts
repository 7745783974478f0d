/** What must hold of the parts of a published experiment together; a `MalformedMessageError` where it does not. */

import { hex } from "../../bytes.ts";
import { X25519 } from "../../crypto/sealing/kem.ts";
import { MalformedMessageError } from "../../errors.ts";
import { relayBudget } from "../../learning/coverLaw.ts";
import type { Experiment } from "../../learning/experiment.ts";
import type { Stated } from "./experimentParts.ts";
import { ROLES } from "./terms.ts";

/** What is said to these is sealed on the way, to an onion service by Tor. */
const SEALED_WAY = /^(https:.*|http:\/\/([a-z0-9-]+\.)*[a-z2-7]{56}\.onion(:[0-9]{1,5})?(\/.*)?)$/;

/** Of the keys, the relays and the log. */
export function checkParties(stated: Stated, isRelayed: boolean): void {
  const { relays, test, threshold, log } = stated;
  const keys = new Set(stated.coordinatorKeys.map((key) => hex(key.data)));
  const count = stated.coordinatorKeys.length;
  refuseIf(keys.size !== count, `the experiment lists ${count} coordinator keys, of which some are the same`);
  refuseIf(threshold > count, `${threshold} signatures are needed, and there are ${count} keys`);
  refuseIf(
    !relays.length && !test,
    "the experiment lists no relay; only one that is marked as a test may have none",
  );
  refuseIf(
    relays.some(({ role, operator }) => (role !== null) !== isRelayed || (operator !== null) !== isRelayed),
    "a relay has a role and an operator where there is relays' cover, and only there",
  );
  refuseIf(stated.tokens && !isRelayed, "the experiment has fields that it should not have: tokens");
  refuseIf(
    (stated.windows.relays !== null) !== isRelayed,
    "windows tell the times of two relays where there is their cover, and only there",
  );
  refuseIf(
    !test && !relays.every(({ url }) => SEALED_WAY.test(url)),
    "a relay's url must begin with https, or be that of an onion service, unless the experiment is marked as a test",
  );
  if (log === null) return;
  // The log's key and the witnesses' sign nothing else, and a witness is none of the parties that it watches.
  const others = new Set([...keys, ...relays.map(({ key }) => hex(key.data))]);
  const watching = [log.key, ...log.witnesses.map(({ key }) => key)];
  refuseIf(
    watching.some((key) => others.has(hex(key.data))),
    "a key of the experiment's log is that of another party",
  );
}

/** What an experiment with two relays is held to as a whole. */
export function checkRelayed(stated: Stated, experiment: Experiment): void {
  const { relays, binning } = stated;
  refuseIf(
    !stated.features.presence,
    "cover needs features that count by presence: a guarantee is about one unit",
  );
  refuseIf(
    relays.length !== ROLES.length ||
      relays.some(({ role }, i) => role !== ROLES[i]) ||
      relays[0]!.key.equals(relays[1]!.key),
    "relays' cover needs an entry relay, then a mixing relay, with keys of their own",
  );
  const { featuresPerPerson: features } = experiment;
  if (features === null) throw new MalformedMessageError("relays' cover needs a bound on the features per person");
  const budget = relayBudget({ violable: experiment.models.mostPerPerson, features, hashes: binning.hashes });
  refuseIf(
    experiment.budget !== budget,
    `the budget is ${experiment.budget}, and a person's units before thinning, participation and canary are ${budget}`,
  );
  // Everybody derives an opened part byte for byte, and what X-Wing throws cannot be derived.
  refuseIf(
    stated.kem !== X25519,
    "capsules for two relays are sealed with X25519, and the document names no KEM",
  );
}

function refuseIf(wrong: boolean, message: string): void {
  if (wrong) throw new MalformedMessageError(message);
}
