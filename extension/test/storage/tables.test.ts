import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { IDBFactory, IDBObjectStore } from "fake-indexeddb";

import { StoreError } from "../../src/errors.ts";
import { Tables } from "../../src/storage/tables.ts";

test("what was committed is there after the worker died, and nothing else", async () => {
  const step = fc.oneof(
    fc.record({ does: fc.constant("put"), table: fc.constantFrom("a", "b"), key: fc.nat(3), value: fc.nat(9) }),
    fc.record({ does: fc.constant("delete"), table: fc.constantFrom("a", "b"), key: fc.nat(3), value: fc.nat(9) }),
    fc.record({ does: fc.constantFrom("commit", "die"), table: fc.constant("a"), key: fc.nat(3), value: fc.nat(9) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const factory = new IDBFactory();
      let tables = await Tables.open(factory);
      let [now, disk] = [new Map<string, number>(), new Map<string, number>()];
      for (const { does, table, key, value } of steps) {
        if (does === "put") {
          tables.put(table, ["x", key], { value });
          now.set(`${table}${key}`, value);
        } else if (does === "delete") {
          assert.equal(tables.delete(table, "x", key), now.delete(`${table}${key}`) ? 1 : 0);
        } else if (does === "commit") {
          await tables.commit();
          disk = new Map(now);
        } else {
          tables.close();
          tables = await Tables.open(factory);
          now = new Map(disk);
        }
        const there = ["a", "b"].flatMap((name) =>
          tables.all(name, "x").map(({ key: [, k], row }) => [`${name}${k}`, row["value"]] as const),
        );
        assert.deepEqual(there, [...now].sort());
      }
    }),
    { numRuns: 60 },
  );
});

test("changes that belong together happen all or none", async () => {
  const tables = await Tables.open(new IDBFactory());
  tables.put("a", [1], { value: 1 });
  assert.throws(() =>
    tables.writing(() => {
      tables.put("a", [1], { value: 2 });
      tables.put("a", [2], { value: 3 });
      tables.writing(() => tables.delete("a"));
      throw new Error("no");
    }),
  );
  assert.deepEqual(tables.all("a"), [{ key: [1], row: { value: 1 } }]);
});

test("a full storage is told in one sentence, and what is on the disk holds", async (context) => {
  const factory = new IDBFactory();
  const tables = await Tables.open(factory);
  tables.put("a", [1], { value: 1 });
  await tables.commit();
  const put = context.mock.method(IDBObjectStore.prototype, "put", function (this: IDBObjectStore) {
    const full = new DOMException("full", "QuotaExceededError");
    this.transaction.abort();
    Object.defineProperty(this.transaction, "error", { value: full });
  });
  tables.put("a", [1], { value: 2 });
  const full = (fault: unknown) => fault instanceof StoreError && /storage is full/.test(fault.message);
  await assert.rejects(tables.commit(), full);
  put.mock.restore();
  // What it holds in memory is on no disk: nobody may work with it as if it were.
  await assert.rejects(tables.commit(), full);
  assert.throws(() => tables.get("a", 1), full);
  assert.throws(() => tables.put("a", [2], { value: 3 }), full);
  assert.deepEqual((await Tables.open(factory)).get("a", 1), { value: 1 });
});

test("test_repro_commit_after_one_that_failed_writes_nothing", async (context) => {
  const factory = new IDBFactory();
  const tables = await Tables.open(factory);
  const abort = function (this: IDBObjectStore) {
    this.transaction.abort();
  };
  const put = context.mock.method(IDBObjectStore.prototype, "put", abort, { times: 1 });
  tables.put("a", [1], { value: 1 });
  const first = tables.commit();
  tables.put("a", [2], { value: 2 });
  const ended = await Promise.allSettled([first, tables.commit()]);
  put.mock.restore();
  assert.deepEqual(ended.map(({ status }) => status), ["rejected", "rejected"]);
  assert.deepEqual((await Tables.open(factory)).all("a"), []);
});

test("large files are kept beside the tables", async () => {
  const factory = new IDBFactory();
  const tables = await Tables.open(factory);
  await tables.putFile("model", Uint8Array.of(1, 2));
  tables.close();
  const again = await Tables.open(factory);
  assert.deepEqual(await again.file("model"), Uint8Array.of(1, 2));
  assert.deepEqual(await again.fileNames(), ["model"]);
  await again.deleteFile("model");
  assert.equal(await again.file("model"), undefined);
});
