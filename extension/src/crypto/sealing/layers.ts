/**
 * The two seals of a package: the inner one for the coordinator, the outer one for the mixing relay.
 *
 *     inner = Seal(pk_C, package)    80 bytes        outer = Seal(pk_X, inner)    128 bytes
 *
 * Both are HPKE in base mode (`Schedule`) whose `info` is the layer's name and the label of the round
 * (docs/protocol.md §25), so that a capsule of one round or layer opens in no other. A capsule is `enc` and ciphertext,
 * without a header: label and length say all that a header would.
 *
 * The ephemeral secret is an argument. A secret used for two different contents gives both away.
 */

import { concat, utf8, type Bytes } from "../../bytes.ts";
import { LocalProtocolError, OpeningError } from "../../errors.ts";
import { Schedule, TAG_BYTES } from "./hpke.ts";
import { KEY_BYTES, type X25519PrivateKey, type X25519PublicKey } from "./kem.ts";

export const LABEL_BYTES = 32;
export const EPHEMERAL_BYTES = 32;
/** What a seal adds: the ephemeral public key and the cipher's tag. */
export const SEAL_BYTES = KEY_BYTES + TAG_BYTES;
export const PACKAGE_BYTES = 32;
export const INNER_BYTES = PACKAGE_BYTES + SEAL_BYTES;
export const OUTER_BYTES = INNER_BYTES + SEAL_BYTES;

/** Capsules that WebCrypto is given at once: its threads are busy, and memory stays small. */
const AT_ONCE = 256;
const NO_AAD = new Uint8Array();

/** One of the two seals, for the round of one label. Public. */
export class Layer {
  readonly schedule: Schedule;
  /** Bytes that it seals: all of them, always. */
  readonly contentBytes: number;

  constructor(schedule: Schedule, contentBytes: number) {
    this.schedule = schedule;
    this.contentBytes = contentBytes;
  }

  get capsuleBytes(): number {
    return this.contentBytes + SEAL_BYTES;
  }

  /** The capsule of this content and this ephemeral secret, for whoever holds the private key. */
  async seal(publicKey: X25519PublicKey, ephemeral: Bytes, content: Bytes): Promise<Bytes> {
    if (ephemeral.length !== EPHEMERAL_BYTES) {
      throw new LocalProtocolError(`an ephemeral secret of ${ephemeral.length} bytes: it has ${EPHEMERAL_BYTES}`);
    }
    if (content.length !== this.contentBytes) {
      throw new LocalProtocolError(`${content.length} bytes to be sealed: this layer takes ${this.contentBytes}`);
    }
    const sender = await this.schedule.sendTo(publicKey, ephemeral);
    return concat(sender.enc, await sender.seal(NO_AAD, content));
  }

  /** What is inside. Throws an `OpeningError` and nothing else, whatever the bytes are. */
  async open(privateKey: X25519PrivateKey, capsule: Bytes): Promise<Bytes> {
    if (capsule.length !== this.capsuleBytes) {
      throw new OpeningError(`a capsule of ${capsule.length} bytes: here it has ${this.capsuleBytes}`);
    }
    const receiver = await this.schedule.receive(privateKey, capsule.slice(0, EPHEMERAL_BYTES));
    return receiver.open(NO_AAD, capsule.slice(EPHEMERAL_BYTES));
  }

  /** One capsule for each content, side by side; the i-th ephemeral secret belongs to the i-th content. */
  async sealAll(publicKey: X25519PublicKey, ephemerals: Bytes, contents: Bytes): Promise<Bytes> {
    const size = this.contentBytes;
    const count = contents.length / size;
    if (!Number.isInteger(count) || ephemerals.length !== count * EPHEMERAL_BYTES) {
      throw new LocalProtocolError(
        `${contents.length} bytes in contents of ${size} and ${ephemerals.length} bytes of ephemeral secrets of` +
          ` ${EPHEMERAL_BYTES} do not belong together`,
      );
    }
    const sealed = await manyAtOnce(count, (i) =>
      this.seal(publicKey, part(ephemerals, EPHEMERAL_BYTES, i), part(contents, size, i)),
    );
    return concat(...sealed);
  }

  /** What is inside of each capsule, in order; null where it does not open. */
  async openAll(privateKey: X25519PrivateKey, capsules: Bytes): Promise<(Bytes | null)[]> {
    const size = this.capsuleBytes;
    const count = capsules.length / size;
    if (!Number.isInteger(count)) {
      throw new OpeningError(`${capsules.length} bytes are no whole number of capsules of ${size}`);
    }
    return manyAtOnce(count, async (i) => {
      try {
        return await this.open(privateKey, part(capsules, size, i));
      } catch (fault) {
        if (!(fault instanceof OpeningError)) throw fault;
        return null;
      }
    });
  }
}

/** Package → inner capsule. */
export function innerLayer(label: Uint8Array): Layer {
  return layer("secvm-v2-inner\n", label, PACKAGE_BYTES);
}

/** Inner capsule → outer capsule. */
export function outerLayer(label: Uint8Array): Layer {
  return layer("secvm-v2-outer\n", label, INNER_BYTES);
}

function layer(name: string, label: Uint8Array, contentBytes: number): Layer {
  if (label.length !== LABEL_BYTES) {
    throw new LocalProtocolError(`a label of ${label.length} bytes: it is a SHA-256 digest of ${LABEL_BYTES}`);
  }
  return new Layer(new Schedule(concat(utf8(name), label)), contentBytes);
}

/** Inner and outer capsule of a package; `ephemerals`: the inner seal's 32 bytes, then the outer one's. */
export async function sealBoth(
  countKey: X25519PublicKey,
  mixKey: X25519PublicKey,
  label: Uint8Array,
  ephemerals: Bytes,
  content: Bytes,
): Promise<[inner: Bytes, outer: Bytes]> {
  if (ephemerals.length !== 2 * EPHEMERAL_BYTES) {
    throw new LocalProtocolError(
      `ephemeral secrets of ${ephemerals.length} bytes: two of ${EPHEMERAL_BYTES} are needed`,
    );
  }
  const inner = await innerLayer(label).seal(countKey, part(ephemerals, EPHEMERAL_BYTES, 0), content);
  return [inner, await outerLayer(label).seal(mixKey, part(ephemerals, EPHEMERAL_BYTES, 1), inner)];
}

/** The i-th of parts of one size, in a buffer of its own. */
function part(data: Bytes, size: number, i: number): Bytes {
  return data.slice(i * size, (i + 1) * size);
}

async function manyAtOnce<T>(count: number, work: (i: number) => Promise<T>): Promise<T[]> {
  const done: T[] = [];
  for (let low = 0; low < count; low += AT_ONCE) {
    const run = Array.from({ length: Math.min(AT_ONCE, count - low) }, (_, i) => work(low + i));
    done.push(...(await Promise.all(run)));
  }
  return done;
}
