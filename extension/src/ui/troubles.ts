/** What is wrong just now, in one sentence for the page: nothing was sent, and nothing is lost. */

import { SecVMError } from "../errors.ts";
import { asSentence } from "../formatting.ts";
import { contents, say, type SentenceContent } from "../privacy/sentences.ts";

/** Once is nothing: relays are started anew. */
const MANY_UNANSWERED = 3;

interface Happened {
  /** So many askings in a row that nobody answered. */
  readonly unanswered: number;
  readonly abstentions: readonly { readonly round: number; readonly reason: string; readonly sentence: string }[];
  /** The newest round that the device knows. */
  readonly newest: number;
}

/** Of one experiment that the device takes part in; null: nothing. */
export function troubleOf({ unanswered, abstentions, newest }: Happened): SentenceContent | null {
  if (unanswered >= MANY_UNANSWERED) return say("trouble.unanswered", { n: unanswered }).content();
  const last = abstentions.findLast(({ round, reason }) => round === newest && reason !== "PAUSED" && reason !== "LATE");
  if (last === undefined) return null;
  // The page says reasons in its reader's language.
  return { key: `why.${last.reason}`, values: { sentence: last.sentence }, text: asSentence(last.sentence) };
}

/** Of the whole device, from what its work ended with. */
export function faultOf(thrown: unknown): SentenceContent | { readonly text: string } {
  return contents([thrown instanceof SecVMError ? thrown.said : say("trouble.unknown")])[0]!;
}
