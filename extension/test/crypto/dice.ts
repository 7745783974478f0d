/** Dice that can be thrown again: for tests alone. */

import { concat, littleEndian, utf8, type Bytes } from "../../src/bytes.ts";
import { sha256 } from "../../src/crypto/hashes.ts";
import type { RandomBytes } from "../../src/crypto/sealing/kem.ts";

/** Everlasting bytes that follow from a seed. */
export function unsafeSeeded(seed: string): RandomBytes {
  let thrown = 0;
  return (count) => {
    const blocks = Array.from({ length: Math.ceil(count / 32) }, () => sha256(utf8(seed), littleEndian(thrown++, 8)));
    return concat(...blocks).slice(0, count);
  };
}

/** These bytes, once. */
export function unsafeWritten(data: Bytes): RandomBytes {
  let at = 0;
  return (count) => data.slice(at, (at += count));
}
