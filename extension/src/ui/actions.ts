/**
 * What the page says, and what the desk does then: what Python's `participant/ui/server.py` does with a request.
 *
 * | action                                      | said                                                  | answer           |
 * |---------------------------------------------|-------------------------------------------------------|------------------|
 * | `invite`                                    | `line`                                                |                  |
 * | `find`                                      | `digest`, or nothing: all there are                   |                  |
 * | `import`                                    | `digest`: read what that experiment asks for          | `features`       |
 * | `join`                                      | `digest`; `answer`, `accept` {`auc`, `epsilon`} or null |                |
 * | `decline` `reconsider` `pause` `forget`     | `digest`                                              |                  |
 * | `resume`                                    | `digest`                                              | `goes_on`        |
 * | `predict`                                   | `digest`                                              | label, margin, round |
 * | `examples`, `remove`                        | `source`                                              | `examples`       |
 * | `exclude`                                   | `feature`: forget it, and read it no more             |                  |
 * | `evidence`                                  | `number`                                              | a file           |
 * | `allow`                                     | nothing: the browser was asked, and said yes          |                  |
 */

import type { Bytes } from "../bytes.ts";
import { BadInputError } from "../errors.ts";
import type { Accepted } from "../storage/books.ts";
import type { Desk } from "./desk.ts";
import type { Json } from "./view.ts";

type Said = Json;
type Done = { readonly json: unknown } | { readonly file: Bytes };

const MOST_LETTERS = 1000;
/** No ε or AUC that a person accepts is as large. */
const MOST_ACCEPTED = 1e6;

/** Do what the person wants. Throws a `SecVMError` with one sentence where it is refused. */
export async function act(desk: Desk, action: string, said: Said): Promise<Done> {
  const does = Object.hasOwn(ACTIONS, action) ? ACTIONS[action] : undefined;
  if (does === undefined) throw new BadInputError(`there is nothing called '${action.slice(0, 64)}' to be done`);
  const done = await does(desk, said);
  return done instanceof Uint8Array ? { file: done } : { json: { done: true, ...done } };
}

const ACTIONS: { readonly [action: string]: (desk: Desk, said: Said) => Promise<Json | Bytes | void> } = {
  invite: (desk, said) => desk.invite(text(said, "line")),
  find: (desk, said) => desk.find(said["digest"] === undefined ? null : text(said, "digest")),
  import: async (desk, said) => ({ features: await desk.bringIn(text(said, "digest")) }),
  join: (desk, said) => {
    const answer = said["answer"] === null || said["answer"] === undefined ? null : text(said, "answer");
    return desk.join(text(said, "digest"), { answer, accepted: acceptedOf(said["accept"] ?? {}) });
  },
  decline: (desk, said) => desk.decline(text(said, "digest")),
  reconsider: (desk, said) => desk.reconsider(text(said, "digest")),
  pause: (desk, said) => desk.pause(text(said, "digest")),
  resume: async (desk, said) => ({ goes_on: await desk.resume(text(said, "digest")) }),
  forget: (desk, said) => desk.forget(text(said, "digest")),
  predict: async (desk, said) => {
    const { label, margin, rounds } = await desk.predict(text(said, "digest"));
    return { label, margin, round: rounds };
  },
  examples: (desk, said) => desk.examples(text(said, "source")),
  exclude: (desk, said) => desk.exclude(text(said, "feature")),
  remove: (desk, said) => desk.remove(text(said, "source")),
  evidence: (desk, said) => {
    const number = said["number"];
    if (!Number.isInteger(number)) throw new BadInputError("a piece of evidence has a number");
    return desk.evidence(number as number);
  },
  allow: async (desk) => desk.allowed(),
};

function text(said: Said, name: string): string {
  const value = said[name];
  if (typeof value !== "string" || !value.length || value.length > MOST_LETTERS || !value.isWellFormed()) {
    throw new BadInputError(`'${name}' is missing, or no text of 1 to ${MOST_LETTERS} letters`);
  }
  return value;
}

function acceptedOf(wanted: unknown): Accepted {
  if (typeof wanted !== "object" || wanted === null) throw new BadInputError("what is accepted is an object");
  return { auc: numberOf(wanted as Said, "auc"), epsilon: numberOf(wanted as Said, "epsilon") };
}

function numberOf(said: Said, name: string): number | null {
  const value = said[name] ?? null;
  if (value === null) return null;
  if (typeof value !== "number" || !(0 <= value && value < MOST_ACCEPTED)) throw new BadInputError(`'${name}' is no number`);
  return value;
}
