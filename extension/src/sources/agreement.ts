/** Whether what the vault holds is what an experiment asks for: features of its kind, of no more days than it says. */

import { BadInputError } from "../errors.ts";
import { grouped } from "../formatting.ts";
import type { FeaturesWanted } from "../protocol/documents/experiment.ts";
import type { Reading } from "../storage/vault.ts";
import { HOSTS, TITLES } from "./history.ts";

const AGAIN = { nextStep: "Read the history again for this experiment." };

/**
 * Return if these features of the vault's `source` are of the kind and the time that was agreed to.
 *
 * Throws a `BadInputError` in a sentence that names no feature. `reading`: null for made-up people.
 */
export function checkAgreed(
  wanted: FeaturesWanted,
  features: ReadonlyMap<string, number>,
  reading: Reading | null,
  source: string,
): void {
  const hosts = [...features.keys()].filter((feature) => feature.startsWith("host:")).length;
  const others: { readonly [name: string]: readonly [number, string] } = {
    [TITLES.name]: [hosts, "hosts"],
    [HOSTS.name]: [features.size - hosts, "words of titles"],
  };
  const [many, what] = others[wanted.source] ?? [0, ""];
  if (many) {
    throw new BadInputError(
      `the vault's source '${source}' has ${what} too (${grouped(many)}), and the experiment asks for` +
        ` '${wanted.source}' alone`,
      AGAIN,
    );
  }
  if (wanted.days === null || reading === null) return;
  if (reading.days !== null && reading.days <= wanted.days) return;
  const looked = reading.days === null ? "everything that the source has" : `${grouped(reading.days)} days`;
  throw new BadInputError(
    `the experiment looks back ${grouped(wanted.days)} days, and the vault's source '${source}' holds ${looked}`,
    AGAIN,
  );
}
