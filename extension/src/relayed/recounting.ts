/**
 * The recount of a canary's shard.
 *
 * Whether a device counts its canary's shard again follows from the canary's own secrets, which are the browser's dice:
 * it is drawn once for a round, outlives a restart, and no server can make the device draw again by not answering. The
 * shard's capsules and its sub-tally are public; every capsule of it is opened with the published seed, a person's own
 * like all others. What does not come or does not belong together is for `Canaries` to count; a sub-tally that the
 * coordinator signed and that is false is evidence.
 */

import { equal, type Bytes } from "../bytes.ts";
import { Envelope } from "../crypto/signing.ts";
import { BadProofError, CheatingError } from "../errors.ts";
import type { ExperimentDocument } from "../protocol/documents/experiment.ts";
import { examineCount, WRONG_COUNT } from "../protocol/evidence/wrongCount.ts";
import { labelOfRound, MANIFEST } from "../protocol/relays/manifest.ts";
import { OPENING } from "../protocol/relays/opening.ts";
import {
  MAX_CAPSULES_BYTES,
  MAX_SHARD_TALLY_BYTES,
  readShardTally,
  Recount,
  WrongCountError,
} from "../protocol/relays/recount.ts";
import type { ShardRun } from "../protocol/relays/shardRuns.ts";
import { MOST_DOCUMENT_BYTES } from "../sending/transport.ts";
import type { KeptCanary } from "../storage/relayedBook.ts";

/** Nobody answered. */
export class UnansweredError extends Error {}

/** A file of the experiment, of at most so many bytes; throws an `UnansweredError`. */
type Fetch = (path: string, most: number) => Promise<Bytes>;

/**
 * That the coordinator counted this shard, which was checked, as it should. `envelope`: the experiment's.
 *
 * Throws a `CheatingError` with evidence where it signed another count, another `RemoteProtocolError` where its files do
 * not belong together, and whatever `fetch` throws.
 */
export async function recountShard(
  document: ExperimentDocument,
  envelope: Bytes,
  { roundNumber, ...kept }: KeptCanary,
  run: ShardRun,
  fetch: Fetch,
): Promise<void> {
  const ofShard = `${roundNumber}/${run.shard}`;
  const capsules = await fetch(`capsules/${ofShard}`, MAX_CAPSULES_BYTES);
  const tally = readShardTally(await fetch(`tally/${ofShard}`, MAX_SHARD_TALLY_BYTES));
  const [manifest, opening] = [MANIFEST.fromBytes(kept.manifest), OPENING.fromBytes(kept.opening!)];
  try {
    await (await Recount.of(document, manifest, opening)).check(run, capsules, tally);
  } catch (fault) {
    if (!(fault instanceof WrongCountError)) throw fault;
    const evidence = WRONG_COUNT.toBytes({
      kind: "wrong-count",
      experiment: envelope,
      documents: [
        await signed(fetch, `manifest/${roundNumber}`, kept.manifest),
        await signed(fetch, `opening/${roundNumber}`, kept.opening!),
      ],
      statements: [],
      blobs: [capsules, tally.subTally],
      proof: { label: labelOfRound(manifest), shard: run.shard, path: tally.path, mixPath: run.path },
    });
    // What does not convince others is not kept as if it did.
    const { sentence } = await examineCount(evidence);
    throw new CheatingError(sentence.replace(/\.$/, ""), evidence);
  }
}

/** The envelope of a document that is believed; a device keeps what is in it alone. */
async function signed(fetch: Fetch, path: string, payload: Bytes): Promise<Bytes> {
  const envelope = await fetch(path, MOST_DOCUMENT_BYTES);
  if (!equal(Envelope.fromBytes(envelope).payload, payload)) {
    throw new BadProofError(`${path} is not the document that was believed`);
  }
  return envelope;
}
