import assert from "node:assert/strict";
import { test } from "node:test";

import { concat, hex, unhex } from "../../../src/bytes.ts";
import { FETCH_REQUEST_STEP, fetchRequest, readAnswer } from "../../../src/protocol/plain/sealedRequests.ts";
import { LocalProtocolError, MalformedMessageError } from "../../../src/errors.ts";
import { vectors } from "../../vectors.ts";

const { fetches, fetch_answers: answers } = vectors("sealed_requests");

test("fetches and their answers are those of the vectors", () => {
  for (const { path, request } of fetches) assert.equal(hex(fetchRequest(path)), request);
  for (const { answer, ...told } of answers) {
    const read = readAnswer(unhex(answer));
    assert.deepEqual({ ...read, content: hex(read.content) }, told);
  }
});

test("a fetch has one of few lengths", () => {
  for (const size of [1, 200, 214, 215, 216, 217, 218, 219, 220, 221, 400, 1000]) {
    assert.equal(fetchRequest(`/${"x".repeat(size - 1)}`).length % FETCH_REQUEST_STEP, 0);
  }
  assert.throws(() => fetchRequest("/\u00e9"), LocalProtocolError);
});

test("an answer has one date or none, and it is ASCII", () => {
  const answer = (...dates: string[]) => {
    const prefixed = (text: string) => [Uint8Array.of(text.length), Buffer.from(text, "latin1")];
    const lines = dates.map((date) => [...prefixed("date"), ...prefixed(date)]);
    const section = concat(...lines.flat());
    return concat(Uint8Array.of(1, 0x40, 200, section.length), section, Uint8Array.of(0, 0));
  };
  assert.equal(readAnswer(answer()).date, null);
  assert.equal(readAnswer(answer("noon")).date, "noon");
  assert.throws(() => readAnswer(answer("noon", "noon")), MalformedMessageError);
  assert.throws(() => readAnswer(answer("no\xf6n")), MalformedMessageError);
});
