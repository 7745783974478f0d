import assert from "node:assert/strict";
import { after, afterEach, beforeEach, test } from "node:test";

import { hex, utf8 } from "../../src/bytes.ts";
import { X25519PrivateKey } from "../../src/crypto/sealing/kem.ts";
import { LocalProtocolError, UnreachableError } from "../../src/errors.ts";
import { ExperimentDocument, type Relay } from "../../src/protocol/documents/experiment.ts";
import { RELAY_TERMS } from "../../src/protocol/relays/statements.ts";
import { goesInClear, HttpClient } from "../../src/runtime/http/client.ts";
import { instantOf, UNANSWERED, type SendReply } from "../../src/sending/reply.ts";
import { bytesOfARound, capsuleBytes } from "../../src/sending/sealing.ts";
import { heldTo, NotNowError, RelayTransport } from "../../src/sending/transport.ts";
import { keyDocument } from "../crypto/sealing/gateway.ts";
import { unsafeSeeded } from "../crypto/dice.ts";
import { SigningKey, signed } from "../crypto/signers.ts";
import { vectors } from "../vectors.ts";
import { answering, type Act, MISBEHAVIOUR, SERVER_TIME, TinyRelay } from "./tinyRelay.ts";

const SIGNER = new SigningKey(new Uint8Array(32).fill(3));
const LABEL = new Uint8Array(32).fill(0x6c);
const [BODY, PATH] = [utf8("capsules"), "/v1/experiment/x"];
/** A server that hangs is waited for so long here, and any other for this. */
const [SOON_MS, ANSWER_MS] = [200, 20_000];
const FILES = "application/vnd.secvm";
const GARBAGE = utf8("<html>welcome</html>");
const NOWHERE = "http://127.0.0.1:1/r";
const TERMS = {
  ...{ url: "https://entry.example/relay", operator: "Uni", role: "entry" as const },
  ...{ quota: 1, cells: 1_000, packages: 2_000, capsules: 3_000, secondsPerMillion: 60 },
};

let relay: TinyRelay;
beforeEach(async () => (relay = await new TinyRelay().start()));
afterEach(() => relay.stop());

const asked: RequestInit[] = [];
function way(options: { relays?: string[]; credential?: string; answerMs?: number } = {}): RelayTransport {
  const { relays = [relay.url], answerMs = ANSWER_MS, ...others } = options;
  const listening = (url: string, init: RequestInit) => {
    asked.push(init);
    return fetch(url, init);
  };
  const client = new HttpClient(listening, { answerMs });
  return new RelayTransport(client, { relays, randomBytes: unsafeSeeded("way"), ...others });
}
const named = (url = relay.url, role: Relay["role"] = "entry"): Relay => {
  return { url, key: SIGNER.public, role, operator: "Uni" };
};
const reply = (told: Partial<SendReply> = {}): SendReply => ({ ...UNANSWERED, answered: true, ...told });

test("a request goes to the label and says nothing else", async () => {
  asked.length = 0;
  relay.acts = [answering(200, { "Set-Cookie": "who=you" }, utf8("receipt")), answering(200, {}, utf8("again"))];
  for (const content of ["receipt", "again"]) {
    assert.deepEqual(await way().submit(BODY, LABEL, named()), reply({ content: utf8(content) }));
  }
  for (const { method, path, headers, body } of relay.seen) {
    assert.deepEqual([method, path, body], ["POST", `/r/submit/${hex(LABEL)}`, BODY]);
    assert.equal(headers["content-type"], `${FILES}.submission`);
    for (const telling of ["cookie", "referer", "origin", "secvm-credential"]) assert.ok(!(telling in headers), telling);
  }
  const [{ signal: _, ...options } = {}] = asked;
  assert.deepEqual(options, {
    body: BODY,
    cache: "no-store",
    credentials: "omit",
    headers: { "Content-Type": `${FILES}.submission` },
    method: "POST",
    redirect: "manual",
    referrerPolicy: "no-referrer",
  });
});

test("the same device asks in the same bytes, whichever profile it is", async () => {
  for (const _ of [1, 2]) {
    relay.files.set(PATH, utf8("content"));
    const door = way();
    await door.submit(BODY, LABEL, named());
    await door.askToken(BODY, LABEL, named());
    await door.fetch(PATH);
  }
  const told = relay.seen.map(({ headers, ...others }) => ({ ...others, headers: { ...headers, connection: "" } }));
  assert.equal(told.length, 8);
  assert.deepEqual(told.slice(0, 4), told.slice(4));
});

