/**
 * Recount: a published shard is the mixing relay's, and its sub-tally is what its capsules give (docs/protocol.md §31).
 *
 * Three public files of a shard belong together: the run of its digests (`shardRuns.ts`), its capsules, and
 *
 *     sub-tally of a shard    1 byte: number of hashes ‖ the path of the shard's entry to the opening's root of the shards
 *                             ‖ the sub-tally
 *
 * `Recount.check` takes all three, in this order:
 *
 *  1. the run is the shard of its number under the mixing relay's root;
 *  2. the capsules are those of its digests, one for each;
 *  3. the sub-tally is under the root of the shards, with this run;
 *  4. the capsules, opened with the published seed, give that sub-tally.
 *
 * What fails at 1 to 3 are files that nobody signed: it accuses nobody. What fails at 4 the coordinator has signed
 * (`WrongCountError`), and these bytes show it to anybody. Which cells capsules count for is the rule of `counting.ts`.
 * It is total, so no capsule of anybody's makes a shard that cannot be counted.
 */

import { equal, type Bytes } from "../../bytes.ts";
import { checkInclusion, HASH_BYTES, leafHash, MAX_PROOF_HASHES } from "../../crypto/merkle.ts";
import { INNER_BYTES } from "../../crypto/sealing/layers.ts";
import { BadProofError, LocalProtocolError, MalformedMessageError } from "../../errors.ts";
import type { ExperimentDocument } from "../documents/experiment.ts";
import { capsuleDigest, cut } from "./batches.ts";
import { CapsuleReader, JUNK, NULL, subTallyOf } from "./counting.ts";
import { MIX_COUNT } from "./counts.ts";
import type { RelayedManifest } from "./manifest.ts";
import type { Opening } from "./opening.ts";
import type { ShardRun } from "./shardRuns.ts";
import { LINE_BYTES, readBelow, SHARD, shardCount, shardEntry, shardSize, writeBelow } from "./shards.ts";
import { enclosed } from "./statements.ts";

/** Capsules of a full shard. */
export const MAX_CAPSULES_BYTES = SHARD * INNER_BYTES;
/** A line for each capsule of a full shard; what is longer counts what is not there. */
export const MAX_SUB_TALLY_BYTES = LINE_BYTES * SHARD;
/** A count of hashes, a path, and the longest sub-tally. */
export const MAX_SHARD_TALLY_BYTES = 1 + MAX_PROOF_HASHES * HASH_BYTES + MAX_SUB_TALLY_BYTES;

/** A shard's sub-tally, which the opening is bound to, is not what its capsules give. */
export class WrongCountError extends BadProofError {}

/** What a shard is said to count, and the way from there to the root of the shards. **Checked by** `Recount`. */
export interface ShardTally {
  readonly path: readonly Bytes[];
  readonly subTally: Bytes;
}

/** As it is served. */
export function writeShardTally({ path, subTally }: ShardTally): Bytes {
  return writeBelow(path, subTally);
}

/** A path and any bytes after it, which only a recount can judge. Throws a `MalformedMessageError`. */
export function readShardTally(data: Uint8Array): ShardTally {
  const [path, subTally] = readBelow(data);
  if (subTally.length > MAX_SUB_TALLY_BYTES) {
    throw new MalformedMessageError(`${data.length} bytes are no path and sub-tally of a shard`);
  }
  return { path, subTally };
}

/** What capsules came to. */
export interface Counted {
  readonly capsules: number;
  readonly junk: number;
  /** Packages in no cell. */
  readonly nulls: number;
  readonly subTally: Bytes;
}

interface Roots {
  /** The mixing relay's number of capsules and their root. */
  readonly capsules: number;
  readonly mixRoot: Uint8Array;
  /** The opening's root of the shards. */
  readonly shards: Uint8Array;
}

/** Counts the published shards of one opened round again. Does not show its key when printed. */
export class Recount {
  readonly capsules: number;
  readonly #reader: CapsuleReader;
  readonly #roots: Roots;

  constructor(reader: CapsuleReader, roots: Roots) {
    this.#reader = reader;
    this.#roots = roots;
    this.capsules = roots.capsules;
  }

  /** Of a round that was opened; `openingFaults` has compared the opening with the manifest. */
  static async of(document: ExperimentDocument, manifest: RelayedManifest, opening: Opening): Promise<Recount> {
    const { mixCount, countSeed, shards } = opening;
    if (mixCount === null || countSeed === null || shards === null) {
      throw new LocalProtocolError(`round ${manifest.roundNumber} is unopened: there is nothing to count again`);
    }
    const { capsules, root } = enclosed(MIX_COUNT, mixCount);
    return new Recount(await CapsuleReader.of(document, manifest, countSeed), { capsules, mixRoot: root, shards });
  }

  /** How many there are. */
  get shards(): number {
    return shardCount(this.capsules);
  }

  /** Open capsules that lie side by side, and count them; nothing is checked. */
  async count(capsules: Bytes): Promise<Counted> {
    const cells = await this.#reader.cells(capsules);
    const [junk, nulls] = [JUNK, NULL].map((kind) => cells.filter((cell) => cell === kind).length);
    return { capsules: cells.length, junk: junk!, nulls: nulls!, subTally: subTallyOf(cells) };
  }

  /**
   * What the shard came to.
   *
   * Throws a `WrongCountError` where its sub-tally is another one, and the opening is bound to that, and another
   * `BadProofError` where the files are not this round's, or do not belong together.
   */
  async check(run: ShardRun, capsules: Bytes, tally: ShardTally): Promise<Counted> {
    this.checkRun(run); // (1)
    checkCapsules(run, capsules); // (2)
    this.checkTally(run, tally); // (3)
    const counted = await this.count(capsules); // (4)
    if (!equal(counted.subTally, tally.subTally)) {
      throw new WrongCountError(`the sub-tally of shard ${run.shard} is not what its capsules give`);
    }
    return counted;
  }

  /** Step 1. Throws a `BadProofError`. */
  checkRun(run: ShardRun): void {
    if (run.capsules !== this.capsules || run.digests.length !== shardSize(run.shard, this.capsules)) {
      throw new BadProofError(`shard ${run.shard} is not one of a round with ${this.capsules} capsules`);
    }
    run.check(this.#roots.mixRoot);
  }

  /** Step 3. Throws a `BadProofError`. */
  checkTally(run: ShardRun, { path, subTally }: ShardTally): void {
    const place = { index: run.shard, size: this.shards, proof: path, root: this.#roots.shards };
    checkInclusion(leafHash(shardEntry(run.digests, subTally)), place);
  }
}

/** Step 2. Throws a `BadProofError`. */
export function checkCapsules(run: ShardRun, capsules: Bytes): void {
  const digests = cut(capsules, INNER_BYTES).map(capsuleDigest);
  const isSame = digests.length === run.digests.length && digests.every((one, i) => equal(one, run.digests[i]!));
  if (capsules.length !== INNER_BYTES * run.digests.length || !isSame) {
    throw new BadProofError(`the capsules of shard ${run.shard} are not those of its digests`);
  }
}
