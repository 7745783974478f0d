import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { concat, fromLittleEndian, unhex, utf8 } from "../../../src/bytes.ts";
import { blake2b } from "../../../src/crypto/hashes.ts";
import { reduceToBin, siphash24, type Hash64 } from "../../../src/learning/_kernels/siphash.ts";
import { HashBinning } from "../../../src/learning/individual/binning.ts";
import { vectors } from "../../vectors.ts";

const whole = ({ high, low }: Hash64): bigint => (BigInt(high) << 32n) | BigInt(low);
const halves = (hash: string): Hash64 => ({
  high: Number.parseInt(hash.slice(0, 8), 16),
  low: Number.parseInt(hash.slice(8), 16),
});

test("hashes, keys and bins are those of the vectors", () => {
  const { siphash, cases } = vectors("hashing");
  for (const { key, message, hash } of siphash) assert.deepEqual(siphash24(unhex(key), unhex(message)), halves(hash));
  for (const { feature, utf8: bytes, salt, n_bins, hash_index, key, hash, bin } of cases) {
    assert.deepEqual(utf8(feature), unhex(bytes));
    const binning = new HashBinning({ nBins: n_bins, salt: unhex(salt), nHashes: hash_index + 1 });
    assert.deepEqual(binning.keys[hash_index], unhex(key));
    assert.deepEqual(siphash24(unhex(key), unhex(bytes)), halves(hash));
    assert.equal(binning.binsOf(feature)[hash_index], bin);
  }
  for (const { hash, n_bins, bin } of vectors("range_reduction").cases) {
    assert.equal(reduceToBin(halves(hash), n_bins), bin);
  }
});

// ── the same, written to be read ─────────────────────────────────────────────────────────────────────────────────────

const MASK = (1n << 64n) - 1n;
const turned = (x: bigint, bits: bigint): bigint => ((x << bits) | (x >> (64n - bits))) & MASK;

function plainRound(v: bigint[]): void {
  v[0] = (v[0]! + v[1]!) & MASK;
  v[1] = turned(v[1]!, 13n) ^ v[0];
  v[0] = turned(v[0], 32n);
  v[2] = (v[2]! + v[3]!) & MASK;
  v[3] = turned(v[3]!, 16n) ^ v[2];
  v[0] = (v[0] + v[3]) & MASK;
  v[3] = turned(v[3], 21n) ^ v[0];
  v[2] = (v[2] + v[1]) & MASK;
  v[1] = turned(v[1], 17n) ^ v[2];
  v[2] = turned(v[2], 32n);
}

function plainSiphash(key: Uint8Array, message: Uint8Array): bigint {
  const [k0, k1] = [fromLittleEndian(key.subarray(0, 8)), fromLittleEndian(key.subarray(8))];
  const v = [k0 ^ 0x736f6d6570736575n, k1 ^ 0x646f72616e646f6dn, k0 ^ 0x6c7967656e657261n, k1 ^ 0x7465646279746573n];
  const padded = concat(message, new Uint8Array(7 - (message.length % 8)), Uint8Array.of(message.length & 255));
  for (let at = 0; at < padded.length; at += 8) {
    const block = fromLittleEndian(padded.subarray(at, at + 8));
    v[3]! ^= block;
    plainRound(v);
    plainRound(v);
    v[0]! ^= block;
  }
  v[2]! ^= 0xffn;
  for (let i = 0; i < 4; i++) plainRound(v);
  return v[0]! ^ v[1]! ^ v[2]! ^ v[3]!;
}

test("split words give what long integers give", () => {
  const key = fc.uint8Array({ minLength: 16, maxLength: 16 });
  const bins = fc.integer({ min: 1, max: 2 ** 31 - 1 });
  fc.assert(
    fc.property(key, fc.uint8Array({ maxLength: 300 }), bins, (k, message, nBins) => {
      const hash = siphash24(k, message);
      assert.equal(whole(hash), plainSiphash(k, message));
      assert.equal(BigInt(reduceToBin(hash, nBins)), (BigInt(hash.high) * BigInt(nBins)) >> 32n);
    }),
  );
});

test("a hundred thousand features are hashed in little time", () => {
  const key = blake2b(utf8("key"), { size: 16, person: "test" });
  const began = performance.now();
  for (let i = 0; i < 100_000; i++) siphash24(key, utf8(`word${i}`));
  assert.ok(performance.now() - began < 5000);
});
