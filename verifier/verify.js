// A stranger's verifier: recounts and replays a SecVM experiment from a coordinator's public files, written from
// docs/protocol.md alone (§). In node: node verify.js FOLDER-OR-URL [EXPERIMENT]. In a browser: verify.html.
"use strict"; const { subtle } = globalThis.crypto;
class Lie extends Error {} class Unreadable extends Error {} class Unsteppable extends Error {} // exit code 1; exit code 2; no step follows (§6.1, §3.2)
const must = (holds, sentence) => { if (!holds) throw new Lie(sentence); };
const range = (count) => Array.from({ length: count }, (_, i) => i);
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const utf8 = (text) => new TextEncoder().encode(text), lengthOf = (parts) => parts.reduce((sum, part) => sum + part.length, 0);
const put = (whole, parts) => { parts.reduce((at, part) => (whole.set(part, at), at + part.length), 0); return whole; };
const cat = (...parts) => put(new Uint8Array(lengthOf(parts)), parts);
const cut = (bytes, size) => range(Math.ceil(bytes.length / size)).map((i) => bytes.subarray(i * size, (i + 1) * size));
const le = (number, size) => Uint8Array.from({ length: size }, (_, i) => Math.floor(number / 256 ** i) % 256);
const unle = (bytes) => bytes.reduceRight((sum, byte) => sum * 256 + byte, 0);
const unbase64 = (text) => { must(/^[A-Za-z0-9+/]*={0,2}$/.test(text) && text.length % 4 === 0 && btoa(atob(text)) === text, "text that is no base64");
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)); };
// Exact numbers. A rational is [numerator, denominator] in lowest terms; round is half to even.
const abs = (n) => (n < 0n ? -n : n), gcd = (a, b) => { while (b) [a, b] = [b, a % b]; return abs(a); };
const frac = (n, d = 1n) => { const g = gcd(n, d) * (d < 0n ? -1n : 1n); return [n / g, d / g]; }, ONE = [1n, 1n], ZERO = [0n, 1n];
const Q = (text) => { must(/^-?\d{1,80}(\/\d{1,80})?$/.test(text), "a rational that is none"); return frac(...text.split("/").map(BigInt)); };
const add = (x, y) => frac(x[0] * y[1] + y[0] * x[1], x[1] * y[1]), mul = (x, y) => frac(x[0] * y[0], x[1] * y[1]);
const div = (x, y) => mul(x, [y[1], y[0]]), neg = (x) => [-x[0], x[1]], pow2 = (k) => (k < 0 ? [1n, 1n << BigInt(-k)] : [1n << BigInt(k), 1n]);
const floor = (n, d) => n / d - (n % d < 0n ? 1n : 0n), bits = (n) => (n ? abs(n).toString(2).length : 0);
const round = (n, d) => { const q = floor(n, d), r = 2n * (n - q * d); return r > d || (r === d && q & 1n) ? q + 1n : q; };
const float = ([n, d]) => { // the nearest double: at least 65 bits of the quotient, and one for what is left over
  const s = BigInt(Math.max(0, 66 + bits(d) - bits(n))), q = (abs(n) << s) / d, rest = (abs(n) << s) % d ? 1n : 0n;
  return (Number(q | rest) / 2 ** Number(s)) * (n < 0n ? -1 : 1); };
// Hashes. SHA-256 by hand, because WebCrypto's is slow for millions of short texts; BLAKE2b, because it has none.
const PRIMES = range(312).filter((n) => n > 1 && range(n).every((d) => d < 2 || n % d)), W = new Int32Array(64);
const ROOTS = Int32Array.from(PRIMES.slice(0, 8), (n) => (n ** 0.5 % 1) * 2 ** 32), CUBES = Int32Array.from(PRIMES, (n) => (Math.cbrt(n) % 1) * 2 ** 32);
const sha256 = (...parts) => {
  const size = lengthOf(parts), data = put(new Uint8Array(((size + 72) >> 6) << 6), parts), view = new DataView(data.buffer), state = ROOTS.slice();
  data[size] = 128; view.setUint32(data.length - 8, Math.floor(size / 2 ** 29)); view.setUint32(data.length - 4, size << 3);
  for (let at = 0; at < data.length; at += 64) { for (let i = 0; i < 16; i++) W[i] = view.getInt32(at + 4 * i);
    for (let i = 16; i < 64; i++) { const x = W[i - 15], y = W[i - 2], s = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      W[i] = W[i - 16] + W[i - 7] + s + (((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10)); }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const s = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7)), t = (h + s + ((e & f) ^ (~e & g)) + CUBES[i] + W[i]) | 0;
      const u = (((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10))) + ((a & b) ^ (a & c) ^ (b & c));
      h = g; g = f; f = e; e = (d + t) | 0; d = c; c = b; b = a; a = (t + u) | 0; }
    state[0] += a; state[1] += b; state[2] += c; state[3] += d; state[4] += e; state[5] += f; state[6] += g; state[7] += h; }
  state.forEach((word, i) => view.setInt32(4 * i, word)); return data.slice(0, 32); };
const digest = (...parts) => hex(sha256(...parts)), same = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);
const hmac = (key, ...parts) => { const [inner, outer] = [0x36, 0x5c].map((byte) => new Uint8Array(64).fill(byte).map((pad, i) => pad ^ (key[i] ?? 0)));
  return sha256(outer, sha256(inner, ...parts)); };
const M64 = (1n << 64n) - 1n, SIGMA = ["0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0"];
const BLAKE = [0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n, 0x510e527fade682d1n, 0x9b05688c2b3e6c1fn,
  0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n];
