/** A coordinator's log in memory, signed and cosigned with keys that everybody knows. */

import { concat, utf8, type Bytes } from "../../../src/bytes.ts";
import { Frontier, inclusionProof, leafHash, root } from "../../../src/crypto/merkle.ts";
import { hashLine } from "../../../src/protocol/log/checkpoints.ts";
import { entryToBytes, type Entry } from "../../../src/protocol/log/entries.ts";
import type { LogTerms } from "../../../src/protocol/log/policy.ts";
import { proofToBytes } from "../../../src/protocol/log/proofs.ts";
import { SigningKey, signatureLine } from "../../crypto/signers.ts";

export const [LOG, ...WITNESSES] = [5, 11, 12, 13].map((seed) => new SigningKey(new Uint8Array(32).fill(seed))) as [
  SigningKey,
  ...SigningKey[],
];
export const ORIGIN = "log.example/secvm/v2";
export const TERMS: LogTerms = {
  name: "log.example",
  key: LOG.public,
  witnesses: WITNESSES.map((key, i) => ({ name: `w${i}.example`, key: key.public })),
  quorum: 2,
  freshnessS: 3600,
};

interface Cosigned {
  size?: number;
  /** So many of the witnesses, at this time in seconds. */
  witnesses?: number;
  timeS?: number;
}

export class KnownLog {
  readonly lines: Bytes[];

  constructor(lines: readonly Bytes[] = []) {
    this.lines = [...lines];
  }

  append(...entries: readonly Entry[]): this {
    this.lines.push(...entries.map(entryToBytes));
    return this;
  }

  get edge(): Frontier {
    return this.lines.map(leafHash).reduce((edge, leaf) => edge.append(leaf), new Frontier());
  }

  #read = (size: number) => new Frontier().reader(this.lines.slice(0, size).map(leafHash));

  checkpoint({ size = this.lines.length, witnesses = 0, timeS = 0 }: Cosigned = {}): Bytes {
    const text = `${ORIGIN}\n${size}\n${hashLine(root(this.#read(size), size))}`;
    return signedNote(text, witnesses, timeS);
  }

  /** The proof file of an entry under this checkpoint. */
  proof(index: number, checkpoint: Bytes, size = this.lines.length): Bytes {
    return proofToBytes({ index, path: inclusionProof(this.#read(size), index, size), checkpoint });
  }
}

/** A note of the log with this text, cosigned by so many witnesses. */
export function signedNote(text: string, witnesses = 0, timeS = 0): Bytes {
  const seen = WITNESSES.slice(0, witnesses).map((key, i) =>
    signatureLine(text, { name: `w${i}.example`, key, time: BigInt(timeS) }),
  );
  return concat(utf8(`${text}\n`), utf8([signatureLine(text, { name: ORIGIN, key: LOG }), ...seen].join("")));
}
