/**
 * What manifests name by digest: tallies, states, weights. Large, public, without signatures of their own.
 *
 * States and weights are written by `learning`, and are named by the digest of their bytes. A tally is named by the
 * digest of its **canonical** bytes, which nobody sends: the line `secvm-tally-v1`, one line of JSON (`bins` with the
 * bias, `labels`, `models`), then as 8 little-endian bytes an entry: plus and minus, models x bins each; train
 * participants per label; test cells, labels x labels. What is served and read are the same entries, less the known mean
 * of the relays' cover, packed (docs/protocol.md §13). Each is read strictly: bytes of another content have another name.
 *
 * Packed are whole numbers near zero. They are folded (0, -1, 1, -2, … become 0, 1, 2, 3, …), written as the lowest byte
 * of each, then the second byte of each, and so on, in as few such *planes* as the largest needs, and deflated
 * (RFC 1950). Whoever reads knows how many numbers there are, so what is inflated never takes more than `MAX_PLANES`
 * bytes for each.
 */

import { bytesOfWords, concat, equal, textOf, utf8, type Bytes } from "../../bytes.ts";
import { BadInputError, LocalProtocolError, MalformedMessageError } from "../../errors.ts";
import { State } from "../../learning/aggregate/descent/rule.ts";
import { knownMeans, start } from "../../learning/aggregate/index.ts";
import { Tally, type Counts } from "../../learning/aggregate/tally.ts";
import type { Experiment } from "../../learning/experiment.ts";
import { Ratio } from "../../learning/ratio.ts";
import { Weights } from "../../learning/weights.ts";
import { checkDigest, digestOf, isObject } from "../canonical.ts";
import { TALLY_MAGIC, WEIGHTS_MAGIC } from "../version.ts";

/** Numbers lie between -2^55 and 2^55 - 1: a count, which is below 2^53, less a known mean. */
export const MAX_PLANES = 7;
/** Counts stay exact in every language's numbers. */
export const MAX_COUNT = 2n ** 53n - 1n;
const WORD_BYTES = 8;
const MAX_LINE_BYTES = 4096;
const LINE_FEED = 10;
const PIECE_BYTES = 4096;

/** The numbers in these bytes, of which there must be `count`, at least one. */
export async function unpack(data: Bytes, count: number): Promise<Counts> {
  const refused = new MalformedMessageError(`these bytes are not ${count} packed numbers`);
  const inflated = await inflate(data, MAX_PLANES * count);
  const planes = (inflated?.length ?? 0) / count;
  if (inflated === null || !Number.isInteger(planes) || planes < 1) throw refused;
  if (planes > 1 && inflated.subarray(-count).every((byte) => byte === 0)) throw refused;
  const table = new Uint8Array(WORD_BYTES * count);
  inflated.forEach((byte, at) => {
    table[WORD_BYTES * (at % count) + Math.floor(at / count)] = byte;
  });
  return new BigInt64Array(table.buffer).map((folded) => (folded >> 1n) ^ -(folded & 1n));
}

/** What these bytes inflate to; null where they are not deflated, or it is more than `most` bytes. */
async function inflate(data: Bytes, most: number): Promise<Bytes | null> {
  const reader = inPieces(data).pipeThrough(new DecompressionStream("deflate")).getReader();
  const pieces: Uint8Array[] = [];
  try {
    for (let size = 0; ; ) {
      const { done, value } = await reader.read();
      if (done) return concat(...pieces);
      pieces.push(value);
      size += value.length;
      // The rest of a bomb is left alone.
      if (size > most) break;
    }
    await reader.cancel();
  } catch {
    // Browsers name what is wrong with the bytes each in their own way.
  }
  return null;
}

/** These bytes in small pieces: some browsers inflate a piece whole before anybody reads of it. */
function inPieces(data: Bytes): ReadableStream<Bytes> {
  let at = 0;
  return new ReadableStream({
    pull(stream) {
      if (at < data.length) stream.enqueue(data.slice(at, (at += PIECE_BYTES)));
      else stream.close();
    },
  });
}

/** The name of a tally: what documents sign. */
export function tallyDigest(tally: Tally): string {
  return digestOf(canonical(tally));
}

