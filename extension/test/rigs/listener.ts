/**
 * Devices that are lied to: the liar is Python's (`secvm_lab/rigs/lies`), and has the network and the time.
 *
 * A line of JSON on stdin is a command, and its end a line `{"done": …}` on stdout. In between the device asks for files
 * and sends requests: a line `{"ask": …, "id": n, "now": t}`, to which the liar answers with the same number.
 */

import { createInterface } from "node:readline";

import { IDBFactory } from "fake-indexeddb";

import { base64, hex, unbase64, unhex, type Bytes } from "../../src/bytes.ts";
import { VerifyKey } from "../../src/crypto/signing.ts";
import { ParticipantDevice } from "../../src/device/device.ts";
import { safeDice, systemWords } from "../../src/device/dice.ts";
import { fetchExperiment } from "../../src/device/invitation.ts";
import { SecVMError } from "../../src/errors.ts";
import { fetchSalt, pinPerson } from "../../src/person/pinning.ts";
import { ExperimentDocument } from "../../src/protocol/documents/experiment.ts";
import { MANIFEST } from "../../src/protocol/relays/manifest.ts";
import { isOpened, OPENING } from "../../src/protocol/relays/opening.ts";
import { readShardTally, Recount } from "../../src/protocol/relays/recount.ts";
import { readRun } from "../../src/protocol/relays/shardRuns.ts";
import { SECRETS_BYTES, sealSubmission } from "../../src/protocol/relays/submission.ts";
import { RELAY_TERMS } from "../../src/protocol/relays/statements.ts";
import { UNANSWERED } from "../../src/sending/reply.ts";
import { MOST_DOCUMENT_BYTES } from "../../src/sending/transport.ts";
import { DeviceState } from "../../src/storage/state.ts";
import { Tables } from "../../src/storage/tables.ts";
import { Vault } from "../../src/storage/vault.ts";
import { ModelShelf } from "../../src/trust/modelFiles.ts";
import { Surroundings, Traffic, type Transport } from "../../src/trust/surroundings.ts";
import { TrustPolicy } from "../../src/trust/trustPolicy.ts";
import { unsafeSeeded } from "../crypto/dice.ts";
import type { Vector as Told } from "../vectors.ts";

const waiting = new Map<number, (content: Told) => void>();
let asked = 0;

function write(told: unknown): void {
  process.stdout.write(`${JSON.stringify(told)}\n`);
}

/** One device, from its joining until the next one's. */
class Listener {
  now: number;
  readonly #tables: Tables;
  readonly #told: Told;
  readonly #state: DeviceState;
  readonly #device: ParticipantDevice;