const blake2b = (data, key, person) => { // 32 bytes, with a key and a personalisation of 16 bytes
  const turn = (x, n) => (x >> n) | ((x << (64n - n)) & M64), words = (bytes) => new BigUint64Array(bytes.slice().buffer);
  const blocks = cut(put(new Uint8Array(128 * (1 + Math.ceil(data.length / 128))), [key, new Uint8Array(128 - key.length), data]), 128);
  const h = BLAKE.slice(), [first, second] = words(utf8(person)); h[0] ^= 0x01010020n ^ (BigInt(key.length) << 8n); h[6] ^= first; h[7] ^= second;
  blocks.forEach((block, number) => { const m = words(block), v = [...h, ...BLAKE], last = number === blocks.length - 1;
    v[12] ^= BigInt(last ? 128 + data.length : 128 * (number + 1)); v[14] ^= last ? M64 : 0n;
    for (let i = 0; i < 96; i++) { // twelve rounds of eight
      const [a, b, c, d] = range(4).map((k) => 4 * k + ((i + k * ((i >> 2) & 1)) & 3)), pick = (k) => m[parseInt(SIGMA[(i >> 3) % 10][2 * (i & 7) + k], 16)];
      for (const [k, n1, n2] of [[0, 32n, 24n], [1, 16n, 63n]]) {
        v[a] = (v[a] + v[b] + pick(k)) & M64; v[d] = turn(v[d] ^ v[a], n1); v[c] = (v[c] + v[d]) & M64; v[b] = turn(v[b] ^ v[c], n2); } }
    h.forEach((_, i) => { h[i] ^= v[i] ^ v[i + 8]; }); });
  return new Uint8Array(BigUint64Array.from(h).buffer).slice(0, 32); };
