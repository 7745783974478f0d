import assert from "node:assert/strict";
import { test } from "node:test";

import { MISBEHAVIOUR } from "../sending/tinyRelay.ts";
import { asked, Person } from "../ui/person.ts";

const ASKED = asked();
const [{ digest }] = ASKED;

test("what its person decides holds at once, also while a relay lets it wait", async () => {
  const person = await Person.start(ASKED);
  await person.join(ASKED[0]);
  person.now = (await person.device.work())!;
  person.relay.seen.length = 0;
  person.relay.acts = [MISBEHAVIOUR["hang"]!];
  const working = person.device.work();
  const { memberships } = person.device.participant!;
  const until = async (is: () => boolean): Promise<void> => {
    while (!is()) await new Promise((resolve) => setImmediate(resolve));
  };
  await until(() => person.relay.seen.length > 0);
  await person.act("pause", { digest });
  await until(() => memberships.get(digest)!.session.paused);
  await person.act("forget", { digest });
  await until(() => !memberships.has(digest));
  await person.relay.stop();
  assert.equal(await working, null);
});
