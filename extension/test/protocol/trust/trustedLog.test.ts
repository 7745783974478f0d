import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { utf8, type Bytes } from "../../../src/bytes.ts";
import { sha256 } from "../../../src/crypto/hashes.ts";
import { Frontier } from "../../../src/crypto/merkle.ts";
import { NoteKey } from "../../../src/crypto/notes.ts";
import {
  BadInputError,
  BadProofError,
  BadSignatureError,
  CheatingError,
  MalformedMessageError,
  RemoteProtocolError,
  StaleCheckpointError,
  StaleRoundError,
} from "../../../src/errors.ts";
import { digestOf } from "../../../src/protocol/canonical.ts";
import { EVIDENCE, type Evidence } from "../../../src/protocol/evidence/plain.ts";
import { hashLine, readCheckpoint } from "../../../src/protocol/log/checkpoints.ts";
import {
  entryFromBytes,
  entryToBytes,
  experimentEntry,
  logEntry,
  MAX_LOG_ENTRIES,
  type Document,
  type Entry,
} from "../../../src/protocol/log/entries.ts";
import { checkProof, proofFromBytes } from "../../../src/protocol/log/proofs.ts";
import { Appended, SEEN_LOG, UNSEEN, type SeenLog } from "../../../src/protocol/trust/seenLog.ts";
import { TrustedLog } from "../../../src/protocol/trust/trustedLog.ts";
import { KnownLog, LOG, ORIGIN, signedNote, TERMS } from "../log/knownLog.ts";

const START = 1_767_225_600_000;
const [MINE, OTHER, THIRD] = ["01", "02", "03"].map((octet) => octet.repeat(32)) as [string, string, string];
const LOG_KEY = new NoteKey(ORIGIN, LOG.public);

const digest = (of: unknown): string => digestOf(utf8(`${of}`));
const of = (kind: "manifest" | "opening", experiment: string, roundNumber: number, name: unknown): Entry =>
  logEntry(kind, { experiment, roundNumber }, digest(name));
const ending = (experiment: string, name: string): Entry =>
  logEntry("ending", { experiment, roundNumber: 0 }, digest(name));

const E0 = experimentEntry(MINE);
const [M1, O1, M2, O2] = [1, 2].flatMap((n) => [of("manifest", MINE, n, `m${n}`), of("opening", MINE, n, `o${n}`)]) as [
  Entry,
  Entry,
  Entry,
  Entry,
];
const END = ending(MINE, "end");
const NOISE = [experimentEntry(OTHER), of("manifest", OTHER, 1, "x"), experimentEntry(THIRD)];

/** A log, and one device that follows an experiment of it. */
class World {
  log = new KnownLog();
  believed: Document[] = [];
  readonly trusted: TrustedLog;

  constructor(...entries: readonly Entry[]) {
    this.log.append(...entries);
    const given = { policy: null, seen: UNSEEN, believed: () => this.believed };
    this.trusted = new TrustedLog({ digest: MINE, log: TERMS }, utf8("envelope"), given);
  }

  note(options: { size?: number; witnesses?: number; ageS?: number } = {}): Bytes {
    const { ageS = 0, witnesses = 2, ...size } = options;
    return this.log.checkpoint({ ...size, witnesses, timeS: START / 1000 - ageS });
  }

  newLines(): Bytes[] {
    return this.log.lines.slice(this.trusted.seenSize);
  }

  look(...served: readonly Entry[]): Promise<SeenLog> {
    const told = served.map((entry) => ({ entry, envelope: entryToBytes(entry) }));
    return this.trusted.grow(this.note(), this.newLines(), told);
  }

  async believe(...served: readonly Entry[]): Promise<void> {
    this.trusted.seen = await this.look(...served);
  }
}

async function convicted(act: () => Promise<unknown>): Promise<Evidence> {
  let fault: unknown = null;
  await act().catch((thrown: unknown) => (fault = thrown));
  assert.ok(fault instanceof CheatingError, `${fault}`);
  const evidence = EVIDENCE.fromBytes(fault.evidence);
  // Whoever has the log's key alone sees that the line is there.
  for (const logged of evidence.entries) await checkProof(proofFromBytes(logged.proof), logged.entry, { log: LOG_KEY });
  return evidence;
}

