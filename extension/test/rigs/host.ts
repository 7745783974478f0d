/**
 * A host of devices in node: what `secvm participant run` is to a federation of Python's, with the browser's code.
 *
 * Its one argument is a file of settings, as Python writes it (`tests/rigs/node_devices.py`): a clock, relays, and people
 * who join an experiment. Counts are shown at `/status`; at `/device/N` what device N keeps and believes. Every device
 * has its tables in memory; `POST /kill` drops all devices as they are, and opens them anew from what was committed.
 */

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { randomBytes as systemBytes } from "node:crypto";

import { IDBFactory } from "fake-indexeddb";

import { unhex, utf8, type Bytes } from "../../src/bytes.ts";
import { VerifyKey } from "../../src/crypto/signing.ts";
import { ParticipantDevice } from "../../src/device/device.ts";
import { systemWords, unsafeSeededDice } from "../../src/device/dice.ts";
import { fetchExperiment } from "../../src/device/invitation.ts";
import { fetchSalt, pinPerson } from "../../src/person/pinning.ts";
import { digestOf } from "../../src/protocol/canonical.ts";
import { HttpClient } from "../../src/runtime/http/client.ts";
import { RelayTransport } from "../../src/sending/transport.ts";
import { DeviceState } from "../../src/storage/state.ts";
import { Tables } from "../../src/storage/tables.ts";
import { Vault } from "../../src/storage/vault.ts";
import { ModelShelf } from "../../src/trust/modelFiles.ts";
import { Surroundings, Traffic } from "../../src/trust/surroundings.ts";
import { TrustPolicy } from "../../src/trust/trustPolicy.ts";
import { SteeredClock } from "./steeredClock.ts";

interface Settings {
  readonly clock: string;
  readonly port: number;
  readonly seed: string;
  readonly experiment: string;
  /** The one through which files are fetched. */
  readonly relay: string;
  readonly relays: readonly { readonly url: string; readonly key: string; readonly operator: string }[];
  /** With the numbers that their dice have. */
  readonly people: readonly { readonly number: number; readonly label: string; readonly features: readonly string[] }[];
}

const settings = JSON.parse(readFileSync(process.argv[2]!, "utf8")) as Settings;
const clock = new SteeredClock(settings.clock);
const randomBytes = (count: number): Bytes => Uint8Array.from(systemBytes(count));
const client = new HttpClient((url, options) => fetch(url, options));

/** One person's browser. */
class Profile {
  readonly number: number;
  readonly #factory = new IDBFactory();
  #tables: Tables | null = null;
  state: DeviceState | null = null;
  device: ParticipantDevice | null = null;
  #wake: () => void = () => undefined;
  #lives = 0;

  constructor(number: number) {
    this.number = number;
  }

