import assert from "node:assert/strict";
import { test } from "node:test";
import { IDBFactory } from "fake-indexeddb";

import { hex } from "../../src/bytes.ts";
import { takeUp } from "../../src/device/invitation.ts";
import { LocalProtocolError } from "../../src/errors.ts";
import { SigningKey } from "../crypto/signers.ts";
import { deviceOf, MemoryNet, published } from "../person/world.ts";

const [DOCUMENT, ENVELOPE] = published();
const [ENTRY, MIX] = DOCUMENT.relays;
const INVITE = { relayUrl: ENTRY!.url, digest: DOCUMENT.digest };

test("the first invite sets the device up, with the experiment's relays and no others", async () => {
  const factory = new IDBFactory();
  await takeUp((await deviceOf(factory)).state, INVITE, new MemoryNet().serve([DOCUMENT, ENVELOPE]));
  const { settings } = (await deviceOf(factory)).state;
  assert.deepEqual(settings.setUp(), { urls: [ENTRY!.url], onlyTests: DOCUMENT.test });
  assert.deepEqual(settings.invitations(), new Map([[DOCUMENT.digest, ENVELOPE]]));
  const known = settings.relays().map(({ url, key, operator }) => [url, key.equals(ENTRY!.key), operator]).sort();
  assert.deepEqual(known, [[ENTRY!.url, true, ENTRY!.operator], [MIX!.url, false, MIX!.operator]].sort());
});

test("a second invite brings its relays along, and changes none that is known", async () => {
  const { state } = await deviceOf();
  const stranger = new SigningKey(new Uint8Array(32).fill(9)).public;
  const relays = JSON.parse(new TextDecoder().decode(DOCUMENT.data)).relays;
  const other = [{ ...relays[0], operator: "else", key: hex(stranger.data) }, { ...relays[1], url: "https://third.example/r" }];
  const second = published({ relays: other, title: "second" });
  const net = new MemoryNet().serve([DOCUMENT, ENVELOPE], second);
  await takeUp(state, INVITE, net);
  await takeUp(state, { ...INVITE, digest: second[0].digest }, net);
  const known = new Map(state.settings.relays().map((relay) => [relay.url, relay]));
  assert.deepEqual([...known.keys()].sort(), [ENTRY!.url, MIX!.url, "https://third.example/r"].sort());
  assert.equal(known.get(ENTRY!.url)!.operator, ENTRY!.operator);
  assert.ok(!known.get(ENTRY!.url)!.key.equals(stranger));
  const elsewhere = { ...INVITE, relayUrl: "https://else.example/r" };
  await assert.rejects(takeUp(state, elsewhere, net), /over another relay before/);
});

test("what cannot be had, or is another experiment, leaves the device as it was", async () => {
  const { state } = await deviceOf();
  const net = new MemoryNet();
  const refused = (message: RegExp) => assert.rejects(takeUp(state, INVITE, net), { name: "BadInputError", message });
  await refused(/nobody answers/);
  net.serve(published({ title: "else" }));
  await refused(/knows none of this digest/);
  net.refusedWith = 401;
  await refused(/wants a credential.*status 401/);
  net.files.set(`/v1/experiment/${DOCUMENT.digest}`, published({ title: "else" })[1]);
  await refused(/not that experiment/);
  net.serve([DOCUMENT, ENVELOPE]);
  net.check = () => {
    throw new LocalProtocolError("not good enough");
  };
  await assert.rejects(takeUp(state, INVITE, net), /not good enough/);
  assert.deepEqual([state.settings.setUp(), state.settings.relays()], [null, []]);
});
