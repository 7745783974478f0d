import assert from "node:assert/strict";
import { test } from "node:test";

import { hex } from "../../src/bytes.ts";
import { CANARY } from "../../src/protocol/relays/submission.ts";
import { DOCUMENT, Killed, labelOf, World } from "../rigs/world.ts";

const { digest } = DOCUMENT;

/** Let the device live until then, opened anew whenever it dies. */
async function driveThroughDeath(world: World, until: number): Promise<void> {
  try {
    await world.drive(until);
  } catch (fault) {
    if (!(fault instanceof Killed)) throw fault;
    deaths += 1;
    await world.start();
    await world.drive(until);
  }
}
let deaths = 0;

test("a round is sent once in its window, and its canary is found", async () => {
  const world = await World.joined();
  for (const number of [1, 2]) {
    const manifest = await world.playRound();
    const sent = world.sent.filter(({ label }) => label === labelOf(manifest));
    assert.equal(sent.length, 1);
    assert.deepEqual(world.state.history(digest).at(-1), {
      ...{ roundNumber: number, packages: DOCUMENT.budget, acknowledged: DOCUMENT.budget, lost: 0 },
    });
  }
  await world.drive(world.now + 3_600_000);
  const { seen, refetched, missing, unchecked } = world.state.trust.checks(digest);
  assert.deepEqual({ seen, refetched, missing, unchecked }, { seen: 2, refetched: 4, missing: 0, unchecked: 0 });
  assert.deepEqual([world.member.canaries, world.member.distrust], [0, null]);
  assert.equal(world.state.relayed.request(digest), null);
});

test("killed at any moment of a round, the device sends one request and its bytes alone", async () => {
  let lives = 0;
  for (deaths = 0; deaths === lives; lives += 1) {
    const fuse = 3 * lives;
    const world = await World.joined();
    await world.start({ fuse });
    const manifest = await world.history.announce();
    await driveThroughDeath(world, manifest.instants.mixBy);
    await world.history.conclude();
    await driveThroughDeath(world, manifest.instants.openBy - 10_000);
    await driveThroughDeath(world, world.now + 300_000);
    const bodies = new Set(world.sent.map(({ body }) => hex(body)));
    assert.equal(bodies.size, 1, `killed at moment ${fuse}`);
    assert.deepEqual([...world.state.ledger.rounds()], [[digest, 1]]);
    assert.equal(world.state.history(digest)[0]!.acknowledged, DOCUMENT.budget, `killed at moment ${fuse}`);
    assert.equal(world.state.trust.checks(digest).seen, 1, `killed at moment ${fuse}`);
  }
  assert.ok(deaths > 20, `${deaths}`);
});

test("a canary that was left out stops the device, with a file that shows it, until its person resumes", async () => {
  const world = await World.joined();
  const manifest = await world.history.announce();
  await world.drive(manifest.instants.mixBy);
  const [kept] = world.state.relayed.canaries(digest);
  await world.history.conclude({ leftOut: new Set([hex(CANARY.fromBytes(kept!.canary).innerDigest)]) });
  await world.drive(manifest.instants.openBy - 10_000);
  assert.match(world.member.distrust!, /did not hand on: Entry e.V. \(the entry relay\) or Mix Ltd./);
  assert.equal(world.state.evidence(digest).length, 1);
  await world.playRound();
  assert.equal(world.sent.length, 1);
  await world.state.setStatus(digest, "joined");
  await world.playRound();
  assert.equal(world.sent.length, 2);
});

test("two unopened rounds stop the device", async () => {
  const world = await World.joined();
  for (let i = 0; i < 2; i++) await world.playRound({ unopened: true });
  await world.drive(world.now + 3_600_000);
  assert.equal(world.member.distrust, "rounds 1 and 2 had this device's request and were never opened");
});

test("a pause holds at once, and what was overdue gets a new time in what is left of the window", async () => {
  const world = await World.joined();
  const manifest = await world.history.announce();
  const { opensAt, closesAt } = manifest.instants;
  await world.drive(opensAt - 1);
  await world.state.setStatus(digest, "paused");
  await world.drive(closesAt - 60_000);
  assert.equal(world.sent.length, 0);
  await world.state.setStatus(digest, "joined");
  await world.drive(closesAt);
  assert.equal(world.sent.length, 1);
});

test("who is forgotten sends and fetches nothing more, and keeps no model", async () => {
  const world = await World.joined();
  const manifest = await world.history.announce();
  await world.drive(manifest.instants.opensAt - 1);
  await world.state.forget(digest);
  const before = world.fetched.length;
  await world.drive(manifest.instants.openBy);
  assert.deepEqual([world.sent.length, world.fetched.length - before], [0, 0]);
  assert.equal(await world.device.work(), null);
});
