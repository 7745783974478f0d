/**
 * Books in a device's state: what it counts and distrusts (`TrustBook`) and its ledger (`LedgerBook`); a third one is
 * in `relayedBook.ts`. Tables, columns and how long each row is kept are those of Python's
 * `participant/storage/books.py`; tables that only plain experiments need are left out.
 */

import { hex } from "../bytes.ts";
import { BadInputError } from "../errors.ts";
import type { Row, Tables } from "./tables.ts";

/** Every table of a state, and the columns that are its key. */
export const KEYS = {
  experiment: ["digest"],
  session: ["experiment"],
  model: ["experiment"],
  history: ["experiment", "round"],
  abstention: ["experiment", "round", "reason"],
  evidence: ["experiment", "number"],
  traffic: ["day"],
  checks: ["experiment", "name"],
  distrust: ["experiment"],
  unseen: ["experiment", "round"],
  ledger: ["experiment", "round"],
  accepted: ["experiment"],
  relayed_trust: ["experiment"],
  bound: ["experiment", "value"],
  label: ["experiment", "round"],
  request: ["experiment"],
  canary: ["experiment", "round"],
  unopened: ["experiment", "round"],
  token_seed: ["experiment"],
  refusal: ["experiment", "relay"],
  settings: ["name"],
  relay: ["url"],
  invited: ["digest"],
  found: ["digest"],
} as const;
export type TableName = keyof typeof KEYS;

/** Some tables of one device's state. Whoever writes does so inside `DeviceState.writing`. */
export class Book {
  protected readonly tables: Tables;

  constructor(tables: Tables) {
    this.tables = tables;
  }

  /** The row with this key. */
  protected row<T extends Row>(table: TableName, ...key: (string | number)[]): T | undefined {
    return this.tables.get(table, ...key) as T | undefined;
  }

  /** All rows whose key begins so, in the order of their keys. */
  protected rows<T extends Row>(table: TableName, ...prefix: (string | number)[]): T[] {
    return this.tables.all(table, ...prefix).map(({ row }) => row as T);
  }

  /** Write a row in place of the one with its key. */
  protected put(table: TableName, row: Row): void {
    this.tables.put(table, keyOf(table, row), row);
  }

  /** Write a row where its key has none. */
  protected add(table: TableName, row: Row): void {
    if (this.tables.get(table, ...keyOf(table, row)) === undefined) this.put(table, row);
  }

  /** The rounds that a table of rounds has of this experiment. */
  protected numbers(table: TableName, experiment: string): Set<number> {
    return new Set(this.rows<{ round: number }>(table, experiment).map(({ round }) => round));
  }

  /** Delete everything of this experiment in these tables. */
  protected drop(experiment: string, ...tables: TableName[]): void {
    for (const table of tables) this.tables.delete(table, experiment);
  }

  /** Whether the experiment is taken part in: of one that was forgotten meanwhile nothing comes back. */
  protected takesPart(experiment: string): boolean {
    const status = this.row("experiment", experiment)?.["status"];
    return status === "joined" || status === "paused";
  }
}

function keyOf(table: TableName, row: Row): (string | number)[] {
  return KEYS[table].map((column) => {
    const cell = row[column];
    return cell instanceof Uint8Array ? hex(cell) : (cell as string | number);
  });
}

/** What is counted, by name; the last four are of canaries and their shards. */
export const CHECKS = ["steps", "refetched", "unanswered", "seen", "missing", "unchecked", "recounted"] as const;
export type Check = (typeof CHECKS)[number];

/** What a device keeps to check the server. */
export class TrustBook extends Book {
  /** So many more of one of `CHECKS`. */
  count(experiment: string, name: Check, more = 1): void {
    const before = this.row<{ count: number }>("checks", experiment, name)?.count ?? 0;
    this.put("checks", { experiment, name, count: before + more });
  }

  /** All counts. */
  checks(experiment: string): Record<Check, number> {
    const counts = CHECKS.map((name) => [name, this.row<{ count: number }>("checks", experiment, name)?.count ?? 0]);
    return Object.fromEntries(counts) as Record<Check, number>;
  }

  /** Why this device takes no part for now. */
  distrust(experiment: string): string | null {
    return this.row<{ sentence: string }>("distrust", experiment)?.sentence ?? null;
  }

  /** Take no part from now on. */
  putDistrust(experiment: string, sentence: string): void {
    this.put("distrust", { experiment, sentence });
  }

  /** The person has seen it, and goes on. */
  clearDistrust(experiment: string): void {
    this.drop(experiment, "distrust", "unseen");
  }

  /** Rounds in which no fresh look was answered, since one was. */
  unseen(experiment: string): Set<number> {
    return this.numbers("unseen", experiment);
  }

  /** A fresh look of this round was not answered, and none was before. */
  putUnseen(experiment: string, round: number): void {
    this.add("unseen", { experiment, round });
  }

  /** A fresh look was answered. */
  clearUnseen(experiment: string): void {
    this.drop(experiment, "unseen");
  }

  /** Drop all that is about this device's part; counts stay. */
  forget(experiment: string): void {
    this.drop(experiment, "unseen");
  }
}

/** What the person has agreed to for one experiment, beyond what its device agrees to by itself. */
export interface Accepted {
  readonly auc: number | null;
  readonly epsilon: number | null;
}

/** The person has put nothing aside. */
export const NOTHING: Accepted = Object.freeze({ auc: null, epsilon: null });

/** That these can be accepted. Throws a `BadInputError`. */
export function checkAccepted({ auc, epsilon }: Accepted): void {
  if (auc !== null && !(0.5 <= auc && auc <= 1)) {
    throw new BadInputError("an AUC to be accepted lies from 0.5 to 1");
  }
  if (epsilon !== null && !(0 < epsilon && epsilon < Infinity)) {
    throw new BadInputError("an ε to be accepted is above 0");
  }
}

/** A device's ledger. */
export class LedgerBook extends Book {
  /** How many rounds of each experiment were joined. */
  rounds(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { experiment } of this.rows<{ experiment: string }>("ledger")) {
      counts.set(experiment, (counts.get(experiment) ?? 0) + 1);
    }
    return counts;
  }

  /** Whether this round is counted already. */
  joined(experiment: string, round: number): boolean {
    return this.row("ledger", experiment, round) !== undefined;
  }

  /** Count a round; a second time it changes nothing. */
  putRound(experiment: string, round: number): void {
    this.add("ledger", { experiment, round });
  }

  /** What the person has agreed to for this experiment. */
  accepted(experiment: string): Accepted {
    const row = this.row<{ auc: number | null; epsilon: number | null }>("accepted", experiment);
    return row === undefined ? NOTHING : { auc: row.auc, epsilon: row.epsilon };
  }

  /** The person agrees to so much. */
  putAccepted(experiment: string, accepted: Accepted): void {
    checkAccepted(accepted);
    this.put("accepted", { experiment, auc: accepted.auc, epsilon: accepted.epsilon });
  }
}
