import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { concat, hex, unhex, type Bytes } from "../../../src/bytes.ts";
import { sha256 } from "../../../src/crypto/hashes.ts";
import { X25519PrivateKey } from "../../../src/crypto/sealing/kem.ts";
import {
  innerLayer,
  INNER_BYTES,
  type Layer,
  outerLayer,
  OUTER_BYTES,
  sealBoth,
} from "../../../src/crypto/sealing/layers.ts";
import { LocalProtocolError, OpeningError } from "../../../src/errors.ts";
import { vectors } from "../../vectors.ts";
import { unsafeSeeded } from "../dice.ts";

const DICE = unsafeSeeded("layers");
const [COUNT, MIX, OTHER] = await Promise.all([1, 2, 3].map(() => X25519PrivateKey.of(DICE(32))));
const [LABEL, ANOTHER] = [DICE(32), DICE(32)];
const PACKAGE = Uint8Array.from({ length: 32 }, (_, i) => i);

test("the seals of the vectors, from seeds that were published", async () => {
  for (const vector of vectors("layers").cases) {
    const count = await X25519PrivateKey.derive(unhex(vector.count_seed));
    const mix = await X25519PrivateKey.derive(unhex(vector.mix_seed));
    assert.equal(hex(count.publicKey.data), vector.count_key);
    assert.equal(hex(mix.publicKey.data), vector.mix_key);
    assert.equal(hex(sha256(unhex(vector.count_seed))), vector.count_seed_hash);
    assert.deepEqual((await X25519PrivateKey.of(unhex(vector.count_private_key))).publicKey, count.publicKey);
    const label = unhex(vector.label);
    const ephemerals = unhex(vector.inner_ephemeral + vector.outer_ephemeral);
    const [inner, outer] = await sealBoth(count.publicKey, mix.publicKey, label, ephemerals, unhex(vector.package));
    assert.equal(hex(inner), vector.inner);
    assert.equal(hex(sha256(inner)), vector.inner_digest);
    assert.equal(hex(outer), vector.outer);
    assert.deepEqual(await outerLayer(label).open(mix, outer), inner);
    assert.equal(hex(await innerLayer(label).open(count, inner)), vector.package);
  }
});

test("the seals of a relay's cover", async () => {
  for (const vector of vectors("cover").seals) {
    const count = await X25519PrivateKey.of(unhex(vector.count_private_key));
    const mix = await X25519PrivateKey.of(unhex(vector.mix_private_key));
    const [label, ephemerals] = [unhex(vector.label), unhex(vector.ephemerals)];
    const sealed = await sealBoth(count.publicKey, mix.publicKey, label, ephemerals, unhex(vector.package));
    assert.deepEqual(sealed.map(hex), [vector.inner, vector.outer]);
  }
});

test("another round, key or layer opens nothing", async () => {
  const [inner, outer] = await sealBoth(COUNT!.publicKey, MIX!.publicKey, LABEL, DICE(64), PACKAGE);
  assert.deepEqual([inner.length, outer.length], [INNER_BYTES, OUTER_BYTES]);
  assert.deepEqual([INNER_BYTES, OUTER_BYTES], [80, 128]);
  // What one layer seals the other does not open, also where the sizes would allow it.
  const openedBy = async (layer: Layer, key: X25519PrivateKey, capsule: Bytes) =>
    (await layer.schedule.receive(key, capsule.slice(0, 32))).open(new Uint8Array(), capsule.slice(32));
  const attempts: (() => Promise<unknown>)[] = [
    () => innerLayer(ANOTHER).open(COUNT!, inner),
    () => outerLayer(ANOTHER).open(MIX!, outer),
    () => innerLayer(LABEL).open(OTHER!, inner),
    () => outerLayer(LABEL).open(OTHER!, outer),
    () => innerLayer(LABEL).open(COUNT!, outer),
    () => openedBy(outerLayer(LABEL), COUNT!, inner),
    () => openedBy(innerLayer(LABEL), MIX!, outer),
  ];
  for (const attempt of attempts) await assert.rejects(attempt, OpeningError);
  assert.deepEqual(await openedBy(innerLayer(LABEL), COUNT!, inner), PACKAGE);
});

test("every flipped bit of a capsule spoils it", async () => {
  const [inner] = await sealBoth(COUNT!.publicKey, MIX!.publicKey, LABEL, DICE(64), PACKAGE);
  const layer = innerLayer(LABEL);
  const flipped = concat(
    ...Array.from({ length: 8 * INNER_BYTES }, (_, bit) => {
      const data = Uint8Array.from(inner);
      data[bit >> 3]! ^= 1 << (bit & 7);
      return data;
    }),
  );
  assert.ok((await layer.openAll(COUNT!, flipped)).every((content) => content === null));
});

test("many at once are the same as one after the other, and bad ones harm no other", async () => {
  const law = async (count: number, seed: string) => {
    const dice = unsafeSeeded(seed);
    const [layer, ephemerals, contents] = [innerLayer(LABEL), dice(32 * count), dice(32 * count)];
    const capsules = await layer.sealAll(COUNT!.publicKey, ephemerals, contents);
    const at = (data: Bytes, size: number, i: number) => data.slice(size * i, size * (i + 1));
    for (let i = 0; i < count; i++) {
      const one = await layer.seal(COUNT!.publicKey, at(ephemerals, 32, i), at(contents, 32, i));
      assert.deepEqual(at(capsules, INNER_BYTES, i), one);
    }
    if (count) capsules[INNER_BYTES * (count - 1)]! ^= 1;
    const inside = await layer.openAll(COUNT!, capsules);
    const expected = Array.from({ length: count }, (_, i) => (i < count - 1 ? at(contents, 32, i) : null));
    assert.deepEqual(inside, expected);
  };
  await fc.assert(fc.asyncProperty(fc.integer({ min: 0, max: 9 }), fc.string(), law), { numRuns: 15 });
  await law(300, "more than one run");
});

test("sizes that no caller should pass are refused", async () => {
  const [count, mix, layer] = [COUNT!.publicKey, MIX!.publicKey, innerLayer(LABEL)];
  const wrong: [Bytes, Bytes, Bytes][] = [
    [LABEL.slice(1), DICE(64), PACKAGE],
    [LABEL, DICE(63), PACKAGE],
    [LABEL, DICE(64), concat(PACKAGE, Uint8Array.of(0))],
  ];
  for (const [label, ephemerals, content] of wrong) {
    await assert.rejects(sealBoth(count, mix, label, ephemerals, content), LocalProtocolError);
  }
  await assert.rejects(layer.seal(count, DICE(31), PACKAGE), LocalProtocolError);
  await assert.rejects(layer.sealAll(count, DICE(32), concat(PACKAGE, PACKAGE)), LocalProtocolError);
  await assert.rejects(layer.sealAll(count, DICE(32), PACKAGE.slice(1)), LocalProtocolError);
  await assert.rejects(layer.openAll(COUNT!, DICE(81)), OpeningError);
});
