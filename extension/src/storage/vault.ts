/**
 * The vault: one person's features and labels in the browser's storage, as Python's `participant/storage/vault.py` has
 * them.
 *
 *  1. A source's features are one file and are replaced as a whole: a reader sees the old ones or the new ones.
 *  2. Errors say one sentence without a feature or a label in it.
 *  3. Nothing that the person has excluded comes out, whatever a file still holds.
 *
 * It is not encrypted: whoever can read the browser's profile can read it, as they can read the browser's own history.
 */

import { utf8 } from "../bytes.ts";
import { BadInputError } from "../errors.ts";
import { MAX_UNITS } from "../learning/rows.ts";
import { firstUnprintable } from "../protocol/canonical.ts";
import type { Tables } from "./tables.ts";

/** A name or a label longer than this is no answer to a question. */
const MAX_TEXT_BYTES = 1000;
/** A feature's value is a number of so many bytes. */
const VALUE_BYTES = 8;
const FILES = "vault/";
const HOST = "host:";
const LABELS = "labels";
const EXCLUDED = "excluded";

/** How the features of a source came into the vault. */
export interface Reading {
  /** What read them. */
  readonly reader: string;
  /** Milliseconds since 1970. */
  readonly readAt: number;
  /** How far back it read; null: everything there was. */
  readonly days: number | null;
}

type Features = ReadonlyMap<string, number>;

interface SourceFile {
  readonly features: Features;
  readonly reading: Reading | null;
}

/** One person's features, by source, and labels, by question. */
export class Vault {
  readonly #tables: Tables;

  constructor(tables: Tables) {
    this.#tables = tables;
  }

