import assert from "node:assert/strict";
import { test } from "node:test";

import { UnreachableError } from "../../src/errors.ts";
import { UNANSWERED, type SendReply } from "../../src/sending/reply.ts";
import { NotNowError } from "../../src/sending/transport.ts";
import { DOCUMENT, World } from "../rigs/world.ts";

const { digest } = DOCUMENT;
const BUSY: SendReply = { ...UNANSWERED, answered: true, retryAfterMs: 2000 };
const SILENCE = "the entry relay entry.example has not answered three times, so it is left alone until the next round";

function told(world: World): string[] {
  return world.state.abstentions(digest).map(([, , sentence]) => sentence);
}

test("three refusals of a request, then silence until the next round", async () => {
  const world = await World.joined();
  world.entry = () => UNANSWERED;
  for (const number of [1, 2]) {
    await world.playRound();
    assert.equal(world.sent.length, 3 * number);
    assert.equal(world.member.session.phase, "idle");
  }
  assert.deepEqual(told(world), [SILENCE, SILENCE]);
  assert.equal(world.member.distrust, null);
  world.entry = null;
  await world.playRound();
  assert.equal(world.state.history(digest).at(-1)!.acknowledged, DOCUMENT.budget);
});

test("attempts are spread over what is left of the window", async () => {
  let longest = 0;
  for (let i = 0; i < 5; i++) {
    const world = await World.joined();
    const at: number[] = [];
    world.entry = () => (at.push(world.now), UNANSWERED);
    await world.playRound();
    longest = Math.max(longest, at[2]! - at[0]!);
  }
  // A relay that is started anew is there again by then.
  assert.ok(longest > 60_000, `${longest} ms`);
});

test("refusals are counted across the worker's death", async () => {
  const world = await World.joined();
  world.entry = () => UNANSWERED;
  const { closesAt, openBy } = (await world.history.announce()).instants;
  while (world.now < closesAt) {
    await world.start();
    await world.drive(Math.min(closesAt, world.now + 5_000));
  }
  assert.equal(world.sent.length, 3);
  await world.drive(openBy);
  assert.equal(world.state.relayed.request(digest), null);
});

test("an answer ends the counting, whatever it says", async () => {
  const world = await World.joined();
  const script = [UNANSWERED, UNANSWERED, BUSY, UNANSWERED, UNANSWERED, BUSY];
  world.entry = (label, body) => script.shift() ?? { ...BUSY, content: world.history.take(Uint8Array.from(label), body) };
  await world.playRound();
  assert.equal(world.sent.length, 7);
  assert.equal(world.state.history(digest)[0]!.acknowledged, DOCUMENT.budget);
});

test("a relay that is asked for its terms in vain is left alone too; one that only cannot now is not", async () => {
  for (const [Fault, most] of [[UnreachableError, 3], [NotNowError, Infinity]] as const) {
    const world = await World.joined();
    let asked = 0;
    world.terms = () => {
      asked += 1;
      throw new Fault("the entry relay does not answer");
    };
    await world.playRound();
    assert.ok(most === 3 ? asked === 3 : asked > 3, `${asked}`);
    assert.equal(told(world).includes(SILENCE), most === 3);
    assert.equal(world.sent.length, 0);
  }
});
