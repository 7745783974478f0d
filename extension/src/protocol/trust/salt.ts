/**
 * Whose salt is it? The one that public randomness fixed after the experiment was logged, or the experiment is refused.
 *
 * An experiment names rounds of beacons that are still to come, is logged and cosigned, and only then do the rounds
 * become known. Whoever asks for its salt checks three things:
 *
 *  1. the first checkpoint that a quorum of its witnesses cosigned contains the experiment; the moment at which the
 *     quorum was reached is when the experiment was **committed**,
 *  2. every record is what its beacon published, for exactly the round that the experiment names,
 *  3. none of those rounds was known to anybody at that moment.
 *
 * Then nobody who wrote the experiment can have chosen the salt. What this assumes: the beacons do not collude with the
 * author, and fewer than a quorum of the witnesses sign with a time that is not theirs.
 */

import { hex, type Bytes } from "../../bytes.ts";
import { saltFrom, verifyBeacon } from "../../crypto/beacons/sources.ts";
import { BadBeaconError, BadSignatureError } from "../../errors.ts";
import type { ExperimentDocument } from "../documents/experiment.ts";
import { timesByKey, timesOf } from "../log/checkpoints.ts";
import { entryToBytes, experimentEntry } from "../log/entries.ts";
import { logKeyOf, quorumOf, witnessKeysOf, type LogPolicy } from "../log/policy.ts";
import { checkProof, proofFromBytes } from "../log/proofs.ts";

/**
 * When a quorum had cosigned a checkpoint that contains the experiment, in milliseconds.
 *
 * `first` is the proof file of the experiment's entry under that checkpoint. `policy`: the reader's own. Throws a
 * `RemoteProtocolError` where it proves no such thing.
 */
export async function committedAt(
  document: ExperimentDocument,
  first: Uint8Array,
  options: { policy?: LogPolicy | null } = {},
): Promise<number> {
  const terms = document.log;
  if (terms === null) throw new BadBeaconError("an experiment without a log proves no time at which it was fixed");
  const entry = entryToBytes(experimentEntry(document.digest));
  const signed = await checkProof(proofFromBytes(first), entry, { log: logKeyOf(terms) });
  const quorum = quorumOf(terms, options.policy ?? null);
  const counting = witnessKeysOf(terms).filter(({ key }) => quorum.keys.has(hex(key.data)));
  const timeS = quorum.metAt(timesByKey(await timesOf(signed, counting)));
  if (timeS === null) throw new BadSignatureError("too few witnesses have cosigned the first checkpoint");
  return 1000 * timeS;
}

/**
 * The salt of an experiment with hashed bins.
 *
 * `records` are those of the beacons that it names, in their order; `allowUnsafe` takes the development beacon, and
 * then only in an experiment that is marked as a test. `policy`: the reader's own, where it has one.
 *
 * Throws a `BadBeaconError` where a record is not genuine, or its round was known when the experiment was committed,
 * and another `RemoteProtocolError` where the first checkpoint proves nothing.
 */
export async function saltOf(
  document: ExperimentDocument,
  told: {
    first: Uint8Array | null;
    records: readonly Uint8Array[];
    allowUnsafe?: boolean;
    policy?: LogPolicy | null;
  },
): Promise<Bytes> {
  const { binning } = document;
  const { first, records, allowUnsafe = false, policy = null } = told;
  if (binning.kind !== "hash") throw new BadBeaconError("an experiment with a vocabulary has no salt");
  if (binning.salt !== null) return binning.salt;
  if (first === null || records.length !== binning.beacons.length) {
    throw new BadBeaconError("the first checkpoint, or the record of a beacon, is missing");
  }
  const committed = await committedAt(document, first, { policy });
  const outputs: Bytes[] = [];
  for (const [i, { chain, roundNumber }] of binning.beacons.entries()) {
    const output = await verifyBeacon(chain, roundNumber, records[i]!, { allowUnsafe: allowUnsafe && document.test });
    if (output.at <= committed) {
      throw new BadBeaconError("a beacon's round was already known when the experiment was logged");
    }
    outputs.push(output.value);
  }
  return saltFrom(outputs, binning.bins);
}
