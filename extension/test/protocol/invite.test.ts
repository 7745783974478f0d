import assert from "node:assert/strict";
import { test } from "node:test";

import { BadInputError } from "../../src/errors.ts";
import { inviteText, readInvite } from "../../src/protocol/invite.ts";

const DIGEST = "3fa9".repeat(16);
const LINE = `secvm:https://relay.example/relay#${DIGEST}`;

test("an invite comes back from its line", () => {
  for (const url of ["https://relay.example", "http://127.0.0.1:8080/a/b?c#d", "https://[::1]:1/", "https://x/~!"]) {
    const invite = { relayUrl: url, digest: DIGEST };
    assert.deepEqual(readInvite(`\n ${inviteText(invite)}\r\n`), invite);
  }
});

test("anything else is no invite", () => {
  const others = [
    "", DIGEST, LINE.replace("secvm:", ""), LINE.slice(0, -1), `${LINE}0`, LINE.toUpperCase(), LINE.replace("https", "ftp"),
    LINE.replace("relay.example", "me:secret@relay.example"), LINE.replace("//relay.example", "//"),
    LINE.replace(".example", ".example:99999"), LINE.replace("/relay#", "/re lay#"),
    LINE.replace("relay", "r\u202eelay"), `${LINE}\n${LINE}`, LINE.replace("/relay#", `/${"r".repeat(600)}#`),
  ];
  for (const other of others) {
    assert.throws(
      () => readInvite(other),
      (error: unknown) => error instanceof BadInputError && !error.message.includes("secret"),
      other,
    );
  }
});