test("any honest interleaving, in any steps, is believed", async () => {
  const steps = fc.array(fc.tuple(fc.nat(3), fc.boolean()), { minLength: 6, maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(steps, async (plan) => {
      const made = new World();
      let served: Entry[] = [];
      for (const [i, entry] of [E0, M1, O1, M2, O2, END].entries()) {
        const [others, looks] = plan[i]!;
        for (let n = 0; n < others; n++) made.log.append(of("manifest", OTHER, 1 + n, [i, n]));
        made.log.append(entry);
        // The experiment itself is what the device has joined; only what comes after it is served.
        if (entry !== E0) served.push(entry);
        if (!looks && entry !== END) continue;
        await made.believe(...served);
        served = [];
        assert.deepEqual(made.trusted.seen.frontier, made.log.edge);
        assert.deepEqual(SEEN_LOG.fromBytes(SEEN_LOG.toBytes(made.trusted.seen)), made.trusted.seen);
      }
      assert.deepEqual(made.trusted.seen.entry, END);
    }),
    { numRuns: 20 },
  );
});

test("a line that is none spoils the log for everybody", async () => {
  const made = new World(E0);
  made.log = new KnownLog([...made.log.lines, utf8("secvm-v3-manifest\n"), entryToBytes(M1)]);
  await assert.rejects(made.look(M1), MalformedMessageError);
});

test("what was served is what was logged, no more and no less", async () => {
  const made = new World(E0, M1, O1);
  await assert.rejects(made.look(M1), (fault: Error) => fault instanceof StaleRoundError && /grown/.test(fault.message));
  await assert.rejects(made.look(M1, O1, END), /not yet/);
  await assert.rejects(made.look(O1), BadProofError);
  assert.deepEqual((await made.look(M1, O1)).entry, O1);
});

test("an entry that cannot come next is never believed", async () => {
  const cases: [Entry[], Entry[]][] = [
    [[], [M1]],
    [[E0], [M2]],
    [[E0], [O1]],
    [[E0, M1], [M1]],
    [[E0, M1], [M2]],
    [[E0, M1], [END]],
    [[E0, M1], [E0]],
    [[E0, M1, O1], [O1]],
    [[E0, M1, O1, END], [M2]],
  ];
  for (const [before, after] of cases) {
    const made = new World(...before);
    if (before.length) await made.believe(...before.slice(1));
    made.log.append(...NOISE, ...after);
    await assert.rejects(made.look(...after), RemoteProtocolError);
    await assert.rejects(made.look(), RemoteProtocolError);
  }
});

test("another document than the logged one convicts", async () => {
  const other = of("manifest", MINE, 1, "another");
  const made = new World(...NOISE, E0, other, NOISE[0]!);
  const evidence = await convicted(() => made.look(M1));
  assert.equal(evidence.kind, "not-in-log");
  assert.deepEqual(evidence.documents, [entryToBytes(M1)]);
  assert.deepEqual(evidence.entries[0]!.entry, entryToBytes(other));
});

test("a second entry for the round that is believed convicts", async () => {
  const made = new World(...NOISE, E0, M1);
  await made.believe(M1);
  made.believed = [{ entry: M1, envelope: utf8("m1") }];
  made.log.append(NOISE[0]!, of("manifest", MINE, 1, "another"));
  for (const act of [() => made.look(), () => made.trusted.compare(made.note(), made.newLines())]) {
    assert.equal((await convicted(act)).kind, "not-in-log");
  }
});

test("two entries that cannot both stand there convict", async () => {
  const made = new World(...NOISE);
  made.trusted.seen = { checkpoint: made.note(), frontier: made.log.edge, entry: null };
  made.log.append(E0, M1, NOISE[0]!, E0);
  const evidence = await convicted(() => made.look(M1));
  assert.equal(evidence.kind, "two-entries");
  assert.deepEqual(evidence.entries.map((one) => entryFromBytes(one.entry)), [M1, E0]);
});

test("a quorum counts lately, and for an ending at any time", async () => {
  const made = new World(E0, M1);
  await made.trusted.checkQuorum(made.note(), { now: START });
  for (const over of [false, true]) {
    await assert.rejects(made.trusted.checkQuorum(made.note({ witnesses: 1 }), { now: START, over }), BadSignatureError);
  }
  const old = made.note({ ageS: TERMS.freshnessS + 1 });
  await assert.rejects(made.trusted.checkQuorum(old, { now: START }), StaleCheckpointError);
  await made.trusted.checkQuorum(old, { now: START, over: true });
});

test("a log that is too long is refused before a line is fetched", async () => {
  const made = new World(E0);
  const note = (size: number): Bytes => signedNote(`${ORIGIN}\n${size}\n${hashLine(sha256())}`);
  assert.equal(await made.trusted.missingLines(note(MAX_LOG_ENTRIES)), MAX_LOG_ENTRIES);
  for (const size of [MAX_LOG_ENTRIES + 1, Number.MAX_SAFE_INTEGER]) {
    await assert.rejects(made.trusted.missingLines(note(size)), /no log has more/);
  }
});

test("a second tree of the size that was seen convicts", async () => {
  const made = new World(E0, M1);
  await made.believe(M1);
  const fork = new KnownLog().append(E0, M2).checkpoint();
  const evidence = await convicted(() => made.trusted.missingLines(fork));
  assert.equal(evidence.kind, "forked-log");
  assert.deepEqual(evidence.checkpoints, [made.note(), fork]);
});

test("a fresh look takes other experiments' entries and no own ones", async () => {
  const made = new World(...NOISE, E0, M1);
  await made.believe(M1);
  made.believed = [{ entry: M1, envelope: utf8("m1") }];
  await made.trusted.compare(made.note(), []);
  for (const entry of [of("manifest", OTHER, 2, "y"), ending(OTHER, "z")]) {
    made.log.append(entry);
    await made.trusted.compare(made.note(), made.newLines());
  }
  for (const entry of [M2, END, O1]) {
    const later = new World();
    later.trusted.seen = made.trusted.seen;
    later.log = new KnownLog(made.log.lines).append(entry);
    await assert.rejects(made.trusted.compare(later.note(), later.newLines()), BadProofError);
  }
  await assert.rejects(made.trusted.compare(made.note({ size: 2 }), []), StaleCheckpointError);
  await assert.rejects(made.trusted.compare(made.note(), []), MalformedMessageError);
});

test("whoever keeps the edge can prove every line since", async () => {
  for (const [before, count] of [[0, 1], [3, 5], [64, 6], [37, 29]] as const) {
    const log = new KnownLog().append(...Array.from({ length: before + count }, (_, i) => experimentEntry(digest(i))));
    const edge = new KnownLog(log.lines.slice(0, before)).edge;
    const signed = await readCheckpoint(log.checkpoint(), { log: LOG_KEY });
    const appended = new Appended(edge, log.lines.slice(before), signed);
    assert.deepEqual(appended.entries.map((one) => one.index), Array.from({ length: count }, (_, i) => before + i));
    for (const placed of appended.entries) {
      const shown = { entry: log.lines[placed.index]!, proof: log.proof(placed.index, signed.data) };
      assert.deepEqual(appended.proof(placed), shown);
    }
  }
});

test("what is kept is whole, and no experiment without a log can be followed", () => {
  const kept = SEEN_LOG.toBytes({ checkpoint: utf8("note"), frontier: new Frontier(), entry: E0 });
  const wrong = utf8(new TextDecoder().decode(kept).replace('"size":0', '"size":1'));
  assert.throws(() => SEEN_LOG.fromBytes(wrong), /one hash for each bit of the size/);
  const given = { policy: null, seen: UNSEEN, believed: () => [] };
  assert.throws(() => new TrustedLog({ digest: MINE, log: null }, utf8("e"), given), BadInputError);
});
