// Pause, resume, stop: with the admin key, which stays in the memory of this tab, and after one plain question.

import { el, fact, reveal, show, write } from "./parts.js";
import { Refusal, ask } from "./store.js";
import { sentence } from "./words.js";

/** The key. It is sent to this page's own server with a change, and written down nowhere. */
let held = "";
const watchers = new EventTarget();

/** Whether a key was given. */
export function holdsKey() {
  return held !== "";
}

/** Take a key, or with "" forget it. */
export function holdKey(key) {
  held = key.trim();
  watchers.dispatchEvent(new Event("key"));
}

/** A request to the coordinator's operator API, by way of this page's server. Throws `Refusal` with its sentence. */
export async function operate(path, { method = "POST", content = {} } = {}) {
  if (!held) throw new Refusal(401, "This needs the admin key.");
  const headers = { authorization: `Bearer ${held}` };
  const body = method === "GET" ? undefined : JSON.stringify(content);
  if (body !== undefined) headers["content-type"] = "application/json";
  return ask(`/api/admin/${path}`, { method, headers, body });
}

/** Where the key is given, and what is said about it. */
export function keyField() {
  const input = el("input", {
    id: "admin-key",
    type: "password",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    "aria-describedby": "admin-key-hint",
  });
  const hint = "It stays in the memory of this tab until you close it or forget it here, and is stored nowhere.";
  const node = el(
    "div",
    { class: "field" },
    el("label", { for: "admin-key" }, "Admin key"),
    input,
    el("p", { class: "hint", id: "admin-key-hint" }, hint),
  );
  return { node, input };
}

/** What a dialog is there for: the key is taken where none is held; a refusal is said, and a key that was refused asked
 * for again. */
export async function sendWithKey(event, { input, confirm, refused }, act) {
  event.preventDefault();
  if (!holdsKey()) {
    if (!input.value.trim()) {
      show(refused, "This needs the admin key.", "401");
      input.focus();
      return;
    }
    holdKey(input.value);
  }
  confirm.disabled = true;
  show(refused, "", "");
  try {
    await act();
  } catch (fault) {
    // A key that is refused is of no use.
    if (fault.status === 401) {
      holdKey("");
      if (!input.isConnected) refused.before(input.closest(".field"));
      input.value = "";
    }
    show(refused, `Refused: ${sentence(fault.message)}`, String(fault.status ?? ""));
    if (input.isConnected) input.focus();
  }
  confirm.disabled = false;
}

/** That a key is held, with a way to forget it; nothing while there is none. */
export function keyState() {
  const said = fact("key_held", "span", { class: "soft" });
  const little = { type: "button", class: "quiet little", "data-action": "forget-key" };
  const forget = el("button", { ...little, onclick: () => holdKey("") }, "Forget it");
  const node = el("p", { class: "key-state row" }, said, forget);
  const update = () => {
    show(said, held ? "The admin key is held in this tab." : "", String(Boolean(held)));
    reveal(node, Boolean(held));
  };
  watchers.addEventListener("key", update);
  update();
  return { node, close: () => watchers.removeEventListener("key", update) };
}

const ACTIONS = {
  pause: {
    verb: "Pause",
    from: ["running"],
    happens: "The round that runs goes on to its end and is counted. After it no round opens until you resume.",
  },
  resume: {
    verb: "Resume",
    from: ["paused"],
    happens: "Rounds open again by the experiment's schedule, from where it stands.",
  },
  stop: {
    verb: "Stop",
    from: ["running", "paused"],
    happens:
      "This is for good: it cannot be resumed. The round that runs goes on to its end; then the coordinator signs " +
      "and publishes the ending. The last model stays public, as does everything told before.",
    danger: true,
  },
};

/** The buttons of one experiment, and the dialog behind them. */
export function operatePart(page, digest) {
  const buttons = new Map();
  const row = el("div", { class: "row", role: "group", "aria-label": "Operate this experiment" });
  for (const [name, { verb, danger }] of Object.entries(ACTIONS)) {
    const kind = { type: "button", class: danger ? "danger" : null, "data-action": name };
    const button = el("button", { ...kind, onclick: () => question(name) }, `${verb} …`);
    buttons.set(name, button);
    row.append(button);
  }
  const state = keyState();
  const dialog = el("dialog", { id: "confirm", "aria-labelledby": "confirm-title" });
  const node = el("div", { class: "operate" }, row, state.node, dialog);
  let summary = null;

  function question(name) {
    const { verb, happens, danger } = ACTIONS[name];
    const key = keyField();
    const refused = fact("refusal", "p", { class: "error", role: "alert" });
    write(refused, "");
    const kind = danger ? "danger primary" : "primary";
    const confirm = el("button", { type: "submit", class: kind, "data-action": "confirm" }, verb);
    const leave = { type: "button", "data-action": "cancel", onclick: () => dialog.close() };
    const cancel = el("button", leave, "Leave it as it is");
    const form = el(
      "form",
      { onsubmit: (event) => void send(event, name, { input: key.input, confirm, refused }) },
      el("h2", { id: "confirm-title" }, `${verb} “${summary.title}”?`),
      el("p", {}, happens),
      !holdsKey() && key.node,
      refused,
      el("div", { class: "row end" }, cancel, confirm),
    );
    dialog.replaceChildren(form);
    dialog.showModal();
    (holdsKey() ? cancel : key.input).focus();
  }

  async function send(event, name, asked) {
    await sendWithKey(event, asked, async () => {
      const told = await operate(`experiments/${encodeURIComponent(digest)}/${name}`);
      dialog.close();
      page.announce(`The experiment is ${told?.standing ?? "changed"}.`);
    });
  }

  function update(now) {
    summary = now;
    let any = false;
    for (const [name, button] of buttons) {
      const can = ACTIONS[name].from.includes(now.standing);
      reveal(button, can);
      any ||= can;
    }
    reveal(row, any);
  }

  return { node, update, close: () => state.close() };
}