  get #transport(): RelayTransport {
    const credential = `test-person-${this.number}`;
    return new RelayTransport(client, { relays: [settings.relay], randomBytes, credential });
  }

  async join({ label, features }: Settings["people"][number]): Promise<void> {
    const tables = await Tables.open(this.#factory);
    const [state, vault, transport] = [new DeviceState(tables), new Vault(tables), this.#transport];
    const [document, envelope] = await fetchExperiment(settings.experiment, transport);
    transport.check(document);
    policy().check(document);
    await vault.put(document.features.source, new Map(features.map((feature) => [feature, 1])));
    await vault.setLabel(document.digest, label);
    const salt = await fetchSalt(document, transport, { unsafeBeacons: true, logPolicy: null }, clock.now());
    const person = await pinPerson(document, vault, diceOf(this.number)(document), { salt });
    await state.join(document.digest, envelope, person, { salt });
    tables.close();
  }

  /** Whoever was there before is dropped as it is: nothing that it has not committed is known any more. */
  async open(): Promise<void> {
    this.#tables?.close();
    this.#lives += 1;
    const tables = (this.#tables = await Tables.open(this.#factory));
    const state = (this.state = new DeviceState(tables));
    const around = new Surroundings({
      ...{ state, transport: this.#transport, shelf: new ModelShelf(tables), traffic: new Traffic(state) },
      policy: policy(),
      consent: { agree: () => undefined, enter: (of, round) => state.writing(() => state.ledger.putRound(of.digest, round)) },
      ...{ words: systemWords(randomBytes), randomBytes },
    });
    this.device = new ParticipantDevice(around, { clock, diceFor: diceOf(this.number), onlyTests: true });
    this.#wake();
    void this.#carry(this.device, this.#lives);
  }

  /** As the extension's owner does: work, and one alarm. */
  async #carry(device: ParticipantDevice, life: number): Promise<void> {
    while (this.#lives === life) {
      let due: number | null = null;
      try {
        due = await device.work();
      } catch (fault) {
        // The storage of a device that was killed is closed.
        if (this.#lives !== life) return;
        console.error(`device ${this.number}:`, fault);
        process.exit(1);
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (due !== null) clock.callAt(due, resolve);
      });
    }
  }
}

function policy(): TrustPolicy {
  const relays = settings.relays.map(({ url, key, operator }) => ({ url, key: new VerifyKey(unhex(key)), operator }));
  return new TrustPolicy({ relays: () => relays, refetches: 1, unsafeBeacons: true });
}

function diceOf(number: number): ReturnType<typeof unsafeSeededDice> {
  return unsafeSeededDice(utf8(settings.seed), number);
}

/** Counts as Python's hosts show them. */
function status(): unknown {
  const sums = { devices: 0, ended: 0, abstaining: 0, distrusting: 0, waiting: 0, acknowledged: 0, lost: 0, canaries: 0 };
  const rounds: Record<number, Record<string, number>> = {};
  for (const { device } of profiles) {
    const member = device?.memberships.get(settings.experiment);
    if (member === undefined) continue;
    sums.devices += 1;
    sums.ended += Number(member.ended);
    sums.distrusting += Number(member.distrust !== null);
    sums.canaries += member.canaries;
    for (const { roundNumber, done, ...counts } of member.counts()) {
      const row = (rounds[roundNumber] ??= { joined: 0, done: 0, waiting: 0, acknowledged: 0, lost: 0 });
      row["joined"]! += 1;
      row["done"]! += Number(done);
      for (const name of ["waiting", "acknowledged", "lost"] as const) {
        row[name]! += counts[name];
        sums[name] += counts[name];
      }
    }
  }
  return { [settings.experiment]: { ...sums, rounds } };
}

/** What a device keeps and believes. */
function kept(profile: Profile): unknown {
  const [{ state }, of] = [profile, settings.experiment];
  if (state === null) return null;
  const trust = state.relayed.trust(of);
  return {
    rounds: [...state.ledger.rounds()],
    checks: state.trust.checks(of),
    canaries: state.relayed.countCanaries(of),
    request: state.relayed.request(of) !== null,
    distrust: state.trust.distrust(of),
    abstentions: state.abstentions(of),
    believed: trust === null ? null : digestOf(trust.state),
    model: state.model(of),
  };
}

const profiles = settings.people.map(({ number }) => new Profile(number));
await Promise.all(profiles.map((profile, i) => profile.join(settings.people[i]!)));
for (const profile of profiles) await profile.open();

createServer((request, response) => {
  const path = request.url ?? "/";
  const number = /^\/device\/([0-9]+)$/.exec(path)?.[1];
  const answer = async (): Promise<unknown> => {
    if (path === "/health") return { ok: true };
    if (number !== undefined) return kept(profiles.find((profile) => profile.number === Number(number))!);
    if (request.method === "POST" && path === "/kill") for (const profile of profiles) await profile.open();
    return status();
  };
  void answer().then((content) => response.setHeader("content-type", "application/json").end(JSON.stringify(content)));
}).listen(settings.port, "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
