// What a device does now, in a sentence or two.
// @ts-check
import { t } from "./language.js";

/** @param {any} state @param {any[]} here experiments that were not left */
export function summary(state, here) {
  const going = here.filter((one) => !one.ended && !one.convicted).length;
  if (going === 0) return t("summary.nothing");
  const what = t("summary.some", { n: going });
  if (!state.runs) return `${what} ${t("summary.stopped")}`;
  const waiting = here.reduce((sum, one) => sum + one.waiting, 0);
  return `${what} ${waiting ? t("summary.soon", { n: waiting }) : t("summary.idle")}`;
}
