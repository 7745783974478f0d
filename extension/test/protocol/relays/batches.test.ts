import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { compare, hex, unhex } from "../../../src/bytes.ts";
import { sha256 } from "../../../src/crypto/hashes.ts";
import { BadProofError, LocalProtocolError, MalformedMessageError } from "../../../src/errors.ts";
import { Fields, type Json } from "../../../src/protocol/canonical.ts";
import {
  ABSENCE,
  capsuleRoot,
  checkAbsence,
  checkPlace,
  labelFromText,
  labelOf,
  PLACE,
  placeOf,
} from "../../../src/protocol/relays/batches.ts";
import { refused, vectors } from "../../vectors.ts";

const place = ({ index, digest, path }: Record<string, Json>) =>
  PLACE.fromFields(new Fields({ index: index!, digest: digest!, path: path! }, "a place"));
const absence = ({ left, right }: Record<string, Json>) =>
  ABSENCE.fromFields(new Fields({ left: left!, right: right! }, "an absence"));

test("labels, roots, places and absences are those of the vectors", () => {
  const { labels, roots, places, absences } = vectors("label");
  for (const { payload, label } of labels) assert.deepEqual(labelOf(unhex(payload)), labelFromText(label));
  for (const { digests, root } of roots) assert.equal(hex(capsuleRoot(digests.map(unhex))), root);
  for (const each of places) checkPlace(place(each), { size: each.size, root: unhex(each.root) });
  for (const each of absences) {
    checkAbsence(absence(each), unhex(each.digest), { size: each.size, root: unhex(each.root) });
  }
});

test("the bad labels, places and absences of the vectors are refused", async () => {
  const { root, size, labels, places, absences } = vectors("bad_label");
  const tree = { root: unhex(root) };
  await refused(places, (each) => checkPlace(place(each), { ...tree, size: each.size }), BadProofError);
  await refused(absences, (each) => checkAbsence(absence(each), unhex(each.digest), { ...tree, size }), BadProofError);
  await refused(labels, ({ text }) => labelFromText(text), MalformedMessageError);
});

test("every digest has its place under the root, and digests that do not ascend have none", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 70 }), (size) => {
      const digests = Array.from({ length: size }, (_, i) => sha256(Uint8Array.of(i))).sort(compare);
      const root = capsuleRoot(digests);
      digests.forEach((_, index) => checkPlace(placeOf(digests, index), { size, root }));
      if (size > 1) assert.throws(() => capsuleRoot(digests.toReversed()), LocalProtocolError);
    }),
  );
});