/** Fetch itself asks once more over a new connection where it is answered 421 (RFC 9110 §15.5.20): the same bytes. */
const tellTwice = (act: Act, status: number): Act[] => (status === 421 ? [act, act] : [act]);

test("a request is taken, taken later or never", async () => {
  const [later, never] = [[408, 421, 425, 429, 500, 503], [400, 401, 409, 410, 413]];
  for (const status of [...later, ...never]) {
    relay.acts = tellTwice(answering(status, { "Retry-After": "7" }), status);
    const expected = reply({ retryAfterMs: 7000, final: never.includes(status) });
    assert.deepEqual(await way().submit(BODY, LABEL, named()), expected, String(status));
  }
  for (const [text, ms] of Object.entries({ x: 0, "-1": 0, "1e3": 0, "999999999": 86_400_000 })) {
    relay.acts = [answering(503, { "Retry-After": text })];
    assert.equal((await way().submit(BODY, LABEL, named())).retryAfterMs, ms, text);
  }
});

test("a token is asked for, and the answer is taken or not", async () => {
  const media = { "Content-Type": `${FILES}.tokens` };
  const cases: [ReturnType<typeof answering>, SendReply][] = [
    [answering(200, media, utf8("tokens")), reply({ content: utf8("tokens") })],
    [answering(200, { "Content-Type": `${FILES}.Tokens; a=b` }, BODY), reply({ content: BODY })],
    [answering(200, { "Content-Type": "text/html" }, utf8("tokens")), reply()],
    [answering(200, media, new Uint8Array(10_000)), reply()],
    [answering(408), reply()],
    [answering(421), reply()],
    [answering(503), reply()],
    [answering(429), reply({ final: true })],
    [answering(410), reply({ final: true })],
  ];
  for (const [act, expected] of cases) {
    relay.acts = [act, act]; // The second for a 421.
    assert.deepEqual(await way().askToken(BODY, LABEL, named()), expected);
  }
  assert.deepEqual(new Set(relay.paths), new Set([`/r/tokens/${hex(LABEL)}`]));
  assert.deepEqual(await way().askToken(BODY, LABEL, named(NOWHERE)), UNANSWERED);
});

test("the credential goes only to the relays of the settings, and with no request that has a token", async () => {
  const stranger = await new TinyRelay().start();
  after(() => stranger.stop());
  const door = way({ credential: "mine" });
  for (const url of [relay.url, stranger.url]) {
    await door.askToken(BODY, LABEL, named(url));
    await door.submit(BODY, LABEL, named(url), { anonymous: true });
    await door.submit(BODY, LABEL, named(url));
  }
  await door.fetch(PATH);
  const told = (seen: TinyRelay) => seen.seen.map(({ headers }) => headers["secvm-credential"]);
  assert.deepEqual(told(relay), ["mine", undefined, "mine", undefined, "mine"]);
  assert.deepEqual(told(stranger), [undefined, undefined, undefined]);
});

test("terms are taken from the relay's key alone", async () => {
  const terms = { ...TERMS, url: relay.url };
  const { purpose } = RELAY_TERMS;
  const by = (key: SigningKey) => signed(RELAY_TERMS.toBytes(terms), { purpose, keys: [key] });
  relay.acts = [answering(200, {}, by(SIGNER)), answering(200, {}, by(new SigningKey(new Uint8Array(32).fill(9))))];
  relay.acts.push(answering(404), answering(503));
  assert.deepEqual(await way().relayedTerms(named()), terms);
  for (const _ of [1, 2]) assert.equal(await way().relayedTerms(named()), null);
  const sentence = (url: string) =>
    `the entry relay ${new URL(url).host} does not answer when it is asked for its terms`;
  await assert.rejects(way().relayedTerms(named()), { name: "NotNowError", message: sentence(relay.url) });
  const away = { name: "UnreachableError", message: sentence(NOWHERE) };
  await assert.rejects(way().relayedTerms(named(NOWHERE)), away);
  assert.ok(new NotNowError("it cannot") instanceof UnreachableError);
});

test("a fetch is sealed and brings the server's time", async () => {
  relay.files.set(PATH, utf8("content"));
  const door = way();
  assert.deepEqual(await door.fetch(PATH), { content: utf8("content"), serverTime: SERVER_TIME, ahead: null });
  assert.equal(await door.fetch("/v1/experiment/y"), null);
  assert.equal(door.unansweredBy, null);
  // A key that is kept would be a name, and so would be what was drawn for the sealing before.
  assert.deepEqual(relay.paths, ["/r/keys", "/r/fetch", "/r/keys", "/r/fetch"]);
  const capsules = relay.seen.filter(({ path }) => path === "/r/fetch").map(({ body }) => hex(body));
  assert.equal(new Set(capsules.map((capsule) => capsule.slice(14, 78))).size, 2);
  assert.ok(capsules.every((capsule) => !capsule.includes(hex(utf8("experiment")))));
});

