/**
 * The extension's background: Chromium's service worker, Firefox's event page. It is the outermost shell and alone talks
 * to the browser: one alarm, one owner of the device, and the messages of the extension's own pages.
 */

import { openDevice } from "./device/open.ts";
import { dropTelling } from "./shell/headers.ts";
import { Owner } from "./shell/owner.ts";
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
    return openDevice(await Tables.open(indexedDB), Date.now);
  },
  async arm(at) {
    if (at === null) await chrome.alarms.clear(ALARM);
    else await chrome.alarms.create(ALARM, { when: Math.max(at, Date.now() + SOONEST_MS) });
  },
  now: Date.now,
});

const open = (): Promise<Asking> => owner.device();

// Listeners are there before anything is awaited: what woke this background is told only once.
chrome.alarms.onAlarm.addListener(() => void owner.wake());
chrome.runtime.onStartup.addListener(() => void owner.wake());
chrome.runtime.onInstalled.addListener(() => void owner.wake());
chrome.runtime.onMessage.addListener((asked: unknown, _sender, reply) => {
  void answerTo(asked, open).then(async (answer) => {
    reply(answer);
    await owner.wake();
  });
  return true;
});

void owner.wake();