  // ── features ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Replace all that this source gave before; features of value 0 are absent.
   *
   * `reading` says how they were read. Throws a `BadInputError` where a name or a value cannot be used; then the vault
   * is as it was.
   */
  async put(source: string, features: Features, reading: Reading | null = null): Promise<void> {
    checkText(source, "the name of a source");
    const kept = new Map([...features].filter(([, value]) => checked(value)));
    let units = unitsOf(kept);
    for (const [name, file] of await this.#files()) if (name !== source) units += unitsOf(file.features);
    if (units >= MAX_UNITS) {
      throw new BadInputError(`a person has ${MAX_UNITS} units or more, too many to count exactly`);
    }
    await this.#write(source, { features: kept, reading });
  }

  /** The features of one source, or of all: what two sources both have is added. */
  async features(source: string | null = null): Promise<Map<string, number>> {
    const sums = new Map<string, number>();
    for (const [name, { features }] of await this.#files()) {
      if (source !== null && source !== name) continue;
      for (const [feature, value] of features) sums.set(feature, (sums.get(feature) ?? 0) + value);
    }
    return new Map([...sums].filter(([, value]) => value !== 0));
  }

  /** How many features each source gave, and nothing else. */
  async summary(): Promise<Map<string, number>> {
    return (await this.look()).sources;
  }

  /** How each source was read. */
  async readings(): Promise<Map<string, Reading>> {
    return (await this.look()).readings;
  }

  /** How many features each source gave, how it was read, and about how many bytes all of them take. */
  async look(): Promise<{ sources: Map<string, number>; readings: Map<string, Reading>; bytes: number }> {
    const [sources, readings] = [new Map<string, number>(), new Map<string, Reading>()];
    let bytes = 0;
    for (const [name, { features, reading }] of await this.#files()) {
      if (features.size) sources.set(name, features.size);
      if (reading !== null) readings.set(name, reading);
      for (const feature of features.keys()) bytes += utf8(feature).length + VALUE_BYTES;
    }
    return { sources, readings, bytes };
  }

  // ── what shall never be in it ──────────────────────────────────────────────────────────────────────────────────────

  /** Words and hosts of which the person wants nothing to be read. */
  excluded(): Set<string> {
    return new Set(this.#tables.all(EXCLUDED).map(({ key }) => key[0] as string));
  }

  /** Read nothing of these words and hosts from now on, and forget what is there of them; say how many went. */
  async exclude(names: readonly string[]): Promise<number> {
    const before = await this.#files();
    for (const name of names) this.#tables.put(EXCLUDED, [name], { name });
    await this.#tables.commit();
    let gone = 0;
    for (const [source, file] of before) {
      const features = withoutNames(file.features, new Set(names));
      if (features.size < file.features.size) await this.#write(source, { ...file, features });
      gone += file.features.size - features.size;
    }
    return gone;
  }

  /** Let these be read again, when they are next imported. */
  async include(names: readonly string[]): Promise<void> {
    for (const name of names) this.#tables.delete(EXCLUDED, name);
    await this.#tables.commit();
  }

  // ── labels ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Keep the person's own answer: `name` is a question's name or an experiment's digest. */
  async setLabel(name: string, value: string): Promise<void> {
    checkText(name, "the name of a label");
    checkText(value, "a label");
    this.#tables.put(LABELS, [name], { name, value });
    await this.#tables.commit();
  }

  /** The person's answer, or null if they gave none. */
  label(name: string): string | null {
    return (this.#tables.get(LABELS, name)?.["value"] as string | undefined) ?? null;
  }

  /** Names of the questions that the person has answered, and not what. */
  answered(): string[] {
    return this.#tables.all(LABELS).map(({ key }) => key[0] as string);
  }

  // ── forgetting ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Forget what one source gave, or with null everything: labels, and what was excluded, included. */
  async forget(source: string | null = null): Promise<void> {
    for (const name of (await this.#files()).keys()) {
      if (source === null || source === name) await this.#tables.deleteFile(FILES + name);
    }
    if (source !== null) return;
    this.#tables.delete(LABELS);
    this.#tables.delete(EXCLUDED);
    await this.#tables.commit();
  }

  /** Forget the person's answer to one question. */
  async forgetLabel(name: string): Promise<void> {
    this.#tables.delete(LABELS, name);
    await this.#tables.commit();
  }

  /** What each source gave, in the order of their names, less what is excluded. */
  async #files(): Promise<Map<string, SourceFile>> {
    const [names, excluded] = [await this.#tables.fileNames(), this.excluded()];
    const found = new Map<string, SourceFile>();
    for (const name of names.filter((one) => one.startsWith(FILES)).sort()) {
      const file = (await this.#tables.file(name)) as SourceFile;
      found.set(name.slice(FILES.length), { ...file, features: withoutNames(file.features, excluded) });
    }
    return found;
  }

  async #write(source: string, file: SourceFile): Promise<void> {
    await this.#tables.putFile(FILES + source, file);
  }
}

/** The features but these words, and these hosts with all hosts below them, whatever their port. */
function withoutNames(features: Features, names: ReadonlySet<string>): Features {
  if (names.size === 0) return features;
  return new Map([...features].filter(([feature]) => ![...names].some((name) => isOf(feature, name))));
}

function isOf(feature: string, name: string): boolean {
  if (feature === name) return true;
  if (!feature.startsWith(HOST)) return false;
  const host = feature.slice(HOST.length);
  const exact = host === name || host.startsWith(`${name}:`);
  return exact || host.endsWith(`.${name}`) || host.includes(`.${name}:`);
}

function unitsOf(features: Features): number {
  let units = 0;
  for (const value of features.values()) units += Math.abs(value);
  return units;
}

function checkText(text: string, what: string): void {
  const size = text.isWellFormed() ? utf8(text).length : 0;
  if (size === 0 || size > MAX_TEXT_BYTES || firstUnprintable(text) !== null) {
    throw new BadInputError(`${what} must be printable text of 1 to ${MAX_TEXT_BYTES} bytes`);
  }
}

/** Whether the feature is there; a bad one is an error that does not name it. */
function checked(value: number): boolean {
  if (!Number.isInteger(value)) throw new BadInputError("a feature's value is not an integer");
  if (Math.abs(value) > MAX_UNITS) throw new BadInputError(`a feature's value lies beyond ${MAX_UNITS}`);
  return value !== 0;
}
