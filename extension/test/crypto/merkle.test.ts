import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { hex, unhex, utf8, type Bytes } from "../../src/bytes.ts";
import {
  checkConsistency,
  checkInclusion,
  EMPTY_ROOT,
  Frontier,
  inclusionProof,
  leafHash,
  MAX_SIZE,
  nodeHash,
  root,
} from "../../src/crypto/merkle.ts";
import { BadProofError, LocalProtocolError } from "../../src/errors.ts";
import { refused, vectors, type Vector } from "../vectors.ts";

const LEAVES = Array.from({ length: 300 }, (_, i) => leafHash(utf8(`${i}`)));
const ALL = new Frontier().reader(LEAVES);

/** RFC 6962, 2.1, as it stands there. */
function definition(leaves: readonly Bytes[]): Bytes {
  if (leaves.length <= 1) return leaves[0] ?? EMPTY_ROOT;
  let k = 1;
  while (2 * k < leaves.length) k *= 2;
  return nodeHash(definition(leaves.slice(0, k)), definition(leaves.slice(k)));
}

const edgeOf = (leaves: readonly Bytes[]) => leaves.reduce((edge, leaf) => edge.append(leaf), new Frontier());

function inclusionHolds({ leaf, index, size, proof, root }: Vector): void {
  checkInclusion(unhex(leaf), { index, size, proof: proof.map(unhex), root: unhex(root) });
}

function consistencyHolds({ first, second, first_root, second_root, proof }: Vector): void {
  const [firstRoot, secondRoot] = [unhex(first_root), unhex(second_root)];
  checkConsistency({ first, second, firstRoot, secondRoot, proof: proof.map(unhex) });
}

test("the trees and proofs of the vectors", () => {
  const content = vectors("merkle");
  for (const { entries, roots } of content.trees) {
    const leaves = entries.map((entry: string) => leafHash(unhex(entry)));
    roots.forEach((expected: string, size: number) => {
      assert.equal(hex(root(new Frontier().reader(leaves), size)), expected);
      assert.equal(hex(edgeOf(leaves.slice(0, size)).root), expected);
    });
  }
  for (const vector of content.inclusions) {
    inclusionHolds(vector);
    assert.equal(hex(LEAVES[vector.index]!), vector.leaf);
    assert.deepEqual(inclusionProof(ALL, vector.index, vector.size).map(hex), vector.proof);
  }
  content.consistencies.forEach(consistencyHolds);
});

test("the bad proofs of the vectors are refused", async () => {
  const content = vectors("bad_merkle");
  inclusionHolds(content.good_inclusion);
  consistencyHolds(content.good_consistency);
  await refused(content.inclusions, inclusionHolds, BadProofError);
  await refused(content.consistencies, consistencyHolds, BadProofError);
});

test("every small tree has the roots and the inclusion proofs of the definition, and no other", () => {
  for (let size = 0; size <= 33; size++) {
    const whole = definition(LEAVES.slice(0, size));
    assert.deepEqual(root(ALL, size), whole);
    for (let index = 0; index < size; index++) {
      const proof = inclusionProof(ALL, index, size);
      checkInclusion(LEAVES[index]!, { index, size, proof, root: whole });
      const other = { index: (index + 1) % size, size, proof, root: whole };
      if (size > 1) assert.throws(() => checkInclusion(LEAVES[index]!, other), BadProofError);
    }
  }
});

test("an edge knows what came after it and nothing below", () => {
  fc.assert(
    fc.property(fc.nat({ max: 200 }), fc.nat({ max: 99 }), (before, after) => {
      const size = before + after + 1;
      const edge = edgeOf(LEAVES.slice(0, before));
      assert.deepEqual(new Frontier(edge.size, edge.hashes).root, definition(LEAVES.slice(0, before)));
      const read = edge.reader(LEAVES.slice(before, size));
      assert.deepEqual(root(read, size), root(ALL, size));
      assert.deepEqual(inclusionProof(read, size - 1, size), inclusionProof(ALL, size - 1, size));
      if (before > 1) assert.throws(() => inclusionProof(read, 0, size), LocalProtocolError);
    }),
  );
});

test("sizes at the limit have proofs that verify, and none is larger", () => {
  // A tree whose leaves are all alike has one hash a level.
  const alike: Bytes[] = [LEAVES[0]!];
  while (alike.length < 53) alike.push(nodeHash(alike.at(-1)!, alike.at(-1)!));
  const read = (level: number) => alike[level]!;
  for (const index of [0, 2 ** 40, MAX_SIZE - 1]) {
    const proof = inclusionProof(read, index, MAX_SIZE);
    checkInclusion(LEAVES[0]!, { index, size: MAX_SIZE, proof, root: root(read, MAX_SIZE) });
  }
  assert.throws(() => root(read, MAX_SIZE + 1), LocalProtocolError);
  assert.throws(() => inclusionProof(read, 3, 3), LocalProtocolError);
  assert.throws(() => new Frontier(3, [LEAVES[0]!]), LocalProtocolError);
});
