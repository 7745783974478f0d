import assert from "node:assert/strict";
import { after, test } from "node:test";

import { StoreError } from "../../src/errors.ts";
import { faultOf, troubleOf } from "../../src/ui/troubles.ts";
import { MISBEHAVIOUR } from "../sending/tinyRelay.ts";
import { asked, Person } from "./person.ts";

const ASKED = asked();
const people: Person[] = [];
after(() => Promise.all(people.map((person) => person.stop())));

for (const [name, act] of Object.entries(MISBEHAVIOUR)) {
  test(`a relay's ${name} ends in one sentence on the page; nothing is sent, and nothing lost`, async () => {
    const person = await Person.start(ASKED);
    people.push(person);
    await person.join(ASKED[0]);
    person.relay.acts = Array(100).fill(act);
    person.answerMs = 100;
    await person.wake();
    await person.act("find");
    assert.equal((await person.page()).offers.problem.key, "found.nobody");
    for (let i = 0; i < 5; i++) person.now = Math.max(person.now, (await person.device.work())!);
    const [one] = (await person.page()).experiments;
    assert.deepEqual([one.status, one.means.key, one.trouble.key], ["joined", "means.runs", "trouble.unanswered"]);
    assert.match(one.trouble.text, /has asked [3-9] times in a row, and nobody answered/);
    assert.ok(person.relay.paths.every((path) => ["/r/keys", "/r/fetch"].includes(path)), person.relay.paths.join());
    person.relay.acts = [];
    await person.wake();
    assert.equal((await person.page()).experiments[0].means.key, "means.runs");
  });
}

test("permissions that were taken back are one sentence, as long as there is something to be done with them", async () => {
  const person = await Person.start(ASKED);
  people.push(person);
  await person.join(ASKED[0]);
  person.allowed = false;
  assert.deepEqual((await person.page()).troubles.map(({ key }: { key: string }) => key), ["trouble.permission"]);
  await person.act("pause", { digest: ASKED[0].digest });
  assert.deepEqual((await person.page()).troubles, []);
});

test("what the device's work ended with is told on the page", async () => {
  const person = await Person.start(ASKED);
  people.push(person);
  person.fault = new StoreError("The disk is gone.");
  assert.deepEqual((await person.page()).troubles, [{ text: "The disk is gone." }]);
  const told = faultOf(new TypeError("a secret"));
  assert.ok("key" in told && told.key === "trouble.unknown" && !told.text.includes("secret"));
});

test("of a round in which the device takes no part, its reason is told while no later one is known", () => {
  const abstentions = [
    { round: 1, reason: "DECLINED", sentence: "a budget is spent" },
    { round: 2, reason: "CLOCK", sentence: "this device's clock seems to be wrong" },
  ];
  const key = (newest: number, unanswered = 0) => troubleOf({ abstentions, unanswered, newest })?.key ?? null;
  assert.deepEqual([key(1), key(2), key(3)], ["why.DECLINED", "why.CLOCK", null]);
  assert.deepEqual([key(2, 2), key(2, 3)], ["why.CLOCK", "trouble.unanswered"]);
  assert.equal(troubleOf({ abstentions, unanswered: 0, newest: 1 })?.text, "A budget is spent.");
  const late = { round: 3, reason: "LATE", sentence: "the next round will do" };
  assert.equal(troubleOf({ abstentions: [late], unanswered: 0, newest: 3 }), null);
});
