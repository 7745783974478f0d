/**
 * Talks with the extension's background for the person's page: what `talk.js` of Python's page does over HTTP.
 *
 * A browser grants a permission only in the click that asks for it. So what an action needs is asked for here, before
 * anything is awaited, together with Firefox's consent to collect data.
 */

import { t } from "person/language.js";

import { unbase64 } from "../bytes.ts";
import { SecVMError } from "../errors.ts";
import { readInvite } from "../protocol/invite.ts";
import { permissionsFor } from "../shell/permissions.ts";
import type { Answer, Asked } from "../shell/router.ts";

/** What the background tells of the device; the page reads more of it than is named here. */
export interface State {
  readonly runs: boolean;
  readonly experiments: readonly { readonly status: string }[];
  readonly offers: { readonly list: readonly { readonly digest: string; readonly who: { readonly relays: readonly string[] } }[] };
  /** URLs of the relays that this device talks to. */
  readonly relays: readonly string[];
}

/** A refusal, in one sentence for the person. */
export class Refusal extends Error {
  readonly next: string | null;
  readonly status: number;

  constructor(sentence: string, next: string | null, status: number) {
    super(sentence);
    this.next = next;
    this.status = status;
  }
}

let shown: State | null = null;

/** All that the page shows. */
export async function getState(): Promise<State> {
  shown = (await (await answered({ action: "state", said: {} })).json()) as State;
  return shown;
}

/** Let the device do something. */
export async function act(action: string, said: { readonly [name: string]: unknown }): Promise<Response> {
  const wanted = needed(action, said);
  if (wanted !== null && !(await granted(wanted))) throw new Refusal(t("permission.refused"), null, 403);
  return answered({ action, said });
}

/** Asks the browser; it refuses at once what the extension may never have: relays without https. */
async function granted(wanted: chrome.permissions.Permissions): Promise<boolean> {
  try {
    return await chrome.permissions.request(wanted);
  } catch {
    throw new Refusal(t("permission.impossible"), null, 403);
  }
}

/** What an action needs of the browser; null: nothing. */
function needed(action: string, said: { readonly [name: string]: unknown }): chrome.permissions.Permissions | null {
  const relays = shown?.relays ?? [];
  switch (action) {
    case "invite":
      return permissionsFor("talking", [relayOf(said["line"])]);
    case "find":
      return permissionsFor("talking", relays);
    case "import":
      return permissionsFor("reading", []);
    case "join": {
      const offer = shown?.offers.list.find(({ digest }) => digest === said["digest"]);
      return permissionsFor("reading", [...relays, ...(offer?.who.relays ?? [])]);
    }
    case "allow":
      return permissionsFor("reading", relays);
    default:
      return null;
  }
}

function relayOf(line: unknown): string {
  try {
    return readInvite(String(line)).relayUrl;
  } catch (fault) {
    if (fault instanceof SecVMError) throw new Refusal(t("invite.none"), null, 400);
    throw fault;
  }
}

async function answered(asked: Asked): Promise<Response> {
  const answer: Answer = await chrome.runtime.sendMessage(asked);
  if ("detail" in answer) throw new Refusal(answer.detail, answer.next, answer.status);
  return new Response("file" in answer ? unbase64(answer.file) : JSON.stringify(answer.json));
}
