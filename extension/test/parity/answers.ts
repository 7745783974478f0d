/** What several kinds of answers are made of. */

import { SecVMError } from "../../src/errors.ts";
import type { RandomBytes } from "../../src/crypto/sealing/kem.ts";
import type { Bytes } from "../../src/bytes.ts";

/** An answer or a part of one, or the error that is one. */
export async function orError(answer: () => unknown): Promise<unknown> {
  try {
    return await answer();
  } catch (fault) {
    return errorOf(fault);
  }
}

/** The same of what does not wait for anything. */
export function orErrorAtOnce(answer: () => unknown): unknown {
  try {
    return answer();
  } catch (fault) {
    return errorOf(fault);
  }
}

function errorOf(fault: unknown): unknown {
  // Python's side never has the other: it is shown with the question that led there.
  if (!(fault instanceof SecVMError)) return { thrown: (fault as Error).stack };
  return { error: [fault.name, fault.message] };
}

/** These bytes again and again. */
export function repeating(data: Bytes): RandomBytes {
  let at = 0;
  return (count) => Uint8Array.from({ length: count }, () => data[at++ % data.length]!);
}
