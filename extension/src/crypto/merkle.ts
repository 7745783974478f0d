/**
 * Merkle trees as RFC 6962 and RFC 9162 define them, over SHA-256: what a log's root commits to, and proofs of it.
 *
 * Every tree consists of **complete** subtrees, of 2^level leaves each, that never change again; a `NodeReader` is
 * whoever has their hashes. `checkInclusion` and `checkConsistency` follow RFC 9162, 2.1.3.2 and 2.1.4.2, step by step;
 * whatever they are handed, they return nothing or throw a `BadProofError`. Sizes beyond 2^53 - 1, which Python knows,
 * are refused here: no log has them.
 */

import { equal, type Bytes } from "../bytes.ts";
import { BadProofError, LocalProtocolError } from "../errors.ts";
import { sha256 } from "./hashes.ts";

export const HASH_BYTES = 32;
export const MAX_SIZE = Number.MAX_SAFE_INTEGER;
/** No proof is longer. */
export const MAX_PROOF_HASHES = 64;
export const EMPTY_ROOT = sha256();

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

/** (level, index) → hash of the complete subtree over leaves index · 2^level up to (index + 1) · 2^level. */
export type NodeReader = (level: number, index: number) => Bytes;

/** The hash of an entry of the log. */
export function leafHash(entry: Uint8Array): Bytes {
  return sha256(LEAF, entry);
}

/** The hash of two subtrees side by side. */
export function nodeHash(left: Uint8Array, right: Uint8Array): Bytes {
  return sha256(NODE, left, right);
}

// ── roots and proofs, from the hashes of complete subtrees ───────────────────────────────────────────────────────────

/** The root over the first `size` leaves. */
export function root(read: NodeReader, size: number): Bytes {
  checkSize(size);
  return size ? subtree(read, 0, size) : EMPTY_ROOT;
}

/** That a leaf is under the root of this size: its neighbours' hashes from the leaf upwards. */
export function inclusionProof(read: NodeReader, index: number, size: number): Bytes[] {
  checkSize(size);
  if (!(0 <= index && index < size)) throw new LocalProtocolError(`a tree of ${size} leaves has no leaf ${index}`);
  const path = [];
  let [start, end] = [0, size];
  while (end - start > 1) {
    const middle = start + split(end - start);
    if (index < middle) {
      path.push(subtree(read, middle, end));
      end = middle;
    } else {
      path.push(subtree(read, start, middle));
      start = middle;
    }
  }
  return path.reverse();
}

/** The largest power of two below a count of at least two. */
function split(count: number): number {
  return 2 ** (bitLength(count - 1) - 1);
}

function bitLength(count: number): number {
  return count.toString(2).length;
}

/** The hash over leaves start up to end, where start is a multiple of the power of two not below their number. */
function subtree(read: NodeReader, start: number, end: number): Bytes {
  const hashes = [];
  for (let at = start; end > at; ) {
    const level = bitLength(end - at) - 1;
    hashes.push(read(level, at / 2 ** level));
    at += 2 ** level;
  }
  return hashes.reduceRight((right, left) => nodeHash(left, right));
}

function checkSize(size: number): void {
  if (!isSize(size)) throw new LocalProtocolError(`a tree has 0 to ${MAX_SIZE} leaves, not ${size}`);
}

function isSize(size: number): boolean {
  return Number.isSafeInteger(size) && size >= 0;
}

// ── verification ─────────────────────────────────────────────────────────────────────────────────────────────────────

interface Inclusion {
  readonly index: number;
  readonly size: number;
  readonly proof: readonly Uint8Array[];
  readonly root: Uint8Array;
}

/** Whether the leaf of this hash is the one with this index, in the tree of this size and root. */
export function checkInclusion(leaf: Uint8Array, { index, size, proof, root }: Inclusion): void {
  checkHashes(leaf, root, ...proof);
  // RFC 9162, 2.1.3.2: step 1
  if (!isSize(index) || !isSize(size) || index >= size) {
    throw new BadProofError(`a log of ${size} entries has no leaf ${index}`);
  }
  // steps 2 and 3
  const place = new Place(index, size - 1);
  let node = leaf;
  // step 4
  for (const neighbour of proof) node = place.isRight() ? nodeHash(neighbour, node) : nodeHash(node, neighbour);
  // step 5
  if (!place.isAtRoot() || !equal(node, root)) throw new BadProofError("the proof does not lead to the root");
}

interface Consistency {
  readonly first: number;
  readonly second: number;
  readonly firstRoot: Uint8Array;
  readonly secondRoot: Uint8Array;
  readonly proof: readonly Uint8Array[];
}

