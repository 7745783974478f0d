/**
 * What a device has checked of a server, and what it holds against it: for its person, in numbers and words.
 *
 * Evidence is kept as files that convince others. Each holds what the server signed and nothing of this device. But a
 * server may have put a mark into what it served here (other signatures, another order): whoever hands a file on may
 * show by that who received it.
 */

import { equal, hex, utf8, type Bytes } from "../bytes.ts";
import { BadInputError, RemoteProtocolError } from "../errors.ts";
import { say, type Sentence } from "../privacy/sentences.ts";
import type { ExperimentDocument } from "../protocol/documents/experiment.ts";
import { examineLog } from "../protocol/evidence/logExamination.ts";
import { examineCanary } from "../protocol/evidence/missingCanary.ts";
import { examineCount } from "../protocol/evidence/wrongCount.ts";
import { readCheckpoint, type Checkpoint } from "../protocol/log/checkpoints.ts";
import { logKeyOf, type LogTerms } from "../protocol/log/policy.ts";
import { RECOUNTED_ONE_IN } from "../protocol/relays/submission.ts";
import { SEEN_LOG } from "../protocol/trust/seenLog.ts";
import type { Check } from "../storage/books.ts";
import type { DeviceState } from "../storage/state.ts";

/** Every file about a missing canary begins so, because its keys are sorted. */
const CANARY_BEGINS = utf8('{"absence":{');

/** One piece of evidence on this device. */
export interface Held {
  /** Digest of the experiment. */
  readonly experiment: string;
  readonly title: string;
  readonly kind: string;
  /** What it shows, in one sentence; verified again whenever it is shown. */
  readonly sentence: string;
  readonly data: Bytes;
}

/**
 * Whether this device holds evidence against the coordinator or its log: then it sends nothing more, for good.
 *
 * That a relay left a canary out is for the person to weigh: who resumes goes on.
 */
export function convicts(state: DeviceState, digest: string): boolean {
  return state.evidence(digest).some((data) => !isOfCanary(data));
}

/** All evidence on this device that verifies. */
export async function evidenceOf(state: DeviceState): Promise<Held[]> {
  const held: Held[] = [];
  for (const { digest } of state.records()) {
    for (const data of state.evidence(digest)) {
      const examine = isOfCanary(data) ? [examineCanary] : [examineLog, examineCount];
      for (const judge of examine) {
        try {
          const { kind, document, sentence } = await judge(data);
          held.push({ experiment: document.digest, title: document.title, kind, sentence, data });
        } catch (fault) {
          if (!(fault instanceof RemoteProtocolError)) throw fault;
        }
      }
    }
  }
  return held;
}

function isOfCanary(data: Bytes): boolean {
  return equal(data.subarray(0, CANARY_BEGINS.length), CANARY_BEGINS);
}

/** What a person is told of each piece, by the number that names it. */
export function inAList(held: readonly Held[]): { readonly [name: string]: string | number }[] {
  return held.map(({ experiment, title, kind, sentence }, i) => ({ number: i + 1, experiment, title, kind, sentence }));
}

/** The piece that a person names by its number, from 1. Throws a `BadInputError`. */
export function chooseOne(held: readonly Held[], number: number): Held {
  const chosen = held[number - 1];
  if (chosen === undefined) throw new BadInputError("there is no piece of evidence of this number");
  return chosen;
}

/** Everything about one experiment; `told` in sentences. */
export interface TrustReport {
  readonly log: string | null;
  readonly witnesses: readonly string[];
  readonly quorum: number | null;
  readonly checkpoint: { readonly size: number; readonly root: string } | null;
  readonly checks: { readonly [check in Check]: number };
  readonly unopened: readonly number[];
  /** How many pieces there are. */
  readonly evidence: number;
  readonly convicted: boolean;
  readonly distrust: string | null;
  readonly told: readonly Sentence[];
}

/** What was checked of one experiment with two relays. */
export async function trustReport(state: DeviceState, document: ExperimentDocument): Promise<TrustReport> {
  const [{ digest, log }, checkpoint] = [document, await lastCheckpoint(state, document)];
  const checks = state.trust.checks(digest);
  const unopened = [...state.relayed.unopened(digest)].sort((a, b) => a - b);
  const report = {
    log: log === null ? null : logKeyOf(log).name,
    witnesses: log === null ? [] : log.witnesses.map(({ name }) => name),
    quorum: log?.quorum ?? null,
    checkpoint: checkpoint && { size: checkpoint.size, root: hex(checkpoint.root) },
    ...{ checks, unopened },
    evidence: state.evidence(digest).length,
    convicted: convicts(state, digest),
    distrust: state.trust.distrust(digest),
  };
  const { seen, missing, unchecked, recounted, steps } = checks;
  const told = [
    ...(log === null ? [say("checked.no-log")] : ofLog(log, checkpoint, checks)),
    say("checked.steps", { steps }),
    say("checked.canaries", { seen, missing, unchecked }),
    ...(unopened.length ? [say("checked.unopened", { numbers: unopened.join(", ") })] : []),
    say("checked.recounted", { recounted, of: RECOUNTED_ONE_IN }),
    ...against(report),
  ];
  return { ...report, told };
}

function ofLog(log: LogTerms, checkpoint: Checkpoint | null, checks: TrustReport["checks"]): Sentence[] {
  const names = log.witnesses.map(({ name }) => name);
  return [
    say("checked.log", { log: logKeyOf(log).name, quorum: log.quorum, of: names.length, names: names.join(", ") }),
    checkpoint === null ? say("checked.nothing") : say("checked.lines", { lines: checkpoint.size }),
    say("checked.looks", { answered: checks.refetched, unanswered: checks.unanswered }),
  ];
}

function against({ convicted, evidence, distrust }: Pick<TrustReport, "convicted" | "evidence" | "distrust">): Sentence[] {
  const sentences: Sentence[] = [];
  if (convicted) sentences.push(say("checked.evidence"));
  else if (evidence) sentences.push(say("checked.left-out"));
  if (distrust !== null) sentences.push(say(convicted ? "checked.ended" : "checked.waits", { why: distrust }));
  return sentences;
}

/** The newest one under which something was believed. */
async function lastCheckpoint(state: DeviceState, { digest, log }: ExperimentDocument): Promise<Checkpoint | null> {
  const kept = log === null ? null : state.relayed.log(digest);
  const note = kept === null ? null : SEEN_LOG.fromBytes(kept).checkpoint;
  return log === null || note === null ? null : (await readCheckpoint(note, { log: logKeyOf(log) })).checkpoint;
}