test("fetches are sealed to the key of now, or to the one that the log names", async () => {
  relay.files.set(PATH, utf8("content"));
  const [logged] = relay.keys as [X25519PrivateKey];
  relay.keys.push(await X25519PrivateKey.of(new Uint8Array(32).fill(8)));
  assert.ok(await way().fetch(PATH));
  assert.ok(await way().fetch(PATH, { gatewayKeys: keyDocument(3, logged) }));
  assert.equal(await way().fetch(PATH, { gatewayKeys: utf8("no keys") }), null);
  const fetches = relay.seen.filter(({ path }) => path === "/r/fetch");
  assert.deepEqual(fetches.map(({ body }) => body[0]), [2, 3]);
  // A relay sees the same requests, whichever key it is.
  assert.deepEqual(relay.paths, ["/r/keys", "/r/fetch", "/r/keys", "/r/fetch", "/r/keys"]);
});

test("a file of exactly what may be read is read, and one byte more is not", async () => {
  for (const count of [0, 8, 4_000, 4_090, 4_096, 8_150]) {
    const most = count;
    relay.files.set(PATH, new Uint8Array(count));
    assert.equal((await way().fetch(PATH, { most }))?.content.length, count);
    relay.files.set(PATH, new Uint8Array(count + 1));
    assert.equal(await way().fetch(PATH, { most }), null);
  }
});

test("a fetch takes another relay than the one before, where there are several", async () => {
  const found = [0, 0, 0];
  const door = way({ relays: [0, 1, 2].map((i) => `http://127.0.0.1:1/${i}`) });
  let last = -1;
  for (let i = 0; i < 300; i++) {
    await door.fetch(PATH);
    const took = Number(door.unansweredBy!.at(-1));
    assert.notEqual(took, last);
    found[took]! += 1;
    last = took;
  }
  assert.ok(Math.min(...found) > 70, String(found));
});

for (const [name, act] of Object.entries(MISBEHAVIOUR)) {
  test(`a server that answers with this ends nothing but the asking: ${name}`, async () => {
    const alone = relay.seen.length;
    relay.files.set(PATH, utf8("content"));
    const door = way({ answerMs: name.startsWith("hang") ? SOON_MS : ANSWER_MS });
    const silent = !["garbage", "flood", "redirect"].includes(name);
    relay.acts = [act];
    const submitted = await door.submit(BODY, LABEL, named());
    assert.equal(submitted.answered, !silent);
    // What is no receipt is not refused here: whoever keeps the canary reads it.
    assert.deepEqual(submitted.content && [...submitted.content], name === "garbage" ? [...GARBAGE] : null);
    assert.deepEqual([submitted.final, submitted.retryAfterMs], [false, 0]);
    relay.acts = [act];
    const token = await door.askToken(BODY, LABEL, named());
    assert.deepEqual(token, silent ? UNANSWERED : reply());
    relay.acts = [act];
    const terms = door.relayedTerms(named());
    if (silent) await assert.rejects(terms, UnreachableError);
    else assert.equal(await terms, null);
    for (const before of [[], [answering(200, {}, keyDocument(1, relay.keys[0]!))]]) {
      relay.acts = [...before, act];
      assert.equal(await door.fetch(PATH, { most: 10 ** 4 }), null);
      assert.equal(door.unansweredBy, silent ? relay.url : null);
    }
    // Nothing was followed, and nothing sent twice.
    const [submits, tokens] = [`/r/submit/${hex(LABEL)}`, `/r/tokens/${hex(LABEL)}`];
    assert.deepEqual(relay.paths.slice(alone), [submits, tokens, "/r/terms", "/r/keys", "/r/keys", "/r/fetch"]);
    // And it is as good as before when the server is.
    assert.equal((await door.fetch(PATH))?.content.length, 7);
    assert.equal(door.unansweredBy, null);
  });
}
test("a relay that is not there is no error", async () => {
  const door = way({ relays: [NOWHERE] });
  assert.deepEqual(await door.submit(BODY, LABEL, named(NOWHERE)), UNANSWERED);
  assert.equal(await door.fetch(PATH), null);
  assert.equal(door.unansweredBy, NOWHERE);
});

