/**
 * MissingCanary: a file that shows that the entry relay or the mixing relay left a device's capsule out (§32).
 *
 *     receipt      the entry relay took a request whose tree has this root
 *     place        the canary's outer capsule is under that root
 *     secrets      they seal the round's null to exactly these capsules: nothing in them was made to fail
 *     absence      the canary's inner capsule is not under the root that the mixing relay signed
 *
 * An honest entry relay hands every capsule on that it gave a receipt for, and an honest mixing relay every one that
 * opens. So one of them did not. Which one the file of an auditor tells, who has the entry relay's leaves.
 *
 * `examineCanary` needs the file alone. It shows that whoever hands it on took part in the experiment, and nothing of
 * what they sent: the canary is a null. Requests that are malformed, late, doubled or of another label get no receipt,
 * so they accuse nobody.
 */

import { equal, type Bytes } from "../../bytes.ts";
import { BadProofError, LocalProtocolError, MalformedMessageError } from "../../errors.ts";
import { MAX_DOCUMENT_BYTES, readPublished } from "../documents/experiment.ts";
import { documentType, longBytes, nullable, part, shortBytes, type ValueOf } from "../records.ts";
import { ABSENCE, capsuleDigest, checkAbsence, checkPlace, PLACE, type Absence } from "../relays/batches.ts";
import { MIX_COUNT } from "../relays/counts.ts";
import { labelOfRound, MANIFEST, MAX_MANIFEST_BYTES, type RelayedManifest } from "../relays/manifest.ts";
import { ENVELOPE_BYTES, readStatement } from "../relays/statements.ts";
import { canaryCapsules, MAX_RECEIPT_BYTES, RECEIPT, SECRETS_BYTES, type Canary } from "../relays/submission.ts";
import { MISSING_CANARY_TYPE } from "../version.ts";
import type { Finding } from "./logExamination.ts";

const COUNT = longBytes(MIX_COUNT.longest + ENVELOPE_BYTES);

/** The parts of the file. **Nothing in it is checked**: `examineCanary` does that. */
export const MISSING_CANARY = documentType(
  { purpose: MISSING_CANARY_TYPE, title: "the evidence", longest: 2 ** 20 },
  {
    /** The experiment's envelope. */
    experiment: longBytes(MAX_DOCUMENT_BYTES + 2 ** 12),
    /** The manifest's payload: its digest is the label that both relays signed for. */
    manifest: longBytes(MAX_MANIFEST_BYTES),
    /** Envelopes of what the relays signed. */
    receipt: longBytes(MAX_RECEIPT_BYTES),
    mixCount: COUNT,
    /** The canary's outer capsule in the request's tree. */
    place: part(PLACE),
    ephemerals: shortBytes(SECRETS_BYTES),
    /** Of the inner capsule, under the mixing relay's root. */
    absence: part(ABSENCE),
    /** Of an auditor's file: the entry relay's count, and where the outer capsule stands under its root, or not. */
    entryCount: nullable(COUNT),
    batchPlace: nullable(part(PLACE)),
    batchAbsence: nullable(part(ABSENCE)),
  },
);
export type MissingCanary = ValueOf<typeof MISSING_CANARY>;

interface Shown {
  /** The experiment's envelope. */
  readonly experiment: Bytes;
  readonly manifest: RelayedManifest;
  readonly mixCount: Bytes;
}

/** The file for a canary whose receipt is held and which is not under the mixing relay's root. */
export function missingCanary(canary: Canary, absence: Absence, { experiment, manifest, mixCount }: Shown): Bytes {
  const { receipt, place, ephemerals } = canary;
  if (receipt === null) throw new LocalProtocolError("without a receipt nobody can be shown that the canary was taken");
  return MISSING_CANARY.toBytes({
    ...{ experiment, manifest: MANIFEST.toBytes(manifest), receipt, mixCount, place, ephemerals, absence },
    ...{ entryCount: null, batchPlace: null, batchAbsence: null },
  });
}

/**
 * What this file shows, if it shows it.
 *
 * Throws a `RemoteProtocolError` where it shows nothing: a part is not signed, is of another round, or the canary is
 * where it should be.
 */
export async function examineCanary(data: Bytes): Promise<Finding> {
  const shown = MISSING_CANARY.fromBytes(data);
  const document = await readPublished(shown.experiment);
  if (document.experiment.cover === null) {
    throw new MalformedMessageError("the evidence is of an experiment without two relays");
  }
  if (shown.entryCount !== null) throw new MalformedMessageError("the evidence is an auditor's, and not this device's");
  const manifest = MANIFEST.fromBytes(shown.manifest);
  const label = labelOfRound(manifest);
  const receipt = await readStatement(RECEIPT, shown.receipt, document.entryRelay.key);
  const mixCount = await readStatement(MIX_COUNT, shown.mixCount, document.mixRelay.key);
  // That both relays signed for this label says that they hold this manifest, with these keys.
  const isOfRound = [receipt.label, mixCount.label].every((signed) => equal(signed, label));
  if (manifest.experiment !== document.digest || !isOfRound) {
    throw new MalformedMessageError("the parts of the evidence are of different rounds");
  }
  const capsules = await canaryCapsules(manifest, document.experimentId, shown.ephemerals);
  const [inner, outer] = capsules.map(capsuleDigest) as [Bytes, Bytes];
  if (!equal(shown.place.digest, outer)) {
    throw new BadProofError("the canary's secrets do not seal the capsule that the receipt is for");
  }
  checkPlace(shown.place, { size: receipt.capsules, root: receipt.root });
  checkAbsence(shown.absence, inner, { size: mixCount.capsules, root: mixCount.root });
  const [entry, mix] = [document.entryRelay.operator, document.mixRelay.operator];
  const sentence =
    `In round ${manifest.roundNumber} the entry relay gave a receipt for a capsule that the mixing relay did not hand` +
    ` on: ${entry} (the entry relay) or ${mix} (the mixing relay) left it out.`;
  return { kind: "missing-canary", document, sentence };
}
