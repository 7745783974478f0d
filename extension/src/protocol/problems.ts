/**
 * Problem types: what a server answers to what it cannot take (RFC 9457), each with a name, a status and a sentence.
 *
 * An answer is one of these and nothing else: no detail, no echo of what was sent.
 */

import { equal, type Bytes } from "../bytes.ts";
import { MalformedMessageError } from "../errors.ts";
import { decodeDocument, encodeDocument } from "./canonical.ts";

/** Every answer is shorter. */
const MAX_BYTES = 256;
const URN = "urn:secvm:problem:v1:";

/** One kind of refusal. */
export interface Problem {
  readonly name: string;
  readonly status: number;
  /** The RFC's "title": one sentence for a person. */
  readonly sentence: string;
  /** Whether sending the same bytes again, later in the same window, may go better. */
  readonly retry: boolean;
  /** The RFC's "type". */
  readonly uri: string;
}

type More = Partial<Pick<Problem, "retry" | "uri">>;

function problem(name: string, status: number, sentence: string, more: More = {}): Problem {
  return { name, status, sentence, retry: false, uri: URN + name, ...more };
}

/** Every problem. */
export const PROBLEMS: readonly Problem[] = [
  problem("unknown-key", 400, "The capsule is sealed for a key that this gateway does not have.", {
    // RFC 9458 §5.3 and IANA's registry of HTTP problem types.
    uri: "https://iana.org/assignments/http-problem-types#ohttp-key",
  }),
  problem("wrong-size", 400, "The content does not have the one size that packages have."),
  problem("garbage", 400, "The content is no package."),
  problem("too-large", 413, "The content is larger than anything that is taken here."),
  problem("no-packages", 404, "This relay takes no single packages."),
  problem("unknown-experiment", 404, "This coordinator runs no such experiment."),
  problem("wrong-round", 409, "The package is for a round that is not open."),
  problem("stale", 410, "The round takes no more packages."),
  problem("bin-out-of-range", 422, "The package names a bin that the experiment does not have."),
  problem("unknown-model", 422, "The package names a model that the experiment does not have."),
  problem("unknown-class", 422, "The package names a class that the experiment does not have."),
  problem("over-quota", 429, "More packages than one participant may send in a round."),
  problem("try-later", 503, "Nothing is wrong with the package, but it could not be stored.", { retry: true }),
];

/** The problem that an answer's body names; only bytes that a server of ours could have written are taken. */
export function readProblem(data: Uint8Array): Problem {
  const content = decodeDocument(data, { maxBytes: MAX_BYTES });
  const found = PROBLEMS.find((each) => each.uri === content["type"]);
  if (found === undefined || !equal(data, problemBytes(found))) {
    throw new MalformedMessageError("the answer is no problem of this protocol");
  }
  return found;
}

function problemBytes(found: Problem): Bytes {
  return encodeDocument({ status: found.status, title: found.sentence, type: found.uri });
}
