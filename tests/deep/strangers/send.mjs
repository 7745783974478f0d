// A stranger's participant: it knows docs/protocol.md §9 and §19 and RFC 9458, and has not a line of ours. What it sends goes
// over a real socket to a relay's URL. One JSON object a line comes in, one goes out; bytes are hexadecimal.
//
//   node send.mjs
import { hex, join, sealRequest, serve, unhex } from "./oblivious.mjs";

const KINDS = { train: 1, test: 2, participation: 3, null: 4 };

// §9: 32 bytes, little-endian
function packageOf({ kind, experiment, round, a = 0, b = 0, c = 0 }) {
  const bytes = new Uint8Array(32);
  const view = new DataView(bytes.buffer);
  bytes.set([1, KINDS[kind]]);
  bytes.set(unhex(experiment), 2);
  view.setUint32(18, round, true);
  view.setUint16(22, a, true);
  view.setUint32(24, b, true);
  bytes[28] = c;
  return bytes;
}

// RFC 9458, section 3.2: each configuration behind its length
function configurations(bytes) {
  const found = {};
  for (let at = 0; at < bytes.length; ) {
    const length = (bytes[at] << 8) | bytes[at + 1];
    const one = bytes.slice(at + 2, at + 2 + length);
    found[one[0]] = one;
    at += 2 + length;
  }
  return found;
}

const kept = [];

async function post(url, body) {
  const answer = await fetch(url, { method: "POST", headers: { "content-type": "message/ohttp-req" }, body });
  const said = new Uint8Array(await answer.arrayBuffer());
  const type = answer.headers.get("content-type");
  const problem = said.length ? JSON.parse(new TextDecoder().decode(said)).type : null;
  return { status: answer.status, type, length: said.length, problem };
}

await serve({
  async keys({ relay }) {
    const answer = await fetch(`${relay}/keys`);
    const found = configurations(new Uint8Array(await answer.arrayBuffer()));
    const type = answer.headers.get("content-type");
    return { type, keys: Object.fromEntries(Object.entries(found).map(([id, one]) => [id, hex(one)])) };
  },
  async seal({ key, ...wanted }) {
    const url = "https://gateway.invalid/v1/packages";
    const request = new Request(url, { method: "POST", body: packageOf(wanted) });
    return { id: kept.push(await sealRequest(unhex(key), request)) - 1 };
  },
  async send({ relay, id }) {
    return post(relay, kept[id].capsule);
  },
  // The bytes of a sealed capsule, with some of them overwritten.
  async send_changed({ relay, id, at, bytes }) {
    const changed = join(kept[id].capsule);
    changed.set(unhex(bytes), at);
    return post(relay, changed);
  },
  async send_bytes({ relay, length }) {
    return post(relay, new Uint8Array(length));
  },
});
