/**
 * News of a round: all that a device needs to believe the next manifest, in one answer (docs/protocol.md §33).
 *
 *     news = manifest ‖ opening ‖ tally ‖ checkpoint ‖ lines       each after its length, 4 bytes LE; 0: there is none
 *     lines = index of the first line, 8 bytes LE ‖ the lines as in a tile of entries
 *
 * A device asks by the round that it expects next, T. The manifest is the experiment's newest. Where that is round T's,
 * the other parts are those that lead to it: the opening of round T - 1, its net tally, the newest checkpoint, and the
 * log's lines up to that checkpoint which stand after the manifest of round T - 1. Where the newest is still round
 * T - 1's and its opening is there already, they come without the tally. In all other cases they are missing, and the
 * device fetches what it needs by itself.
 *
 * One padded answer takes two thirds of the bytes of five, and a relay learns less from it. **Nothing in it is checked.**
 */

import { fromLittleEndian, type Bytes } from "../../bytes.ts";
import { MalformedMessageError } from "../../errors.ts";
import { readEntries } from "../log/tiles.ts";

const LENGTH_BYTES = 4;
const INDEX_BYTES = 8;
const PARTS = 5;

/** The parts of one answer; empty ones are missing. **Nothing in it is checked.** */
export interface News {
  readonly manifest: Bytes;
  readonly opening: Bytes;
  readonly tally: Bytes;
  readonly checkpoint: Bytes;
  readonly firstLine: number;
  readonly lines: readonly Uint8Array[];
}

/** The news of these bytes. Throws a `MalformedMessageError` and nothing else. */
export function readNews(data: Uint8Array): News {
  const parts: Bytes[] = [];
  let at = 0;
  for (let i = 0; i < PARTS; i++) {
    const begin = at + LENGTH_BYTES;
    at = begin + Number(fromLittleEndian(data.subarray(at, begin)));
    parts.push(Uint8Array.from(data.subarray(begin, at)));
  }
  if (at !== data.length) {
    throw new MalformedMessageError(`news of ${data.length} bytes whose five parts end at ${at}`);
  }
  const [manifest, opening, tally, checkpoint, lines] = parts as [Bytes, Bytes, Bytes, Bytes, Bytes];
  const firstLine = Number(fromLittleEndian(lines.subarray(0, INDEX_BYTES)));
  return { manifest, opening, tally, checkpoint, firstLine, lines: readEntries(lines.subarray(INDEX_BYTES)) };
}

/** The log's lines from this index up to this size, where all of them are here; else null. */
export function linesBetween({ firstLine, lines }: News, since: number, size: number): readonly Uint8Array[] | null {
  if (!(firstLine <= since && since <= size && size === firstLine + lines.length)) return null;
  return lines.slice(since - firstLine);
}

/** Where a device that expects this round asks. */
export function newsPath(experiment: string, round: number): string {
  return `/v1/experiment/${experiment}/news/${round}`;
}
