/** Messages of the extension's own pages, and what the device answers. */

import { base64, type Bytes } from "../bytes.ts";
import { SecVMError, StoreError } from "../errors.ts";
import { asSentence } from "../formatting.ts";

/** What a page says. */
export interface Asked {
  /** "state", or what the person wants done. */
  readonly action: string;
  readonly said: { readonly [name: string]: unknown };
}

/** What it is answered: a value, a file in base64, or a refusal in one sentence. Messages carry JSON alone. */
export type Answer =
  | { readonly json: unknown }
  | { readonly file: string }
  | { readonly status: number; readonly detail: string; readonly next: string | null };

/** A device as pages see it. */
export interface Asking {
  /** All that the page shows. */
  state(): Promise<unknown>;
  /** Does what the person wants; what comes is a value for the page, or a file. */
  act(action: string, said: Asked["said"]): Promise<{ readonly json: unknown } | { readonly file: Bytes }>;
}

/** The answer to one message; whatever happens, it is one. */
export async function answerTo(asked: unknown, open: () => Promise<Asking>): Promise<Answer> {
  if (!isAsked(asked)) return refusal(400, "What was said is no message of the page.");
  try {
    const device = await open();
    if (asked.action === "state") return { json: await device.state() };
    const done = await device.act(asked.action, asked.said);
    return "file" in done ? { file: base64(done.file) } : done;
  } catch (fault) {
    if (!(fault instanceof SecVMError)) return refusal(500, "That did not work.");
    return refusal(fault instanceof StoreError ? 503 : 409, asSentence(fault.message), fault.nextStep);
  }
}

function refusal(status: number, detail: string, next: string | null = null): Answer {
  return { status, detail, next };
}

function isAsked(asked: unknown): asked is Asked {
  if (typeof asked !== "object" || asked === null || !("action" in asked) || !("said" in asked)) return false;
  return typeof asked.action === "string" && typeof asked.said === "object" && asked.said !== null;
}
