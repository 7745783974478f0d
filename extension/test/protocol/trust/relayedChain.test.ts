import assert from "node:assert/strict";
import { test } from "node:test";

import { hex, utf8, type Bytes } from "../../../src/bytes.ts";
import {
  BadSignatureError,
  InconsistentManifestError,
  LocalProtocolError,
  MalformedMessageError,
  RemoteProtocolError,
  StaleRoundError,
} from "../../../src/errors.ts";
import type { Tally } from "../../../src/learning/aggregate/tally.ts";
import { digestOf } from "../../../src/protocol/canonical.ts";
import type { ModelNames } from "../../../src/protocol/log/entries.ts";
import { boundBy, MANIFEST, type RelayedManifest } from "../../../src/protocol/relays/manifest.ts";
import { OPENING } from "../../../src/protocol/relays/opening.ts";
import { RelayedChain, type Judging, type Named, type Served } from "../../../src/protocol/trust/relayedChain.ts";
import { signed } from "../../crypto/signers.ts";
import { COORDINATOR, knownBytes, relayedDocument, STRANGER } from "../../rigs/knownRound.ts";
import { RelayedHistory, type Stepping } from "../../rigs/relayedHistory.ts";

const DOCUMENT = relayedDocument();

/** Models that are the list of rounds they were stepped from: the rule is not this module's. */
class Listed implements Named {
  readonly stateBytes: Bytes;

  constructor(stateBytes: Bytes) {
    this.stateBytes = stateBytes;
  }

  get names(): ModelNames {
    return ["", "training", "evaluation"].map((name) => digestOf(utf8(name + hex(this.stateBytes)))) as never;
  }

  after(net: string): Listed {
    return new Listed(utf8(`${new TextDecoder().decode(this.stateBytes)} ${net}`));
  }
}

const JUDGING: Judging<Listed> = {
  first: () => new Listed(utf8("start")),
  model: (state, { digest }) => {
    assert.equal(new Listed(state).names[0], digest);
    return new Listed(state);
  },
  tally: async (data, { digest }) => {
    if (digestOf(data) !== digest) throw new MalformedMessageError("another tally");
    return new TextDecoder().decode(data) as unknown as Tally;
  },
  after: (document, model, net, { clients }) =>
    clients < document.floor ? { model, stayed: "floor" } : { model: model.after(`${net}`), stayed: null },
};

class ListedSteps implements Stepping {
  model = JUDGING.first(DOCUMENT);
  names = (): ModelNames => this.model.names;

  net(roundNumber: number): { digest: string; data: Bytes } {
    const data = utf8(`net${roundNumber}`);
    return { digest: digestOf(data), data };
  }

  step(roundNumber: number, clients: number): void {
    if (clients >= DOCUMENT.floor) this.model = this.model.after(`net${roundNumber}`);
  }
}

/** A coordinator, and a device that believes it. */
class World {
  readonly steps = new ListedSteps();
  readonly history = new RelayedHistory(DOCUMENT, this.steps);
  chain = new RelayedChain(DOCUMENT, JUDGING);

  /** One whole round, with so many devices; whether it is opened. */
  async play({ clients = 3, unopened = false }: { clients?: number; unopened?: boolean } = {}): Promise<void> {
    await this.history.announce();
    for (let i = 0; i < clients; i++) this.history.requests.set(`${i}`, request(i, this.history.rounds.length));
    await this.history.conclude({ unopened });
  }

  /** All that a device which believes so much is served. */
  served(changes: Partial<Served> = {}): Served {
    const { files, place, rounds } = this.history;
    const numbers = Array.from({ length: rounds.length }, (_, i) => i + 1);
    const found = (name: string): Bytes | undefined => files.get(`${place}/${name}`);
    return {
      manifests: numbers.slice(this.chain.nextRound - 1).map((number) => found(`manifest/${number}`)!),
      openings: new Map(
        numbers.flatMap((number) => {
          const opening = found(`opening/${number}`);
          return opening === undefined ? [] : [[number, opening]];
        }),
      ),
      tallies: new Map(numbers.map((number) => [this.steps.net(number).digest, this.steps.net(number).data])),
      ending: found("ending") ?? null,
      ...changes,
    };
  }

  async believe(changes: Partial<Served> = {}): Promise<void> {
    this.chain.believe(await this.chain.check(this.served(changes)));
  }
}

