/** The toolbar's popup: what the device does now, and the way to its page. */

import { preferred, speak, t } from "person/language.js";
import { summary } from "person/summary.js";

import { getState, type State } from "./talk.ts";

const place = (id: string): HTMLElement => document.getElementById(id)!;

function draw(state: State): void {
  const here = state.experiments.filter(({ status }) => status !== "forgotten");
  place("summary").textContent = summary(state, here);
  const badge = place("runs");
  badge.textContent = t(state.runs ? "runs.yes" : "runs.no");
  badge.className = `badge ${state.runs ? "good" : ""}`;
  badge.hidden = false;
}

const open = place("open");
open.textContent = chrome.i18n.getMessage("open");
open.addEventListener("click", async () => {
  await chrome.runtime.openOptionsPage();
  window.close();
});
await speak(preferred());
try {
  draw(await getState());
} catch {
  place("summary").textContent = t("dialog.gone");
}
