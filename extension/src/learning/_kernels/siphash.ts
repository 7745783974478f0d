/**
 * SipHash-2-4 by words of 32 bits: the one hash of features and of seeded dice (Aumasson and Bernstein 2012).
 *
 * A word of 64 bits stands in two places of a Uint32Array, its low half first. A test holds it to integers that are as
 * long as they like.
 */

/** The halves of a 64-bit hash. */
export interface Hash64 {
  readonly high: number;
  readonly low: number;
}

/** SipHash-2-4 of a message under a key of 16 bytes. */
export function siphash24(key: Uint8Array, message: Uint8Array): Hash64 {
  const [k0, k1, k2, k3] = [0, 4, 8, 12].map((at) => wordAt(key, at)) as [number, number, number, number];
  const v = Uint32Array.of(
    k0 ^ 0x70736575, k1 ^ 0x736f6d65, k2 ^ 0x6e646f6d, k3 ^ 0x646f7261,
    k0 ^ 0x6e657261, k1 ^ 0x6c796765, k2 ^ 0x79746573, k3 ^ 0x74656462,
  );
  const whole = message.length & ~7;
  for (let at = 0; at < whole; at += 8) absorb(v, wordAt(message, at), wordAt(message, at + 4));
  const last = new Uint8Array(8);
  last.set(message.subarray(whole));
  last[7] = message.length;
  absorb(v, wordAt(last, 0), wordAt(last, 4));
  v[4]! ^= 0xff;
  for (let i = 0; i < 4; i++) round(v);
  return { high: (v[1]! ^ v[3]! ^ v[5]! ^ v[7]!) >>> 0, low: (v[0]! ^ v[2]! ^ v[4]! ^ v[6]!) >>> 0 };
}

/** The bin of a hash: its upper 32 bits, scaled down to `nBins` < 2^31 by multiply and shift. */
export function reduceToBin({ high }: Hash64, nBins: number): number {
  // Half by half: the product may have more than 53 bits.
  const [above, below] = [high >>> 16, high & 0xffff];
  return Math.floor((above * nBins + Math.floor((below * nBins) / 2 ** 16)) / 2 ** 16);
}

function wordAt(data: Uint8Array, at: number): number {
  return data[at]! | (data[at + 1]! << 8) | (data[at + 2]! << 16) | (data[at + 3]! << 24);
}

function absorb(v: Uint32Array, low: number, high: number): void {
  v[6]! ^= low;
  v[7]! ^= high;
  round(v);
  round(v);
  v[0]! ^= low;
  v[1]! ^= high;
}

function round(v: Uint32Array): void {
  add(v, 0, 2);
  rotateAndMix(v, 2, 13, 0);
  swap(v, 0);
  add(v, 4, 6);
  rotateAndMix(v, 6, 16, 4);
  add(v, 0, 6);
  rotateAndMix(v, 6, 21, 0);
  add(v, 4, 2);
  rotateAndMix(v, 2, 17, 4);
  swap(v, 4);
}

/** The word at `a` plus the one at `b`. */
function add(v: Uint32Array, a: number, b: number): void {
  const low = v[a]! + v[b]!;
  v[a + 1]! += v[b + 1]! + (low > 0xffffffff ? 1 : 0);
  v[a] = low;
}

/** The word at `a`, turned left by fewer than 32 bits, with the one at `b`. */
function rotateAndMix(v: Uint32Array, a: number, bits: number, b: number): void {
  const [low, high] = [v[a]!, v[a + 1]!];
  v[a] = ((low << bits) | (high >>> (32 - bits))) ^ v[b]!;
  v[a + 1] = ((high << bits) | (low >>> (32 - bits))) ^ v[b + 1]!;
}

/** The word at `a`, turned left by 32 bits. */
function swap(v: Uint32Array, a: number): void {
  const low = v[a]!;
  v[a] = v[a + 1]!;
  v[a + 1] = low;
}
