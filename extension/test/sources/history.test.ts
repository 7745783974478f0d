import assert from "node:assert/strict";
import { test } from "node:test";
import { IDBFactory } from "fake-indexeddb";

import { BadInputError } from "../../src/errors.ts";
import { checkAgreed } from "../../src/sources/agreement.ts";
import { BOTH, HOSTS, TITLES, type BrowserHistory, type Source, type VisitedPage } from "../../src/sources/history.ts";
import { findSource, importFrom } from "../../src/sources/registry.ts";
import { Tables } from "../../src/storage/tables.ts";
import { Vault } from "../../src/storage/vault.ts";

const DAY = 86_400_000;
const NOW = 1_767_225_600_000;

const page = (url: string, title: string, days: number, visitCount = 1): VisitedPage =>
  ({ url, title, visitCount, lastVisitTime: NOW - days * DAY });

const PAGES: readonly VisitedPage[] = [
  page("https://www.example.org/a", "Quokka photos", 2, 5),
  page("https://example.org/b", "quokka news", 40),
  { url: "https://example.net/", visitCount: 2, lastVisitTime: NOW - 400 * DAY },
  { url: "https://bookmark.example/", title: "never visited" },
  page("http://localhost:8000/", "draft of a letter", 1),
  page("file:///home/me/letter.html", "letter", 1),
  page("https://www.example.org/a", "Quokka photos", 2, 5),
  { title: "no address", visitCount: 1, lastVisitTime: NOW },
];
const WORDS = { quokka: 2, photos: 1, news: 1 };
const NAMES = { "host:example.org": 2, "host:example.net": 1 };

/** A history that answers generously, and what it was asked. */
function made(pages: readonly VisitedPage[] = PAGES): BrowserHistory & { asked: unknown[] } {
  const asked: unknown[] = [];
  return {
    asked,
    async search(query) {
      asked.push(query);
      return pages;
    },
  };
}

async function read(source: Source, wishes: object = {}): Promise<object> {
  return Object.fromEntries(await source.read({ history: made(), now: NOW, days: null, ...wishes }));
}

test("each source reads what its name says and no more", async () => {
  assert.deepEqual(await read(TITLES), WORDS);
  assert.deepEqual(await read(HOSTS), NAMES);
  assert.deepEqual(await read(BOTH), { ...WORDS, ...NAMES });
  assert.deepEqual([TITLES, HOSTS, BOTH].map(({ name }) => findSource(name)), [TITLES, HOSTS, BOTH]);
  assert.throws(() => findSource("diary"), /there is no source 'diary'/);
});

test("days, visits, private pages and what is excluded are as the person says", async () => {
  assert.deepEqual(await read(TITLES, { days: 40 }), WORDS);
  assert.deepEqual(await read(TITLES, { days: 39 }), { quokka: 1, photos: 1 });
  assert.deepEqual(await read(HOSTS, { minVisits: 2 }), { "host:example.org": 1, "host:example.net": 1 });
  assert.deepEqual(await read(HOSTS, { days: 1, local: true }), { "host:localhost:8000": 1 });
  assert.deepEqual(await read(BOTH, { excluded: new Set(["example.org"]) }), { "host:example.net": 1 });
  assert.deepEqual(await read(TITLES, { excluded: new Set(["quokka"]) }), { photos: 1, news: 1 });
});

test("a browser is asked for all pages since a moment that it is told", async () => {
  const history = made();
  await TITLES.read({ history, now: NOW, days: 30 });
  await TITLES.read({ history, now: NOW, days: null });
  await TITLES.read({ history, now: NOW, days: 99_999 });
  const query = { text: "", maxResults: 2 ** 31 - 1 };
  assert.deepEqual(history.asked, [NOW - 30 * DAY, 0, 0].map((startTime) => ({ ...query, startTime })));
});

test("what a source gives replaces in the vault what it gave before", async () => {
  const vault = new Vault(await Tables.open(new IDBFactory()));
  await vault.exclude(["news", "example.net"]);
  const options = { history: made(), now: NOW, days: 90 };
  assert.equal(await importFrom(BOTH, options, vault), 3);
  assert.deepEqual(Object.fromEntries(await vault.features("history")), {
    quokka: 2, photos: 1, "host:example.org": 2,
  });
  assert.deepEqual((await vault.readings()).get("history"), { reader: "history", readAt: NOW, days: 90 });
  const kept = await vault.features();
  await assert.rejects(importFrom(BOTH, { ...options, history: made([]) }, vault), /the vault is as it was/);
  const withdrawn: BrowserHistory = { search: () => Promise.reject(new TypeError("https://secret.example/")) };
  await assert.rejects(importFrom(BOTH, { ...options, history: withdrawn }, vault), (fault: BadInputError) => {
    assert.equal(fault.message, "the source 'history' failed (TypeError)");
    return fault instanceof BadInputError && fault.nextStep !== undefined;
  });
  assert.deepEqual(await vault.features(), kept);
});

test("what the vault holds is held to what the experiment asks for", () => {
  const words = new Map([["quokka", 1], ["numbat", 2]]);
  const both = new Map([...words, ["host:example.org", 1]]);
  type Days = number | null;
  const check = (source: string, features: Map<string, number>, days: Days, read: Days = 30): void => {
    const reading = { reader: "history-titles", readAt: 0, days: read };
    checkAgreed({ source, description: "Words.", presence: true, days }, features, reading, "mine");
  };
  for (const [source, features] of [["history-titles", words], ["history", both], ["diary", both]] as const) {
    check(source, features, null);
    check(source, features, 30);
  }
  checkAgreed({ source: "history", description: "", presence: true, days: 1 }, both, null, "made-up people");
  const sentence = (start: string, what: string): RegExp => new RegExp(`^BadInputError: ${start} 'mine' ${what}`);
  assert.throws(
    () => check("history-titles", both, 30),
    sentence("the vault's source", "has hosts too \\(1\\), and the experiment asks for 'history-titles' alone$"),
  );
  assert.throws(
    () => check("history-hosts", both, 30),
    sentence("the vault's source", "has words of titles too \\(2\\)"),
  );
  const longer = "the experiment looks back 30 days, and the vault's source";
  assert.throws(() => check("history-titles", words, 30, 31), sentence(longer, "holds 31 days$"));
  assert.throws(
    () => check("history-titles", words, 30, null),
    sentence(longer, "holds everything that the source has$"),
  );
});
