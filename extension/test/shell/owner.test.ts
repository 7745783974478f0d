import assert from "node:assert/strict";
import { test } from "node:test";

import { StoreError } from "../../src/errors.ts";
import { AFTER_FAULT_MS, Owner, type Device } from "../../src/shell/owner.ts";

/** A device of which a test says when it wants to be woken, and an owner of it. */
function owned(work: () => Promise<number | null>) {
  const [alarms, opened]: [(number | null)[], number[]] = [[], []];
  const device: Device = { work, state: async () => ({}), act: async () => ({ json: null }) };
  const owner = new Owner({
    open: async () => {
      opened.push(1);
      return device;
    },
    arm: async (at) => void alarms.push(at),
    now: () => 1000,
  });
  return { owner, alarms, opened };
}

test("there is one device and one alarm, for what is due next", async () => {
  const due = [5000, null];
  const { owner, alarms, opened } = owned(async () => due.shift()!);
  await owner.wake();
  await owner.wake();
  await owner.device();
  assert.deepEqual([alarms, opened.length], [[5000, null], 1]);
});

test("who wakes it while it works makes it look once more, and never twice at a time", async () => {
  let [working, most, times] = [0, 0, 0];
  const { owner } = owned(async () => {
    times += 1;
    most = Math.max(most, ++working);
    await new Promise((resolve) => setImmediate(resolve));
    working -= 1;
    return null;
  });
  const first = owner.wake();
  await Promise.all([first, owner.wake(), owner.wake()]);
  assert.deepEqual([most, times], [1, 2]);
});

test("after a fault the device is opened anew, later", async () => {
  let full = true;
  const { owner, alarms, opened } = owned(async () => {
    if (full) throw new StoreError("full");
    return 9000;
  });
  await owner.wake();
  assert.match(String(owner.fault), /full/);
  full = false;
  await owner.wake();
  assert.equal(owner.fault, null);
  assert.deepEqual([alarms, opened.length], [[1000 + AFTER_FAULT_MS, 9000], 2]);
});

test("a device that cannot be opened is tried again", async () => {
  let [times, alarm] = [0, 0];
  const owner = new Owner({
    open: async () => {
      times += 1;
      throw new StoreError("no storage");
    },
    arm: async (at) => void (alarm = at!),
    now: () => 0,
  });
  await owner.wake();
  await assert.rejects(owner.device(), StoreError);
  await owner.wake();
  assert.deepEqual([times, alarm], [3, AFTER_FAULT_MS]);
});
