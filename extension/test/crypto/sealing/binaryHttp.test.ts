import assert from "node:assert/strict";
import { test } from "node:test";

import { hex, unhex } from "../../../src/bytes.ts";
import { decodeResponse, encodeGet } from "../../../src/crypto/sealing/binaryHttp.ts";
import { LocalProtocolError, MalformedMessageError } from "../../../src/errors.ts";
import { refused, vectors, type Vector } from "../../vectors.ts";

const isResponse = (vector: Vector) => vector.kind === "response";

test("responses are read as the vectors have them, in every framing", () => {
  const cases = vectors("sealing_messages").cases.filter(isResponse);
  assert.equal(cases.length, 13);
  for (const { bytes, message } of cases) {
    const { content, ...read } = decodeResponse(unhex(bytes));
    assert.deepEqual({ ...read, content: hex(content) }, message);
  }
});

test("bad responses of the vectors are refused, and requests in their place", async () => {
  const { cases } = vectors("bad_sealing_messages");
  await refused(cases.filter(isResponse), ({ bytes }) => decodeResponse(unhex(bytes)), MalformedMessageError);
  const requests = vectors("sealing_messages").cases.filter((vector: Vector) => !isResponse(vector));
  await refused(requests, ({ bytes }) => decodeResponse(unhex(bytes)), MalformedMessageError);
});

test("the field rules that the vectors show in requests hold in responses", () => {
  // A response of known length whose header section, or trailer section, has this one line.
  const line = (name: string, value: string) => {
    const [n, v] = [Buffer.from(name, "latin1"), Buffer.from(value, "latin1")];
    return [n.length, ...n, v.length, ...v];
  };
  const withHeaders = (...lines: number[][]) =>
    Uint8Array.from([1, 0x40, 200, lines.flat().length, ...lines.flat(), 0, 0]);
  const withTrailer = (each: number[]) => Uint8Array.from([1, 0x40, 200, 0, 0, each.length, ...each]);
  assert.deepEqual(decodeResponse(withHeaders(line(":protocol", "x"), line("a", "\xff"))).headers, [
    [":protocol", "x"],
    ["a", "\xff"],
  ]);
  const bad = [
    withHeaders(line("A", "b")),
    withHeaders(line("", "b")),
    withHeaders(line("a b", "c")),
    withHeaders(line("a\n", "c")),
    withHeaders(line(":status", "200")),
    withHeaders(line("a", "b"), line(":protocol", "x")),
    withTrailer(line(":protocol", "x")),
    ...[" b", "b ", "\tb", "b\t", "b\0c", "b\r", "b\n"].map((value) => withHeaders(line("a", value))),
  ];
  for (const data of bad) assert.throws(() => decodeResponse(data), MalformedMessageError, hex(data));
});

test("a response that ends anywhere is read or refused, and long lengths take no memory", () => {
  for (const { bytes } of vectors("sealing_messages").cases.filter(isResponse)) {
    const data = unhex(bytes);
    for (let size = 0; size < data.length; size++) {
      try {
        decodeResponse(data.subarray(0, size));
      } catch (fault) {
        assert.ok(fault instanceof MalformedMessageError);
      }
    }
  }
  assert.throws(() => decodeResponse(unhex("0140c800ffffffffffffffff")), MalformedMessageError);
  assert.throws(() => decodeResponse(unhex("0140c8ffffffffffffffff")), MalformedMessageError);
  assert.equal(hex(decodeResponse(unhex("c000000000000001800000c80040014100")).content), "41");
});

test("a GET is written in one way, for a path that is one", () => {
  const long = encodeGet("a.example", `/${"x".repeat(100)}`);
  assert.equal(hex(long.subarray(0, 21)), "0003474554056874747073" + "09" + hex(Buffer.from("a.example")));
  assert.equal(hex(long.subarray(21, 24)), "40652f");
  for (const path of ["", "a", "/a b", "/\u00e9", "/a\n", `/${"x".repeat(2 ** 14)}`]) {
    assert.throws(() => encodeGet("a.example", path), LocalProtocolError);
  }
});
