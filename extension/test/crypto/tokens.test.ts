import assert from "node:assert/strict";
import { test } from "node:test";
import { ristretto255_oprf } from "@noble/curves/ed25519.js";

import { concat, fromLittleEndian, hex, unhex, utf8, type Bytes } from "../../src/bytes.ts";
import { TokenBatch } from "../../src/crypto/tokens.ts";
import { blinded, finalize, ORDER } from "../../src/crypto/voprf.ts";
import { BadProofError, LocalProtocolError, MalformedMessageError } from "../../src/errors.ts";
import { refused, vectors } from "../vectors.ts";

const { voprf, batches } = vectors("tokens");
const bytes = (list: string[]): Bytes[] => list.map((each) => unhex(each));

test("RFC 9497's vectors of a client", () => {
  for (const vector of voprf) {
    const blinds: Bytes[] = bytes(vector.blinds);
    const inputs = bytes(vector.inputs).map((data, i) => ({ data, blind: fromLittleEndian(blinds[i]!) }));
    assert.deepEqual(inputs.map(blinded).map(hex), vector.blinded);
    const answer = [bytes(vector.blinded), bytes(vector.evaluated), unhex(vector.proof)] as const;
    assert.deepEqual(finalize(inputs, ...answer, unhex(vector.public_key)).map(hex), vector.outputs);
  }
});

test("the batches of the vectors ask for, and are given, these tokens", () => {
  for (const vector of batches) {
    const batch = new TokenBatch(unhex(vector.batch_seed), vector.count);
    const key = unhex(vector.token_key);
    assert.equal(hex(batch.request(key)), vector.request);
    assert.deepEqual(batch.tokens(unhex(vector.answer), key).map(hex), vector.tokens);
  }
});

test("bad answers of the vectors are refused", async () => {
  const read = (vector: any) =>
    new TokenBatch(unhex(vector.batch_seed), vector.count).tokens(unhex(vector.answer), unhex(vector.token_key));
  const { answers, elements } = vectors("bad_tokens");
  await refused(answers, read, MalformedMessageError, BadProofError);
  const lies = answers.filter(({ why }: any) => /exchanged|another key|another proof/.test(why));
  assert.equal(lies.length, 3);
  await refused(lies, read, BadProofError);
  // What an issuer must not multiply, a client does not take for an element either, nor for a key.
  const [vector] = voprf;
  const inputs = [{ data: unhex(vector.inputs[0]), blind: fromLittleEndian(unhex(vector.blinds[0])) }];
  const finalized = (element: Bytes, key: Bytes) =>
    finalize(inputs, bytes(vector.blinded), [element], unhex(vector.proof), key);
  const [good, key] = [unhex(vector.evaluated[0]), unhex(vector.public_key)];
  assert.equal(finalized(good, key).length, 1);
  await refused(elements, (bad) => finalized(unhex(bad.bytes), key), MalformedMessageError);
  await refused(elements, (bad) => finalized(good, unhex(bad.bytes)), MalformedMessageError);
  assert.throws(() => finalize(inputs, bytes(vector.blinded), [], unhex(vector.proof), key), MalformedMessageError);
});

test("an issuer that marks one token of many is found out, and asked again gives the same", () => {
  const issuer = ristretto255_oprf.voprf;
  const keys = [1, 2].map((seed) => issuer.deriveKeyPair(new Uint8Array(32).fill(seed), utf8("")));
  const publicKey = Uint8Array.from(keys[0]!.publicKey);
  const batch = new TokenBatch(new Uint8Array(32).fill(7), 5);
  const asked = batch.request(publicKey);
  const elements = Array.from({ length: 5 }, (_, i) => asked.slice(32 * (i + 1), 32 * (i + 2)));
  const answers = [1, 2].map(() => {
    const { evaluated, proof } = issuer.blindEvaluateBatch(keys[0]!.secretKey, publicKey, elements);
    return concat(...evaluated, proof);
  });
  const tokens = answers.map((answer) => batch.tokens(answer, publicKey).map(hex));
  assert.deepEqual(tokens[0], tokens[1]);
  assert.equal(new Set(tokens[0]).size, 5);
  const marked = Uint8Array.from(answers[0]!);
  const other = issuer.blindEvaluate(keys[1]!.secretKey, keys[1]!.publicKey, elements[3]!).evaluated;
  marked.set(other, 3 * 32);
  assert.throws(() => batch.tokens(marked, publicKey), BadProofError);
});

test("batches and blinds are checked", () => {
  assert.throws(() => new TokenBatch(new Uint8Array(31), 1), LocalProtocolError);
  for (const count of [0, -1, 2 ** 16]) {
    assert.throws(() => new TokenBatch(new Uint8Array(32), count), LocalProtocolError);
  }
  for (const blind of [0n, ORDER]) assert.throws(() => blinded({ data: utf8("x"), blind }), LocalProtocolError);
});
