/**
 * What a person decides about an experiment: to join, to pause, to go on, to be forgotten.
 *
 * A decision is one transaction of the state, and the device sees it before it next sends or fetches.
 */

import type { Bytes } from "../bytes.ts";
import { checkRoom } from "../consent/ledger.ts";
import type { Consent } from "../consent/policies.ts";
import type { DiceFor } from "../device/dice.ts";
import { BadInputError, LocalProtocolError } from "../errors.ts";
import { say } from "../privacy/sentences.ts";
import { hostOf, readPublished, type ExperimentDocument } from "../protocol/documents/experiment.ts";
import { goesInClear, staysHere } from "../runtime/http/client.ts";
import { NOTHING, type Accepted } from "../storage/books.ts";
import type { DeviceState } from "../storage/state.ts";
import type { Vault } from "../storage/vault.ts";
import { convicts } from "../trust/evidence.ts";
import type { Transport } from "../trust/surroundings.ts";
import type { TrustPolicy } from "../trust/trustPolicy.ts";
import { pinPerson } from "./pinning.ts";

/** How a device reaches others, what it demands of them, what it agrees to tell, and whose dice it throws. */
export interface Way {
  readonly transport: Transport;
  readonly policy: TrustPolicy;
  readonly diceFor: DiceFor;
  readonly consent: Consent;
  /** A device for made-up data: experiments that are not marked as a test are left alone. */
  readonly onlyTests: boolean;
}

interface Yes {
  /** The salt that its beacons fixed, where it names some (`fetchSalt`). */
  readonly salt?: Bytes | null;
  /** What the person agrees to here beyond the device's own consent. */
  readonly accepted?: Accepted;
  /** Their label, where they give it with their yes. */
  readonly answer?: string | null;
}

/** Take part from now on. What is refused has told nothing: then the answer is not kept either. */
export async function join(
  { state, vault }: { state: DeviceState; vault: Vault },
  envelope: Bytes,
  way: Way,
  { digest, salt = null, accepted = NOTHING, answer = null }: Yes & { digest: string },
): Promise<void> {
  const document = await readPublished(envelope, { digest });
  checkExperiment(document, way);
  way.consent.check(document, accepted);
  if ((state.record(digest)?.status ?? "declined") !== "declined") {
    // Before anything is drawn.
    throw new BadInputError("this device has joined that experiment before, and cannot be drawn anew");
  }
  checkRoom(state, document, way.consent, accepted);
  const person = await pinPerson(document, vault, way.diceFor(document), { salt, given: answer });
  // One commit takes both: the second is noted before the first is written.
  const joined = state.join(digest, envelope, person, { salt, accepted });
  await Promise.all([joined, answer === null ? null : vault.setLabel(digest, answer)]);
}

/** Throws where the way out, the data or the relays are not good enough for the experiment. */
export function checkExperiment(document: ExperimentDocument, way: Way): void {
  checkKind(document);
  way.transport.check(document);
  if (way.onlyTests && !document.test) throw new LocalProtocolError(say("refused.only-tests"));
  const isOurs = way.onlyTests && document.relays.every(({ url }) => staysHere(url));
  if (document.test && !isOurs) throw new BadInputError(say("refused.test"));
  way.policy.check(document);
}

/**
 * Throws a `BadInputError` for what no browser takes part in: plain experiments, those that want a list of words, and
 * those whose relays it cannot reach, such as onion services.
 */
function checkKind(document: ExperimentDocument): void {
  if (document.experiment.cover === null) throw new BadInputError(say("refused.plain"));
  if (document.binning.kind === "vocabulary") throw new BadInputError(say("refused.words"));
  const far = document.relays.find(({ url }) => goesInClear(url));
  if (far !== undefined) throw new BadInputError(say("refused.unreachable", { host: hostOf(far) }));
}

/** Send and fetch nothing more, until resumed. */
export async function pause(state: DeviceState, digest: string): Promise<void> {
  await state.setStatus(digest, "paused");
}

/** Go on; whether it does: a device that holds evidence against the server sends nothing all the same. */
export async function resume(state: DeviceState, digest: string): Promise<boolean> {
  await state.setStatus(digest, "joined");
  return !convicts(state, digest);
}

/** Leave for good: what the device knows of the person for this experiment goes, their label as well. */
export async function forget(state: DeviceState, vault: Vault, digest: string): Promise<void> {
  // One commit takes both.
  await Promise.all([state.forget(digest), vault.forgetLabel(digest)]);
}
