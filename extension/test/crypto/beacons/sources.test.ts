import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";

import { hex, unhex, utf8 } from "../../../src/bytes.ts";
import { publishedAt, readPulse } from "../../../src/crypto/beacons/nistPulse.ts";
import { readObject } from "../../../src/crypto/beacons/records.ts";
import { roundTime, saltFrom, verifyBeacon } from "../../../src/crypto/beacons/sources.ts";
import { BadBeaconError, LocalProtocolError } from "../../../src/errors.ts";
import { refused, vectors } from "../../vectors.ts";

const { rounds, signed, times, salts } = vectors("beacon");
const NIST: string = rounds[0].record;

test("recorded rounds are genuine, and known since when they were", async () => {
  for (const { chain, round, record, output, at } of rounds) {
    const read = await verifyBeacon(chain, round, utf8(record), { allowUnsafe: true });
    assert.deepEqual({ output: hex(read.value), at: read.at }, { output, at });
  }
  for (const { chain, round, at } of times) assert.equal(roundTime(chain, round), at);
  assert.equal(roundTime("nist-2.0-chain-1", 54610), null);
  assert.throws(() => roundTime("drand-quick", 1), BadBeaconError);
});

test("NIST's signature is over these bytes", () => {
  for (const { chain, round, bytes } of signed) {
    const { record } = rounds.find((each: any) => each.chain === chain && each.round === round);
    assert.equal(hex(readPulse(utf8(record.slice(0, record.indexOf("-----BEGIN")))).signed), bytes);
  }
});

test("bad records of the vectors are refused", async () => {
  const { good, cases } = vectors("bad_beacons");
  const read = (vector: any) => {
    const [head, text, tail] = vector.record;
    const whole: string = good[vector.good];
    const record = whole.slice(0, head) + text + whole.slice(whole.length - tail);
    return verifyBeacon(vector.chain, vector.round, utf8(record), { allowUnsafe: vector.allow_unsafe });
  };
  await refused(cases, read, BadBeaconError);
});

test("salts are those of the vectors, and of outputs alone", () => {
  for (const { outputs, bins, salt } of salts) {
    assert.equal(hex(saltFrom(outputs.map((output: string) => unhex(output)), bins)), salt);
  }
  const output = new Uint8Array(32);
  for (const wrong of [[], Array<Uint8Array>(9).fill(output), [output.slice(1)]]) {
    assert.throws(() => saltFrom(wrong, 10), LocalProtocolError);
  }
  assert.throws(() => saltFrom([output], 0), LocalProtocolError);
});

test("a certificate that is not pinned is not believed, and letters of either case are the same pulse", async () => {
  const unpinned = verifyBeacon("nist-2.0-chain-1", 54610, utf8(NIST), { pins: new Set() });
  await assert.rejects(unpinned, /none that is trusted/);
  const lower = NIST.replace(/"(outputValue|signatureValue|localRandomValue)": "[0-9A-F]+"/g, (field) =>
    field.replace(/[0-9A-F]+"$/, (value) => value.toLowerCase()),
  );
  assert.notEqual(lower, NIST);
  assert.equal(hex((await verifyBeacon("nist-2.0-chain-1", 54610, utf8(lower))).value), rounds[0].output);
});

test("a pulse's time is a whole minute of the calendar", () => {
  const [served] = NIST.split("-----BEGIN");
  const withTime = (time: string) => readPulse(utf8(served!.replace(/("timeStamp": ")[^"]*/, `$1${time}`)));
  assert.equal(publishedAt(withTime("2018-08-30T17:44:00.000Z")), rounds[0].at);
  const wrong = [
    ...["2018-08-30T17:44:00Z", "2018-08-30T17:44:30.000Z", "2018-08-30 17:44:00.000Z", "2018-02-30T17:44:00.000Z"],
    ...["0000-01-01T00:00:00.000Z", "2018-08-30T24:00:00.000Z", "2018-08-30T17:44:00.000+00:00", ""],
  ];
  for (const time of wrong) assert.throws(() => publishedAt(withTime(time)), BadBeaconError, time);
});

test("JSON of beacons has no key twice and no float, in whatever way it is written", () => {
  const read = (text: string) => readObject(utf8(text), "a record");
  read('{"a": "{\\"a\\":1, \\"a\\":2}", "b": {"a": [1, {"a": 2}, {"a": 3}]}}').hasExactly("a", "b");
  read('{"a": "1.5", "b": "\\\\"}');
  const twice = ['{"a": 1, "a": 2}', '{"a": 1, "\\u0061": 2}', '{"b": [{"a":1,"a" \n: 1}]}'];
  const others = ['{"a": 1.0}', '{"a": 1e3}', '{"a": NaN}', "[]", "1", "null", "", '{"a": 1}x', "\ufeff{}"];
  for (const text of [...twice, ...others]) {
    assert.throws(() => read(text), BadBeaconError, text);
  }
  assert.throws(() => readObject(new Uint8Array(2 ** 16 + 1), "a record"), BadBeaconError);
  assert.throws(() => readObject(Uint8Array.of(0xff), "a record"), BadBeaconError);
  for (const value of ["-1", "9007199254740993", "true", '"1"', "null"]) {
    assert.throws(() => read(`{"a": ${value}}`).integer("a", { bits: 64 }), BadBeaconError, value);
  }
});

test("whatever the bytes are, they are refused with one error", async () => {
  const chains = fc.constantFrom("drand-quicknet", "nist-2.0-chain-1", "local-unsafe");
  await fc.assert(
    fc.asyncProperty(chains, fc.oneof(fc.json().map(utf8), fc.uint8Array()), async (chain, record) => {
      await assert.rejects(verifyBeacon(chain, 1, record, { allowUnsafe: true }), BadBeaconError);
    }),
  );
});
