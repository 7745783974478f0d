import assert from "node:assert/strict";
import { test } from "node:test";

import { hex, utf8 } from "../../../src/bytes.ts";
import { COSIGNATURE, NoteKey } from "../../../src/crypto/notes.ts";
import { BadInputError, MalformedMessageError } from "../../../src/errors.ts";
import { Fields } from "../../../src/protocol/canonical.ts";
import { LOG_TERMS, logKeyOf, quorumOf, readPolicy } from "../../../src/protocol/log/policy.ts";
import type { LogPolicy, LogTerms } from "../../../src/protocol/log/policy.ts";
import { SigningKey } from "../../crypto/signers.ts";
import { refused, vectors } from "../../vectors.ts";

const KEYS = [1, 2, 3, 4].map((seed) => new SigningKey(new Uint8Array(32).fill(seed)).public);
const NAMES = KEYS.map((key) => hex(key.data));
const CONTENT = {
  name: "log.example",
  key: NAMES[0]!,
  witnesses: NAMES.slice(1).map((key, i) => ({ name: `w${i}.example`, key })),
  quorum: 2,
  freshness_s: 3600,
};

function terms(changes: object = {}): LogTerms {
  return LOG_TERMS.fromFields(new Fields({ ...CONTENT, ...changes }, "the log"));
}

test("policies of the vectors say which logs, and who is enough", () => {
  for (const { file, logs, witnesses, enough } of vectors("log_policies").cases) {
    const policy = readPolicy(utf8(file));
    assert.deepEqual(policy.logs.map(({ key, url }) => [key.toText(), url]), logs);
    assert.deepEqual(policy.witnesses.map(({ key, url }) => [key.toText(), url]), witnesses);
    assert.equal(policy.quorum === null, enough === null);
    if (enough === null) continue;
    const named = new Map<string, string>();
    for (const [, name, text] of file.matchAll(/witness ([^ ]+) ([^ \n]+)/g)) {
      named.set(name, hex(NoteKey.fromText(text).key.data));
    }
    const least: string[][] = enough.map((names: string[]) => names.map((name) => named.get(name)!));
    // Every set of witnesses is enough where it holds one of the smallest, and else is not.
    const all = [...named.values()];
    for (let set = 0; set < 2 ** all.length; set++) {
      const some = all.filter((_, i) => (set >> i) & 1);
      const expected = least.some((names) => names.every((name) => some.includes(name)));
      assert.equal(policy.quorum!.metBy(some), expected, file);
    }
  }
});

test("bad policies are refused", async () => {
  await refused(vectors("bad_log_policies").cases, ({ file }) => readPolicy(utf8(file)), BadInputError);
  assert.throws(() => readPolicy(utf8("\n# x\nmirror x\n")), /\(line 3 of the policy\)/);
  assert.throws(() => readPolicy(new Uint8Array(2 ** 16 + 1)), /at most 65536 bytes/);
});

test("octets that are no text mean nothing, and stay apart", () => {
  const key = new NoteKey("w.example", KEYS[1]!, COSIGNATURE).toText();
  const other = new NoteKey("w.example", KEYS[2]!, COSIGNATURE).toText();
  const file = `witness \xfe ${key}\nwitness \xff ${other}\ngroup g all \xfe \xff\nquorum g\n`;
  assert.equal(readPolicy(Buffer.from(file, "latin1")).witnesses.length, 2);
  assert.throws(() => readPolicy(Buffer.from(`witness a \xff${key}\nquorum a\n`, "latin1")), /no Ed25519 key/);
});

test("terms hold together", () => {
  assert.equal(logKeyOf(terms()).name, "log.example/secvm/v2");
  const others: [object, RegExp][] = [
    [{ quorum: 1 }, /a quorum of 1 of 3 witnesses; it must be from 2 to 3/],
    [{ quorum: 4 }, /a quorum of 4 of 3 witnesses/],
    [{ key: NAMES[1] }, /a log cannot be its own witness/],
    [{ witnesses: [CONTENT.witnesses[0], CONTENT.witnesses[0]] }, /a witness of the log stands there twice/],
    [{ witnesses: [] }, /a list of 1 to 16 items/],
    [{ name: "https://log.example" }, /name of the log must be a text of the form/],
    [{ witnesses: [{ ...CONTENT.witnesses[0], name: "a+b" }] }, /a text of the form/],
  ];
  for (const [changes, fault] of others) {
    assert.throws(() => terms(changes), fault);
    assert.throws(() => terms(changes), MalformedMessageError);
  }
});

test("a reader's quorum comes on top of the experiment's", () => {
  const witnesses = terms().witnesses.map(({ name, key }) => ({ key: new NoteKey(name, key, COSIGNATURE), url: null }));
  const none: LogPolicy = { logs: [], witnesses: [], quorum: null };
  assert.ok(quorumOf(terms(), null).metBy(NAMES.slice(1, 3)));
  const two = quorumOf(terms(), { ...none, witnesses: witnesses.slice(0, 2) });
  assert.ok(!two.metBy(NAMES.slice(2)) && two.metBy(NAMES.slice(1, 3)));
  const log = { key: logKeyOf(terms()), url: null };
  const policy = readPolicy(utf8(`witness a ${witnesses[2]!.key.toText()}\nquorum a\n`));
  const both = quorumOf(terms(), { ...none, logs: [log], quorum: policy.quorum });
  assert.ok(!both.metBy(NAMES.slice(1, 3)) && both.metBy(NAMES.slice(2)));
  const refusals: [LogPolicy, RegExp][] = [
    [{ ...none, logs: [{ key: logKeyOf(terms({ name: "x" })), url: null }] }, /none of those that the policy names/],
    [{ ...none, witnesses: witnesses.slice(0, 1) }, /too few of this experiment's witnesses/],
    [{ ...none, witnesses: witnesses.slice(0, 2), quorum: policy.quorum }, /not enough for the policy's quorum/],
  ];
  for (const [refusing, fault] of refusals) {
    assert.throws(() => quorumOf(terms(), refusing), fault);
    assert.throws(() => quorumOf(terms(), refusing), BadInputError);
  }
});
