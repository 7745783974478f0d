/**
 * What one device must not forget, in the browser's storage: which experiments it takes part in, and what is still to
 * be sent. Tables and columns are those of Python's `participant/storage/state.py`.
 *
 * **What must be on the disk, and when.** Packages of a round are sealed once. If a device sent some of them, lost the
 * request and sealed the round again, it would send *other* content for the same round. So `writing` ends when
 * everything is on the disk, and no request leaves before. A worker that is killed in between is as it was after the
 * last `writing`.
 *
 * **What is pinned.** Cohort, label and binned vector are drawn and fixed when the person joins. A new sample of
 * features in every round would empty a history bit by bit.
 *
 * **What is forgotten.** A request: with its receipt, or when nobody takes it any more. Vector, label, session and
 * request of an experiment, and what is believed of it: with `forget`. Cohort, counts and ledger stay: who forgets
 * cannot join again to be drawn anew. A browser does not say when it overwrites what it has deleted.
 */

import { equal, type Bytes } from "../bytes.ts";
import { BadInputError } from "../errors.ts";
import { Book, LedgerBook, NOTHING, TrustBook, type Accepted } from "./books.ts";
import {
  readRecord,
  writeVector,
  type BelievedModel,
  type ExperimentRecord,
  type ExperimentRow,
  type Pinned,
  type Published,
  type RoundHistory,
  type Status,
  type StoredAbstention,
  type StoredChanges,
} from "./kept.ts";
import { RelayedBook, type RequestRow } from "./relayedBook.ts";
import { SettingsBook } from "./settingsBook.ts";
import type { Row, Tables } from "./tables.ts";

/** Days of traffic that are kept. */
const DAYS_KEPT = 7;

/** The state of one device; writes happen inside `writing`. */
export class DeviceState extends Book {
  /** What it keeps to check the server. */
  readonly trust: TrustBook;
  /** Which rounds it has joined, for ever. */
  readonly ledger: LedgerBook;
  /** What it keeps of experiments with two relays. */
  readonly relayed: RelayedBook;
  /** What invites have told it. */
  readonly settings: SettingsBook;

  constructor(tables: Tables) {
    super(tables);
    this.trust = new TrustBook(tables);
    this.ledger = new LedgerBook(tables);
    this.relayed = new RelayedBook(tables);
    this.settings = new SettingsBook(tables);
  }

  /** One transaction, on the disk when this ends; where `write` throws, nothing of it has happened. */
  async writing<T>(write: () => T): Promise<T> {
    const result = this.tables.writing(write);
    await this.tables.commit();
    return result;
  }

  // ── experiments ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** All experiments that this device knows. */
  records(): ExperimentRecord[] {
    return this.rows<ExperimentRow>("experiment").map(readRecord);
  }

  /** One of them. */
  record(digest: string): ExperimentRecord | null {
    const row = this.row<ExperimentRow>("experiment", digest);
    return row === undefined ? null : readRecord(row);
  }

  /** Take part from now on; what is pinned here stays. Only once: see `forget`. */
  async join(
    digest: string,
    envelope: Bytes,
    person: Pinned,
    { salt = null, accepted = NOTHING }: { salt?: Bytes | null; accepted?: Accepted } = {},
  ): Promise<void> {
    await this.writing(() => {
      if ((this.record(digest)?.status ?? "declined") !== "declined") {
        throw new BadInputError("this device has joined that experiment before, and cannot be drawn anew");
      }
      const { label, target } = person;
      const [cohort, vector] = [person.cohort.toUpperCase(), writeVector(person.vector)];
      this.put("experiment", { digest, envelope, status: "joined", cohort, label, target, vector, ending: null, salt });
      this.ledger.putAccepted(digest, accepted);
    });
  }

  /** Remember that the person said no. What was joined before stays as it is. */
  async decline(digest: string, envelope: Bytes): Promise<void> {
    const none = { cohort: null, label: null, target: null, vector: null, ending: null, salt: null };
    await this.writing(() => this.add("experiment", { digest, envelope, status: "declined", ...none }));
  }

  /** Pause or resume. Whoever resumes has seen why the device distrusted, if it did. */
  async setStatus(digest: string, status: Status): Promise<void> {
    const changed = await this.writing(() => {
      if (status === "joined") {
        this.trust.clearDistrust(digest);
        this.relayed.clearUnopened(digest);
      }
      return this.takesPart(digest) && this.#change(digest, { status });
    });
    if (!changed) throw new BadInputError("this device does not take part in that experiment");
  }

