/**
 * The extension's background: Chromium's service worker, Firefox's event page. It is the outermost shell and alone talks
 * to the browser: one alarm, one owner of the device, and the messages of the extension's own pages.
 */

import { openDevice } from "./device/open.ts";
import { SYSTEM_CLOCK } from "./runtime/clock.ts";
import { dropTelling } from "./shell/headers.ts";
import { Owner } from "./shell/owner.ts";
import { permissionsFor } from "./shell/permissions.ts";
import { answerTo, type Asking } from "./shell/router.ts";
import { Tables } from "./storage/tables.ts";

const ALARM = "due";
/** An alarm nearer than this is set for so long from now: browsers refuse what has passed. */
const SOONEST_MS = 1000;

const owner = new Owner({
  async open() {
    const rule = dropTelling(location.hostname);
    // Before the device can send anything.
    await chrome.declarativeNetRequest.updateSessionRules({ removeRuleIds: [rule.id], addRules: [rule] });
    return openDevice(await Tables.open(indexedDB), {
      clock: SYSTEM_CLOCK,
      steady: () => performance.now(),
      randomBytes: (count) => crypto.getRandomValues(new Uint8Array(count)),
      fetch: fetchAllowed,
      history: () => chrome.history ?? null,
      allows: (urls) => chrome.permissions.contains(permissionsFor("reading", urls)),
      fault: () => owner.fault,
    });
  },
  async arm(at) {
    if (at === null) await chrome.alarms.clear(ALARM);
    else await chrome.alarms.create(ALARM, { when: Math.max(at, Date.now() + SOONEST_MS) });
  },
  now: Date.now,
});

/**
 * To relays that the person allows, and to nobody else: where they have taken it back, the rule that drops telling
 * headers does not hold.
 */
async function fetchAllowed(url: string, options: RequestInit): Promise<Response> {
  if (!(await chrome.permissions.contains(permissionsFor("talking", [url])))) throw new TypeError("not allowed");
  return fetch(url, options);
}

const open = (): Promise<Asking> => owner.device();

// Listeners are there before anything is awaited: what woke this background is told only once.
chrome.alarms.onAlarm.addListener(() => void owner.wake());
chrome.runtime.onStartup.addListener(() => void owner.wake());
chrome.runtime.onInstalled.addListener(() => void owner.wake());
chrome.permissions.onAdded.addListener(() => void owner.wake());
chrome.runtime.onMessage.addListener((asked: unknown, _sender, reply) => {
  void answerTo(asked, open).then(async (answer) => {
    reply(answer);
    await owner.wake();
  });
  return true;
});

void owner.wake();
