/** Which sources there are in a browser, and how what they give comes into the vault. */

import { BadInputError, SecVMError } from "../errors.ts";
import type { Vault } from "../storage/vault.ts";
import { BOTH, HOSTS, TITLES, type Options, type Source } from "./history.ts";

const SOURCES: readonly Source[] = [TITLES, HOSTS, BOTH];

/** Whether a browser has a source of this name. */
export function isSource(name: string): boolean {
  return SOURCES.some((one) => one.name === name);
}

/** The source of a name. */
export function findSource(name: string): Source {
  const source = SOURCES.find((one) => one.name === name);
  if (source === undefined) {
    const known = SOURCES.map((one) => one.name).join(", ");
    throw new BadInputError(`there is no source '${name.slice(0, 64)}'`, { nextStep: `A browser has: ${known}.` });
  }
  return source;
}

/**
 * Read a source and keep what it gives in the vault, in place of what it gave before; say how many features.
 *
 * What the vault excludes is left out. A source that gives nothing is an error, and the vault stays as it is: an
 * emptied history must not empty it.
 */
export async function importFrom(source: Source, options: Options, vault: Vault): Promise<number> {
  const excluded = vault.excluded();
  const read = await guarded(
    () => source.read({ ...options, excluded }),
    `the source '${source.name}' failed`,
    "Allow the extension to read the history, and try again.",
  );
  const features = new Map([...read].filter(([name, value]) => value !== 0 && !excluded.has(name)));
  if (!features.size) throw new BadInputError("the source gave no features; the vault is as it was");
  await vault.put(source.name, features, { reader: source.name, readAt: options.now, days: options.days });
  return features.size;
}

/** What the browser complains of becomes one sentence, because its own may quote what it read. */
async function guarded<T>(action: () => Promise<T>, sentence: string, nextStep: string): Promise<T> {
  try {
    return await action();
  } catch (fault) {
    if (fault instanceof SecVMError) throw fault;
    throw new BadInputError(`${sentence} (${fault instanceof Error ? fault.name : "no error"})`, { nextStep });
  }
}
