import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { concat, equal, hex, littleEndian, unhex, utf8, type Bytes } from "../../src/bytes.ts";
import { Envelope, signedBytes, verify, VerifyKey } from "../../src/crypto/signing.ts";
import { BadSignatureError, LocalProtocolError, MalformedMessageError } from "../../src/errors.ts";
import { refused, vectors } from "../vectors.ts";
import { signed, SigningKey } from "./signers.ts";

const KEYS = [1, 2, 3].map((i) => new SigningKey(new Uint8Array(32).fill(i)));
const PUBLIC = KEYS.map((key) => key.public);
const payloads = fc.uint8Array({ maxLength: 40 });
const purposes = fc.string({ unit: "binary", maxLength: 5 });

test("the envelopes of the vectors are what their keys signed", async () => {
  for (const vector of vectors("envelope").cases) {
    const keys = vector.seeds.map((seed: string) => new SigningKey(unhex(seed)));
    const trusted: VerifyKey[] = keys.map((key: SigningKey) => key.public);
    assert.deepEqual(trusted.map((key) => hex(key.data)), vector.public_keys);
    assert.deepEqual(trusted.map((key) => hex(key.keyId)), vector.key_ids);
    const { purpose } = vector;
    const payload = unhex(vector.payload);
    assert.equal(hex(signedBytes(purpose, payload)), vector.signed);
    assert.equal(hex(signed(payload, { purpose, keys })), vector.bytes);
    assert.deepEqual(await verify(unhex(vector.bytes), { purpose, keys: trusted, threshold: trusted.length }), payload);
  }
});

test("the bad envelopes and public keys of the vectors are refused", async () => {
  const { good, cases, purpose, public_keys } = vectors("bad_envelopes");
  const keys: VerifyKey[] = public_keys.map((key: string) => new VerifyKey(unhex(key)));
  const read = (data: Bytes) => verify(data, { purpose, keys, threshold: 2 });
  await read(unhex(good));
  await refused(cases, (vector) => read(unhex(vector.bytes)), MalformedMessageError, BadSignatureError);
  const points = vectors("bad_public_keys");
  assert.equal(hex(new VerifyKey(unhex(points.good)).data), points.good);
  await refused(points.cases, (vector) => new VerifyKey(unhex(vector.public_key)), MalformedMessageError);
});

test("what was signed comes out, and only with enough signatures", async () => {
  const law = async (payload: Uint8Array, purpose: string, signers: number[]) => {
    const data = signed(payload, { purpose, keys: signers.map((i) => KEYS[i]!) });
    assert.deepEqual(await verify(data, { purpose, keys: PUBLIC, threshold: signers.length }), Uint8Array.from(payload));
    if (signers.length === KEYS.length) return;
    await assert.rejects(verify(data, { purpose, keys: PUBLIC, threshold: signers.length + 1 }), BadSignatureError);
  };
  await fc.assert(fc.asyncProperty(payloads, purposes, fc.subarray([0, 1, 2], { minLength: 1 }), law));
});

test("no two purposes and payloads are signed as the same bytes", () => {
  const law = (a: string, b: Uint8Array, c: string, d: Uint8Array) =>
    assert.equal(equal(signedBytes(a, b), signedBytes(c, d)), a === c && equal(b, d));
  fc.assert(fc.property(purposes, payloads, purposes, payloads, law));
});

test("every flipped, truncated or extended envelope is refused", async () => {
  const data = signed(utf8("a payload"), { purpose: "a", keys: KEYS.slice(0, 2) });
  const read = (bytes: Bytes) => verify(bytes, { purpose: "a", keys: PUBLIC, threshold: 2 });
  const { signatures } = Envelope.fromBytes(data);
  assert.equal(signatures.length, 2);
  for (let size = 0; size < data.length; size++) await assert.rejects(read(data.slice(0, size)), MalformedMessageError);
  await assert.rejects(read(concat(data, Uint8Array.of(0))), MalformedMessageError);
  for (let bit = 0; bit < 8 * data.length; bit++) {
    const flipped = Uint8Array.from(data);
    flipped[bit >> 3]! ^= 1 << (bit & 7);
    await assert.rejects(read(flipped), (fault) =>
      fault instanceof MalformedMessageError || fault instanceof BadSignatureError);
  }
});

test("a wrong signature of a trusted key spoils the good one of another, and a stranger's does not", async () => {
  const data = signed(utf8("payload"), { purpose: "a", keys: KEYS.slice(0, 2) });
  await verify(data, { purpose: "a", keys: PUBLIC.slice(0, 1) });
  const spoiled = Uint8Array.from(data);
  spoiled[19 + 80 + 79]! ^= 1;
  await assert.rejects(verify(spoiled, { purpose: "a", keys: PUBLIC }), BadSignatureError);
});

test("one key counts once, and a key that is no point or too short signs nothing", async () => {
  const data = signed(utf8("payload"), { purpose: "a", keys: KEYS.slice(0, 1) });
  const twice = [PUBLIC[0]!, PUBLIC[0]!];
  await assert.rejects(verify(data, { purpose: "a", keys: twice, threshold: 2 }), LocalProtocolError);
  assert.throws(() => new VerifyKey(utf8("short")), LocalProtocolError);
  const noPoint = new VerifyKey(concat(Uint8Array.of(2), new Uint8Array(30), Uint8Array.of(0x80)));
  await assert.rejects(noPoint.check(new Uint8Array(64), utf8("anything")), BadSignatureError);
  const p = 2n ** 255n - 19n;
  for (let y = p; y < 2n ** 255n; y++) assert.throws(() => new VerifyKey(littleEndian(y, 32)), MalformedMessageError);
  new VerifyKey(littleEndian(p - 2n, 32));
});
