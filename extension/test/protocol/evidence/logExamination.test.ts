import assert from "node:assert/strict";
import { test } from "node:test";

import { utf8 } from "../../../src/bytes.ts";
import { RemoteProtocolError } from "../../../src/errors.ts";
import { examineLog } from "../../../src/protocol/evidence/logExamination.ts";
import { refused, vectors, type Vector } from "../../vectors.ts";

// What is shown with documents of experiments with one relay is not for this device.
const ABOUT_THE_LOG = ["forked-log", "two-entries"];

test("evidence about a log alone shows what the vectors say, and what shows nothing is refused", async () => {
  const { cases } = vectors("evidence");
  const [shown, others] = [true, false].map((is) => cases.filter(({ kind }: Vector) => ABOUT_THE_LOG.includes(kind) === is));
  assert.equal(shown.length, ABOUT_THE_LOG.length);
  for (const { file, kind, experiment } of shown) {
    const found = await examineLog(utf8(file));
    assert.deepEqual([found.kind, found.document.digest], [kind, experiment]);
  }
  await refused([...others, ...vectors("bad_evidence").cases], ({ file }) => examineLog(utf8(file)), RemoteProtocolError);
});
