// Dialogs: what somebody should read before a yes, and what only they should see.
// @ts-check
import { t } from "./language.js";
import { button, el } from "./parts.js";
import { Refusal } from "./talk.js";

const dialog = () => /** @type {HTMLDialogElement} */ (document.getElementById("dialog"));

export function close() {
  const open = dialog();
  open.close();
  // What was shown stays no longer than it was looked at.
  open.replaceChildren();
}

/**
 * Show a dialog; the keyboard stays inside, Escape closes it.
 * @param {string} title @param {(Node | null)[]} content @param {Node[]} [actions]
 */
export function show(title, content, actions = []) {
  const open = dialog();
  const trouble = el("p", { id: "dialog-trouble", class: "notice bad", role: "alert", hidden: true });
  const kept = content.filter((one) => one !== null);
  open.replaceChildren(
    el("h2", { id: "dialog-title", tabindex: "-1" }, title), .../** @type {Node[]} */ (kept), trouble,
    el("div", { class: "actions" },
      button("close", t(actions.length ? "dialog.not-now" : "dialog.close"), close), ...actions));
  open.oncancel = () => setTimeout(() => open.replaceChildren());
  if (!open.open) open.showModal();
  open.scrollTop = 0;
  /** @type {HTMLElement} */ (open.firstElementChild).focus();
}

/** @param {unknown} fault */
export function trouble(fault) {
  const place = document.getElementById("dialog-trouble");
  const words = fault instanceof Refusal ? [fault.message, fault.next].filter(Boolean).join(" ")
    : t("dialog.gone");
  if (place === null || !dialog().open) return show(t("dialog.trouble"), [el("p", {}, words)]);
  place.textContent = words;
  place.hidden = false;
}

/**
 * Work that may be refused: then the dialog says why, and stays.
 * @param {() => Promise<void>} work
 */
export async function tried(work) {
  try {
    await work();
  } catch (fault) {
    trouble(fault);
  }
}
