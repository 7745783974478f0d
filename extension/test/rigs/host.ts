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

import { utf8, type Bytes } from "../../src/bytes.ts";
import { Consent } from "../../src/consent/policies.ts";
import { unsafeSeededDice } from "../../src/device/dice.ts";
import { openDevice, type Browser, type Opened } from "../../src/device/open.ts";
import { digestOf } from "../../src/protocol/canonical.ts";
import { inviteText } from "../../src/protocol/invite.ts";
import { DeviceState } from "../../src/storage/state.ts";
import { Tables } from "../../src/storage/tables.ts";
import { Vault } from "../../src/storage/vault.ts";
import { SteeredClock } from "./steeredClock.ts";

interface Settings {
  readonly clock: string;
  readonly port: number;
  readonly seed: string;
  readonly experiment: string;
  /** The one through which files are fetched. */
  readonly relay: string;
  /** With the numbers that their dice have. */
  readonly people: readonly { readonly number: number; readonly label: string; readonly features: readonly string[] }[];
}

const settings = JSON.parse(readFileSync(process.argv[2]!, "utf8")) as Settings;
const clock = new SteeredClock(settings.clock);
const randomBytes = (count: number): Bytes => Uint8Array.from(systemBytes(count));
const BROWSER: Browser = {
  ...{ clock, randomBytes, fetch: (url, options) => fetch(url, options), steady: () => performance.now() },
  ...{ history: () => null, allows: async () => true, fault: () => null },
};

/** One person's browser. */
class Profile {
  readonly number: number;
  readonly #factory = new IDBFactory();
  #tables: Tables | null = null;
  state: DeviceState | null = null;
  device: Opened | null = null;
  #wake: () => void = () => undefined;
  #lives = 0;

  constructor(number: number) {
    this.number = number;
  }

  /** As its person does on the page, and with their yes. */
  async join({ label, features }: Settings["people"][number]): Promise<void> {
    const tables = await Tables.open(this.#factory);
    const [device, digest] = [this.#opened(tables), settings.experiment];
    await device.act("invite", { line: inviteText({ relayUrl: settings.relay, digest }) });
    const [offer] = ((await device.state()) as { offers: { list: { source: string }[] } }).offers.list;
    await new Vault(tables).put(offer!.source, new Map(features.map((feature) => [feature, 1])));
    await device.act("join", { digest, answer: label });
    tables.close();
  }

  /** Whoever was there before is dropped as it is: nothing that it has not committed is known any more. */
  async open(): Promise<void> {
    this.#tables?.close();
    this.#lives += 1;
    const tables = (this.#tables = await Tables.open(this.#factory));
    this.state = new DeviceState(tables);
    this.device = this.#opened(tables);
    this.#wake();
    void this.#carry(this.device, this.#lives);
  }

  #opened(tables: Tables): Opened {
    return openDevice(tables, BROWSER, {
      diceFor: unsafeSeededDice(utf8(settings.seed), this.number),
      consent: Consent.unsafeAcceptAnything(),
      policy: { refetches: 1 },
      credential: `test-person-${this.number}`,
    });
  }

  /** As the extension's owner does: work, and one alarm. */
  async #carry(device: Opened, life: number): Promise<void> {
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

/** Counts as Python's hosts show them. */
function status(): unknown {
  const sums = { devices: 0, ended: 0, abstaining: 0, distrusting: 0, waiting: 0, acknowledged: 0, lost: 0, canaries: 0 };
  const rounds: Record<number, Record<string, number>> = {};
  for (const { device } of profiles) {
    const member = device?.participant?.memberships.get(settings.experiment);
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
