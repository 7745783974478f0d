/**
 * The tables of a device: in memory while its worker lives, in IndexedDB for ever.
 *
 * Reading and writing answer at once, as with Python's SQLite; `commit` puts everything that was written since the last
 * one on the disk, in one transaction. A worker may die after any await, and is then as it was at the last commit. So
 * whoever sends anything awaits `commit` first.
 *
 * What is large (what was read of the history, models) stays out of memory: `files`.
 */

import type { Bytes } from "../bytes.ts";
import { StoreError } from "../errors.ts";
import { say } from "../privacy/sentences.ts";

/** What a row may hold: what IndexedDB copies, and nothing that could change in a reader's hands. */
export type Cell = null | boolean | number | bigint | string | Bytes | readonly Cell[];
export type Row = { readonly [column: string]: Cell };
export type Key = readonly (string | number)[];

const ROWS = "rows";
const FILES = "files";
const VERSION = 1;

interface Change {
  readonly table: string;
  readonly key: Key;
  /** The row before; undefined: there was none. */
  readonly before: Row | undefined;
}

export class Tables {
  readonly #db: IDBDatabase;
  readonly #tables = new Map<string, Map<string, { key: Key; row: Row }>>();
  /** What changed since the last commit: table and key. */
  #unwritten = new Map<string, { table: string; key: Key }>();
  /** Ends with the commit that was asked for last; they happen one after the other. */
  #committing: Promise<void> = Promise.resolve();
  /** Why the last commit failed. */
  #fault: StoreError | null = null;
  /** What to undo where the running `writing` fails; null: none runs. */
  #journal: Change[] | null = null;

  private constructor(db: IDBDatabase) {
    this.#db = db;
  }

  /** The tables of this name; made where there are none. */
  static async open(factory: IDBFactory, name = "secvm"): Promise<Tables> {
    const request = factory.open(name, VERSION);
    request.onupgradeneeded = () => {
      request.result.createObjectStore(ROWS);
      request.result.createObjectStore(FILES);
    };
    const tables = new Tables(await done(request));
    const rows = tables.#db.transaction(ROWS).objectStore(ROWS);
    const [keys, values] = await Promise.all([done(rows.getAllKeys()), done(rows.getAll())]);
    keys.forEach((whole, i) => {
      const [table, ...key] = whole as [string, ...Key];
      tables.#table(table).set(nameOf(key), { key, row: values[i] as Row });
    });
    return tables;
  }

  close(): void {
    this.#db.close();
  }

  get(table: string, ...key: Key): Row | undefined {
    return this.#table(table).get(nameOf(key))?.row;
  }

  /** All rows whose key begins so, in the order of their keys. */
  all(table: string, ...prefix: Key): { key: Key; row: Row }[] {
    const found = [...this.#table(table).values()];
    return found
      .filter(({ key }) => prefix.every((part, i) => key[i] === part))
      .sort((a, b) => compareKeys(a.key, b.key));
  }

  put(table: string, key: Key, row: Row): void {
    this.#note(table, key);
    this.#table(table).set(nameOf(key), { key, row });
  }

  /** Delete all rows whose key begins so; returns how many. */
  delete(table: string, ...prefix: Key): number {
    const found = this.all(table, ...prefix);
    for (const { key } of found) {
      this.#note(table, key);
      this.#table(table).delete(nameOf(key));
    }
    return found.length;
  }

  /** Several changes that belong together: where `write` throws, none of them has happened. */
  writing<T>(write: () => T): T {
    if (this.#journal !== null) return write();
    const journal: Change[] = (this.#journal = []);
    try {
      return write();
    } catch (fault) {
      for (const { table, key, before } of journal.reverse()) {
        if (before === undefined) this.#table(table).delete(nameOf(key));
        else this.#table(table).set(nameOf(key), { key, row: before });
      }
      throw fault;
    } finally {
      this.#journal = null;
    }
  }

  /**
   * Everything that was written is on the disk when this ends.
   *
   * Throws a `StoreError` where it cannot be. Then nothing of it is, what is on the disk holds, and whatever is asked
   * of this object from then on ends with the same sentence: open the tables anew.
   */
  commit(): Promise<void> {
    this.#committing = this.#committing.then(() => this.#write());
    return this.#committing;
  }

  async #write(): Promise<void> {
    if (this.#unwritten.size === 0) return;
    const changed = this.#unwritten;
    this.#unwritten = new Map();
    try {
      const transaction = this.#writable(ROWS);
      const rows = transaction.objectStore(ROWS);
      for (const { table, key } of changed.values()) {
        const row = this.get(table, ...key);
        if (row === undefined) rows.delete([table, ...key]);
        else rows.put(row, [table, ...key]);
      }
      await written(transaction);
    } catch (fault) {
      throw (this.#fault = fault instanceof StoreError ? fault : storeError(fault as DOMException));
    }
  }

  // ── what is large ──────────────────────────────────────────────────────────────────────────────────────────────────

  async file(name: string): Promise<unknown> {
    return done(this.#db.transaction(FILES).objectStore(FILES).get(name));
  }

  /** Keep a file in place of what had its name; on the disk when this ends. */
  async putFile(name: string, content: unknown): Promise<void> {
    const transaction = this.#writable(FILES);
    transaction.objectStore(FILES).put(content, name);
    await written(transaction);
  }

  async deleteFile(name: string): Promise<void> {
    const transaction = this.#writable(FILES);
    transaction.objectStore(FILES).delete(name);
    await written(transaction);
  }

  async fileNames(): Promise<string[]> {
    return (await done(this.#db.transaction(FILES).objectStore(FILES).getAllKeys())) as string[];
  }

  #writable(store: string): IDBTransaction {
    return this.#db.transaction(store, "readwrite", { durability: "strict" });
  }

  #table(name: string): Map<string, { key: Key; row: Row }> {
    if (this.#fault !== null) throw this.#fault;
    let table = this.#tables.get(name);
    if (!table) this.#tables.set(name, (table = new Map()));
    return table;
  }

  #note(table: string, key: Key): void {
    this.#journal?.push({ table, key, before: this.get(table, ...key) });
    this.#unwritten.set(nameOf([table, ...key]), { table, key });
  }
}

function nameOf(key: Key): string {
  return JSON.stringify(key);
}

function compareKeys(a: Key, b: Key): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    if (a[i]! < b[i]!) return -1;
    if (a[i]! > b[i]!) return 1;
  }
  return a.length - b.length;
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(storeError(request.error));
  });
}

function written(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(storeError(transaction.error));
  });
}

function storeError(error: DOMException | null): StoreError {
  return error?.name === "QuotaExceededError"
    ? new StoreError(say("trouble.full"), { nextStep: "Free some space on the disk." })
    : new StoreError(say("trouble.storage", { name: error?.name ?? "unknown" }));
}