/** Capsules of a device that nobody can open. */
function request(device: number, round: number): Bytes {
  const capsules = Array.from({ length: DOCUMENT.budget }, (_, i) => knownBytes(`${device} ${i} ${round}`, 128));
  const by = (capsule: Bytes): string => digestOf(capsule);
  return Buffer.concat(capsules.sort((a, b) => (by(a) < by(b) ? -1 : 1))) as unknown as Bytes;
}

async function world(rounds = 0): Promise<World> {
  const made = new World();
  for (let i = 0; i < rounds; i++) await made.play();
  return made;
}

test("rounds are believed one by one, or all at once, and come to the same", async () => {
  const [slow, quick] = [await world(), await world()];
  for (const told of [{}, { unopened: true }, { clients: 1 }, {}]) {
    await slow.history.announce();
    await slow.believe();
    assert.equal(slow.chain.opening, null);
    const number = slow.history.rounds.length;
    for (let i = 0; i < (told.clients ?? 3); i++) slow.history.requests.set(`${i}`, request(i, number));
    await slow.history.conclude({ unopened: told.unopened ?? false });
    await slow.believe();
    assert.notEqual(slow.chain.opening, null);
    await quick.play(told);
  }
  for (const made of [slow, quick]) made.history.end();
  const believing = await quick.chain.check(quick.served());
  assert.deepEqual(believing.ended.map(({ opened }) => opened), [true, false, true, true]);
  assert.equal(believing.steps, 2, "of four rounds one was not opened, and one had too few people");
  const kinds = believing.documents.map(({ entry }) => entry.kind);
  assert.deepEqual(kinds, [...Array<string[]>(4).fill(["manifest", "opening"]).flat(), "ending"]);
  assert.deepEqual(believing.model.names, quick.steps.model.names);
  quick.chain.believe(believing);
  await slow.believe();
  assert.deepEqual(slow.chain.trust, quick.chain.trust);
  assert.equal(new TextDecoder().decode(quick.chain.model().stateBytes), "start net1");
});

test("what is believed is there again after a restart", async () => {
  const made = await world(2);
  await made.believe();
  const { trust, last } = made.chain;
  const seen = new Map(made.history.rounds.flatMap(({ manifest }) => [...boundBy(manifest)]).map((value) => [value, 1]));
  const again = new RelayedChain(DOCUMENT, JUDGING, { trust, seen });
  assert.deepEqual([again.last, again.nextRound, again.newest()], [last, 3, made.chain.newest()]);
  await made.play();
  made.chain = again;
  await made.believe();
  assert.equal(again.nextRound, 4);
});

test("whoever looks hears of what is new, of nothing, or of two manifests for a round", async () => {
  const made = await world(2);
  await made.believe();
  const [one, two] = [1, 2].map((number) => made.history.files.get(`${made.history.place}/manifest/${number}`)!);
  assert.equal(await made.chain.look(two!), null);
  await assert.rejects(made.chain.look(one!), StaleRoundError);
  const other = { ...made.history.rounds[1]!.manifest, countSeedHash: knownBytes("another seed") };
  const second = signed(MANIFEST.toBytes(other), { purpose: MANIFEST.purpose, keys: [COORDINATOR] });
  const two_ = (fault: unknown): boolean =>
    fault instanceof InconsistentManifestError && fault.message === "there are two manifests for round 2" &&
    fault.evidence[0] === made.chain.trust.manifest && fault.evidence[1] === second;
  await assert.rejects(made.chain.look(second), two_);
  await made.history.announce();
  const latest = made.history.files.get(`${made.history.place}/manifest/latest`)!;
  assert.equal((await made.chain.look(latest))!.roundNumber, 3);
});

