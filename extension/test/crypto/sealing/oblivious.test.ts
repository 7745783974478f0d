import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { concat, hex, unhex, utf8, type Bytes } from "../../../src/bytes.ts";
import { X25519PrivateKey } from "../../../src/crypto/sealing/kem.ts";
import {
  answerKeys,
  decodeKeyConfigurations,
  KeyConfiguration,
  leavesNoChoice,
  requestSchedule,
  sealRequest,
} from "../../../src/crypto/sealing/oblivious.ts";
import { LocalProtocolError, MalformedMessageError, OpeningError, UnknownKeyError } from "../../../src/errors.ts";
import { refused, vectors } from "../../vectors.ts";
import { unsafeSeeded, unsafeWritten } from "../dice.ts";
import { keyDocument, openCapsule } from "./gateway.ts";

const X25519 = 32;
const DICE = unsafeSeeded("oblivious");
const KEY = await X25519PrivateKey.of(DICE(32));

test("capsules and answers of the vectors, of the algorithms that devices have", async () => {
  let sealedHere = 0;
  for (const vector of vectors("sealing").cases) {
    const data = unhex(vector.configuration);
    if (Number.parseInt(vector.configuration.slice(2, 6), 16) !== X25519) {
      assert.throws(() => KeyConfiguration.fromBytes(data), MalformedMessageError);
      continue;
    }
    const configuration = KeyConfiguration.fromBytes(data);
    const sealing = sealRequest(configuration, unhex(vector.request), unsafeWritten(unhex(vector.ephemeral)));
    if (!vector.capsule.slice(0, 14).endsWith("00010001")) {
      // Python seals with ChaCha20-Poly1305.
      await assert.rejects(sealing, UnknownKeyError);
      continue;
    }
    const sealed = await sealing;
    assert.equal(hex(sealed.capsule), vector.capsule);
    assert.equal(hex(await sealed.openResponse(unhex(vector.answer))), vector.response);
    const opened = await openCapsule(await X25519PrivateKey.of(unhex(vector.private_key)), sealed.capsule);
    assert.equal(hex(opened.request), vector.request);
    assert.equal(hex(await opened.sealResponse(unhex(vector.response), unhex(vector.nonce))), vector.answer);
    sealedHere += 1;
  }
  assert.equal(sealedHere, 3);
});

test("an answer's key is derived as in the RFC", async () => {
  const [rfc] = vectors("sealing").cases;
  const capsule = unhex(rfc.capsule);
  const key = await X25519PrivateKey.of(unhex(rfc.private_key));
  const context = await requestSchedule(capsule.slice(0, 7)).receive(key, capsule.slice(7, 39));
  assert.equal(hex(context.export("message/bhttp response", 16)), "62d87a6ba569ee81014c2641f52bea36");
  const derived = answerKeys(context, unhex(rfc.nonce));
  assert.equal(hex(derived.key), "5d0172a080e428b16d298c4ea0db620d");
  assert.equal(hex(derived.nonce), "f6bf1aeb88d6df87007fa263");
});

test("key configurations are read as the vectors have them", () => {
  const { configurations, documents } = vectors("sealing");
  for (const vector of configurations.filter((each: any) => each.kem === X25519)) {
    const { keyId, algorithms } = KeyConfiguration.fromBytes(unhex(vector.configuration));
    assert.deepEqual({ keyId, algorithms }, { keyId: vector.key_id, algorithms: vector.algorithms });
  }
  for (const { document, known } of documents) {
    const read = decodeKeyConfigurations(unhex(document));
    const expected = known.map((each: string) => KeyConfiguration.fromBytes(unhex(each)));
    assert.deepEqual(read, expected);
  }
});

test("bad configurations, documents and answers of the vectors are refused", async () => {
  const { good, configurations, documents, answers } = vectors("bad_sealing");
  await refused(configurations, (each) => KeyConfiguration.fromBytes(unhex(each.configuration)), MalformedMessageError);
  await refused(documents, (each) => decodeKeyConfigurations(unhex(each.document)), MalformedMessageError);
  const configuration = KeyConfiguration.fromBytes(unhex(good.configuration));
  const sealed = await sealRequest(configuration, unhex(good.request), unsafeWritten(unhex(good.ephemeral)));
  assert.equal(hex(await sealed.openResponse(unhex(good.answer))), good.response);
  const faults = { malformed: MalformedMessageError, "does not open": OpeningError };
  for (const each of answers) {
    await refused([each], () => sealed.openResponse(unhex(each.answer)), faults[each.error as keyof typeof faults]);
  }
});

test("what leaves no choice is one key with one pair of algorithms", () => {
  const document = keyDocument(7, KEY);
  assert.ok(leavesNoChoice(document));
  assert.equal(decodeKeyConfigurations(document).length, 1);
  const others = [concat(document, document), document.slice(1), concat(document, Uint8Array.of(0)), new Uint8Array()];
  for (const at of [0, 1, 3, 4, ...[6, 5, 4, 3, 2, 1].map((back) => document.length - back)]) {
    others.push(document.with(at, document[at]! ^ 1) as Bytes);
  }
  for (const other of others) assert.ok(!leavesNoChoice(other), hex(other));
  // Any number, and any key: whether it is a good one is seen later.
  assert.ok(leavesNoChoice(document.with(2, 200)) && leavesNoChoice(document.with(9, 200)));
  assert.throws(() => decodeKeyConfigurations(document.fill(0, 5, 37)), MalformedMessageError);
});

test("capsule and answer come back, and an answer opens for its own request only", async () => {
  const [configuration] = decodeKeyConfigurations(keyDocument(1, KEY));
  await fc.assert(
    fc.asyncProperty(fc.uint8Array(), fc.uint8Array(), async (request, response) => {
      const sealed = await sealRequest(configuration!, Uint8Array.from(request), DICE);
      const again = await sealRequest(configuration!, Uint8Array.from(request), DICE);
      assert.notDeepEqual(sealed.capsule.slice(7), again.capsule.slice(7));
      const opened = await openCapsule(KEY, sealed.capsule);
      assert.deepEqual(opened.request, Uint8Array.from(request));
      const answer = await opened.sealResponse(Uint8Array.from(response), DICE(16));
      assert.deepEqual(await sealed.openResponse(answer), Uint8Array.from(response));
      await assert.rejects(again.openResponse(answer), OpeningError);
    }),
    { numRuns: 20 },
  );
  await assert.rejects(sealRequest(configuration!, utf8("x"), () => new Uint8Array()), LocalProtocolError);
});
