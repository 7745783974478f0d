/**
 * The browser's own history, as an extension may read it once its person allows it.
 *
 * There are three sources, each of which reads what its name says and no more: an experiment that looks at the words of
 * titles gets no host.
 *
 * Read: address, title, number of visits, last visit. Not read: single visits and their times, searches, forms,
 * downloads, cookies, passwords. Pages that the browser hides (frames, redirects) it does not tell of, and private
 * windows leave nothing in its history.
 */

import { featuresOf, type Page } from "./pages.ts";

const DAY_MS = 86_400_000;
/** More pages than any history has, and an integer of 32 bits: Chromium takes no larger one, Firefox takes no zero. */
const ALL = 2 ** 31 - 1;

/** A page as `chrome.history` tells of it. */
export interface VisitedPage {
  readonly url?: string;
  readonly title?: string;
  /** Milliseconds since 1970; Firefox has fractions of them. */
  readonly lastVisitTime?: number;
  readonly visitCount?: number;
}

/** What is taken of `chrome.history`. */
export interface BrowserHistory {
  search(query: { text: string; startTime: number; maxResults: number }): Promise<readonly VisitedPage[]>;
}

/** What a source is given. */
export interface Options {
  readonly history: BrowserHistory;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** How far back it reads; null: everything there is. */
  readonly days: number | null;
  /** Pages that were visited less often do not count. */
  readonly minVisits?: number;
  /** Pages of this device and of private networks count as well. */
  readonly local?: boolean;
  /** Words and names of hosts that the person wants nothing to be read of. */
  readonly excluded?: ReadonlySet<string>;
}

/** Reads features of one person: it keeps nothing, sends nothing, and changes nothing of what it reads. */
export interface Source {
  /** What experiments call it; also the name under which the vault keeps its features. */
  readonly name: string;
  read(options: Options): Promise<Map<string, number>>;
}

function historySource(name: string, parts: { titles: boolean; hosts: boolean }): Source {
  return {
    name,
    async read({ history, now, days, minVisits = 1, local = false, excluded = new Set() }) {
      const since = days === null ? 0 : now - days * DAY_MS;
      // Without a time browsers tell of the last day alone.
      const visited = await history.search({ text: "", startTime: Math.max(0, since), maxResults: ALL });
      // Asked again here: browsers do not agree on which edge of the time counts.
      const counted = visited.filter(
        ({ lastVisitTime = -1, visitCount = 0 }) => lastVisitTime >= since && visitCount >= minVisits,
      );
      return featuresOf(pagesOf(counted), { ...parts, local, excluded });
    },
  };
}

/** Each address once, as browsers keep it. */
function pagesOf(visited: readonly VisitedPage[]): Iterable<Page> {
  const pages = visited.flatMap(({ url, title = null }) => (url === undefined ? [] : [{ url, title }]));
  return new Map(pages.map((page) => [page.url, page])).values();
}

/** Words of the titles of pages, and no hosts. */
export const TITLES = historySource("history-titles", { titles: true, hosts: false });
/** Hosts of the pages, and no titles. */
export const HOSTS = historySource("history-hosts", { titles: false, hosts: true });
/** Words of titles, and hosts. */
export const BOTH = historySource("history", { titles: true, hosts: true });