  private constructor(tables: Tables, told: Told) {
    this.now = told.now;
    this.#tables = tables;
    this.#told = told;
    const state = (this.#state = new DeviceState(tables));
    const randomBytes = unsafeSeeded(told.seed);
    const around = new Surroundings({
      ...{ state, transport: this.#transport, shelf: new ModelShelf(tables), traffic: new Traffic(state) },
      policy: policyOf(told),
      consent: { agree: () => undefined, enter: (of, round) => state.writing(() => state.ledger.putRound(of.digest, round)) },
      ...{ words: systemWords(randomBytes), randomBytes },
    });
    const clock = { now: () => this.now, callAt: () => () => undefined };
    this.#device = new ParticipantDevice(around, { clock, diceFor: safeDice(randomBytes), onlyTests: false });
  }

  /** A device whose person has joined. Throws what the person would be told. */
  static async joined(told: Told): Promise<Listener> {
    const listener = new Listener(await Tables.open(new IDBFactory()), told);
    await listener.#join(told);
    return listener;
  }

  async #join({ digest, seed, label, features, now }: Told): Promise<void> {
    const [transport, policy] = [{ ...this.#transport, refusedWith: null }, policyOf(this.#told)];
    const [document, envelope] = await fetchExperiment(digest, transport);
    policy.check(document);
    const vault = new Vault(this.#tables);
    await vault.put(document.features.source, new Map(features.map((feature: string) => [feature, 1])));
    await vault.setLabel(digest, label);
    const salt = await fetchSalt(document, transport, policy, now);
    const person = await pinPerson(document, vault, safeDice(unsafeSeeded(seed))(document), { salt });
    await this.#state.join(digest, envelope, person, { salt });
  }

  /** Let it live from now until then; it slept before. */
  async drive(now: number, until: number): Promise<void> {
    this.now = now;
    for (;;) {
      const due = await this.#device.work();
      if (due === null || due > until) break;
      this.now = Math.max(this.now, due);
    }
    this.now = Math.max(this.now, until);
  }

  /** What the person is told, and what others could be shown. */
  told(): unknown {
    const [state, { digest }] = [this.#state, this.#told];
    const member = this.#device.memberships.get(digest)!;
    return {
      distrust: member.distrust,
      reasons: state.abstentions(digest).map(([, reason]) => reason),
      evidence: state.evidence(digest).map(base64),
      unanswered: member.unanswered,
      ended: member.ended,
    };
  }

  async #ask(ask: string, about: object): Promise<Told> {
    const id = (asked += 1);
    write({ ask, id, now: this.now, ...about });
    return new Promise((resolve) => waiting.set(id, resolve));
  }

  get #transport(): Transport {
    const content = ({ content }: Told): Bytes | null => content && unbase64(content);
    return {
      check: () => undefined,
      fetch: async (path, options = {}) => {
        const found = content(await this.#ask("fetch", { path, most: options.most ?? MOST_DOCUMENT_BYTES }));
        return found && { content: found, serverTime: this.now, ahead: null };
      },
      submit: async (body, label) => {
        const receipt = content(await this.#ask("submit", { body: base64(body), label: hex(label) }));
        return { ...UNANSWERED, answered: receipt !== null, content: receipt };
      },
      askToken: async () => UNANSWERED,
      relayedTerms: async ({ url }) => {
        const terms = content(await this.#ask("terms", { url }));
        return terms && RELAY_TERMS.fromBytes(terms);
      },
    };
  }
}

function policyOf({ relays }: Told): TrustPolicy {
  const known = relays.map(({ url, key, operator }: Told) => ({ url, key: new VerifyKey(unhex(key)), operator }));
  return new TrustPolicy({ relays: () => known, unsafeBeacons: true });
}

/** What a device sees that is led to this shard: `seen_by_device` in Python. */
async function recounted({ shard, ...told }: Told): Promise<string> {
  const [document, manifest, opening] = [
    ExperimentDocument.fromBytes(unbase64(told.document)),
    MANIFEST.fromBytes(unbase64(told.manifest)),
    OPENING.fromBytes(unbase64(told.opening)),
  ];
  if (!(await isOpened(opening, manifest, document))) return "in the opening";
  const recount = await Recount.of(document, manifest, opening);
  const [run, capsules, tally] = told.files.map((data: string | null) => data && unbase64(data));
  if (run === null || capsules === null || tally === null) return "in its shard";
  try {
    await recount.check(readRun(run, { shard, capsules: recount.capsules }), capsules, readShardTally(tally));
  } catch (fault) {
    if (!(fault instanceof SecVMError)) throw fault;
    return "in its shard";
  }
  return "nothing";
}

/** CPU milliseconds of so many requests of nulls, packages and both seals, one after the other. */
async function seal({ document: data, manifest: announced, turns }: Told): Promise<number[]> {
  const [document, manifest] = [ExperimentDocument.fromBytes(unbase64(data)), MANIFEST.fromBytes(unbase64(announced))];
  const [random, spent] = [unsafeSeeded("seals"), [] as number[]];
  for (let turn = 0; turn < turns; turn++) {
    const packages = Array.from({ length: document.budget }, () => ({ kind: "null" }) as const);
    const begun = cpuMs();
    const ephemerals = random(SECRETS_BYTES * document.budget);
    await sealSubmission(document, manifest, packages, { order: [...packages.keys()], ephemerals, token: new Uint8Array() });
    spent.push(cpuMs() - begun);
  }
  return spent;
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

let listener: Listener | null = null;

async function obey({ do: command, ...told }: Told): Promise<unknown> {
  switch (command) {
    case "join":
      try {
        listener = await Listener.joined(told);
      } catch (fault) {
        if (!(fault instanceof SecVMError)) throw fault;
        return { refused: fault.name, sentence: fault.message };
      }
      return {};
    case "drive":
      await listener!.drive(told.now, told.until);
      return {};
    case "told":
      return listener!.told();
    case "seal":
      return seal(told);
    case "spent":
      return cpuMs();
    default:
      return recounted(told);
  }
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const told = JSON.parse(line) as Told;
  const answered = waiting.get(told.id);
  if (answered === undefined) {
    void obey(told).then((done) => write({ done }));
    return;
  }
  waiting.delete(told.id);
  answered(told);
});