  /** Forget the person in this experiment for ever. Cohort, counts and ledger stay, and so does the decision. */
  async forget(digest: string): Promise<void> {
    await this.writing(() => {
      this.#change(digest, { status: "forgotten", label: null, target: null, vector: null });
      this.drop(digest, "session", "model");
      this.trust.forget(digest);
      this.relayed.forget(digest);
    });
  }

  // ── sessions, inside `writing` ─────────────────────────────────────────────────────────────────────────────────────

  /** Header and request of a session, if it was ever stored. */
  relayedSession(digest: string): { header: Bytes; request: RequestRow | null } | null {
    const row = this.row<{ header: Bytes }>("session", digest);
    return row === undefined ? null : { header: row.header, request: this.relayed.request(digest) };
  }

  /** Apply changes, unless the experiment was forgotten meanwhile; `manifest` is the payload of its round. */
  putRelayedSession(digest: string, changes: StoredChanges, manifest: Bytes): void {
    if (!this.takesPart(digest)) return;
    if (changes.header !== null) this.put("session", { experiment: digest, header: changes.header });
    if (changes.forget) this.relayed.dropRequest(digest);
    if (changes.sealed !== null) this.relayed.putRequest(digest, changes.sealed);
    if (changes.taken === null) return;
    this.relayed.putCanary(digest, changes.taken.roundNumber, changes.taken.canary, manifest);
  }

  /** A round's packages are sealed. */
  putJoined(digest: string, round: number, packages: number): void {
    this.add("history", { experiment: digest, round, packages, acknowledged: 0, lost: 0 });
  }

  /** A round is over for this device. */
  putFinished(digest: string, finished: { roundNumber: number; acknowledged: number; lost: number }): void {
    const { roundNumber, acknowledged, lost } = finished;
    const row = this.row("history", digest, roundNumber);
    if (row !== undefined) this.put("history", { ...row, acknowledged, lost });
  }

  /** Why nothing was sent, and what shows it. */
  putAbstention(digest: string, round: number, { reason, sentence, evidence }: StoredAbstention): void {
    this.put("abstention", { experiment: digest, round, reason, sentence });
    for (const envelope of evidence) {
      const held = this.evidence(digest);
      if (held.some((one) => equal(one, envelope))) continue;
      this.put("evidence", { experiment: digest, number: held.length, envelope });
    }
  }

  /** The model that this device believes now: the one of a round, or of the ending. */
  putModel(digest: string, published: Published): void {
    if (!this.takesPart(digest)) return;
    const { roundNumber: round, evaluationWeights: weights } = published;
    this.put("model", { experiment: digest, round, weights });
  }

  /** The experiment is over; its last model is believed. */
  putEnding(digest: string, envelope: Bytes, ending: Published): void {
    this.#change(digest, { ending: envelope });
    this.putModel(digest, ending);
  }

  /** So many bytes more. */
  putTraffic(day: number, count: number): void {
    this.put("traffic", { day, bytes: this.traffic(day) + count });
    for (const row of this.rows<{ day: number }>("traffic")) {
      if (row.day < day - DAYS_KEPT) this.tables.delete("traffic", row.day);
    }
  }

  // ── looking back ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** The rounds in which this device took part. */
  history(digest: string): RoundHistory[] {
    const rows = this.rows<{ round: number; packages: number; acknowledged: number; lost: number }>("history", digest);
    return rows.map(({ round: roundNumber, packages, acknowledged, lost }) => {
      return { roundNumber, packages, acknowledged, lost };
    });
  }

  /** Round, reason, sentence. */
  abstentions(digest: string): [number, string, string][] {
    const rows = this.rows<{ round: number; reason: string; sentence: string }>("abstention", digest);
    return rows.map(({ round, reason, sentence }) => [round, reason, sentence]);
  }

  /** Signed bytes that contradict each other, or the experiment. */
  evidence(digest: string): Bytes[] {
    return this.rows<{ envelope: Bytes }>("evidence", digest).map(({ envelope }) => envelope);
  }

  /** The last model that this device believes. */
  model(digest: string): BelievedModel | null {
    const row = this.row<{ round: number; weights: string }>("model", digest);
    if (row === undefined) return null;
    const goesOn = this.record(digest)?.ending === null;
    return { rounds: row.round - (goesOn ? 1 : 0), weights: row.weights };
  }

  /** Bytes of one day. */
  traffic(day: number): number {
    return this.row<{ bytes: number }>("traffic", day)?.bytes ?? 0;
  }

  #change(digest: string, changed: Row): boolean {
    const row = this.row("experiment", digest);
    if (row !== undefined) this.put("experiment", { ...row, ...changed });
    return row !== undefined;
  }
}
