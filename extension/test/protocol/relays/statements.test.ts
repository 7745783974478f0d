import assert from "node:assert/strict";
import { test } from "node:test";

import { concat, hex, unhex, utf8 } from "../../../src/bytes.ts";
import { VerifyKey } from "../../../src/crypto/signing.ts";
import { BadProofError, BadSignatureError, LocalProtocolError, MalformedMessageError } from "../../../src/errors.ts";
import { encodeDocument } from "../../../src/protocol/canonical.ts";
import { checkPart, ENTRY_COMMITMENT, MIX_COMMITMENT, partEntry } from "../../../src/protocol/relays/commitments.ts";
import {
  ENTRY_COUNT,
  ENTRY_REVEAL,
  entryAddsUp,
  MIX_COUNT,
  MIX_REVEAL,
  mixAddsUp,
  partIndex,
} from "../../../src/protocol/relays/counts.ts";
import { enclosed, ENVELOPE_BYTES, readStatement, RELAY_TERMS } from "../../../src/protocol/relays/statements.ts";
import { RECEIPT } from "../../../src/protocol/relays/submission.ts";
import { SigningKey, signed } from "../../crypto/signers.ts";
import { refused, vectors, type Vector } from "../../vectors.ts";

const KINDS = [MIX_COMMITMENT, ENTRY_COMMITMENT, RECEIPT, ENTRY_COUNT, MIX_COUNT, ENTRY_REVEAL, MIX_REVEAL];
/** The kinds differ in their fields, and here only in what they are called. */
const kindOf = (type: string): Vector => KINDS.find(({ purpose }) => purpose === type);
const keyOf = (data: string): VerifyKey => new VerifyKey(unhex(data));

test("statements of the vectors are read and written", async () => {
  for (const { type, public_key, envelope, payload, digest } of vectors("statements").cases) {
    const kind = kindOf(type);
    const statement = await readStatement(kind, unhex(envelope), keyOf(public_key));
    assert.deepEqual(kind.toBytes(statement), utf8(payload));
    assert.equal(kind.digest(statement), digest);
    assert.equal(unhex(envelope).length, utf8(payload).length + ENVELOPE_BYTES);
  }
});

test("the bad statements of the vectors are refused", async () => {
  const read = ({ type, public_key, envelope }: Vector) =>
    readStatement(kindOf(type), unhex(envelope), keyOf(public_key));
  await refused(vectors("bad_statements").cases, read);
});

test("every field must be there with its type", () => {
  for (const { type, payload } of vectors("statements").cases) {
    const content = JSON.parse(payload);
    const wrong: object[] = [{ ...content, more: 1 }];
    for (const name of Object.keys(content)) {
      const { [name]: _, ...others } = content;
      wrong.push(others, ...[null, -1, "x", ["x"], true].map((value) => ({ ...content, [name]: value })));
    }
    for (const bad of wrong) {
      assert.throws(() => kindOf(type).fromBytes(encodeDocument(bad as {})), MalformedMessageError, type);
    }
  }
});

