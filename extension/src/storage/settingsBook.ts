/**
 * What a device is told by invites, in place of Python's settings file: by which relays it fetches, whom it lets its
 * packages go through, and whether it is for tests. It stays until the device is wiped. Beside it: the experiments that
 * were found when the person last asked for them.
 */

import type { Bytes } from "../bytes.ts";
import { VerifyKey } from "../crypto/signing.ts";
import { Book } from "./books.ts";

/** A relay that packages may take: its operator as whoever invited the person named them. */
export interface KnownRelay {
  readonly url: string;
  readonly key: VerifyKey;
  readonly operator: string;
}

/** A device as it was set up by its first invite. */
export interface SetUp {
  /** The relays through which public files are fetched. */
  readonly urls: readonly string[];
  /** Its data are made up: it joins tests, and nothing else. */
  readonly onlyTests: boolean;
}

const [ONE, ASKED] = ["device", "asked"];

/** Who is asked by way of whom. */
export class SettingsBook extends Book {
  /** Null: nobody has invited this device yet. */
  setUp(): SetUp | null {
    const row = this.row<{ name: string; urls: readonly string[]; only_tests: boolean }>("settings", ONE);
    return row === undefined ? null : { urls: row.urls, onlyTests: row.only_tests };
  }

  putSetUp({ urls, onlyTests }: SetUp): void {
    this.put("settings", { name: ONE, urls: [...urls], only_tests: onlyTests });
  }

  /** The only relays that packages take. */
  relays(): KnownRelay[] {
    const rows = this.rows<{ url: string; key: Bytes; operator: string }>("relay");
    return rows.map(({ url, key, operator }) => ({ url, key: new VerifyKey(key), operator }));
  }

  /** Let packages take this relay too. One that is known stays as it is: its key was not given by this invite. */
  addRelay({ url, key, operator }: KnownRelay): void {
    this.add("relay", { url, key: key.data, operator });
  }

  /** Remember that the device's person was invited to this experiment. */
  putInvitation(digest: string, envelope: Bytes): void {
    this.put("invited", { digest, envelope });
  }

  /** Envelopes of all experiments that the device's person was invited to, by digest. */
  invitations(): Map<string, Bytes> {
    const rows = this.rows<{ digest: string; envelope: Bytes }>("invited");
    return new Map(rows.map(({ digest, envelope }) => [digest, envelope]));
  }

  /** When the person last asked for experiments; null: never. */
  askedAt(): number | null {
    return this.row<{ name: string; at: number }>("settings", ASKED)?.at ?? null;
  }

  /** Envelopes of the experiments that were found then, by digest. */
  found(): Map<string, Bytes> {
    const rows = this.rows<{ digest: string; envelope: Bytes }>("found");
    return new Map(rows.map(({ digest, envelope }) => [digest, envelope]));
  }

  /** Keep what was found, in place of what was before. */
  putFound(found: Iterable<readonly [digest: string, envelope: Bytes]>, at: number): void {
    this.tables.delete("found");
    for (const [digest, envelope] of found) this.put("found", { digest, envelope });
    this.put("settings", { name: ASKED, at });
  }
}
