// The verifier's inside against vectors/v2: node vectors.js. One line of JSON, how many cases of each kind agree.
"use strict";
const assert = require("node:assert"), fs = require("node:fs"), path = require("node:path"), ROOT = path.join(__dirname, "../../..");
const INSIDE = "Lie, Q, STATEMENTS, blobsOf, canonical, cellOf, contextOf, coverPart, derivePrivate, digest, envelope, exchange, frac, goodKey, hex, judge, "
  + "leads, leaf, mantissas, openInner, publicKey, quantile, questionOf, readManifest, readTally, rootOf, round, sealInner, secretKey, sha256, start, statement, "
  + "step, subTally, unhex, utf8";
const source = fs.readFileSync(path.join(ROOT, "verifier/verify.js"), "utf8");
const v = new Function("require", "module", `${source}; return { ${INSIDE} };`)(require, {});
const vectors = (name) => JSON.parse(fs.readFileSync(path.join(ROOT, "vectors/v2", `${name}.json`), "utf8"));
const { hex, unhex, utf8, digest, Q, leaf } = v, counted = {}, range = (n) => Array.from({ length: n }, (_, i) => i);
const cases = async (name, list, check) => { for (const [i, one] of list.entries()) { try { await check(one); } catch (fault) { fault.message = `${name} ${i} (${one.why ?? one.note ?? ""}): ${fault.message}`; throw fault; } counted[name] = (counted[name] ?? 0) + 1; } };
const refused = (made) => assert.rejects(async () => made(), v.Lie);
const plain = (doc) => v.questionOf({ learning: { ...doc, rule: { name: doc.rule.name, constants: doc.rule.parameters } }, binning: { bins: doc.n_bins }, privacy: null });

