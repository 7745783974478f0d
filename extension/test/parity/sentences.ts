/** A sentence of every key, about given values; a value that is a list is a sentence itself. */

import { say, type Value } from "../../src/privacy/sentences.ts";
import type { Vector } from "../vectors.ts";

export function answerSentences(asked: Vector): unknown {
  return { said: asked.told.map((told: Vector) => sentenceOf(told).content()) };
}

function sentenceOf([key, values]: Vector) {
  const read = (value: Vector): Value => (Array.isArray(value) ? sentenceOf(value) : value);
  return say(key, Object.fromEntries(Object.entries(values).map(([name, value]) => [name, read(value)])));
}
