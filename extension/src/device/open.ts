/**
 * The device in its browser: where its parts are put together.
 *
 * Membership, rounds and what the person decides are not here yet. What is there shows the page how much this browser
 * keeps, does nothing by itself, and refuses whatever the person wants done.
 */

import { BadInputError } from "../errors.ts";
import type { Device } from "../shell/owner.ts";
import { DeviceState } from "../storage/state.ts";
import type { Tables } from "../storage/tables.ts";
import { Vault } from "../storage/vault.ts";

/** The device of these tables. */
export function openDevice(tables: Tables, now: () => number): Device {
  const [state, vault] = [new DeviceState(tables), new Vault(tables)];
  return {
    work: async () => null,
    act: async (action) => {
      throw new BadInputError(`this version of the extension cannot do that yet: ${action}`);
    },
    state: async () => {
      const [summary, readings] = [await vault.summary(), await vault.readings()];
      const sources = [...summary].map(([name, features]) => {
        const reading = readings.get(name);
        return { name, features, read: reading ? { at: reading.readAt, days: reading.days } : null };
      });
      const meter = { spent: 0, limit: null, left: null };
      return {
        now: now(),
        runs: true,
        origins: [],
        vault: {
          ...{ labels: vault.answered().length, bytes: 0, changed_at: null, locked: false, sources },
          features: [...summary.values()].reduce((sum, count) => sum + count, 0),
        },
        budget: { epsilon: meter, auc: meter, bytes: meter, words: [], figures: [], unsafe: false },
        experiments: [],
        declined: state.records().flatMap(({ digest, status }) => (status === "declined" ? [{ digest }] : [])),
        evidence: [],
        offers: { possible: false, list: [], asked_at: null, problem: null },
      };
    },
  };
}
