import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { patternOf, permissionsFor } from "../../src/shell/permissions.ts";

const browser = (manifest: object): void => {
  (globalThis as { chrome?: unknown }).chrome = { runtime: { getManifest: () => manifest } };
};
afterEach(() => delete (globalThis as { chrome?: unknown }).chrome);

test("a relay's host is asked for without its port, and each once", () => {
  assert.equal(patternOf("https://relay.example:8443/a/relay"), "https://relay.example/*");
  browser({});
  const { origins } = permissionsFor("talking", ["http://127.0.0.1:1/r", "http://127.0.0.1:2/r"]);
  assert.deepEqual(origins, ["http://127.0.0.1/*"]);
});

test("only who reads asks for the history, and Firefox also for its data consent", () => {
  browser({});
  assert.deepEqual(permissionsFor("talking", ["https://relay.example/r"]), { origins: ["https://relay.example/*"] });
  assert.deepEqual(permissionsFor("reading", []), { origins: [], permissions: ["history"] });
  browser({ browser_specific_settings: {} });
  assert.deepEqual(permissionsFor("talking", []), { origins: [] });
  const both = { origins: [], permissions: ["history"], data_collection: ["browsingActivity"] };
  assert.deepEqual(permissionsFor("reading", []), both);
});
