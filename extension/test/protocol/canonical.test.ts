import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { utf8 } from "../../src/bytes.ts";
import { MalformedMessageError } from "../../src/errors.ts";
import { decodeDocument, encodeDocument, Fields, firstUnprintable, type Content } from "../../src/protocol/canonical.ts";
import { documentType, FLAG, nullable, omitted, RATIO, text, whole } from "../../src/protocol/records.ts";

const MAX = { maxBytes: 10_000 };
const key = fc.stringMatching(/^[a-z][a-z0-9_]{0,5}$/);
const { content } = fc.letrec((tie) => ({
  content: fc.dictionary(key, tie("value"), { maxKeys: 5 }),
  value: fc.oneof(
    { maxDepth: 4 },
    fc.string({ unit: "binary" }),
    fc.maxSafeInteger(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 4 }),
    tie("content"),
  ),
}));

test("what is written is read as it was, in one spelling", () => {
  fc.assert(
    fc.property(content as fc.Arbitrary<Content>, (said) => {
      const data = encodeDocument(said);
      assert.deepEqual(encodeDocument(decodeDocument(data, MAX)), data);
    }),
  );
});

test("other spellings of a content are refused", () => {
  const others = [
    '{"a": 1}', '{"b":1,"a":1}', '{"a":1,"a":1}', '{"a":1.0}', '{"a":1e2}', '{"a":-0}', '{"a":9007199254740992}',
    '{"A":1}', '{"a":"\\u0041"}', '{"a":"\\ud800"}', '[1]', "1", "", '{"a":NaN}', '\ufeff{"a":1}', '{"__proto__":1}',
    `{"a":${"[".repeat(9)}${"]".repeat(9)}}`,
  ];
  for (const other of others) assert.throws(() => decodeDocument(utf8(other), MAX), MalformedMessageError, other);
  assert.throws(() => decodeDocument(Uint8Array.of(0x7b, 0xff, 0x7d), MAX), MalformedMessageError);
  assert.deepEqual(decodeDocument(utf8('{"a":1}'), MAX), { a: 1 });
});

test("texts hold one line of printable characters", () => {
  assert.equal(firstUnprintable("Grüße 👨‍👩‍👧"), null);
  assert.equal(firstUnprintable("😀a\u202eb"), 2);
  assert.throws(
    () => new Fields({ title: "ab\u{e0041}" }, "the note").text("title", { longest: 80 }),
    /title of the note has U\+E0041 as character 3; a text is one line of printable characters/,
  );
});

test("a record is read and written by its declaration", () => {
  const seats = documentType(
    { purpose: "secvm-seat", title: "the seat", longest: 1000, reserved: ["later"] },
    { rowNumber: whole(1, 40), holder: nullable(text({ longest: 80 })), aisle: omitted(FLAG, false), share: RATIO },
  );
  const document = '{"holder":null,"later":null,"row_number":3,"share":"1/2","type":"secvm-seat"}';
  const seat = seats.fromBytes(utf8(document));
  assert.deepEqual({ ...seat, share: seat.share.toString() }, { rowNumber: 3, holder: null, aisle: false, share: "1/2" });
  assert.deepEqual(seats.toBytes(seat), utf8(document));
  const others: [string, RegExp][] = [
    [document.replace("3", "41"), /row_number of the seat must be an integer from 1 to 40, not 41/],
    [document.replace("1/2", "2/4"), /share of the seat must be a rational in lowest terms, such as 1\/2/],
    [document.replace('"share"', '"shore"'), /the seat lacks share/],
    [document.replace('"share"', '"seen":1,"share"'), /the seat has fields that it should not have: seen/],
    [document.replace('"later":null', '"later":1'), /later of the seat must be there, and null/],
  ];
  for (const [other, fault] of others) assert.throws(() => seats.fromBytes(utf8(other)), fault);
  assert.throws(() => seats.digest({ ...seat, rowNumber: 41 }), /the seat cannot be published/);
});
