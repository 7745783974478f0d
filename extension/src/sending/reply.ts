/** What a server's answer means for what was sent: taken, later, or never. */

import type { Bytes } from "../bytes.ts";
import type { HttpAnswer } from "../runtime/http/client.ts";

/** Asked to wait longer than this, a device does as if it were this. */
const LONGEST_WAIT_MS = 86_400_000;

/** What was said to a request, or to the wish for a token. */
export interface SendReply {
  /** Where it was taken: what may be a receipt or a token; null: it was not, or nobody answered. */
  readonly content: Bytes | null;
  /** The server asked to wait so long. */
  readonly retryAfterMs: number;
  /** Sending it again will not help. */
  readonly final: boolean;
  /** Whether anybody answered, whatever it was. */
  readonly answered: boolean;
}

export const UNANSWERED: SendReply = { content: null, retryAfterMs: 0, final: false, answered: false };

/**
 * What an answer says; one that is too long says nothing. A 4xx other than those that may be gone `later` is about these
 * very bytes; anything else, as a proxy's page, may be gone the next time.
 */
export function replyOf(
  answer: HttpAnswer,
  { taken, most, later }: { taken: boolean; most: number; later: readonly number[] },
): SendReply {
  const { status, content, retryAfter } = answer;
  if (taken) return { ...UNANSWERED, content: content.length <= most ? content : null, answered: true };
  const final = 400 <= status && status < 500 && !later.includes(status);
  return { content: null, retryAfterMs: retryAfterMs(retryAfter), final, answered: true };
}

/** Seconds, as our servers write them; a date is taken for no answer. */
function retryAfterMs(text: string | null): number {
  return text !== null && /^[0-9]{1,9}$/.test(text) ? Math.min(1000 * Number(text), LONGEST_WAIT_MS) : 0;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DATE = /^[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT$/;

/** The instant of HTTP's `date`, as every server writes it now (RFC 9110 §5.6.7); null where it is none. */
export function instantOf(date: string | null): number | null {
  const [, day, name, ...numbers] = DATE.exec(date ?? "") ?? [];
  const month = MONTHS.indexOf(name ?? "");
  if (month < 0) return null;
  const [year, hour, minute, second] = numbers.map(Number) as [number, number, number, number];
  const at = new Date(Date.UTC(year, month, Number(day), hour, minute, second));
  const same = [at.getUTCFullYear(), at.getUTCDate(), at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()];
  return String(same) === String([year, Number(day), hour, minute, second]) ? at.getTime() : null;
}
