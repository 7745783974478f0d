import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { hex, littleEndian, textOf, unhex, utf8 } from "../../../src/bytes.ts";
import { expand, extract } from "../../../src/crypto/sealing/kdf.ts";
import { Schedule } from "../../../src/crypto/sealing/hpke.ts";
import { thrown, X25519PrivateKey, X25519PublicKey } from "../../../src/crypto/sealing/kem.ts";
import { LocalProtocolError, MalformedMessageError, OpeningError } from "../../../src/errors.ts";
import { vectors } from "../../vectors.ts";

const AES_128_GCM = 1;
const NOTHING = new Uint8Array();
const SECRETS = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((data) => Uint8Array.from(data));
/** All points of low order of Curve25519: 0, 1, two of order 8, p - 1, and p, p + 1 written too large. */
const LOW_ORDER = [
  0n,
  1n,
  325606250916557431795983626356110631294008115727848805560023387167927233504n,
  39382357235489614581723060781553021112529911719440698176882885853963445705823n,
  2n ** 255n - 20n,
  2n ** 255n - 19n,
  2n ** 255n - 18n,
];

test("RFC 9180's vectors of the one suite that devices have", async () => {
  const cases = vectors("sealing").hpke.filter((vector: any) => vector.aead === AES_128_GCM);
  assert.equal(cases.length, 2);
  for (const vector of cases) {
    const privateKey = await X25519PrivateKey.of(unhex(vector.private_key));
    assert.equal(hex(privateKey.publicKey.data), vector.public_key);
    const { secret, enc } = await privateKey.publicKey.encapsulate(unhex(vector.ephemeral));
    assert.equal(hex(secret), vector.shared_secret);
    assert.equal(hex(enc), vector.enc);
    assert.deepEqual(await privateKey.decapsulate(enc), secret);
    const schedule = new Schedule(unhex(vector.info));
    const sender = await schedule.sendTo(privateKey.publicKey, unhex(vector.ephemeral));
    const receiver = await schedule.receive(privateKey, enc);
    const [aad, plaintext] = [unhex(vector.aad), unhex(vector.plaintext)];
    for (const ciphertext of vector.ciphertexts) {
      assert.equal(hex(await sender.seal(aad, plaintext)), ciphertext);
      assert.deepEqual(await receiver.open(aad, unhex(ciphertext)), plaintext);
    }
    for (const side of [sender, receiver]) {
      const exported = side.export(textOf(unhex(vector.export_context)), vector.exported.length / 2);
      assert.equal(hex(exported), vector.exported);
    }
  }
});

test("HKDF gives RFC 5869's bytes, and not more than it has", () => {
  const prk = extract(unhex("000102030405060708090a0b0c"), new Uint8Array(22).fill(11));
  assert.equal(hex(prk), "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
  const stretched = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
  assert.equal(hex(expand(prk, unhex("f0f1f2f3f4f5f6f7f8f9"), 42)), stretched);
  assert.equal(expand(prk, NOTHING, 255 * 32).length, 255 * 32);
  assert.throws(() => expand(prk, NOTHING, 255 * 32 + 1), LocalProtocolError);
});

test("points of low order are no public keys, in any spelling, and open nothing", async () => {
  const key = await X25519PrivateKey.of(new Uint8Array(32).fill(1));
  for (const u of LOW_ORDER.flatMap((point) => [point, point + 2n ** 255n])) {
    const data = littleEndian(u, 32);
    assert.throws(() => new X25519PublicKey(data), MalformedMessageError);
    await assert.rejects(key.decapsulate(data), OpeningError);
  }
  new X25519PublicKey(littleEndian(2n, 32));
});

test("what was sealed opens in order, and under this info alone", async () => {
  await fc.assert(
    fc.asyncProperty(SECRETS, SECRETS, fc.uint8Array({ maxLength: 40 }), async (secret, ephemeral, data) => {
      const plaintext = Uint8Array.from(data);
      const key = await X25519PrivateKey.derive(secret);
      const schedule = new Schedule(utf8("one"));
      const sender = await schedule.sendTo(key.publicKey, ephemeral);
      const both = await Promise.all([sender.seal(NOTHING, plaintext), sender.seal(plaintext, plaintext)]);
      const receiver = await schedule.receive(key, sender.enc);
      await assert.rejects(receiver.open(plaintext, both[1]), OpeningError);
      assert.deepEqual(await receiver.open(NOTHING, both[0]), plaintext);
      assert.deepEqual(await receiver.open(plaintext, both[1]), plaintext);
      const other = await new Schedule(utf8("two")).receive(key, sender.enc);
      await assert.rejects(other.open(NOTHING, both[0]), OpeningError);
    }),
    { numRuns: 20 },
  );
});

test("bytes of another length are no keys and no dice", async () => {
  const key = await X25519PrivateKey.of(new Uint8Array(32).fill(1));
  assert.throws(() => new X25519PublicKey(new Uint8Array(31).fill(9)), MalformedMessageError);
  await assert.rejects(X25519PrivateKey.of(new Uint8Array(33)), LocalProtocolError);
  await assert.rejects(X25519PrivateKey.derive(new Uint8Array(31)), LocalProtocolError);
  await assert.rejects(key.publicKey.encapsulate(new Uint8Array(31)), LocalProtocolError);
  await assert.rejects(key.decapsulate(new Uint8Array(31).fill(9)), OpeningError);
  assert.throws(() => thrown(() => NOTHING, 32), LocalProtocolError);
  assert.ok(key.publicKey.equals(new X25519PublicKey(key.publicKey.data)));
});
