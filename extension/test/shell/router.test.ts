import assert from "node:assert/strict";
import { test } from "node:test";

import { BadInputError, StoreError } from "../../src/errors.ts";
import { answerTo, type Asking } from "../../src/shell/router.ts";

const DEVICE: Asking = {
  state: async () => ({ runs: true }),
  act: async (action, said) => {
    if (action === "evidence") return { file: Uint8Array.of(1, 2, 3) };
    if (action === "full") throw new StoreError("The storage is full.", { nextStep: "Free some space." });
    if (action === "wrong") throw new BadInputError("this is no digest");
    if (action === "broken") throw new Error("a secret");
    return { json: said };
  },
};

const asked = (action: string) => answerTo({ action, said: { digest: "d" } }, async () => DEVICE);

test("a page is answered with a value, a file or a sentence", async () => {
  assert.deepEqual(await asked("state"), { json: { runs: true } });
  assert.deepEqual(await asked("pause"), { json: { digest: "d" } });
  assert.deepEqual(await asked("evidence"), { file: "AQID" });
  assert.deepEqual(await asked("full"), { status: 503, detail: "The storage is full.", next: "Free some space." });
  assert.deepEqual(await asked("wrong"), { status: 409, detail: "This is no digest.", next: null });
  assert.deepEqual(await asked("broken"), { status: 500, detail: "That did not work.", next: null });
});

test("what is no message of the page is refused, and a device that cannot be opened says why", async () => {
  for (const wrong of [null, "state", 1, [], {}, { action: 1, said: {} }, { action: "state", said: null }]) {
    assert.equal("detail" in (await answerTo(wrong, async () => DEVICE)), true);
  }
  const closed = () => Promise.reject(new StoreError("no storage"));
  assert.deepEqual(await answerTo({ action: "state", said: {} }, closed), {
    ...{ status: 503, detail: "No storage.", next: null },
  });
});