/** A tally of this experiment, whatever its name. */
export async function readTallyBytes(data: Bytes, experiment: Experiment): Promise<Tally> {
  const means = knownMeans(experiment);
  const known = entriesOf(means);
  const unpacked = await unpack(data, known.length);
  const entries = known.map((mean, i) => mean + unpacked[i]!);
  if (!entries.every(isCount)) throw new MalformedMessageError("a count of the tally is out of range");
  let at = 0;
  const next = (like: Counts): Counts => entries.slice(at, (at += like.length));
  return new Tally({
    plus: means.plus.map(next),
    minus: means.minus.map(next),
    participants: next(means.participants),
    cells: means.cells.map(next),
  });
}

interface Named {
  readonly digest: string;
  readonly experiment: Experiment;
}

/** The tally of this digest, if it is one of this experiment. */
export async function decodeTally(data: Bytes, { digest, experiment }: Named): Promise<Tally> {
  const tally = await readTallyBytes(data, experiment);
  checkDigest(canonical(tally), digest);
  return tally;
}

function canonical(tally: Tally): Bytes {
  const shape = { bins: tally.plus[0]!.length, labels: tally.participants.length, models: tally.plus.length };
  return concat(TALLY_MAGIC, utf8(`${JSON.stringify(shape)}\n`), bytesOfWords(entriesOf(tally)));
}

/** All counts in the order in which they are written. */
function entriesOf({ plus, minus, participants, cells }: Tally): Counts {
  const parts = [...plus, ...minus, participants, ...cells];
  const entries = new BigInt64Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    entries.set(part, at);
    at += part.length;
  }
  if (!entries.every(isCount)) throw new LocalProtocolError("a count is below zero, or too large to publish");
  return entries;
}

function isCount(count: bigint): boolean {
  return 0n <= count && count <= MAX_COUNT;
}

/** The state of this digest, if it is one of this experiment. */
export function decodeState(data: Bytes, { digest, experiment }: Named): State {
  checkDigest(data, digest);
  let state: State;
  try {
    state = State.fromBytes(data);
  } catch (fault) {
    if (!(fault instanceof BadInputError)) throw fault;
    throw new MalformedMessageError(fault.message);
  }
  const first = start(experiment);
  if (state.rule !== first.rule || kindsOf(state) !== kindsOf(first)) {
    throw new MalformedMessageError("the state belongs to another experiment");
  }
  return state;
}

/** Names, kinds and shapes of a state's vectors. */
function kindsOf({ vectors }: State): string {
  const names = Object.keys(vectors).sort();
  return JSON.stringify(
    names.map((name) => vectors[name]!.map((row) => [name, row instanceof BigInt64Array, row.length])),
  );
}

/** The weights of this digest, if they are of this experiment. */
export function decodeWeights(data: Bytes, { digest, experiment }: Named): Weights {
  checkDigest(data, digest);
  const weights = readWeights(data, experiment.models.nModels, experiment.nBins + 1);
  if (weights === null || !equal(weights.toBytes(), data) || weights.normalised !== experiment.rule.normalised) {
    throw new MalformedMessageError("these bytes are no weights of this experiment");
  }
  return weights;
}

/** The weights of these bytes, or null; whether they are canonical is not looked at. */
function readWeights(data: Bytes, models: number, bins: number): Weights | null {
  const end = data.indexOf(LINE_FEED, WEIGHTS_MAGIC.length);
  const body = data.slice(end + 1).buffer;
  if (end < 0 || end - WEIGHTS_MAGIC.length > MAX_LINE_BYTES || body.byteLength !== 4 * models * bins) return null;
  let header: unknown;
  try {
    header = JSON.parse(textOf(data.subarray(WEIGHTS_MAGIC.length, end)));
  } catch {
    return null;
  }
  if (!isObject(header)) return null;
  const { unit, normalised, first } = header;
  const parts = typeof unit === "string" ? /^([1-9][0-9]*)\/([1-9][0-9]*)$/.exec(unit) : null;
  if (parts === null) return null;
  const mantissas = Array.from({ length: models }, (_, i) => new Int32Array(body, 4 * bins * i, bins));
  return new Weights({
    mantissas,
    unit: new Ratio(BigInt(parts[1]!), BigInt(parts[2]!)),
    normalised: normalised === true,
    first: first === true,
  });
}