// Documents (§10) and envelopes (§12)
const canonical = (value, depth = 1) => { must(typeof value !== "number" || Number.isSafeInteger(value), "a number that is no integer");
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  must(depth <= 8 && (Array.isArray(value) || Object.keys(value).every((key) => /^[a-z][a-z0-9_]{0,63}$/.test(key))), "a document too deep, or with a field of no name");
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item, depth + 1)).join()}]`;
  return `{${Object.keys(value).sort().map((key) => `"${key}":${canonical(value[key], depth + 1)}`).join()}}`; };
const KINDS = {
  hex: (v) => typeof v === "string" && /^[0-9a-f]{64}$/.test(v), text: (v) => typeof v === "string", null: (v) => v === null, any: () => true,
  int: (v) => Number.isInteger(v) && v >= 0, some: (v) => KINDS.int(v) && v > 0, round: (v) => KINDS.some(v) && v < 2 ** 20,
  part: (v) => KINDS.int(v) && v < 64, path: (v) => Array.isArray(v) && v.length <= 6 && v.every(KINDS.hex) };
const read = (payload, type, most, schema) => { // schema: "name:kind name:kind|kind …", all fields but the type
  let doc = null; try { doc = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(payload)); } catch { /* said below */ }
  must(doc?.type === type && payload.length <= most && same(utf8(canonical(doc)), payload), `bytes that are no canonical ${type}`);
  const fields = schema?.split(/\s+/).map((field) => field.split(":"));
  must(!fields || Object.keys(doc).length === fields.length + 1, `a ${type} with other fields`);
  for (const [name, kinds] of fields ?? []) must(kinds.split("|").some((kind) => KINDS[kind](doc[name])), `a ${type} whose ${name} is none`);
  return { ...doc, digest: digest(payload) }; };
const P = 2n ** 255n - 19n, SMALL = [1n, P - 1n, 0n, 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n];
const goodKey = (key) => {
  const y = KINDS.hex(key) ? BigInt(`0x${hex(unhex(key).reverse())}`) & (2n ** 255n - 1n) : P; return y < P && !SMALL.includes(y) && P - y !== SMALL[3]; };
const envelope = async (bytes, purpose, keys, threshold, most = 16) => { // the payload, if so many of these keys signed it
  const magic = utf8("secvm-envelope-v1\n"), count = bytes[18], head = 19 + 80 * count, payload = bytes.slice(head + 4);
  must(same(bytes.slice(0, 18), magic) && count >= 1 && count <= most && bytes.length >= head + 4, "bytes that are no envelope");
  must(unle(bytes.subarray(head, head + 4)) === payload.length && payload.length <= 2 ** 20, "an envelope of another length");
  const lines = cut(bytes.slice(19, head), 80), ids = lines.map((line) => hex(line.subarray(0, 16)));
  must(ids.every((id, i) => !i || ids[i - 1] < id) && keys.every(goodKey), "signatures out of order, or a key that is none");
  const signed = cat(utf8("secvm-v1-signed\n"), le(purpose.length, 8), utf8(purpose), le(payload.length, 8), payload);
  const places = keys.map((key) => ids.indexOf(digest(utf8("secvm-v1-key\n"), unhex(key)).slice(0, 32)));
  must(places.filter((at) => at >= 0).length >= threshold, `a ${purpose} that too few of its keys signed`);
  for (const [i, at] of places.entries()) { const key = at >= 0 && await subtle.importKey("raw", unhex(keys[i]), "Ed25519", false, ["verify"]);
    must(at < 0 || await subtle.verify("Ed25519", key, lines[at].slice(16), signed), `a ${purpose} with a wrong signature`); }
  return payload; };
const leaf = (entry) => sha256([0], entry), node = (left, right) => sha256([1], left, right); // trees of RFC 6962 (§25)
const rootOf = (hashes) => (hashes.length < 2 ? hashes[0] ?? sha256() // of leaves' hashes
  : rootOf(range((hashes.length + 1) >> 1).map((i) => (hashes[2 * i + 1] ? node(hashes[2 * i], hashes[2 * i + 1]) : hashes[2 * i]))));
const leads = (hash, index, size, path, root) => { let last = size - 1; if (index > last) return false; // RFC 9162, 2.1.3.2
  for (const other of path) { if (!last) return false; const right = index & 1 || index === last; hash = right ? node(other, hash) : node(hash, other);
    while (right && !(index & 1) && index) { index >>= 1; last >>= 1; }
    index >>= 1; last >>= 1; }
  return !last && hex(hash) === root; };
// The inner seal: HPKE in base mode with X25519, HKDF-SHA256, AES-128-GCM (§25)
const KEM = [...utf8("KEM"), 0, 32], SUITE = [...utf8("HPKE"), 0, 32, 0, 1, 0, 1], HPKE = utf8("HPKE-v1"), NONE = [];
const extract = (suite, salt, label, ikm) => hmac(salt, HPKE, suite, utf8(label), ikm);
const expand = (suite, prk, label, info, size) => hmac(prk, [0, size], HPKE, suite, utf8(label), info, [1]).slice(0, size);
const secretKey = (raw) => subtle.importKey("pkcs8", cat(unhex("302e020100300506032b656e04220420"), raw), "X25519", false, ["deriveBits"]);
const publicKey = (raw) => subtle.importKey("raw", raw, "X25519", false, []), BASE = publicKey(unhex(`09${"00".repeat(31)}`));
const exchange = async (secret, key) => { const shared = new Uint8Array(await subtle.deriveBits({ name: "X25519", public: await key }, secret, 256));
  if (shared.every((byte) => !byte)) throw new Error("an exchange that is zero"); return shared; };
const derivePrivate = (seed) => expand(KEM, extract(KEM, NONE, "dkp_prk", seed), "sk", NONE, 32);
const goodPoint = async (key) => exchange(await secretKey(new Uint8Array(32)), publicKey(unhex(key))).catch(() => must(false, "a key of small order"));
const contextOf = (label) => cat([0], extract(SUITE, NONE, "psk_id_hash", NONE), extract(SUITE, NONE, "info_hash", cat(utf8("secvm-v2-inner\n"), label)));
const cipher = async (shared, enc, key, context, use) => {
  const secret = extract(SUITE, expand(KEM, extract(KEM, NONE, "eae_prk", shared), "shared_secret", cat(enc, key), 32), "secret", NONE);
  const aes = await subtle.importKey("raw", expand(SUITE, secret, "key", context, 16), "AES-GCM", false, [use]);
  return [{ name: "AES-GCM", iv: expand(SUITE, secret, "base_nonce", context, 12) }, aes]; };
const openInner = (capsule, secret, key, context) => exchange(secret, publicKey(capsule.slice(0, 32))) // what is under the seal; null: junk
  .then(async (shared) => subtle.decrypt(...await cipher(shared, capsule.slice(0, 32), key, context, "decrypt"), capsule.slice(32)))
  .then((data) => new Uint8Array(data), () => null);
const sealInner = async (data, ephemeral, key, context) => {
  const secret = await secretKey(ephemeral), enc = await exchange(secret, BASE), shared = await exchange(secret, publicKey(key));
  return cat(enc, new Uint8Array(await subtle.encrypt(...await cipher(shared, enc, key, context, "encrypt"), data))); };
// Packages and their cells, numbered through (§9, §26)
const cellOf = (x, data, number) => { // null: a null package, which has no cell; undefined: junk
  if (data?.length !== 32 || !same(data.slice(0, 1), [1]) || hex(data.subarray(2, 18)) !== x.id || unle(data.subarray(18, 22)) !== number) return undefined;
  const kind = data[1], a = unle(data.subarray(22, 24)), b = unle(data.subarray(24, 28)), c = unle(data.subarray(28)), signed = c === 1 || c === 2;
  if (kind === 1 && a < x.signs.length && b < x.bins && signed) return (a * x.bins + b) * 2 + c - 1;
  if (kind === 2 && !x.number && a < x.labels && b < x.labels && !c) return x.test + a * x.labels + b;
  if (kind === 3 && a < x.labels && !b && signed) return x.people + (c - 1) * x.labels + a; return kind === 4 && !a && !b && !c ? null : undefined; };
const packageOf = (x, cell, number) => {
  const write = (kind, a, b, c) => cat([1, kind], unhex(x.id), le(number, 4), le(a, 2), le(b, 4), le(c, 4)), over = (n, d) => Math.floor(n / d);
  if (cell === null) return write(4, 0, 0, 0); if (cell < x.people) return write(1, over(cell, 2 * x.bins), over(cell, 2) % x.bins, 1 + (cell % 2));
  if (cell < x.test) return write(3, (cell - x.people) % x.labels, 0, 1 + over(cell - x.people, x.labels));
  return write(2, over(cell - x.test, x.labels), (cell - x.test) % x.labels, 0); };
// Cover: a part from its seed (§29), and what it explains (§31)
const meanOf = ({ shape, odds }) => round(...mul([2n, 1n], mul(shape, odds))); // of both relays' parts that are not opened
const sample = (words, cells, shape, odds) => { // the cells that are named, in order; RangeError: it needs more words
  let at = 0; const word = () => { if (at === words.length) throw new RangeError("no more words"); return words[at++]; };
  const below = ([n, d]) => { while (n > 0n && n < d) { const digit = (n << 64n) / d, w = word(); if (w !== digit) return w < digit; n = (n << 64n) - digit * d; }
    return n > 0n; };
  const uniform = (m) => { for (const end = 2n ** 64n - (2n ** 64n % m); ;) { const w = m === 1n ? 0n : word(); if (w < end) return w % m; } };
  const poisson = () => { for (;;) { let k = 0n, w, chance = [1n, 2n]; do for (w = word(); w & 1n; w >>= 1n) k++; while (k && k % 64n === 0n && !w);
      for (let i = 1n; i <= k; i++) chance = [2n * chance[0], i * chance[1]]; if (below(chance)) return k; } };
  const [p, q] = div(odds, add(odds, ONE)), powers = [[p, q]]; for (let n = p * p, d = q * q; 16n * n >= d; n *= p, d *= q) powers.push([n, d]);
  const digits = powers.map(([n, d]) => (n << 64n) / d), size = () => {
    for (let before = 0; ; before += powers.length) { const w = word(); let above = digits.filter((digit) => digit > w).length;
      if (digits[above] === w && below([(powers[above][0] << 64n) - w * powers[above][1], powers[above][1]])) above++;
      if (above < powers.length) return before + above + 1; } };
  const mean = mul(frac(BigInt(cells)), mul(shape, odds)), draws = -floor(-mean[0], mean[1]), named = []; let candidates = 0n, groups = 0;
  for (let i = 0n; i < draws; i++) candidates += poisson(); for (const share = div(mean, [draws, 1n]); candidates; candidates--) groups += below(share);
  for (; groups; groups--) { const s = size(); if (!uniform(BigInt(s))) named.push(...Array(s).fill(Number(uniform(BigInt(cells))))); }
  return named; };
const coverPart = async (x, seed, label, root, number) => { // its cells, null for nulls, and the ephemeral keys of its seals
  const most = x.cover.packages / x.cover.parts, cells = []; for (let attempt = 0; ; attempt++, cells.length = 0) {
    const key = blake2b(cat(label, root, le(attempt, 4)), seed, "secvm-v2-part\0\0\0"), stream = async (name, size) => {
      const aes = await subtle.importKey("raw", blake2b(utf8(name), key, "secvm-v2-stream\0"), "AES-CTR", false, ["encrypt"]);
      return new Uint8Array(await subtle.encrypt({ name: "AES-CTR", counter: new Uint8Array(16), length: 64 }, aes, new Uint8Array(size))); };
    for (const { name, first, count, shape, odds } of x.kinds) for (let size = 2 ** 16, found; !found; size *= 4) {
      const words = new BigUint64Array((await stream(name, size)).buffer);
      try { found = sample(words, count, div(shape, frac(BigInt(x.cover.parts - 1))), odds); } catch (fault) { if (!(fault instanceof RangeError)) throw fault; }
      for (const cell of found ?? []) cells.push(first + cell); }
    if (cells.length > most) continue; while (cells.length < most) cells.push(null);
    return { attempt, cells, packages: cells.map((cell) => packageOf(x, cell, number)), seals: cut(await stream("seals", 64 * most), 64) }; } };
const quantile = ({ shape: [r, s], odds }) => { // q, by terms w_k of the series whose first is 1 and whose sum is (1 - p)^(-shape)
  const [n, d] = div(odds, add(odds, ONE)), terms = [1n << 512n];
  for (let k = 0n, w = terms[0]; w; k++) terms.push((w = (w * (k * s + r) * n) / ((k + 1n) * s * d))); const total = terms.reduce((sum, w) => sum + w, 0n);
  let tail = total - terms[0], q = 0; // what was rounded off is far below the slack; equal counts as reached
  while (tail * 10n ** 12n > total + (total >> 256n)) tail -= terms[++q]; return BigInt(q); };
// From a tally to a model (§6)
const LIMIT = 1n << 61n, NAMES = ["state", "training_weights", "evaluation_weights"], raw = (array) => new Uint8Array(array.buffer);
const unsteppable = (holds) => { if (holds) throw new Unsteppable("a number leaves its range"); };
const questionOf = (doc, id = "") => { // of a document, what is asked below
  const { labels, multiclass, loss, rule, thinning, class_weights: weights } = doc.learning, all = range(labels.length), bins = doc.binning.bins + 1;
  const number = ["epsilon-insensitive", "pinball"].includes(loss.name), share = Q(loss.parameter ?? "1/2"), cover = doc.privacy;
  const factor = { "squared-hinge": mul([2n, 1n], Q(loss.parameter ?? "4")), "modified-huber": [4n, 1n] }[loss.name] ?? ONE;
  const pairs = () => all.flatMap((a) => all.slice(a + 1).map((b) => all.map((l) => (l === b) - (l === a))));
  const signs = number ? [[1]] : all.length === 2 ? [[-1, 1]] : multiclass === "ovr" ? all.map((c) => all.map((l) => (l === c ? 1 : -1))) : pairs();
  const people = signs.length * bins * 2, test = people + 2 * all.length, cells = test + (number ? 0 : all.length ** 2), [q, d] = [thinning.q, thinning.rho];
  const kinds = cover && [["train", 0, people], ["participation", people, test - people], ["test", test, cells - test]].filter(([name]) => cover[name])
    .map(([name, first, count]) => ({ name, first, count, shape: Q(cover[name].shape), odds: Q(cover[name].odds) }));
  return { id, bins, labels: all.length, number, signs, rule, cover, kinds, people, test, cells, divisor: Q(q ?? d ?? "1"),
    weights: all.map((l) => Q(weights[l] ?? "1")), factors: loss.name === "pinball" ? [share, add(ONE, neg(share))] : [factor, factor] }; };
const start = ({ rule: { name, constants }, signs, bins }) => {
  const sums = () => [...range(Number(constants.averaging)).map((i) => `sum_${i}`), ...(constants.step_cap ? ["popularity"] : [])];
  const names = name === "swift" ? ["average", "popularity", "precondition", "velocity", "weights"] : sums(), size = signs.length * bins;
  return { step: 0, vectors: Object.fromEntries(names.map((one) => [one, name === "swift" ? new Float64Array(size) : new BigInt64Array(size)])) }; };
const direction = (x, { plus, minus, participants }, m) => {
  const [up, down] = [1, -1].map((sign) => {
    const labels = range(x.labels).filter((l) => x.signs[m][l] === sign), n = labels.reduce((sum, l) => sum + participants[l], 0n);
    const sum = labels.reduce((all, l) => add(all, mul(x.weights[l], frac(participants[l]))), ZERO);
    return { n, sum, mean: n ? div(sum, frac(n)) : x.weights[labels[0]] ?? ONE }; });
  const a = mul(up.mean, x.factors[0]), b = mul(down.mean, x.factors[1]), g = gcd(a[0] * b[1], b[0] * a[1]) || 1n;
  const A = (a[0] * b[1]) / g, B = (b[0] * a[1]) / g, whole = add(up.sum, down.sum), people = up.n + down.n, bins = range(x.bins).map((j) => m * x.bins + j);
  return { numerator: bins.map((j) => A * plus[j] - B * minus[j]), scale: whole[0] && (A || B) ? div(A ? div(a, frac(A)) : div(b, frac(B)), mul(x.divisor, whole)) : ZERO,
    both: bins.map((j) => plus[j] + minus[j]), each: people ? div(ONE, mul(x.divisor, frac(people))) : ZERO,
    imbalance: whole[0] ? div(add(up.sum, neg(down.sum)), whole).map(abs) : ZERO }; };
const fixed = (values, [n, d]) => { unsteppable(values.some((v) => (abs(v * n) << 32n) / d >= LIMIT)); return values.map((v) => round((v * n) << 32n, d)); };
const pegasos = (constants, t, of, { numerator, scale, both, each }) => { // §6.2, §6.3
  const rate = Q(constants.lambda), cap = constants.step_cap && mul(mul(Q(constants.step_cap), rate), frac(BigInt(t) << 64n));
  let moved = fixed(numerator, scale), halvings = 0n; if (cap && t === 1) of("popularity").set(fixed(both, each));
  const mean = cap ? of("popularity").reduce((sum, p, j) => sum + abs(moved[j]) * p, 0n) : 0n; while (cap && mean * cap[1] > cap[0] << halvings) halvings++;
  moved = moved.map((v) => round(v, 1n << (halvings > 62n ? 62n : halvings)));
  of("sum_0").forEach((v, j, sum) => { sum[j] = v + moved[j]; unsteppable(abs(v + moved[j]) >= LIMIT); }); };
const per = ([a, b]) => ((unit) => (n) => (a ? Number(n) / unit : 0))(a && float([b, a])); // counts times a rational, as doubles
const swift = (constants, t, of, { numerator, scale, both, each, imbalance }) => { // §6.5; the order of operations is part of it
  const value = (name) => float(Q(constants[name])), sum = (list) => list.reduce((a, b) => a + b);
  const set = (name, rule) => of(name).forEach((y, j, list) => { list[j] = rule(y, j); }), r = value("step_size") / Math.sqrt(t);
  const [p, P, v, w] = ["popularity", "precondition", "velocity", "weights"].map(of), momentum = value("momentum"), keep = 1 - value("decay"), gradient = per(scale);
  if (t === 1 || p.every((y) => y === 0)) { set("popularity", ((share) => (_, j) => Math.max(share(both[j]), 0))(per(each)));
    const T = sum(p), least = value("floor") * (T / p.length), pi = p.map((y) => 1 / (Math.sqrt(y + least) * Math.sqrt(Math.sqrt(y + least))));
    const whole = T && T / sum(p.map((y, j) => y * pi[j])); set("precondition", (_, j) => (T ? pi[j] * whole : 0)); }
  set("velocity", (y, j) => momentum * y + gradient(numerator[j])); const z = p.map((y, j) => y * P[j]), move = r * sum(z.map((y, j) => y * v[j]));
  const most = float(add(Q(constants.mean_move), mul(Q(constants.mean_move_imbalance), imbalance)));
  if (!(-most <= move && move <= most)) { const share = (move > 0 ? move - most : move + most) / (r * sum(z.map((y, j) => y * p[j]))); set("velocity", (y, j) => y - share * p[j]); }
  set("weights", (y, j) => keep * y + r * P[j] * v[j]); set("average", (y, j) => (t === 1 ? w[j] : 0.5 * y + 0.5 * w[j])); };
const step = (x, state, tally) => { if (!tally.participants.some((n) => n > 0n)) throw new Unsteppable("nobody is left who trained");
  const t = state.step + 1, { name, constants } = x.rule, vectors = Object.fromEntries(Object.entries(state.vectors).map(([one, v]) => [one, v.slice()]));
  for (let i = 1; i < Number(constants.averaging ?? 0); i++) vectors[`sum_${i}`].set(state.vectors[`sum_${i - 1}`]);
  for (const m of range(x.signs.length))
    (name === "swift" ? swift : pegasos)(constants, t, (one) => vectors[one].subarray(m * x.bins, (m + 1) * x.bins), direction(x, tally, m));
  return { step: t, vectors }; };
const mantissas = (values) => { // of integers (§3.3) and doubles (§3.4), with their exponent
  const whole = typeof values[0] === "bigint", most = values.reduce((high, v) => (whole ? Math.max(high, bits(v)) : Math.max(high, Math.abs(v))), 0);
  const even = (y) => { const low = Math.floor(y), rest = y - low; return rest > 0.5 || (rest === 0.5 && low % 2) ? low + 1 : low; };
  if (!most) return [values, 0]; let e = whole ? Math.max(0, most - 31) : Math.ceil(Math.log2(most)) - 33;
  while (!whole && most < Infinity && 2 ** (e + 31) <= most) e++; for (; ; e++) {
    unsteppable(!whole && !(Math.abs(e) <= 899)); const found = Array.from(values, (v) => (whole ? Number(round(v, 1n << BigInt(e))) : even(v * 2 ** -e)));
    if (found.every((v) => Math.abs(v) < 2 ** 31)) return [found, e]; } };
const blobsOf = (x, { step: t, vectors }) => { // state, training and evaluation weights as bytes (§6.4, §6.6, §6.7)
  const names = Object.keys(vectors).sort(), normalised = x.rule.name === "swift", models = x.signs.length, kinds = names.map(() => (normalised ? "f8" : "i8"));
  const lines = (magic, header) => utf8(`secvm-${magic}-v1\n${JSON.stringify(header)}\n`);
  const write = (found, unit) => cat(lines("weights", { bins: x.bins, first: !t, models, normalised, unit: unit.join("/") }), raw(Int32Array.from(found, Number)));
  const made = (values, exponent, rate) => { const [found, e] = mantissas(values); return write(found, mul(pow2(e + exponent), rate)); };
  const state = cat(lines("state", { kinds, names, rule: x.rule.name, shape: [models, x.bins], step: t }), ...names.map((name) => raw(vectors[name])));
  if (!t) return [state, ...range(2).map(() => write(new Int32Array(models * x.bins), ONE))];
  if (normalised) return [state, made(vectors.weights, 0, ONE), made(vectors.average, 0, ONE)];
  const last = Math.min(Number(x.rule.constants.averaging), t), rate = (count) => div(ONE, mul(Q(x.rule.constants.lambda), frac(BigInt(count))));
  const mean = Array.from(vectors.sum_0, (_, j) => range(last).reduce((sum, i) => sum + round(vectors[`sum_${i}`][j] << 8n, BigInt(t - i)), 0n));
  unsteppable(mean.some((v) => abs(v) >= LIMIT)); return [state, made([...vectors.sum_0], -32, rate(t)), made(mean, -40, rate(last))]; };
const readTally = async (x, name, file) => { // planes of zig-zag numbers, less the known mean, in one zlib stream with nothing after it (§13)
  const size = x.signs.length * x.bins, { labels } = x, ends = [2 * size, 2 * size + labels, 2 * size + labels + labels ** 2], n = ends[2], parts = [], sums = [1, 0];
  const off = ends.map((_, kind) => (x.kinds?.[kind] ? meanOf(x.kinds[kind]) : 0n)), piece = (from, count) => counts.slice(from, from + count);
  const inflated = new Blob([file ?? []]).stream().pipeThrough(new DecompressionStream("deflate")), bound = () => must(lengthOf(parts) <= 7 * n, "too long");
  try { for await (const part of inflated) { parts.push(part); bound(); } } catch { throw new Lie("its tally is not served, or is no zlib stream of its size"); }
  const planes = cat(...parts), k = planes.length / n; for (const byte of planes) { sums[0] = (sums[0] + byte) % 65521; sums[1] = (sums[1] + sums[0]) % 65521; }
  must(Number.isInteger(k) && k > 0 && (k === 1 || planes.subarray((k - 1) * n).some((byte) => byte)), "a tally of another experiment");
  must(unle(file.slice(-4).reverse()) === sums[1] * 65536 + sums[0], "a tally with something behind it");
  const zigzag = (i) => range(k).reduceRight((sum, plane) => sum * 256n + BigInt(planes[plane * n + i]), 0n), signed = (z) => (z & 1n ? -(z + 1n) / 2n : z / 2n);
  const counts = range(n).map((i) => signed(zigzag(i)) + off[ends.findIndex((end) => i < end)]);
  const head = utf8(`secvm-tally-v1\n{"bins":${x.bins},"labels":${labels},"models":${x.signs.length}}\n`);
  must(counts.every((count) => count >= 0n && count < 1n << 53n), "a tally with a count out of range");
  must(digest(head, raw(BigInt64Array.from(counts))) === name, "its tally is not served under its digest");
  return { counts, plus: piece(0, size), minus: piece(size, size), participants: piece(ends[0], labels), cells: piece(ends[1], labels ** 2) }; };
// Rounds of two relays (§27 to §31)
const STATEMENTS = {
  mix_commitment: "experiment:hex round:round key:hex parts:hex", entry_commitment: "experiment:hex round:round parts:hex nonce:hex",
  entry_count: "label:hex clients:int received:hex capsules:some root:hex", mix_count: "label:hex entry_count:hex refused:int capsules:some root:hex",
  entry_reveal: "label:hex mix_count:text nonce:hex part:part seed:hex path:path", mix_reveal: "label:hex entry_reveal:hex mix_count:text part:part seed:hex path:path" };
const TIMES = ["opens_at", "closes_at", "accept_until", "batch_by", "mix_by", "reveal_by", "open_by"], COUNTS = Object.keys(STATEMENTS).slice(2);
const MODEL = NAMES.map((name) => `${name}:hex`).join(" "), DOCUMENT = `experiment:hex round:round previous:hex|null ${MODEL}`;
const MANIFEST = `${DOCUMENT} ${TIMES.map((name) => `${name}:int`).join(" ")} opening:hex|null count_key:hex count_seed_hash:hex fetch_keys:text mix:text entry:text`;
const PLAIN = `${DOCUMENT} ${TIMES.slice(0, 3).map((name) => `${name}:int`).join(" ")} last:any gateway_keys:text quota:int log:null`;
const ENDING = ["last:any log:null", "opening:hex|null"].map((last) => `experiment:hex round:int manifest:hex|null ${MODEL} why:text ${last}`);
const OPENING = `experiment:hex round:round label:hex ${COUNTS.map((name) => `${name}:text|null`).join(" ")} count_seed:hex|null tally:hex|null shards:hex|null`;
const statement = async (doc, name, text, tokens = false) => { // what one relay signed (§27)
  const type = `secvm-v2-${name.replace("_", "-")}`, payload = await envelope(unbase64(text), type, [doc.relays[name.startsWith("entry") ? 0 : 1].key], 1, 1);
  const told = read(payload, type, name.endsWith("reveal") ? 2048 : 1024, STATEMENTS[name] + (tokens ? " tokens:hex" : ""));
  if ("key" in told) await goodPoint(told.key); return "mix_count" in told ? { ...told, counted: (await statement(doc, "mix_count", told.mix_count)).digest } : told; };
const readManifest = async (doc, D, payload, before, used) => {
  const relayed = doc.privacy !== null, told = relayed ? read(payload, "secvm-v2-manifest", 4096, MANIFEST) : read(payload, "secvm-v1-manifest", 2 ** 20, PLAIN);
  const { windows: w } = doc, lengths = [w.length_s, w.grace_s, w.batch_s, w.mix_s, w.reveal_s, w.open_s].slice(0, relayed ? 6 : 2);
  must(told.experiment === D && told.round === (before?.round ?? 0) + 1 && told.round <= doc.rounds, "a manifest of another round");
  must(told.previous === (before?.digest ?? null) && ((relayed ? told.opening : told.last) === null) === !before, "a manifest that follows another one");
  must(lengths.every((length, i) => told[TIMES[i + 1]] - told[TIMES[i]] === 1000 * length), "instants that do not follow from the experiment");
  must(told.opens_at >= Math.max(w.first_opening, before?.[relayed ? "mix_by" : "accept_until"] ?? 0), "a window that opens too early");
  if (!relayed) return told;
  const [mix, entry] = [await statement(doc, "mix_commitment", told.mix), await statement(doc, "entry_commitment", told.entry, doc.tokens)];
  must([mix, entry].every((one) => one.experiment === D && one.round === told.round), "a relay's commitment of another round");
  const secrets = [told.count_key, told.count_seed_hash, mix.key, mix.parts, entry.parts, entry.nonce];
  must(secrets.every((secret) => !used.has(secret)), "a key, seed or commitment that was used before"); secrets.forEach((secret) => used.add(secret));
  await goodPoint(told.count_key); return { ...told, label: sha256(payload), bound: { mix, entry } }; };
const judge = async (doc, manifest, payload) => { // an opening of which all that is told is true; null: it is not opened
  const told = read(payload, "secvm-v2-opening", 2 ** 14, OPENING), { bound } = manifest, label = hex(manifest.label), { parts: S, packages } = doc.privacy;
  must(told.experiment === manifest.experiment && told.round === manifest.round && told.label === label, "an opening of another round");
  const secrets = [told.count_seed, told.tally, told.shards], whole = secrets.every((part) => part !== null);
  must(whole ? COUNTS.every((name) => told[name] !== null) : secrets.every((part) => part === null), "an opening that is half told");
  const [entry, mix, shown, answer] = await Promise.all(COUNTS.map((name) => told[name] && statement(doc, name, told[name])));
  must([entry, mix, shown, answer].every((one) => !one || one.label === label), "a relay's statement for another round");
  must(!entry || entry.capsules === doc.learning.budget * entry.clients + packages, "the entry relay's count does not add up");
  must(!entry || !mix || (mix.entry_count === entry.digest && mix.capsules === entry.capsules - mix.refused + packages), "the mixing relay's count does not add up");
  const isBound = (one, role) => leads(leaf(sha256(utf8("secvm-v2-part-seed\n"), unhex(one.seed))), one.part, S, one.path.map(unhex), bound[role].parts);
  const part = shown && Number(BigInt(`0x${digest(unhex(shown.nonce), unhex(shown.counted))}`) % BigInt(S));
  must(!shown || (digest(unhex(shown.nonce)) === bound.entry.nonce && (!mix || shown.counted === mix.digest)), "the entry relay's reveal is for another nonce or count");
  must(!shown || (shown.part === part && isBound(shown, "entry")), "the entry relay's part or seed is not the one that was bound");
  must(!answer || !shown || (answer.entry_reveal === shown.digest && answer.counted === shown.counted), "the mixing relay's reveal answers another one");
  must(!answer || !shown || (answer.part === part && isBound(answer, "mix")), "the mixing relay's part or seed is not the one that was bound");
  if (!whole) return { missing: COUNTS.find((name) => told[name] === null) ?? "count_seed" };
  const secret = await secretKey(derivePrivate(unhex(told.count_seed)));
  must(digest(unhex(told.count_seed)) === manifest.count_seed_hash && hex(await exchange(secret, BASE)) === manifest.count_key, "the count seed is another key's");
  return { told, entry, mix, secret, parts: [[shown.seed, entry.received], [answer.seed, entry.root]] }; };
const subTally = (counts) => cat(...[...counts].sort(([a], [b]) => a - b).map(([cell, count]) => cat(le(cell, 8), le(count, 8))));
const recount = async (x, get, manifest, { told, mix, secret, parts }, tell, now) => { // counts less both opened parts; null: nothing is served any more
  const key = unhex(manifest.count_key), context = contextOf(manifest.label), shards = Math.ceil(mix.capsules / 4096), number = manifest.round;
  const files = (k) => Promise.all(["shard", "capsules", "tally"].map((kind) => get(`${kind}/${number}/${k}`)));
  if (now >= manifest.open_by + 7 * 86400_000 && (await files(0)).every((file) => !file)) return null;
  const counts = new Array(x.cells).fill(0n), missing = new Set();
  for (const [seed, root] of parts) { const part = await coverPart(x, unhex(seed), manifest.label, unhex(root), number);
    const capsules = await Promise.all(part.packages.map((data, i) => sealInner(data, part.seals[i].slice(0, 32), key, context)));
    capsules.forEach((capsule) => missing.add(digest(capsule))); part.cells.forEach((cell) => { if (cell !== null) counts[cell]--; }); }
  for (let k = 0, last = ""; k < shards; k++) {
    const [run, capsules, tally] = await files(k), size = Math.min(4096, mix.capsules - 4096 * k), from = 1 + 32 * run?.[0], behind = 1 + 32 * tally?.[0];
    must(run && capsules && tally, `shard ${k} is withheld`);
    must(run.length === from + 32 * size && capsules.length === 80 * size && tally.length >= behind, `shard ${k} has another length`);
    const digests = cut(run.subarray(from), 32), names = digests.map(hex), each = cut(capsules, 80), sub = tally.subarray(behind), found = new Map();
    must(names.every((name, i) => name > (i ? names[i - 1] : last)), `the digests of shard ${k} are out of order`);
    must(leads(rootOf(digests.map(leaf)), k, shards, cut(run.subarray(1, from), 32), mix.root), `shard ${k} is not the one that the mixing relay signed`);
    must(each.every((capsule, i) => digest(capsule) === names[i]), `a capsule of shard ${k} is not the one of its digest`);
    const opened = await Promise.all(each.map((capsule) => openInner(capsule, secret, key, context)));
    for (const cell of opened.map((data) => cellOf(x, data, number))) if (cell >= 0 && cell !== null) { found.set(cell, (found.get(cell) ?? 0) + 1); counts[cell]++; }
    must(same(subTally(found), sub), `shard ${k}, counted again, does not give its sub-tally`);
    must(leads(leaf(cat(sha256(run.subarray(from)), sha256(sub))), k, shards, cut(tally.subarray(1, behind), 32), told.shards), `the sub-tally of shard ${k} was not signed`);
    for (const name of names) missing.delete(name); last = names.at(-1);
    tell({ part: (k + 1) / shards, text: `round ${number}: ${Math.min(4096 * (k + 1), mix.capsules)} of ${mix.capsules} packages counted again` }); }
  must(!missing.size, `${missing.size} capsules of the opened parts are not in the batch`);
  return [...range(2).flatMap((side) => range(x.people / 2).map((i) => counts[2 * i + side])), ...counts.slice(x.people, x.people + x.labels), ...counts.slice(x.test)]; };
const stepOpened = (x, doc, state, net, clients) => { // the next state, or why it stays
  const most = x.kinds.map((kind) => BigInt(clients) + 2n * quantile(kind)), [off, fewer] = x.kinds.map(meanOf);
  if (clients < doc.floor) return [state, "fewer submissions than the floor"];
  if ([[net.plus, most[0]], [net.minus, most[0]], [net.participants, most[1]], [net.cells, most[2]]].some(([list, limit]) => list.some((n) => n > limit)))
    return [state, "a cell has more than submissions and cover explain"];
  try { const participants = net.participants.map((n) => (n > fewer ? n - fewer : 0n)), [plus, minus] = [net.plus, net.minus].map((list) => list.map((n) => n - off));
    const next = step(x, state, { plus, minus, participants }); return [next, blobsOf(x, next) && null];
  } catch (fault) { if (fault instanceof Unsteppable) return [state, fault.message]; throw fault; } };
// An experiment, from its first round to its last
const verify = async (get, wanted = "", tell = () => {}, now = Date.now()) => {
  const listed = await new Response(await get("/v1/experiments") ?? "{}").json().catch(() => ({}));
  const known = (listed.experiments ?? []).map((one) => one.digest).filter((one) => KINDS.hex(one) && one.startsWith(wanted)), [D] = known, place = `/v1/experiment/${D}`;
  if (known.length !== 1) throw new Unreadable(D ? `choose one of its experiments: ${known.join(" ")}` : "no coordinator's public files, or no such experiment");
  const served = await get(place), result = { experiment: D, digest: null, rounds: 0, replayed: 0, recounted: 0, not_checked: [
    "whether everybody is shown these documents: the log and its witnesses", "where the salt is from", "whether devices are people, and tell the truth"] };
  let at = 0, before = null, opening = null; if (!served) throw new Unreadable(`the experiment ${D} is not served`);
  try { const payload = await envelope(served, "", [], 0), version = new TextDecoder().decode(payload).includes('"type":"secvm-v2-experiment"') ? 2 : 1, relayed = version === 2;
    const doc = read(payload, `secvm-v${version}-experiment`, 2 ** 18), { coordinator_keys: keys, threshold } = doc;
    must(digest(payload) === D && threshold >= 1 && relayed === (doc.privacy !== null), "an experiment of another digest");
    await envelope(served, doc.type, keys, threshold);
    const x = questionOf(doc, D.slice(0, 32)), below = (path) => get(`${place}/${path}`), seen = new Set(), used = new Set();
    const signed = (bytes, kind) => envelope(bytes, `secvm-v${version}-${kind}`, keys, threshold);
    const tallyOf = async (name) => readTally(x, name, await get(`/v1/blob/${name}`)), blob = async (name, what) => {
      const bytes = await get(`/v1/blob/${name}`); must(bytes && digest(bytes) === name, `${what} is not served under its digest`); return bytes; };
    const stays = doc.learning.robust && "robust rounds (§6.8) are not replayed"; if (stays) result.not_checked.push(stays); let state = start(x);
    const follows = async (told) => { // the model that a document names is the one computed, and it is served
      for (const [i, bytes] of blobsOf(x, state).entries()) {
        must(stays || told[NAMES[i]] === digest(bytes), `its ${NAMES[i]} is not what ${before ? "follows from the round before" : "an experiment begins with"}`);
        if (!seen.has(told[NAMES[i]])) await blob(told[NAMES[i]], `its ${NAMES[i]}`); seen.add(told[NAMES[i]]); }
      result.digest = told.evaluation_weights; };
    const plain = async ({ last }) => {
      must(last.tally !== null || canonical(last) === '{"cells":[],"participants":[],"relay_count":null,"tally":null}', "it is abandoned and has counts");
      if (last.tally === null) return "abandoned: the model stays";
      const tally = await tallyOf(last.tally), counts = tally.counts.slice(-x.labels * (x.labels + 1)).map(Number);
      must(canonical([last.participants, last.cells].flat(2)) === canonical(x.number ? counts.slice(0, 1) : counts), "its counts are not the tally's");
      const people = tally.participants.reduce((sum, n) => sum + n, 0n); must(people >= BigInt(doc.floor) && last.participants.length === x.labels, "fewer trained than the floor");
      if (stays) return stays; try { state = step(x, state, tally); } catch (fault) { throw fault instanceof Unsteppable ? new Lie(fault.message) : fault; }
      result.replayed++; return `${people} trained; the step was computed again`; };
    const opened = async (bytes) => {
      must(bytes, "its opening is not served"); const payload = await signed(bytes, "opening"), judged = await judge(doc, before, payload);
      opening = digest(payload); if (judged.missing) return `unopened (${judged.missing} is missing): the model stays`;
      const counts = await recount(x, below, before, judged, tell, now), net = await tallyOf(judged.told.tally), count = judged.mix.capsules;
      must(!counts || counts.every((n, i) => n === net.counts[i]), "its packages, counted again, do not give its net tally");
      if (counts) result.recounted += count; else result.not_checked.push(`the ${count} packages of round ${at}: they are not served any more`);
      const [next, why] = stays ? [state, stays] : stepOpened(x, doc, state, net, judged.entry.clients); state = next; result.replayed += !why;
      return `${count} packages ${counts ? "counted again" : "not counted again"}; ${why ? `the model stays: ${why}` : "the step was computed again"}`; };
    const ended = async (told) => { // how the round before a document ended
      if (!before) return; const bytes = relayed && await below(`opening/${at}`);
      if (told || bytes) tell({ round: at, verdict: relayed ? await opened(bytes) : await plain(told) });
      must(!relayed || !told || told.opening === opening, "the document after it names another opening"); };
    for (let bytes; (bytes = await below(`manifest/${at + 1}`)); result.rounds = at) {
      at++; const told = await readManifest(doc, D, await signed(bytes, "manifest"), before, used); at--; await ended(told); at++; await follows(told);
      before = told; }
    const newest = await below("manifest/latest"), over = await below("ending");
    must(newest ? digest(await signed(newest, "manifest")) === before?.digest : !before, "the newest manifest is another one");
    const told = over && read(await signed(over, "ending"), `secvm-v${version}-ending`, relayed ? 4096 : 2 ** 20, ENDING[version - 1]);
    must(!told || (told.experiment === D && told.round === at && told.manifest === (before?.digest ?? null)), "the ending is of another round");
    await ended(told); if (told) await follows(told); else { result.digest = digest(blobsOf(x, state)[2]); result.not_checked.push("how it goes on: it is not over"); }
    return result; } catch (fault) { if (fault instanceof Lie && at) fault.message = `round ${at}: ${fault.message}`; throw fault; } };
// Where files come from, and who is told
const web = (url) => async (path) => { // no redirects: they would lead to somebody else's files
  const answer = await fetch(url.replace(/\/+$/, "") + path, { redirect: "error", cache: "no-store" }).catch(() => null), gone = answer && [404, 410].includes(answer.status);
  if (!answer?.ok && !gone) throw new Unreadable(answer ? `${url} answers with status ${answer.status}` : `there is no public folder or server at "${url}"`);
  return answer.ok ? new Uint8Array(await answer.arrayBuffer()) : null; };
const inFolder = (path) => (/^\/v1\/experiment\/[^/]+$/.test(path) ? `${path}/index` : path);
const judged = (...given) => verify(...given).then((result) => ({ code: 0, verdict: "ok", ...result }), (fault) => {
  if (fault instanceof Lie) return { code: 1, verdict: "failed", fault: fault.message };
  return { code: 2, verdict: "unreadable", fault: fault instanceof Unreadable ? fault.message : `what is no file of a coordinator: ${fault.message}` }; });
if (typeof require !== "undefined" && require.main === module) {
  const fs = require("node:fs"), [place = "", wanted] = process.argv.slice(2), there = place && fs.existsSync(`${place}/v1`);
  const local = async (path) => (fs.existsSync(place + inFolder(path)) ? new Uint8Array(fs.readFileSync(place + inFolder(path))) : null);
  judged(there ? local : web(place), wanted, ({ round: number, verdict }) => number && console.error(`round ${number}: ${verdict}`)).then((result) => {
    if (result.fault) console.error(result.fault);
    console.log(JSON.stringify(result)); process.exitCode = result.code; }); }
