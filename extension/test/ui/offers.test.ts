import assert from "node:assert/strict";
import { after, test } from "node:test";

import { utf8 } from "../../src/bytes.ts";
import { RemoteProtocolError } from "../../src/errors.ts";
import { isDigest, readList } from "../../src/ui/offers.ts";
import { asked, Person, PLAIN, type Page } from "./person.ts";

const ASKED = asked();
const people: Person[] = [];
after(() => Promise.all(people.map((person) => person.stop())));

async function invited(...more: readonly (readonly [...typeof ASKED])[]): Promise<Person> {
  const person = await Person.start(ASKED, ...more);
  people.push(person);
  await person.invite(ASKED[0]);
  return person;
}

test("of a list those that go on are taken, each once, and nothing else of it", () => {
  const list = (experiments: unknown) => readList(utf8(JSON.stringify({ experiments })));
  const [one, two] = ["1".repeat(64), "2".repeat(64)];
  const listed = [{ digest: one, standing: "running" }, { digest: two, standing: "ended" }, { digest: one, standing: "paused" }];
  assert.deepEqual(list(listed), [one]);
  for (const wrong of [1, null, {}, [1], [{ digest: "x", standing: "running" }], [{ digest: 1, standing: "paused" }]]) {
    assert.throws(() => list(wrong), RemoteProtocolError, JSON.stringify(wrong));
  }
  assert.throws(() => readList(Uint8Array.of(255, 254)), RemoteProtocolError);
  assert.deepEqual([one, `${one}0`, one.replace("1", "G"), null].map(isDigest), [true, false, false, false]);
});

test("a list that is none, a document that is another, and one that is not there are each a sentence", async () => {
  const person = await invited();
  const { files } = person.relay;
  const problem = async (digest?: string) => {
    await person.act("find", digest === undefined ? {} : { digest });
    return (await person.page()).offers.problem?.key ?? null;
  };
  assert.equal(await problem(), null);
  files.set("/v1/experiments", utf8("<html>welcome</html>"));
  assert.equal(await problem(), "found.no-list");
  files.delete("/v1/experiments");
  assert.equal(await problem(), "found.nobody");
  assert.equal(await problem("0".repeat(64)), "found.none");
  files.set(`/v1/experiment/${"0".repeat(64)}`, ASKED[1]);
  assert.equal(await problem("0".repeat(64)), "found.wrong");
  assert.equal((await person.page()).offers.list.length, 1);
});

test("first comes what the person was invited to, last what the device refuses", async () => {
  const person = await invited(PLAIN, asked({ title: "aaa" }));
  await person.act("find");
  const titles = (await person.page()).offers.list.map((one: Page) => one.title);
  assert.deepEqual(titles, [ASKED[0].title, "aaa", PLAIN[0].title]);
});

test("of many experiments so many are shown as a person may read", async () => {
  const many = Array.from({ length: 40 }, (_, i) => asked({ title: `number ${i}` }));
  const person = await invited(...many);
  await person.act("find");
  assert.equal((await person.page()).offers.list.length, 30);
  assert.ok(person.relay.paths.filter((path) => path === "/r/fetch").length <= 32);
});
