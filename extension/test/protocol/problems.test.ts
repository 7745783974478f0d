import assert from "node:assert/strict";
import { test } from "node:test";

import { utf8 } from "../../src/bytes.ts";
import { MalformedMessageError } from "../../src/errors.ts";
import { PROBLEMS, readProblem } from "../../src/protocol/problems.ts";
import { vectors } from "../vectors.ts";

test("problems are read as the vectors have them", () => {
  const { cases } = vectors("problems");
  assert.deepEqual(PROBLEMS.map(({ name }) => name), cases.map((each: { name: string }) => each.name));
  for (const { text, ...told } of cases) {
    const { sentence: _, ...problem } = readProblem(utf8(text));
    assert.deepEqual(problem, told);
  }
});

test("what is no answer of a server of ours is refused", () => {
  const [{ text }] = vectors("problems").cases;
  for (const other of ["{}", text.replace("400", "401"), text.replace("{", '{"detail":"x",'), `${text}\n`]) {
    assert.throws(() => readProblem(utf8(other)), MalformedMessageError, other);
  }
});
