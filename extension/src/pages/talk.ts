/**
 * Talks with the extension's background for the person's page: what `talk.js` of Python's page does over HTTP.
 *
 * A browser grants a permission only in the click that asks for it. So what an action needs is asked for here, before
 * anything is awaited, together with Firefox's consent to collect data.
 */

import { t } from "person/language.js";

import { unbase64 } from "../bytes.ts";
import type { Answer, Asked } from "../shell/router.ts";

/** What the background tells of the device; the page reads more of it than is named here. */
export interface State {
  readonly runs: boolean;
  readonly experiments: readonly { readonly status: string }[];
  /** Match patterns of the relays that this device would talk to. */
  readonly origins: readonly string[];
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

/** Actions that talk to relays, and those of them that read the history. */
const TALKING = ["find", "join", "import"];
const READING = ["join", "import"];

let origins: readonly string[] = [];

/** All that the page shows. */
export async function getState(): Promise<State> {
  const state = (await (await answered({ action: "state", said: {} })).json()) as State;
  ({ origins } = state);
  return state;
}

/** Let the device do something. */
export async function act(action: string, said: { readonly [name: string]: unknown }): Promise<Response> {
  if (TALKING.includes(action) && !(await chrome.permissions.request(needed(action)))) {
    throw new Refusal(t("permission.refused"), null, 403);
  }
  return answered({ action, said });
}

/** What an action needs; the browser asks for nothing that it was granted before. */
function needed(action: string): chrome.permissions.Permissions {
  const reads = READING.includes(action);
  // Firefox alone has a consent to data collection, and other browsers refuse what they do not know.
  const consents = reads && chrome.runtime.getManifest()["browser_specific_settings"] !== undefined;
  return {
    origins: [...origins],
    ...(reads ? { permissions: ["history"] } : {}),
    ...(consents ? { data_collection: ["browsingActivity"] } : {}),
  };
}

async function answered(asked: Asked): Promise<Response> {
  const answer: Answer = await chrome.runtime.sendMessage(asked);
  if ("detail" in answer) throw new Refusal(answer.detail, answer.next, answer.status);
  return new Response("file" in answer ? unbase64(answer.file) : JSON.stringify(answer.json));
}