test("a browser's way to say that there was a redirect is an answer", async () => {
  const client = new HttpClient(async () => Response.error());
  const door = new RelayTransport(client, { relays: [NOWHERE], randomBytes: unsafeSeeded("way") });
  assert.deepEqual(await door.submit(BODY, LABEL, named()), reply());
  assert.equal(await door.relayedTerms(named()), null);
  assert.equal(await door.fetch(PATH), null);
  assert.equal(door.unansweredBy, null);
});

test("no more of a flood is read than may be", async () => {
  let sent = 0;
  const pulled = new ReadableStream<Uint8Array>(
    { pull: (queue) => queue.enqueue(new Uint8Array((sent += 1000) && 1000)) },
    { highWaterMark: 0 },
  );
  const client = new HttpClient(async () => new Response(pulled));
  const answer = await client.ask("http://relay.example", { most: 2_500 });
  assert.deepEqual([answer.content.length, sent], [2_501, 3_000]);
});

test("why there is no answer is said in a few words, without an address", async () => {
  const client = new HttpClient(fetch, { answerMs: SOON_MS });
  const ask = () => client.ask(relay.url, { most: 10 });
  relay.acts = [MISBEHAVIOUR["hang"]!, MISBEHAVIOUR["reset"]!];
  await assert.rejects(ask, { name: "UnreachableError", message: "it answers too slowly, not within 0.2 s" });
  await assert.rejects(ask, { name: "UnreachableError", message: "no answer" });
});

test("people's relays begin with https", () => {
  const fields = { ...ExperimentDocument.fromBytes(utf8(vectors("experiment_document").cases[0].text)) };
  const real = new ExperimentDocument({ ...fields, test: false });
  const https = "the relays in the settings must begin with https, for this experiment is not marked as a test";
  const open = way({ relays: ["http://relay.example/r"] });
  assert.throws(() => open.check(real), { name: "LocalProtocolError", message: https });
  open.check(new ExperimentDocument({ ...fields, test: true }));
  way({ relays: [NOWHERE, "https://relay.example"] }).check(real);
  const none = { name: "LocalProtocolError", message: "this experiment has no relay to send packages to" };
  assert.throws(() => open.check(new ExperimentDocument({ ...fields, relays: [] })), none);
  assert.throws(() => way({ relays: [] }), LocalProtocolError);
  const onion = { ...real.mixRelay, url: `http://${"a".repeat(56)}.onion/relay` };
  const overTor = new ExperimentDocument({ ...fields, test: false, relays: [real.entryRelay, onion] });
  assert.throws(() => way({ relays: ["https://relay.example"] }).check(overTor), /a\.onion is reached over Tor alone/);
  const clear = ["http://here", "http://127.example", "http://[::1", "ftp://here", ""];
  const closed = ["https://here", "http://127.0.0.2:1", "http://[::1]:1", "http://localhost"];
  for (const url of [...clear, ...closed]) assert.equal(goesInClear(url), clear.includes(url), url);
});

test("the server's clock is held to this device's", () => {
  const fetched = (serverTime: number | null) => ({ content: BODY, serverTime, ahead: null });
  const ahead = (server: number | null) => heldTo(fetched(server), 100, 200).ahead;
  assert.deepEqual([null, 50, 100, 150, 200, 250].map(ahead), [null, -50, 0, 0, 0, 50]);
});

test("a date is read as every server writes it, or not at all", () => {
  assert.equal(instantOf("Thu, 01 Jan 2026 00:00:01 GMT"), SERVER_TIME);
  assert.equal(instantOf("Sun, 06 Nov 1994 08:49:37 GMT"), 784_111_777_000);
  const none = ["noon", "", "Thu, 31 Feb 2026 00:00:01 GMT", "Thu, 01 Jan 2026 25:00:01 GMT", "Thu, 01 Jan 2026 00:00:01"];
  for (const date of [null, ...none]) assert.equal(instantOf(date), null, String(date));
});

test("what a round takes in bytes is what Python reckons", () => {
  assert.deepEqual([0x20, 0x647a].map(capsuleBytes), [131, 1219]);
  const [covered] = vectors("experiment_document").cases.map(({ text }: { text: string }) => documentOf(text));
  const [plain] = vectors("plain_experiment_document").cases.map(({ text }: { text: string }) => documentOf(text));
  assert.equal(bytesOfARound(covered), 1_296);
  assert.equal(bytesOfARound(new ExperimentDocument({ ...covered, tokens: true })), 1_888);
  assert.equal(bytesOfARound(plain), 2_655);
});
const documentOf = (text: string) => ExperimentDocument.fromBytes(utf8(text));
