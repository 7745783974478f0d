/**
 * A log's entries as static files (c2sp.org/tlog-tiles): tiles of 256, which never change again.
 *
 *     tile/entries/N       the entries 256 · N and on, each after its length in two bytes, big-endian
 *     … .p/W               a tile that is not full yet: its first W
 *
 * N is written in groups of three digits, all but the last with an x before them: 1234067 is x001/x234/067. Tiles are
 * not signed: what follows from them is held to a checkpoint, or it is worth nothing. Whoever keeps the edge of a tree
 * needs no tiles of hashes.
 */

import { LocalProtocolError, MalformedMessageError } from "../../errors.ts";

export const TILE_WIDTH = 256;

/** Where a tile of so many entries is served, below the log's own place. */
export function entriesPath(index: number, width: number = TILE_WIDTH): string {
  if (!Number.isSafeInteger(index) || index < 0 || width < 1 || width > TILE_WIDTH) {
    throw new LocalProtocolError("no log has such a tile");
  }
  const digits = `${index}`.padStart(Math.ceil(`${index}`.length / 3) * 3, "0");
  const number = digits.replace(/...(?=.)/g, "x$&/");
  return `tile/entries/${number}${width === TILE_WIDTH ? "" : `.p/${width}`}`;
}

/** The entries of a tile. */
export function readBundle(data: Uint8Array, options: { width?: number } = {}): Uint8Array[] {
  const { width = TILE_WIDTH } = options;
  const entries = readEntries(data);
  if (entries.length !== width) {
    throw new MalformedMessageError(`a tile of ${entries.length} entries that should have ${width}`);
  }
  return entries;
}

/** Entries side by side, each after its length. */
export function readEntries(data: Uint8Array): Uint8Array[] {
  const entries: Uint8Array[] = [];
  for (let at = 0; at < data.length; ) {
    const end = at + 2 + ((data[at]! << 8) | (data[at + 1] ?? 0));
    if (at + 2 > data.length || end > data.length) throw new MalformedMessageError("an entry of a tile is not whole");
    entries.push(data.slice(at + 2, end));
    at = end;
  }
  return entries;
}
