import assert from "node:assert/strict";
import { test } from "node:test";

import { utf8 } from "../../../src/bytes.ts";
import { Fields } from "../../../src/protocol/canonical.ts";
import { checkEnough, timesOf } from "../../../src/protocol/log/checkpoints.ts";
import { LOG_TERMS, logKeyOf, quorumOf, witnessKeysOf } from "../../../src/protocol/log/policy.ts";
import { checkProof, proofFromBytes, proofToBytes } from "../../../src/protocol/log/proofs.ts";
import { refused, vectors, type Vector } from "../../vectors.ts";

/** That this file shows the entry in a log of these terms, cosigned lately. */
async function show(content: Vector, file: string, entry: string): Promise<void> {
  const terms = LOG_TERMS.fromFields(new Fields(content.log, "the log"));
  const signed = await checkProof(proofFromBytes(utf8(file)), utf8(entry), { log: logKeyOf(terms) });
  const times = await timesOf(signed, witnessKeysOf(terms));
  checkEnough(times, quorumOf(terms, null), { now: content.now, freshnessS: terms.freshnessS });
}

test("proof files of the vectors show their entries", async () => {
  for (const content of vectors("log").proofs) {
    await show(content, content.file, content.entry);
    const proof = proofFromBytes(utf8(content.file));
    assert.equal(proof.index, content.index);
    assert.deepEqual(proofToBytes(proof), utf8(content.file));
  }
});

test("bad proof files are refused", async () => {
  const content = vectors("bad_log");
  await show(content, content.good, content.entry);
  await refused(content.proofs, ({ file }) => show(content, file, content.entry));
});
