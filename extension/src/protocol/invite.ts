/**
 * Invite: one line by which a person finds an experiment, `secvm:RELAY-URL#DIGEST`.
 *
 *     secvm:https://relay.example/relay#3fa9…      (64 hexadecimal digits)
 *
 * The digest fixes the experiment, so nobody who passes the line on can change what is asked. The URL is the relay through
 * which the device fetches the document that the digest names; everything else stands in that. An invite is no secret.
 */

import { BadInputError } from "../errors.ts";

/** A host, perhaps with a port; no name or password before it, which would travel with every fetch. */
const HOST = "(?:[A-Za-z0-9.-]+|\\[[0-9A-Fa-f:.]+\\])(?::([1-9][0-9]{0,4}))?";
const FORM = new RegExp(`^secvm:(https?://${HOST}(?:/[!-~]*)?)#([0-9a-f]{64})$`);
const LONGEST_URL = 510;
const MOST_PORT = 65_535;

/** What the line says. */
export interface Invite {
  readonly relayUrl: string;
  readonly digest: string;
}

/** The invite in this line, white space around it aside; anything else is refused. */
export function readInvite(line: string): Invite {
  const match = FORM.exec(line.trim());
  const [, relayUrl, port, digest] = match ?? [];
  if (relayUrl === undefined || digest === undefined || relayUrl.length > LONGEST_URL || Number(port ?? 1) > MOST_PORT) {
    throw new BadInputError(
      "this is no invite: one is a line secvm:RELAY-URL#DIGEST, such as" +
        ` secvm:https://relay.example/relay#${"3fa9".repeat(2)}… with 64 digits`,
      { nextStep: "Copy the whole line from whoever invited you." },
    );
  }
  return { relayUrl, digest };
}

export function inviteText(invite: Invite): string {
  return `secvm:${invite.relayUrl}#${invite.digest}`;
}
