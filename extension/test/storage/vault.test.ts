import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { IDBFactory } from "fake-indexeddb";

import { BadInputError } from "../../src/errors.ts";
import { Tables } from "../../src/storage/tables.ts";
import { Vault } from "../../src/storage/vault.ts";

const FEATURES = fc.array(fc.tuple(fc.string(), fc.integer({ min: -1000, max: 1000 }))).map((pairs) => new Map(pairs));

async function opened(factory = new IDBFactory()): Promise<Vault> {
  return new Vault(await Tables.open(factory));
}

/** The features that are there. */
function present(...all: Map<string, number>[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const features of all) for (const [name, value] of features) sums.set(name, (sums.get(name) ?? 0) + value);
  return new Map([...sums].filter(([, value]) => value !== 0));
}

test("a source is replaced as a whole, and all sources add up", async () => {
  await fc.assert(
    fc.asyncProperty(FEATURES, FEATURES, FEATURES, async (first, second, other) => {
      const factory = new IDBFactory();
      const vault = await opened(factory);
      await vault.put("a", first);
      await vault.put("b", other);
      await vault.put("a", second);
      const again = await opened(factory);
      assert.deepEqual(await again.features("a"), present(second));
      assert.deepEqual(await again.features(), present(second, other));
    }),
    { numRuns: 25 },
  );
});

test("features are counted and forgotten by source", async () => {
  const vault = await opened();
  assert.deepEqual(await vault.summary(), new Map());
  await vault.put("history", new Map([["a", 5], ["b", 1], ["absent", 0]]), { reader: "titles", readAt: 5, days: 30 });
  await vault.put("csv", new Map([["a", 1]]));
  assert.deepEqual(await vault.summary(), new Map([["csv", 1], ["history", 2]]));
  assert.deepEqual(await vault.readings(), new Map([["history", { reader: "titles", readAt: 5, days: 30 }]]));
  await vault.forget("history");
  await vault.forget("never-there");
  assert.deepEqual([await vault.summary(), await vault.readings()], [new Map([["csv", 1]]), new Map()]);
});

test("what is excluded goes with all hosts below and nothing else, and stays away", async () => {
  const kept = { "host:notbank.example": 1, "host:bank.example.org": 2, bank: 3, "host:a.example:8443": 1 };
  const hosts = ["bank.example", "bank.example:8443", "a.bank.example", "a.bank.example:1"];
  const gone = Object.fromEntries(hosts.map((host) => [`host:${host}`, 1]));
  const vault = await opened();
  const everything = new Map(Object.entries({ ...kept, ...gone, money: 1 }));
  await vault.put("history", everything);
  await vault.put("diary", new Map([["money", 1]]));
  assert.equal(await vault.exclude(["bank.example", "money", "*"]), hosts.length + 2);
  assert.deepEqual(await vault.features(), new Map(Object.entries(kept)));
  await vault.put("history", everything);
  assert.deepEqual(await vault.features(), new Map(Object.entries(kept)));
  await vault.include(["money", "*"]);
  assert.deepEqual(vault.excluded(), new Set(["bank.example"]));
});

test("labels are kept, told by name, and forgotten", async () => {
  const factory = new IDBFactory();
  const vault = await opened(factory);
  await vault.setLabel("question", "yes");
  await vault.setLabel("other", "no");
  const again = await opened(factory);
  assert.deepEqual([again.label("question"), again.label("nobody")], ["yes", null]);
  assert.deepEqual(again.answered(), ["other", "question"]);
  await again.forgetLabel("other");
  assert.deepEqual(again.answered(), ["question"]);
  await again.put("csv", new Map([["a", 1]]));
  await again.exclude(["b"]);
  await again.forget();
  const empty = await opened(factory);
  assert.deepEqual([empty.answered(), empty.excluded(), await empty.summary()], [[], new Set(), new Map()]);
});

test("what cannot be used is refused in words without a feature, and changes nothing", async () => {
  const vault = await opened();
  await vault.put("a", new Map([["secret", 2]]));
  const most = 2 ** 22 - 1;
  const wrong: [string, Map<string, number>][] = [
    ["", new Map()],
    ["a\n", new Map()],
    ["a\ud800", new Map()],
    ["a".repeat(1001), new Map()],
    ["a", new Map([["secret", 1.5]])],
    ["a", new Map([["secret", most + 1]])],
    ["b", new Map([["secret", most - 2]])],
  ];
  for (const [source, features] of wrong) {
    const refused = (fault: unknown) => fault instanceof BadInputError && !fault.message.includes("secret");
    await assert.rejects(vault.put(source, features), refused);
  }
  assert.deepEqual(await vault.features(), new Map([["secret", 2]]));
  for (const [name, value] of [["", "x"], ["x", "\x00"]] as const) {
    await assert.rejects(vault.setLabel(name, value), /must be printable text of 1 to 1000 bytes/);
  }
});