test("parts that are missing, doubled or strange are refused, and nothing changes", async () => {
  const made = await world(3);
  const { manifests, openings, tallies } = made.served();
  const before = made.chain.trust;
  const foreign = signed(OPENING.toBytes(made.history.openings[0]!), { purpose: OPENING.purpose, keys: [STRANGER] });
  const refused: [Partial<Served>, abstract new (...args: never[]) => Error][] = [
    [{ manifests: manifests.slice(1) }, MalformedMessageError],
    [{ manifests: [manifests[0]!, manifests[2]!] }, MalformedMessageError],
    [{ manifests: [manifests[0]!, manifests[0]!] }, RemoteProtocolError],
    [{ manifests: [] }, StaleRoundError],
    [{ openings: new Map() }, MalformedMessageError],
    [{ openings: new Map([[1, openings.get(2)!], [2, openings.get(1)!]]) }, MalformedMessageError],
    [{ openings: new Map([...openings, [1, foreign]]) }, BadSignatureError],
    [{ tallies: new Map() }, MalformedMessageError],
    [{ tallies: new Map([...tallies.keys()].map((name) => [name, utf8("another")])) }, MalformedMessageError],
  ];
  for (const [changes, kind] of refused) await assert.rejects(made.chain.check(made.served(changes)), kind);
  assert.equal(made.chain.trust, before);
});

/** What a liar signs as the manifest of round 3, and what is said of it. */
const LIES: [why: string, lie: (made: World) => (true_: RelayedManifest) => RelayedManifest, said: RegExp][] = [
  ["a state that does not follow", () => (it) => ({ ...it, state: "1".repeat(64) }), /does not follow/],
  [
    "weights that are not the state's",
    () => (it) => ({ ...it, trainingWeights: it.evaluationWeights }),
    /does not follow/,
  ],
  ["another opening before it", () => (it) => ({ ...it, opening: "2".repeat(64) }), /from the opening/],
  ["another manifest before it", () => (it) => ({ ...it, previous: "3".repeat(64) }), /does not continue/],
  [
    "the count key of round 1 again",
    ({ history: { rounds } }) => (it) => ({ ...it, countKey: rounds[0]!.manifest.countKey }),
    /that of another round/,
  ],
  [
    "a shorter window",
    () => (it) => ({ ...it, instants: { ...it.instants, closesAt: it.instants.closesAt - 1000 } }),
    /another length|longer or shorter/,
  ],
];

for (const [why, lie, said] of LIES) {
  test(`a manifest with ${why} is evidence`, async () => {
    const made = await world(2);
    await made.believe();
    await made.history.announce(lie(made));
    const fault: InconsistentManifestError = await made.chain.check(made.served()).then(
      () => assert.fail("it was believed"),
      (thrown) => thrown,
    );
    assert.ok(fault instanceof InconsistentManifestError, String(fault));
    assert.match(fault.message, said);
    assert.equal(fault.evidence.at(-1), made.served().manifests[0]);
    assert.equal(made.chain.nextRound, 3);
  });
}

test("a round that was not opened changes no model", async () => {
  for (const told of [{ unopened: true }, { clients: 2 }]) {
    const made = await world();
    await made.play(told);
    // The coordinator steps all the same.
    made.steps.model = made.steps.model.after("net1");
    await made.history.announce();
    await assert.rejects(made.chain.check(made.served()), InconsistentManifestError);
  }
});

test("a false opening steps nothing, whoever signed it", async () => {
  const made = await world();
  await made.history.announce();
  for (let i = 0; i < 3; i++) made.history.requests.set(`${i}`, request(i, 1));
  const played = await made.history.conclude({ lies: { entryCount: (it) => ({ ...it, clients: it.clients + 1 }) } });
  assert.equal(played.opening.roundNumber, 1);
  await made.history.announce();
  const believing = await made.chain.check(made.served());
  assert.deepEqual([believing.ended[0]!.opened, believing.steps], [false, 0]);
});

test("an ending names the last round and its model", async () => {
  const [wrong, none]: [Partial<Parameters<RelayedHistory["end"]>[0]>[], World] = [
    [{ manifest: "4".repeat(64) }, { opening: "5".repeat(64) }, { state: "6".repeat(64) }],
    await world(),
  ];
  for (const changes of wrong) {
    const made = await world(2);
    made.history.end(changes);
    await assert.rejects(made.chain.check(made.served()), InconsistentManifestError);
  }
  const early = await world(2);
  early.history.end({ roundNumber: 1 });
  await assert.rejects(early.chain.check(early.served()), MalformedMessageError);
  none.history.end();
  const believing = await none.chain.check(none.served());
  assert.deepEqual([believing.manifest, believing.ending!.roundNumber], [null, 0]);
});

test("what is believed is not taken back", async () => {
  const made = await world(1);
  const early = await made.chain.check(made.served());
  await made.believe();
  await made.play();
  await made.believe();
  assert.throws(() => made.chain.believe(early), LocalProtocolError);
});
