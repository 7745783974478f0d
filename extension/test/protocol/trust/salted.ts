/** An experiment whose salt rounds of the development beacon fix, their records, and proofs that it was logged before. */

import { concat, hex, littleEndian, utf8, type Bytes } from "../../../src/bytes.ts";
import { blake2b } from "../../../src/crypto/hashes.ts";
import { encodeDocument } from "../../../src/protocol/canonical.ts";
import { ExperimentDocument } from "../../../src/protocol/documents/experiment.ts";
import { experimentEntry } from "../../../src/protocol/log/entries.ts";
import { LOG_TERMS } from "../../../src/protocol/log/policy.ts";
import { signatureLine } from "../../crypto/signers.ts";
import { vectors } from "../../vectors.ts";
import { KnownLog, TERMS, WITNESSES } from "../log/knownLog.ts";

const CHAIN = "local-unsafe";
const START_S = 1_767_225_600;
export const ROUNDS = [START_S + 100, START_S + 200];

/** A document with two relays whose salt these rounds of the development beacon fix. */
export function documentOf(changes: object = {}): ExperimentDocument {
  const content = JSON.parse(vectors("experiment_document").cases[0].text);
  const beacons = ROUNDS.map((round) => ({ chain: CHAIN, round }));
  const { bins } = content.binning;
  const binning = { kind: "hash", bins, hashes: 1, salt: null, beacons };
  const log = LOG_TERMS.toContent(TERMS);
  return ExperimentDocument.fromBytes(encodeDocument({ ...content, binning, log, test: true, ...changes }));
}

export const DOCUMENT = documentOf();
export const outputOf = (round: number) =>
  blake2b(concat(littleEndian(round, 8), utf8(CHAIN)), { size: 32, person: "secvm-v1-unsafe" });
export const recordOf = (round: number) => utf8(JSON.stringify({ round, output: hex(outputOf(round)) }));
export const RECORDS = ROUNDS.map(recordOf);

/** The experiment's entry under a checkpoint that the witnesses cosigned at these times, one after the other. */
export function first(times: readonly number[], document = DOCUMENT, entry = experimentEntry(document.digest)): Bytes {
  const log = new KnownLog().append(experimentEntry("0".repeat(64)), entry);
  const plain = new TextDecoder().decode(log.checkpoint());
  const text = plain.slice(0, plain.indexOf("\n\n") + 1);
  const lines = times.map((time, i) =>
    signatureLine(text, { name: `w${i}.example`, key: WITNESSES[i]!, time: BigInt(time) }),
  );
  return log.proof(1, utf8(plain + lines.join("")));
}
