import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { hex, unhex, utf8 } from "../../src/bytes.ts";
import { COSIGNATURE, isKeyName, MAX_NOTE_BYTES, Note, NoteKey, PLAIN } from "../../src/crypto/notes.ts";
import { VerifyKey } from "../../src/crypto/signing.ts";
import { BadSignatureError, LocalProtocolError, MalformedMessageError } from "../../src/errors.ts";
import { refused, vectors } from "../vectors.ts";
import { signatureLine, SigningKey } from "./signers.ts";

const [KEY, OTHER] = [new SigningKey(new Uint8Array(32).fill(1)), new SigningKey(new Uint8Array(32).fill(2))];
const TEXT = "a text\n";
const LINE = signatureLine(TEXT, { name: "a", key: KEY });
const A = new NoteKey("a", KEY.public);
const WITNESS = new NoteKey("w", KEY.public, COSIGNATURE);
const read = (text: string) => Note.fromBytes(utf8(text));
const seen = (time: bigint) => signatureLine(TEXT, { name: "w", key: KEY, time });

test("the keys and notes of the vectors", async () => {
  const { keys, notes, strangers } = vectors("checkpoints");
  for (const { name, kind, public_key, key_id, verifier_key } of keys) {
    const key = new NoteKey(name, new VerifyKey(unhex(public_key)), kind);
    assert.deepEqual(NoteKey.fromText(verifier_key), key);
    assert.deepEqual([key.toText(), hex(key.keyId)], [verifier_key, key_id]);
  }
  for (const { text, signers, note } of notes) {
    const lines = signers.map(({ seed, name, time_s }: { seed: string; name: string; time_s: number | null }) => {
      const key = new SigningKey(unhex(seed));
      return signatureLine(text, { name, key, ...(time_s === null ? {} : { time: BigInt(time_s) }) });
    });
    assert.equal(`${text}\n${lines.join("")}`, note);
    const found = read(note);
    assert.equal(found.text, text);
    for (const { seed, name, time_s } of signers) {
      const key = new NoteKey(name, new SigningKey(unhex(seed)).public, time_s === null ? PLAIN : COSIGNATURE);
      const times = signers.map((signer: { time_s: number | null }) => signer.time_s);
      assert.equal(await key.check(found), time_s === null ? null : Math.max(...times));
    }
  }
  for (const { text, note, verifier_key, time_s } of strangers) {
    assert.equal(read(note).text, text);
    assert.equal(await NoteKey.fromText(verifier_key).check(read(note)), time_s);
  }
});

test("what is no note is refused", async () => {
  assert.equal(read(`text\n\n${LINE.repeat(64)}`).signatures.length, 64);
  const others = [
    "", "\n", "text\n", "text\n\n", `text\n${LINE}`, `text\n\n${LINE}\n`, `text\n\n${LINE.slice(0, -1)}`,
    `text\n\n${LINE}x\n`, `te\txt\n\n${LINE}`, `te\rxt\n\n${LINE}`, `te\0xt\n\n${LINE}`,
    `text\n\n${LINE.replace("\u2014", "-")}`,
    ...["  ", " ", " a+b ", " a\u00a0b ", " a\u0085b ", " a\u2028b ", " a b "].map(
      (name) => `text\n\n${LINE.replace(" a ", name)}`,
    ),
    `text\n\n${LINE.slice(0, -2)}\n`, `text\n\n${LINE.slice(0, -1)} \n`, `text\n\n${LINE.slice(0, -1)}=\n`,
    "text\n\n\u2014 a AAAAAA==\n", "text\n\n\u2014 a AAAAAAB=\n", "text\n\n\u2014 a \n",
    `text\n\n${LINE.repeat(65)}`, `${"x".repeat(MAX_NOTE_BYTES)}\n\n${LINE}`,
  ].map(utf8);
  const noText = Uint8Array.of(0xff, ...utf8(`\n\n${LINE}`));
  await refused([...others, noText], (data) => Note.fromBytes(data), MalformedMessageError);
});

test("a cosignature tells its time, which is signed, and the latest of several counts", async () => {
  assert.equal(await WITNESS.check(read(`${TEXT}\n${seen(7n)}${seen(9n)}${seen(8n)}`)), 9);
  const far = 2n ** 63n - 1n;
  assert.equal(await WITNESS.check(read(`${TEXT}\n${seen(far)}`)), Number(far));
  const line = read(`${TEXT}\n${seen(7n)}`).signatures[0]!;
  const later = Uint8Array.from(line.data);
  later[7]! ^= 1;
  const beyond = Uint8Array.from(line.data);
  beyond[0] = 0x80;
  for (const data of [later, beyond, line.data.slice(8), line.data.slice(0, 5)]) {
    await assert.rejects(WITNESS.check({ text: TEXT, signatures: [{ ...line, data }] }), BadSignatureError);
  }
});

test("a wrong signature in the name of a known key spoils the note, and a stranger's does not", async () => {
  const stranger = signatureLine(TEXT, { name: "a", key: OTHER });
  assert.equal(await A.check(read(`${TEXT}\n${stranger}${LINE}`)), null);
  await assert.rejects(A.check(read(`${TEXT}\n${stranger}`)), BadSignatureError);
  await assert.rejects(A.check(read(`${TEXT}more\n\n${LINE}`)), BadSignatureError);
  const [good] = read(`${TEXT}\n${LINE}`).signatures;
  const wrong = { ...good!, data: Uint8Array.from(good!.data, (byte) => byte ^ 1) };
  await assert.rejects(A.check({ text: TEXT, signatures: [good!, wrong] }), BadSignatureError);
});

test("keys come back from their text, and no part of it is a key", async () => {
  const kinds = fc.constantFrom(PLAIN, COSIGNATURE);
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 12 }), kinds, (name, kind) => {
      if (!isKeyName(name)) return assert.throws(() => new NoteKey(name, KEY.public, kind), LocalProtocolError);
      const key = new NoteKey(name, KEY.public, kind);
      assert.deepEqual(NoteKey.fromText(key.toText()), key);
    }),
  );
  const good = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
  NoteKey.fromText(good);
  const parts = [...good].flatMap((letter, at) => [
    good.slice(0, at),
    good.slice(at + 1),
    good.slice(0, at) + String.fromCodePoint(letter.codePointAt(0)! + 1) + good.slice(at + 1),
  ]);
  // Too long, and of an unknown kind, each with its right id.
  const wrongKinds = [
    "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
    "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
  ];
  await refused([...parts, ...wrongKinds], (text) => NoteKey.fromText(text), MalformedMessageError);
});
