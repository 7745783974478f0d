/**
 * The parity channel: questions as lines of JSON on stdin, and for each its answer as a line on stdout.
 *
 * Python draws the questions, answers them itself, and compares (tests/contract/parity). A question names its `kind`,
 * which is a function in a file of its own here; what it throws is an answer too: the error's name and sentence.
 */

import { createInterface } from "node:readline";

import type { Vector } from "../vectors.ts";
import { orError } from "./answers.ts";
import { answerConsent } from "./consent.ts";
import { answerMargin } from "./margin.ts";
import { answerNumbers } from "./numbers.ts";
import { answerPinning } from "./pinning.ts";
import { answerRound } from "./round.ts";
import { answerSentences } from "./sentences.ts";

const KINDS: { readonly [kind: string]: (asked: Vector) => unknown } = {
  consent: answerConsent,
  margin: answerMargin,
  numbers: answerNumbers,
  pinning: answerPinning,
  round: answerRound,
  sentences: answerSentences,
};

for await (const line of createInterface({ input: process.stdin })) {
  const { kind, ...asked } = JSON.parse(line) as Vector;
  process.stdout.write(`${JSON.stringify(await orError(() => KINDS[kind]!(asked)))}\n`);
}
