import assert from "node:assert/strict";
import { test } from "node:test";

import { hex, unhex, utf8 } from "../../../src/bytes.ts";
import { BadSignatureError, LocalProtocolError, MalformedMessageError } from "../../../src/errors.ts";
import { encodeDocument } from "../../../src/protocol/canonical.ts";
import { ExperimentDocument, hostOf, openAtHour, readPublished } from "../../../src/protocol/documents/experiment.ts";
import { refused, vectors } from "../../vectors.ts";

const read = (text: string): ExperimentDocument => ExperimentDocument.fromBytes(utf8(text));
const [FIRST] = vectors("experiment_document").cases;
const DOCUMENT = read(FIRST.text);

/** The first document with other top-level fields. */
const changed = (changes: object) => encodeDocument({ ...JSON.parse(FIRST.text), ...changes });

test("documents with two relays are those of the vectors", async () => {
  for (const { text, digest, envelope, budget, parts, packages, cells } of vectors("experiment_document").cases) {
    const document = await readPublished(unhex(envelope), { digest });
    assert.deepEqual(document.data, utf8(text));
    assert.deepEqual(new ExperimentDocument({ ...document }).data, utf8(text));
    const { relayCover: cover } = document;
    const told = [document.digest, document.budget, cover.parts, cover.packages];
    assert.deepEqual(told, [digest, budget, parts, packages]);
    assert.deepEqual(cover.kinds.map((noise) => noise.cells), cells);
    assert.equal(hex(document.experimentId), digest.slice(0, 32));
    assert.deepEqual([document.entryRelay.role, document.mixRelay.role], ["entry", "mix"]);
  }
});

test("plain documents can be shown", () => {
  for (const { text, digest } of [...vectors("plain_experiment_document").cases, ...vectors("askers").cases]) {
    const document = read(text);
    assert.equal(document.digest, digest);
    if (document.privacy === null) assert.throws(() => document.relayCover, LocalProtocolError);
    assert.deepEqual(new ExperimentDocument({ ...document }).data, utf8(text));
  }
});

test("the bad documents of the vectors are refused", async () => {
  const relayed = vectors("bad_experiment_documents");
  const plain = vectors("bad_plain_experiment_documents");
  assert.equal(read(relayed.good).kind, "secvm-v2-experiment");
  assert.equal(read(plain.good).kind, "secvm-v1-experiment");
  await refused(relayed.cases, ({ bytes }) => ExperimentDocument.fromBytes(unhex(bytes)), MalformedMessageError);
  await refused([...plain.cases, ...vectors("askers").bad], ({ text }) => read(text), MalformedMessageError);
});

test("an onion service needs no https", () => {
  const relays = JSON.parse(FIRST.text).relays;
  const withUrl = (url: string) => ExperimentDocument.fromBytes(changed({ relays: [relays[0], { ...relays[1], url }] }));
  const host = `relay.${"b7".repeat(28)}.onion`;
  assert.equal(withUrl(`http://${host}/relay`).mixRelay.url, `http://${host}/relay`);
  for (const other of [`${host}.example`, "a".repeat(55) + ".onion", "a".repeat(55) + "1.onion", `x@${host}`]) {
    assert.throws(() => withUrl(`http://${other}/`), /must begin with https/);
  }
});

test("an envelope is taken by the digest that was agreed to, and with its keys' signatures", async () => {
  const envelope = unhex(FIRST.envelope);
  assert.equal((await readPublished(envelope)).digest, FIRST.digest);
  await assert.rejects(readPublished(envelope, { digest: "0".repeat(64) }), /this is another experiment/);
  // A byte of the signature, which stands before the payload.
  const other = envelope.with(60, envelope[60]! ^ 1);
  await assert.rejects(readPublished(other), BadSignatureError);
});

test("sizes are known before anything of that size is made", () => {
  const { nBins, labels } = DOCUMENT.experiment;
  assert.equal(DOCUMENT.tallyBytes, 8 * (2 * (nBins + 1) + labels.length + labels.length ** 2));
  assert.equal(DOCUMENT.mostTallyBytes, DOCUMENT.tallyBytes + 64);
  assert.equal(DOCUMENT.stateBytes % (8 * (nBins + 1)), 0);
});

test("faults are told in the words of Python", () => {
  const faults: [object, RegExp][] = [
    [{ rounds: 0 }, /^rounds of the experiment must be an integer from 1 to 1048575, not 0$/],
    [{ threshold: 9 }, /^9 signatures are needed, and there are \d keys$/],
    [{ train_share: "3/2" }, /^train_share of the experiment must be greater than 0 and at most 1, not 3\/2$/],
    [{ kem: 17 }, /^kem of the experiment must be one of \[32, 25722\], not 17$/],
    [{ privacy: null }, /^privacy of the experiment must be null without relays' cover, and only then$/],
    [{ relays: [] }, /^the experiment lists no relay|^relays' cover needs an entry relay/],
    [{ more: 1 }, /^the experiment has fields that it should not have: more$/],
  ];
  for (const [change, fault] of faults) {
    assert.throws(
      () => ExperimentDocument.fromBytes(changed(change)),
      (error: Error) => error instanceof MalformedMessageError && fault.test(error.message),
      JSON.stringify(change),
    );
  }
});

test("what a reader would refuse cannot be written", () => {
  const impossible = new ExperimentDocument({ ...DOCUMENT, rounds: 0 });
  assert.throws(() => impossible.digest, /^LocalProtocolError: this experiment cannot be published: rounds of/);
  assert.throws(() => new ExperimentDocument({ ...DOCUMENT, privacy: null }).data, LocalProtocolError);
  assert.throws(() => new ExperimentDocument({ ...DOCUMENT, test: false }).checkSeededDice(), /marked as a test/);
});

test("windows open in their hours, where the clock on the wall says so", () => {
  const windows = { ...DOCUMENT.windows, hours: [[0, 6], [22, 24]] as const };
  const open = [[0, 0], [6, 0], [21, 3600], [23, 7200], [1, -10800], [2, -14400 - 86_400]] as const;
  const at = (hour: number): number => Date.UTC(2026, 0, 1, hour, 59, 59, 999);
  assert.deepEqual(
    open.map(([hour, offsetS]) => openAtHour(windows, at(hour), { offsetS })),
    [true, false, true, true, true, true],
  );
});

test("a relay is named by its host and nothing that only looks like it", () => {
  const relay = DOCUMENT.entryRelay;
  const hosts = ["https://a.example/b", "https://a.example@b.example:81?c@d", "https://a.example#e", "https://a\\b@c"];
  assert.deepEqual(
    hosts.map((url) => hostOf({ ...relay, url })),
    ["a.example", "b.example:81", "a.example", "a"],
  );
});
