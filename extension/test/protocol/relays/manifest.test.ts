import assert from "node:assert/strict";
import { test } from "node:test";

import { hex, unhex, utf8 } from "../../../src/bytes.ts";
import { InconsistentManifestError, MalformedMessageError } from "../../../src/errors.ts";
import { ExperimentDocument } from "../../../src/protocol/documents/experiment.ts";
import { INCONSISTENCIES } from "../../../src/protocol/documents/faults.ts";
import {
  boundBy,
  labelOfRound,
  MANIFEST,
  manifestFaults,
  readAccepted,
  readManifest,
  sealingKeysOf,
  windowOf,
  type RelayedManifest,
} from "../../../src/protocol/relays/manifest.ts";
import { refused, vectors } from "../../vectors.ts";

const VECTORS = vectors("manifest");
const DOCUMENT = ExperimentDocument.fromBytes(utf8(VECTORS.document));
const [ONE, TWO]: RelayedManifest[] = VECTORS.cases.map(({ payload }: { payload: string }) =>
  MANIFEST.fromBytes(utf8(payload)),
);

test("the manifests of the vectors are accepted, one after the other", async () => {
  let before: RelayedManifest | null = null;
  for (const { envelope, payload, label, round } of VECTORS.cases) {
    const manifest: RelayedManifest = await readManifest(unhex(envelope), DOCUMENT, before);
    assert.deepEqual(MANIFEST.toBytes(manifest), utf8(payload));
    assert.equal(hex(labelOfRound(manifest)), label);
    assert.equal(manifest.roundNumber, round);
    assert.deepEqual(readAccepted(unhex(envelope), DOCUMENT), manifest);
    before = manifest;
  }
});

test("the bad manifests of the vectors are refused, by all that is wrong with them", async () => {
  const { document, before: text, cases } = vectors("bad_manifests");
  const experiment = ExperimentDocument.fromBytes(utf8(document));
  const before = MANIFEST.fromBytes(utf8(text));
  await refused(cases, ({ envelope }) => readManifest(unhex(envelope), experiment, before));
  for (const { why, fault, faults, envelope } of cases) {
    if (fault !== "inconsistent") continue;
    const manifest = await experiment.read(MANIFEST, unhex(envelope));
    const found = await manifestFaults(manifest, experiment, before);
    assert.deepEqual(found.toSorted(), faults.toSorted(), why);
    await assert.rejects(
      readManifest(unhex(envelope), experiment, before),
      (error) => error instanceof InconsistentManifestError && error.message === INCONSISTENCIES[found[0]!],
    );
  }
});

test("what vectors do not say", async () => {
  const { instants } = TWO!;
  const later = { acceptUntil: 1000, batchBy: 1000, mixBy: 1000, revealBy: 1000, openBy: 1000 };
  const moved = (changes: Record<string, number>): RelayedManifest => {
    const times = Object.entries(instants).map(([name, at]) => [name, at + (changes[name] ?? 0)]);
    return { ...TWO!, instants: Object.fromEntries(times) };
  };
  const back = ONE!.instants.opensAt - 1 - instants.opensAt;
  const early = Object.fromEntries(Object.keys(instants).map((name) => [name, back]));
  const cases: [RelayedManifest, string[]][] = [
    [moved(later), ["GRACE"]],
    [moved({ revealBy: 1 }), ["RELAY_TIMES"]],
    [moved(early), ["BEFORE_START", "OVERLAP"]],
    [{ ...TWO!, mix: ONE!.mix }, ["MIX_COMMITMENT", "USED_BEFORE"]],
    [{ ...TWO!, entry: TWO!.mix }, []],
  ];
  for (const [manifest, faults] of cases.slice(0, -1)) {
    assert.deepEqual(await manifestFaults(manifest, DOCUMENT, ONE!), faults);
  }
  const [other] = cases.at(-1)!;
  assert.throws(() => MANIFEST.fromBytes(MANIFEST.toBytes(other)), MalformedMessageError);
});

test("a manifest gives window, keys, and what must never come again", () => {
  assert.deepEqual(windowOf(ONE!), { opensAt: ONE!.instants.opensAt, closesAt: ONE!.instants.closesAt });
  const { countKey, mixKey } = sealingKeysOf(ONE!);
  assert.deepEqual(countKey.data, ONE!.countKey);
  const bound = boundBy(ONE!);
  assert.equal(bound.size, 6);
  assert.ok(bound.has(hex(mixKey.data)) && bound.has(hex(countKey.data)) && bound.isDisjointFrom(boundBy(TWO!)));
});

test("a manifest of another experiment is none of a session's", () => {
  const other = new ExperimentDocument({ ...DOCUMENT, rounds: DOCUMENT.rounds + 1 });
  assert.throws(() => readAccepted(unhex(VECTORS.cases[0].envelope), other), /manifest is of another experiment/);
});
