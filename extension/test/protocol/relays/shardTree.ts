/** Shards of a round that is made up, with proofs to both roots, as a coordinator publishes them. */

import { compare, type Bytes } from "../../../src/bytes.ts";
import { sha256 } from "../../../src/crypto/hashes.ts";
import { Frontier, inclusionProof, leafHash, root } from "../../../src/crypto/merkle.ts";
import { runRoot } from "../../../src/protocol/relays/batches.ts";
import { SHARD, shardEntry, type ShardProof } from "../../../src/protocol/relays/shards.ts";
import { PREFIX_BYTES, ShardRun } from "../../../src/protocol/relays/shardRuns.ts";

/** So many digests, ascending. */
export function ascending(count: number): Bytes[] {
  return Array.from({ length: count }, (_, i) => sha256(new Uint8Array(new Uint32Array([i]).buffer))).sort(compare);
}

/** Digests in shards, all with one sub-tally. */
export class ShardTree {
  readonly digests: readonly Bytes[];
  readonly shards: readonly (readonly Bytes[])[];
  readonly #entries: readonly Bytes[];
  readonly #runs: readonly Bytes[];

  constructor(digests: readonly Bytes[], subTally: Bytes = new Uint8Array()) {
    this.digests = digests;
    const count = Math.ceil(digests.length / SHARD);
    this.shards = Array.from({ length: count }, (_, i) => digests.slice(i * SHARD, (i + 1) * SHARD));
    this.#entries = this.shards.map((shard) => leafHash(shardEntry(shard, subTally)));
    this.#runs = this.shards.map(runRoot);
  }

  /** What the opening names. */
  get root(): Bytes {
    return root(new Frontier().reader(this.#entries), this.shards.length);
  }

  /** What the mixing relay's count names. */
  get mixRoot(): Bytes {
    return root(new Frontier().reader(this.#runs), this.shards.length);
  }

  proof(shard: number): ShardProof {
    const [path, mixPath] = [this.#entries, this.#runs].map((leaves) =>
      inclusionProof(new Frontier().reader(leaves), shard, leaves.length),
    );
    return { label: new Uint8Array(32), shard, path: path!, mixPath: mixPath! };
  }

  run(shard: number): ShardRun {
    const { mixPath: path } = this.proof(shard);
    return new ShardRun({ shard, capsules: this.digests.length, path, digests: this.shards[shard]! });
  }

  /** The first bytes of each shard, as they are served. */
  get index(): Bytes {
    return Uint8Array.from(this.shards.flatMap(([first]) => [...first!.slice(0, PREFIX_BYTES)]));
  }
}
