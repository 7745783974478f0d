/**
 * Lines of the log, fetched in tiles of entries (c2sp.org/tlog-tiles), for whoever has read the log so far.
 *
 * A tile has 256 lines, the last one of a log fewer; a device fetches those with lines that it has not seen. Each fetch
 * is sealed like any other, and the same for everybody who asks at the same size. Nothing here is believed: lines are
 * held to a signed root by `protocol/trust/trustedLog.ts`.
 */

import { StaleRoundError } from "../errors.ts";
import { MAX_LINE_BYTES } from "../protocol/log/entries.ts";
import { entriesPath, readBundle, TILE_WIDTH } from "../protocol/log/tiles.ts";
import { LOG_ORIGIN } from "../protocol/version.ts";
import type { Now, Surroundings } from "./surroundings.ts";

const MOST_TILE_BYTES = TILE_WIDTH * (2 + MAX_LINE_BYTES);
/** So often an asking begins again when the log has grown meanwhile. */
const ATTEMPTS = 3;

/** What was fetched is of two moments: the log has grown in between. */
export class LogGrewError extends Error {}

/**
 * What `ask` brings; begun again, a few times, where the log has grown meanwhile.
 *
 * Then it throws a `StaleRoundError`: a log does not grow that often, so something that was fetched is not what it
 * should be.
 */
export async function askWhileLogGrows<News>(ask: (now: Now) => Promise<News>, now: Now): Promise<News> {
  let grew = "";
  for (let i = 0; i < ATTEMPTS; i++) {
    try {
      return await ask(now);
    } catch (fault) {
      if (!(fault instanceof LogGrewError)) throw fault;
      grew = fault.message;
    }
  }
  throw new StaleRoundError(grew);
}

/** Fetches lines, and keeps full tiles until they are forgotten: those never change. */
export class LogLines {
  readonly #around: Surroundings;
  #full = new Map<number, Uint8Array[]>();

  constructor(around: Surroundings) {
    this.#around = around;
  }

  /**
   * The lines from index `since` up to `size`; null where a tile could not be had.
   *
   * Throws a `MalformedMessageError` where what was served is no tile, and an `OverLimitError` where they are more than
   * the person's limit of traffic for a day.
   */
  async fetch(since: number, size: number, now: Now): Promise<Uint8Array[] | null> {
    if (since >= size) return [];
    const first = Math.floor(since / TILE_WIDTH);
    const numbers = Array.from({ length: Math.ceil(size / TILE_WIDTH) - first }, (_, i) => first + i);
    const tiles = new Map(this.#full);
    const fetch = (number: number) => this.#tile(number, size, now);
    if (!(await this.#around.fetchMissing(tiles, numbers, fetch, { most: MOST_TILE_BYTES, now }))) return null;
    return numbers.flatMap((number) => tiles.get(number)!).slice(since - first * TILE_WIDTH);
  }

  /** What was fetched did not fit, or is not needed any more. */
  forget(): void {
    this.#full = new Map();
  }

  async #tile(number: number, size: number, now: Now): Promise<Uint8Array[] | null> {
    const width = Math.min(TILE_WIDTH, size - number * TILE_WIDTH);
    const path = `/${LOG_ORIGIN}/${entriesPath(number, width)}`;
    const served = await this.#around.content(path, now, { most: MOST_TILE_BYTES });
    if (served === null) return null;
    const lines = readBundle(served, { width });
    if (width === TILE_WIDTH) this.#full.set(number, lines);
    return lines;
  }
}