/** Whether the tree of size and root `second` begins with that of size and root `first`. */
export function checkConsistency({ first, second, firstRoot, secondRoot, proof }: Consistency): void {
  checkHashes(firstRoot, secondRoot, ...proof);
  if (!isSize(first) || !isSize(second) || first > second) {
    throw new BadProofError(`a log does not shrink: from ${first} to ${second} entries`);
  }
  if (first === 0 || first === second) {
    const expected = first === 0 ? EMPTY_ROOT : secondRoot;
    if (proof.length || !equal(firstRoot, expected) || (second === 0 && !equal(secondRoot, EMPTY_ROOT))) {
      throw new BadProofError("the log is not the one that it was");
    }
    return;
  }
  // RFC 9162, 2.1.4.2: steps 1 and 2
  if (!proof.length) throw new BadProofError("the proof is empty");
  const path = levels(first).length === 1 ? [firstRoot, ...proof] : proof;
  // steps 3 to 5
  const place = new Place(first - 1, second - 1);
  place.skipRight();
  let old = path[0]!;
  let recent = old;
  // step 6
  for (const neighbour of path.slice(1)) {
    if (place.isRight()) {
      old = nodeHash(neighbour, old);
      recent = nodeHash(neighbour, recent);
    } else {
      recent = nodeHash(recent, neighbour);
    }
  }
  // step 7
  if (!place.isAtRoot() || !equal(old, firstRoot) || !equal(recent, secondRoot)) {
    throw new BadProofError("the log is not the one that it was");
  }
}

/** A node on the way up to the root, and the last one of its level: `fn` and `sn` of the RFC. */
class Place {
  #fn: bigint;
  #sn: bigint;

  constructor(fn: number, sn: number) {
    this.#fn = BigInt(fn);
    this.#sn = BigInt(sn);
  }

  #up(): void {
    this.#fn >>= 1n;
    this.#sn >>= 1n;
  }

  /** Up as long as the node is the right one of two. */
  skipRight(): void {
    while (this.#fn & 1n) this.#up();
  }

  isAtRoot(): boolean {
    return this.#sn === 0n;
  }

  /** Whether the next hash of a proof stands to the left of the node; then one level up, or more. */
  isRight(): boolean {
    if (this.isAtRoot()) throw new BadProofError("the proof is longer than the tree is high");
    const isRight = (this.#fn & 1n) === 1n || this.#fn === this.#sn;
    if (isRight) while (!(this.#fn & 1n) && this.#fn) this.#up();
    this.#up();
    return isRight;
  }
}

function checkHashes(...hashes: readonly Uint8Array[]): void {
  // Two roots or a leaf and a root stand before the proof.
  if (hashes.length > 2 + MAX_PROOF_HASHES || hashes.some((node) => node.length !== HASH_BYTES)) {
    throw new BadProofError("the proof holds what is no hash, or too many");
  }
}

// ── the right edge of a tree ─────────────────────────────────────────────────────────────────────────────────────────

/**
 * All that is needed of a tree to add leaves to it and know its root: one hash for each bit of its size.
 *
 * Who has checked every leaf so far keeps this, and needs neither inclusion nor consistency proofs afterwards: the root
 * that it computes itself is the signed one, or it is not.
 */
export class Frontier {
  readonly size: number;
  /** Roots of the complete subtrees from left to right, the largest first. */
  readonly hashes: readonly Bytes[];

  constructor(size = 0, hashes: readonly Bytes[] = []) {
    if (!isSize(size) || hashes.length !== levels(size).length || hashes.some((node) => node.length !== HASH_BYTES)) {
      throw new LocalProtocolError("a frontier has one hash for each bit of its size");
    }
    this.size = size;
    this.hashes = hashes;
  }

  /** With one more leaf, by its hash. */
  append(leaf: Bytes): Frontier {
    const hashes = [...this.hashes];
    let node = leaf;
    for (let at = this.size; at % 2 === 1; at = (at - 1) / 2) node = nodeHash(hashes.pop()!, node);
    return new Frontier(this.size + 1, [...hashes, node]);
  }

  /**
   * Hashes of the complete subtrees of this tree with these leaves after it, except those below its edge.
   *
   * So whoever keeps the edge can prove to others what was added since.
   */
  reader(leaves: readonly Bytes[]): NodeReader {
    const edge = new Map<string, Bytes>();
    let start = 0;
    levels(this.size).forEach((level, i) => {
      edge.set(`${level} ${start / 2 ** level}`, this.hashes[i]!);
      start += 2 ** level;
    });
    const read: NodeReader = (level, index) => {
      const kept = edge.get(`${level} ${index}`);
      if (kept) return kept;
      if (level) return nodeHash(read(level - 1, 2 * index), read(level - 1, 2 * index + 1));
      if (index < this.size) throw new LocalProtocolError("below the edge of a tree nothing is known");
      return leaves[index - this.size]!;
    };
    return read;
  }

  get root(): Bytes {
    return this.hashes.length ? this.hashes.reduceRight((right, left) => nodeHash(left, right)) : EMPTY_ROOT;
  }
}

/** The levels of a tree's complete subtrees, the largest first. */
function levels(size: number): number[] {
  const bits = size.toString(2);
  return [...bits].flatMap((bit, i) => (bit === "1" ? [bits.length - 1 - i] : []));
}
