/**
 * Invited: from an invite to a device that knows the experiment and its relays, and has joined nothing yet.
 *
 * The first invite sets the device up: the relays of its experiment are the only ones that packages take. Whoever wrote
 * the invite chose them, and the person is told so. The experiment itself is kept as it was fetched, so that the page
 * can show it without asking anybody.
 */

import type { Bytes } from "../bytes.ts";
import { BadInputError, RemoteProtocolError } from "../errors.ts";
import type { Fetching } from "../person/pinning.ts";
import { readPublished, type ExperimentDocument } from "../protocol/documents/experiment.ts";
import { say } from "../privacy/sentences.ts";
import type { Invite } from "../protocol/invite.ts";
import { staysHere } from "../runtime/http/client.ts";
import type { DeviceState } from "../storage/state.ts";

/** The network, as whoever was invited sees it. */
export interface InviteTransport extends Fetching {
  /** The status with which a relay refused the last fetch, where one did. */
  readonly refusedWith: number | null;
  /** Throws a `LocalProtocolError` where this way is not good enough for the experiment. */
  check(document: ExperimentDocument): void;
}

/** The experiment of this digest, and the envelope it was served in. Throws a `BadInputError`. */
export async function fetchExperiment(
  digest: string,
  transport: InviteTransport,
): Promise<readonly [document: ExperimentDocument, envelope: Bytes]> {
  const fetched = await transport.fetch(`/v1/experiment/${digest}`);
  if (fetched === null) throw await whyNot(transport);
  try {
    return [await readPublished(fetched.content, { digest }), fetched.content];
  } catch (fault) {
    if (!(fault instanceof RemoteProtocolError)) throw fault;
    throw new BadInputError(`what was fetched is not that experiment: ${fault.message}`);
  }
}

async function whyNot(transport: InviteTransport): Promise<BadInputError> {
  const refusal = transport.refusedWith;
  if (refusal === 401 || refusal === 403) {
    return new BadInputError(`the relay wants a credential, and refuses this device (status ${refusal})`, {
      nextStep: "Ask whoever invited you for a relay that wants none: this extension has no credentials.",
    });
  }
  if ((await transport.fetch("/v1/experiments")) === null) {
    return new BadInputError("the experiment cannot be fetched: nobody answers, or no coordinator behind a relay", {
      nextStep: "Is the relay's URL right, and does this machine reach it?",
    });
  }
  return new BadInputError("the experiment cannot be fetched: the coordinator knows none of this digest", {
    nextStep: "Is the digest right, and is this the relay that goes with it?",
  });
}

/** Throws a `BadInputError` where this device cannot take the invite: it was set up for other relays. */
export function checkInvite(state: DeviceState, { relayUrl }: Invite): void {
  const setUp = state.settings.setUp();
  if (setUp !== null && !setUp.urls.includes(relayUrl)) {
    throw new BadInputError("this device was invited over another relay before, and asks for experiments there alone", {
      nextStep: "Take this invite in another profile of the browser.",
    });
  }
}

/**
 * Take the invite up: fetch its experiment, keep it, and remember the relays. Throws a `BadInputError`.
 *
 * The noise of a test may be known to everybody, and what a browser has are its person's own data. So a test is taken up
 * only where its relays are on this machine: by whoever tries the extension out.
 */
export async function takeUp(state: DeviceState, invite: Invite, transport: InviteTransport): Promise<void> {
  checkInvite(state, invite);
  const [document, envelope] = await fetchExperiment(invite.digest, transport);
  transport.check(document);
  if (document.test && !document.relays.every(({ url }) => staysHere(url))) throw new BadInputError(say("refused.test"));
  await state.writing(() => {
    const { settings } = state;
    checkInvite(state, invite);
    if (settings.setUp() === null) settings.putSetUp({ urls: [invite.relayUrl], onlyTests: document.test });
    for (const { url, key, operator } of document.relays) {
      if (operator !== null) settings.addRelay({ url, key, operator });
    }
    settings.putInvitation(invite.digest, envelope);
  });
}