test("an envelope holds one signature, and no more bytes than its kind", () => {
  const [{ payload }] = vectors("statements").cases;
  const keys = [1, 2].map((seed) => new SigningKey(new Uint8Array(32).fill(seed)));
  const twice = signed(utf8(payload), { purpose: MIX_COMMITMENT.purpose, keys });
  assert.throws(() => enclosed(MIX_COMMITMENT, twice), /commitment has 2 signatures; its relay's is the one/);
  const long = concat(twice, new Uint8Array(2000));
  assert.throws(() => enclosed(MIX_COMMITMENT, long), /bytes in its envelope; at most are 1127/);
});

test("a relay's terms are read as they were signed", async () => {
  const key = new SigningKey(new Uint8Array(32).fill(7));
  const terms = {
    url: "https://mix.example/r", operator: "Mix Ltd.", role: "mix", quota: 1, cells: 1000, packages: 90,
    capsules: 5000, secondsPerMillion: 600,
  } as const;
  const envelope = signed(RELAY_TERMS.toBytes(terms), { purpose: RELAY_TERMS.purpose, keys: [key] });
  assert.deepEqual({ ...(await readStatement(RELAY_TERMS, envelope, key.public)) }, terms);
  const stranger = new SigningKey(new Uint8Array(32).fill(8));
  await assert.rejects(readStatement(RELAY_TERMS, envelope, stranger.public), BadSignatureError);
  const others = [{ role: "both" }, { operator: "" }, { operator: "x".repeat(201) }, { quota: 0 }, { url: "a\nb" }];
  for (const bad of others) {
    const other = encodeDocument({ ...RELAY_TERMS.toContent(terms), type: RELAY_TERMS.purpose, ...bad });
    assert.throws(() => RELAY_TERMS.fromBytes(other), MalformedMessageError);
  }
});

test("a seed is under the root that its relay committed itself to", () => {
  for (const { parts, part, part_seeds, part_entries, parts_root, path } of vectors("commitments").cases) {
    assert.deepEqual(part_seeds.map((seed: string) => hex(partEntry(unhex(seed)))), part_entries);
    const told = { parts, part, path: path.map(unhex), root: unhex(parts_root) };
    checkPart(unhex(part_seeds[part]), told);
    for (const other of [{ part: part + 1 }, { parts: parts + 1, part: parts }, { path: told.path.slice(1) }]) {
      assert.throws(() => checkPart(unhex(part_seeds[part]), { ...told, ...other }), BadProofError);
    }
  }
});

test("commitments of the vectors are read, and a key of low order is none", () => {
  for (const each of vectors("commitments").cases) {
    const [mix, entry] = [utf8(each.mix_commitment), utf8(each.entry_commitment)];
    assert.deepEqual(MIX_COMMITMENT.toBytes(MIX_COMMITMENT.fromBytes(mix)), mix);
    assert.deepEqual(ENTRY_COMMITMENT.toBytes(ENTRY_COMMITMENT.fromBytes(entry)), entry);
    const withTokens = ENTRY_COMMITMENT.fromBytes(utf8(each.entry_commitment_with_tokens));
    assert.deepEqual([ENTRY_COMMITMENT.fromBytes(entry).tokens, withTokens.tokens?.length], [null, 32]);
    const low = encodeDocument({ ...JSON.parse(each.mix_commitment), key: "00".repeat(32) });
    assert.throws(() => MIX_COMMITMENT.fromBytes(low), /the public key is a point of low order/);
  }
});

test("which part is opened follows from nonce and count", () => {
  for (const { nonce, mix_count, parts, part } of vectors("commitments").opened_parts) {
    assert.equal(partIndex(unhex(nonce), mix_count, parts), part);
  }
  assert.throws(() => partIndex(new Uint8Array(32), "00".repeat(32), 0), LocalProtocolError);
});

test("counts add up, or they do not", () => {
  const root = new Uint8Array(32);
  const entry = { label: root, clients: 5, received: root, capsules: 7 * 5 + 160, root };
  assert.ok(entryAddsUp(entry, { budget: 7, packages: 160 }));
  assert.ok(!entryAddsUp({ ...entry, clients: 4 }, { budget: 7, packages: 160 }));
  const mix = { label: root, entryCount: "", refused: 3, capsules: 195 - 3 + 160, root };
  assert.ok(mixAddsUp(mix, entry, { packages: 160 }));
  assert.ok(!mixAddsUp({ ...mix, refused: 2 }, entry, { packages: 160 }));
  assert.ok(!mixAddsUp({ ...mix, refused: 196, capsules: 159 }, entry, { packages: 160 }));
  // Beyond 2^53 nothing is rounded into place.
  const most = Number.MAX_SAFE_INTEGER;
  assert.ok(!entryAddsUp({ ...entry, clients: most, capsules: most }, { budget: 1, packages: 1 }));
});
