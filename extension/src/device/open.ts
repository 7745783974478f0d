/**
 * The device in its browser: where its parts are put together.
 *
 * Everything that it knows stands in its tables, so it may be dropped at any moment and opened anew. It has no way to
 * anybody before its first invite, which names the relays.
 */

import type { RandomBytes } from "../crypto/sealing/kem.ts";
import { roundConsent } from "../consent/ledger.ts";
import { Consent } from "../consent/policies.ts";
import type { Way } from "../person/decisions.ts";
import { readInvite } from "../protocol/invite.ts";
import type { Clock } from "../runtime/clock.ts";
import { HttpClient, type Fetch } from "../runtime/http/client.ts";
import type { Device } from "../shell/owner.ts";
import type { BrowserHistory } from "../sources/history.ts";
import { DeviceState } from "../storage/state.ts";
import type { Tables } from "../storage/tables.ts";
import { Vault } from "../storage/vault.ts";
import { ModelShelf } from "../trust/modelFiles.ts";
import { DAILY_BYTES, Surroundings, Traffic } from "../trust/surroundings.ts";
import { TrustPolicy } from "../trust/trustPolicy.ts";
import { act } from "../ui/actions.ts";
import { Desk } from "../ui/desk.ts";
import { AllowedTransport, whileAllowed, type Allows } from "./allowed.ts";
import { ParticipantDevice } from "./device.ts";
import { safeDice, systemWords, type DiceFor } from "./dice.ts";
import { checkInvite, takeUp } from "./invitation.ts";

/** What a device needs of the browser that it lives in. */
export interface Browser {
  readonly clock: Clock;
  /** Milliseconds of a clock that nobody sets. */
  readonly steady: () => number;
  readonly randomBytes: RandomBytes;
  readonly fetch: Fetch;
  /** The browser's history; null: its person does not allow it. */
  readonly history: () => BrowserHistory | null;
  /** Whether its person still allows what they allowed when they joined: the history, and the relays of these URLs. */
  readonly allows: Allows;
  /** What the device's work ended with before it was opened anew; null: well. */
  readonly fault: () => unknown;
}

/** What tests decide; a person's device has none of it. */
export interface Steered {
  readonly diceFor?: DiceFor;
  readonly consent?: Consent;
  readonly policy?: Partial<TrustPolicy>;
  /** Where a relay of a test knows its clients by credential. */
  readonly credential?: string;
  /** How long one answer may take. */
  readonly answerMs?: number;
}

/** A device that is open. */
export interface Opened extends Device {
  /** All experiments that it takes part in; null: nobody has invited it yet. */
  readonly participant: ParticipantDevice | null;
}

/** The device of these tables. */
export function openDevice(tables: Tables, browser: Browser, steered: Steered = {}): Opened {
  const [state, vault, shelf] = [new DeviceState(tables), new Vault(tables), new ModelShelf(tables)];
  const consent = steered.consent ?? new Consent({});
  const policyOf = (onlyTests: boolean): TrustPolicy =>
    // A test may draw its salt from a beacon that is none.
    new TrustPolicy({ relays: () => state.settings.relays(), unsafeBeacons: onlyTests, ...steered.policy });
  const transportOf = (urls: readonly string[]): AllowedTransport => {
    const { credential = null, answerMs } = steered;
    const client = new HttpClient(browser.fetch, answerMs === undefined ? {} : { answerMs });
    return new AllowedTransport(client, { relays: urls, randomBytes: browser.randomBytes, credential }, browser.allows);
  };

  let part: { readonly way: Way; readonly device: ParticipantDevice } | null = null;
  const partOf = (): typeof part => {
    const setUp = state.settings.setUp();
    if (part !== null || setUp === null) return part;
    const [{ urls, onlyTests }, { clock, randomBytes }] = [setUp, browser];
    const [transport, policy] = [transportOf(urls), policyOf(onlyTests)];
    const diceFor = steered.diceFor ?? safeDice(randomBytes);
    const around = new Surroundings({
      ...{ state, transport, shelf, traffic: new Traffic(state), policy },
      consent: whileAllowed(roundConsent(state, consent), browser.allows),
      ...{ words: systemWords(randomBytes), randomBytes },
    });
    const way = { transport, policy, diceFor, consent, onlyTests };
    return (part = { way, device: new ParticipantDevice(around, { clock, diceFor, onlyTests }) });
  };

  const desk = new Desk({
    ...{ state, vault, shelf, consent, dailyBytes: DAILY_BYTES, allows: browser.allows },
    get policy() {
      return partOf()?.way.policy ?? policyOf(false);
    },
    now: browser.clock.now,
    steady: browser.steady,
    way: () => partOf()?.way ?? null,
    history: browser.history,
    async takeUp(line) {
      const invite = readInvite(line);
      checkInvite(state, invite);
      await takeUp(state, invite, transportOf([invite.relayUrl]));
    },
    unanswered: (digest) => partOf()?.device.memberships.get(digest)?.unanswered ?? 0,
    fault: browser.fault,
    decided: () => partOf()?.device.stir(),
  });
  return {
    get participant() {
      return partOf()?.device ?? null;
    },
    work: async () => (await partOf()?.device.work()) ?? null,
    state: () => desk.look(),
    act: (action, said) => act(desk, action, said),
  };
}