const main = async () => {
  const merkle = vectors("merkle");
  await cases("trees", merkle.trees, ({ entries, roots }) => roots.forEach((root, n) => assert.equal(hex(v.rootOf(entries.slice(0, n).map((one) => leaf(unhex(one))))), root)));
  await cases("inclusions", merkle.inclusions, (one) => assert(v.leads(unhex(one.leaf), one.index, one.size, one.proof.map(unhex), one.root)));
  await cases("bad inclusions", vectors("bad_merkle").inclusions, (one) => assert(!v.leads(unhex(one.leaf), one.index, one.size, one.proof.map(unhex), one.root)));
  await cases("roots", vectors("label").roots, (one) => assert.equal(hex(v.rootOf(one.digests.map((d) => leaf(unhex(d))))), one.root));

  await cases("envelopes", vectors("envelope").cases, async (one) => assert.equal(hex(await v.envelope(unhex(one.bytes), one.purpose, one.public_keys, one.public_keys.length)), one.payload));
  const forged = vectors("bad_envelopes"), enclosed = (bytes) => v.envelope(unhex(bytes), forged.purpose, forged.public_keys, 2);
  await enclosed(forged.good);
  await cases("bad envelopes", forged.cases, (one) => refused(() => enclosed(one.bytes)));
  await cases("bad keys", vectors("bad_public_keys").cases, (one) => assert(!v.goodKey(one.public_key)));
  const statements = (list, check) => cases(check.name, list, check), keyOf = (type) => vectors("statements").cases.find((one) => one.type === `secvm-v2-${type}-count`).public_key;
  const keys = [keyOf("entry"), keyOf("mix")], relays = (one) => ({ relays: keys.map((key, i) => ({ key: /-mix-/.test(one.type) === !!i ? one.public_key : key })) });
  const name = (type) => type.replace("secvm-v2-", "").replace("-", "_");
  await statements(vectors("statements").cases.filter((one) => name(one.type) in v.STATEMENTS), async function statement(one) {
    assert.equal((await v.statement(relays(one), name(one.type), Buffer.from(one.envelope, "hex").toString("base64"))).digest, one.digest);
  });
  await statements(vectors("bad_statements").cases.filter((one) => name(one.type) in v.STATEMENTS), function bad_statement(one) {
    return refused(() => v.statement(relays(one), name(one.type), Buffer.from(one.envelope, "hex").toString("base64")));
  });

  await cases("layers", vectors("layers").cases, async (one) => {
    const context = v.contextOf(unhex(one.label)), key = unhex(one.count_key), secret = await v.secretKey(v.derivePrivate(unhex(one.count_seed)));
    const base = await v.publicKey(unhex(`09${"00".repeat(31)}`));
    assert.equal(hex(v.derivePrivate(unhex(one.count_seed))), one.count_private_key);
    assert.equal(hex(await v.exchange(secret, base)), one.count_key);
    assert.equal(hex(await v.sealInner(unhex(one.package), unhex(one.inner_ephemeral), key, context)), one.inner);
    assert.equal(hex(await v.openInner(unhex(one.inner), secret, key, context)), one.package);
  });
  const junk = vectors("junk"), doc = JSON.parse(junk.document), x = v.questionOf(doc, digest(utf8(junk.document)).slice(0, 32));
  const counts = new Map(), count_key = await v.secretKey(v.derivePrivate(unhex(junk.count_seed)));
  await cases("junk", junk.cases, async (one) => {
    const key = await v.exchange(count_key, await v.publicKey(unhex(`09${"00".repeat(31)}`)));
    const cell = v.cellOf(x, await v.openInner(unhex(one.capsule), count_key, key, v.contextOf(unhex(junk.label))), junk.round);
    assert.deepEqual(cell, one.junk ? undefined : one.cell);
    if (cell !== undefined && cell !== null) counts.set(cell, (counts.get(cell) ?? 0) + 1);
  });
  assert.equal(hex(v.subTally(counts)), junk.sub_tally);
  const shards = vectors("shards");
  await cases("sub-tallies", shards.sub_tallies, (one) => assert.equal(hex(v.subTally(new Map(one.counts.map((pair) => pair.map(Number))))), one.bytes));
  const under = (one, of) => {
    const { path: up, mix_path: mix, shard: k } = JSON.parse(one.proof), digests = one.digests.map(unhex), n = Math.ceil(one.capsules / 4096), ascending = one.digests.every((d, i) => !i || one.digests[i - 1] < d);
    const sized = digests.length === Math.min(4096, one.capsules - 4096 * k);
    return ascending && sized && v.leads(leaf(Buffer.concat([v.sha256(...digests), v.sha256(unhex(one.sub_tally))])), k, n, up.map(unhex), of.shards) && v.leads(v.rootOf(digests.map(leaf)), k, n, mix.map(unhex), of.mix_root);
  };
  await cases("shards", shards.proofs, (one) => assert(under(one, one)));
  const bad = vectors("bad_shards");
  await cases("bad shards", bad.cases, (one) => assert(!under(one, bad)));

  const cover = vectors("cover"), noise = (one) => one && { shape: one.shape, odds: one.odds };
  await cases("laws", cover.laws, (one) => {
    assert.equal(Number(v.quantile({ shape: Q(one.shape), odds: Q(one.odds) })), one.quantile);
    const [n, d] = [Q(one.shape), Q(one.odds)].reduce(([a, b], [c, e]) => v.frac(a * c, b * e), [2n, 1n]);
    assert.equal(Number(v.round(n, d)), one.taken);
  });
  await cases("parts", cover.parts, async (one) => {
    const labels = range(one.labels).map(String), number = one.test === null, loss = { name: number ? "pinball" : "hinge", parameter: null };
    const multiclass = one.models === one.labels || one.labels < 3 ? "ovr" : "ovo";
    const made = { learning: { labels, multiclass, loss, rule: { name: "swift", constants: {} }, thinning: { q: null, rho: null }, class_weights: [] }, binning: { bins: one.bins }, privacy: { parts: one.parts, packages: one.packages, train: noise(one.train), participation: noise(one.participation), test: noise(one.test) } };
    const of = v.questionOf(made, one.experiment_id), part = await v.coverPart(of, unhex(one.seed), unhex(one.label), unhex(one.root), one.round);
    assert.equal(part.attempt, one.attempt);
    const named = of.kinds.map(({ first, count: size }) => { const found = new Map(); part.cells.filter((c) => c !== null && c >= first && c < first + size).forEach((c) => found.set(c - first, (found.get(c - first) ?? 0) + 1)); return [...found].sort(([a], [b]) => a - b); });
    assert.deepEqual(named, one.counts.filter((_, i) => i < of.kinds.length));
    assert.equal(digest(...part.packages), one.encoded_digest);
    const base = await v.publicKey(unhex(`09${"00".repeat(31)}`)), context = v.contextOf(unhex(one.label)), few = part.packages.slice(0, 2000);
    const sealed = await Promise.all(few.map((data, i) => v.sealInner(data, part.seals[i].slice(0, 32), unhex(one.count_key), context)));
    assert.equal(hex(sealed[0]), one.first_inner);
    if (few.length === part.packages.length) assert.equal(digest(...sealed), one.inner_digest);
  });

  await cases("states", vectors("state").cases.filter((one) => !one.experiment.robust), (one) => {
    const of = plain(one.experiment);
    let state = v.start(of);
    assert.equal(hex(v.blobsOf(of, state)[0]), one.start);
    for (const round of one.rounds) {
      const big = (rows) => rows.flat().map(BigInt);
      state = v.step(of, state, { plus: big(round.plus), minus: big(round.minus), participants: big(round.participants) });
      assert.equal(hex(v.blobsOf(of, state)[0]), round.state);
    }
  });
  const arrays = (bytes) => { // a state's bytes as verify.js holds it
    const [, header] = Buffer.from(bytes).toString("latin1").split("\n"), head = JSON.parse(header), from = 15 + header.length + 1, size = head.shape[0] * head.shape[1];
    return { head, state: { step: head.step, vectors: Object.fromEntries(head.names.map((one, i) => [one, new (head.kinds[i] === "f8" ? Float64Array : BigInt64Array)(bytes.slice(from + 8 * size * i, from + 8 * size * (i + 1)).buffer)])) } };
  };
  await cases("weights", vectors("weights").cases, (one) => {
    const { head, state } = arrays(unhex(one.state)), of = { rule: { name: one.rule.name, constants: one.rule.parameters }, signs: range(head.shape[0]).map(() => []), bins: head.shape[1] };
    const [, training, evaluation] = v.blobsOf(of, state);
    assert.equal(hex(training), one.training.bytes);
    assert.equal(hex(evaluation), one.evaluation.bytes);
  });
  const numbers = vectors("arithmetic");
  await cases("mantissas", [...numbers.integer_mantissas, ...numbers.float_mantissas], (one) => {
    const doubles = one.values.every((value) => /^[0-9a-f]{16}$/.test(value)) && numbers.float_mantissas.includes(one);
    const [found, e] = v.mantissas(one.values.map((value) => (doubles ? Buffer.from(value, "hex").readDoubleBE() : BigInt(value))));
    assert.deepEqual([found.map(Number), e], [one.mantissas.map(Number), one.exponent]);
  });

  const first = (list) => list.reduce((last, one) => last.then(async (before) => v.readManifest(JSON.parse(one.doc), digest(utf8(one.doc)), utf8(one.payload), before, one.used)), Promise.resolve(null));
  const manifests = vectors("manifest");
  await cases("manifests", [manifests], (one) => { const used = new Set(); return first(one.cases.map(({ payload }) => ({ doc: one.document, payload, used }))); });
  const wrong = vectors("bad_manifests"), known = JSON.parse(wrong.document);
  const ours = (one) => !one.faults.includes("FETCH_KEYS"); // about what devices fetch with, and not looked at
  await cases("bad manifests", wrong.cases.filter(ours), (one) => refused(async () => {
    const used = new Set(), before = await v.readManifest(known, digest(utf8(wrong.document)), utf8(wrong.before), null, used);
    const payload = await v.envelope(unhex(one.envelope ?? one.bytes), "secvm-v2-manifest", known.coordinator_keys, 1);
    await v.readManifest(known, digest(utf8(wrong.document)), payload, before, used);
  }));
  const opened = vectors("opening"), question = JSON.parse(opened.document), manifest = await first([{ doc: opened.document, payload: opened.manifest, used: new Set() }]);
  await cases("openings", opened.cases, async (one) => assert.equal((await v.judge(question, manifest, utf8(one.payload))).missing ?? "", (one.missing[0] ?? "").replace("seed", "count_seed")));
  const lies = vectors("bad_openings");
  await cases("bad openings", lies.cases, (one) => refused(() => v.judge(question, manifest, utf8(v.canonical({ ...JSON.parse(lies.good), ...one.changes })))));
  await cases("malformed openings", lies.malformed, (one) => refused(() => v.judge(question, manifest, unhex(one.bytes))));
  const tallies = vectors("tallies"), spoilt = vectors("bad_tallies"), asked = v.questionOf(JSON.parse(spoilt.experiment));
  await cases("tallies", tallies.cases, async (one) => {
    const x = v.questionOf(JSON.parse(one.cover ? tallies.covered : tallies.plain));
    for (const bytes of one.bytes) assert.deepEqual((await v.readTally(x, one.digest, unhex(bytes))).counts.map(String), one.entries);
  });
  const good = tallies.cases.find((one) => one.bytes.includes(spoilt.good)).digest; await v.readTally(asked, good, unhex(spoilt.good));
  await cases("bad tallies", spoilt.cases, (one) => refused(() => v.readTally(asked, good, unhex(one.bytes))));
};
main().then(() => console.log(JSON.stringify(counted)), (fault) => { console.error(fault.message); process.exitCode = 1; });
