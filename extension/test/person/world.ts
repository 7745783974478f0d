/** Experiments that a coordinator of the tests has signed, and a network in memory that serves them. */

import { IDBFactory } from "fake-indexeddb";

import { hex, utf8, type Bytes } from "../../src/bytes.ts";
import type { InviteTransport } from "../../src/device/invitation.ts";
import { encodeDocument } from "../../src/protocol/canonical.ts";
import { ExperimentDocument } from "../../src/protocol/documents/experiment.ts";
import { DeviceState } from "../../src/storage/state.ts";
import { Tables } from "../../src/storage/tables.ts";
import { Vault } from "../../src/storage/vault.ts";
import { signed, SigningKey } from "../crypto/signers.ts";
import { vectors } from "../vectors.ts";

export const COORDINATOR = new SigningKey(new Uint8Array(32).fill(1));

/** An experiment with two relays, or a plain one, with other fields; and its envelope. */
export function published(changes: object = {}, kind = "experiment_document"): [ExperimentDocument, Bytes] {
  const content = JSON.parse(vectors(kind).cases[0].text);
  const coordinator_keys = [hex(COORDINATOR.public.data)];
  const data = encodeDocument({ ...content, coordinator_keys, threshold: 1, ...changes });
  const document = ExperimentDocument.fromBytes(data);
  return [document, signed(data, { purpose: document.kind, keys: [COORDINATOR] })];
}

/** A network that serves these files, and keeps what it was asked for. */
export class MemoryNet implements InviteTransport {
  readonly files = new Map<string, Bytes>();
  readonly asked: string[] = [];
  refusedWith: number | null = null;

  serve(...experiments: readonly [ExperimentDocument, Bytes][]): this {
    for (const [{ digest }, envelope] of experiments) this.files.set(`/v1/experiment/${digest}`, envelope);
    const listed = experiments.map(([{ digest }]) => ({ digest, standing: "running", title: "unsigned" }));
    this.files.set("/v1/experiments", utf8(JSON.stringify({ experiments: listed })));
    return this;
  }

  check(): void {}

  async fetch(path: string): Promise<{ content: Bytes } | null> {
    this.asked.push(path);
    const content = this.files.get(path);
    return content === undefined ? null : { content };
  }
}

/** State and vault of one device, and the same after its worker died. */
export async function deviceOf(factory = new IDBFactory()): Promise<{ state: DeviceState; vault: Vault }> {
  const tables = await Tables.open(factory);
  return { state: new DeviceState(tables), vault: new Vault(tables) };
}
