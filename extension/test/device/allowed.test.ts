import assert from "node:assert/strict";
import { test } from "node:test";

import { AllowedTransport, whileAllowed } from "../../src/device/allowed.ts";
import { HttpClient } from "../../src/runtime/http/client.ts";
import { UNANSWERED } from "../../src/sending/reply.ts";
import { unsafeSeeded } from "../crypto/dice.ts";
import { published } from "../person/world.ts";

const [DOCUMENT] = published();
const URLS = DOCUMENT.relays.map(({ url }) => url);

test("no round is joined while permissions are taken back, and its relays are those that are asked about", async () => {
  let [allowed, agreed] = [false, 0];
  const about: (readonly string[])[] = [];
  const consent = whileAllowed({ agree: () => void (agreed += 1), enter: async () => undefined }, async (urls) => {
    about.push(urls);
    return allowed;
  });
  await assert.rejects(async () => consent.agree(DOCUMENT), { name: "ConsentRefusedError", message: /does not allow any more/ });
  allowed = true;
  await consent.agree(DOCUMENT);
  assert.deepEqual([agreed, about], [1, [URLS, URLS]]);
});

test("a request that is sealed waits while they are", async () => {
  let [allowed, sent] = [false, 0];
  const client = new HttpClient(async () => {
    sent += 1;
    return new Response(new Uint8Array(8));
  });
  const way = { relays: URLS, randomBytes: unsafeSeeded("allowed") };
  const transport = new AllowedTransport(client, way, async () => allowed);
  const submit = () => transport.submit(new Uint8Array(8), new Uint8Array(32), DOCUMENT.entryRelay);
  assert.deepEqual([await submit(), sent], [UNANSWERED, 0]);
  allowed = true;
  assert.equal((await submit()).content?.length, 8);
  assert.equal(sent, 1);
});
