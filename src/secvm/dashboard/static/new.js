// A new experiment: the form, the planner beside it, and the one question before it is made.
//
// Whatever stands in the form stands in the address too, so that a plan can be sent to somebody. Nothing is made
// without the admin key; plans need none. Hooks for tests: inputs have data-field; [data-action="create"],
// dialog#create with [data-action="confirm"] and [data-action="cancel"], data-fact refusal.

import { GROUPS, Field } from "./new_fields.js";
import { DEFAULTS, fromQuery, missing, planRequest, specification, toQuery } from "./new_specification.js";
import { holdsKey, keyField, keyState, operate, sendWithKey } from "./operate.js";
import { el, fact, write } from "./parts.js";
import { planPanel, times } from "./plan.js";
import { ask } from "./store.js";
import { count } from "./words.js";

const QUICK_MS = 150;
const SLOW_MS = 500;
const ADDRESS_MS = 400;

/** The view; see main.js. */
export function open(main, page) {
  const form = new NewExperiment(main, page);
  return { title: "New experiment", update: () => form.heard(), close: () => form.close() };
}

class NewExperiment {
  constructor(main, page) {
    this.page = page;
    this.before = { ...DEFAULTS };
    this.state = fromQuery(page.query());
    this.touched = new Set(Object.keys(toQuery(this.state)).filter((name) => page.query().has(name)));
    this.plan = null;
    this.fields = new Map();
    this.panel = planPanel();
    this.key = keyState();
    style();
    this.build(main);
    for (const field of this.fields.values()) field.fill(this.state);
    this.soon(0);
  }

  build(main) {
    const groups = GROUPS.map(({ title, fields }) => {
      const made = fields.map((asked) => {
        const field = new Field(asked, (name, value, settled) => this.take(name, value, settled));
        this.fields.set(asked.name, field);
        return field.node;
      });
      return el("fieldset", {}, el("legend", {}, title), el("div", { class: "new-fields" }, ...made));
    });
    this.why = el("p", { class: "soft", id: "create-why", role: "status" });
    this.log = el("p", { class: "soft" });
    this.create = el(
      "button",
      { type: "submit", class: "primary", "data-action": "create", "aria-describedby": "create-why", disabled: true },
      "Create …",
    );
    this.dialog = el("dialog", { id: "create", "aria-labelledby": "create-title" });
    const form = el(
      "form",
      { class: "new-form", novalidate: true, onsubmit: (event) => this.question(event) },
      ...groups,
      this.log,
      el("div", { class: "row" }, this.create, this.key.node),
      this.why,
    );
    main.append(
      el("h1", {}, "New experiment"),
      el(
        "p",
        { class: "lead" },
        "Choose, and see at once what it gives away, what it costs a device, and what it may learn.",
      ),
      el("div", { class: "new" }, form, this.panel.node),
      this.panel.brief,
      this.dialog,
    );
    this.heard();
  }

  /** The server has said something new: it may have told whether there is a log, and how others were set up. */
  heard() {
    const { now } = this.page.store;
    const known = Boolean(now?.coordinator?.reachable);
    const logged = known ? Boolean(now.server?.log) : true;
    write(this.log, known ? logs(logged) : "");
    if (logged !== this.logged) {
      this.logged = logged;
      this.soon(0);
    }
    const last = now?.experiments?.at(-1);
    if (last && !this.copied) {
      this.copied = true;
      this.page.store.detail(last.digest).then((detail) => this.copy(detail), () => null);
    }
  }

  /** Windows, source and relay of the newest experiment fit this coordinator: they stand there until somebody changes
   * them. */
  copy(detail) {
    const relays = detail.relays ?? [];
    const plain = relays.find(({ role }) => !role);
    const ofRoles = relays.filter(({ role }) => role).flatMap(({ role, url, key, operator }) => [
      [`relays.${role}.url`, url],
      [`relays.${role}.key`, key],
      [`relays.${role}.operator`, operator],
    ]);
    const told = {
      ...Object.fromEntries(ofRoles),
      "windows.length_s": detail.windows && String(Math.round((100 * detail.windows.length_s) / 60) / 100),
      "windows.grace_s": detail.windows && String(detail.windows.grace_s),
      "features.source": detail.features?.source,
      "features.description": detail.features?.description,
      "relays.url": plain?.url,
      "relays.key": plain?.key,
      test: detail.test ? "yes" : undefined,
    };
    for (const [name, value] of Object.entries(told)) {
      if (!value || this.touched.has(name)) continue;
      this.state[name] = value;
      this.before[name] = value;
      this.fields.get(name).fill(this.state);
    }
    this.soon(0);
  }

  take(name, value, settled) {
    this.state[name] = value;
    if (settled) this.touched.add(name);
    for (const field of this.fields.values()) field.apply(this.state);
    clearTimeout(this.addressing);
    this.addressing = setTimeout(() => this.page.setQuery(toQuery(this.state, this.before)), ADDRESS_MS);
    this.soon(QUICK_MS);
  }

  /** Ask the planner, once nothing has changed for so long. */
  soon(after) {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.reckon("quick"), after);
  }

  async reckon(part) {
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    if (part === "quick") this.panel.state("asking");
    let plan;
    try {
      plan = await ask("/api/plan", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(planRequest(this.state, part, this.logged)),
        signal: asking.signal,
      });
    } catch (fault) {
      if (asking.signal.aborted || this.closed) return;
      // Others' plans are being made: ours is asked for again.
      if (fault.status === 503) this.waiting = setTimeout(() => this.reckon(part), 2000);
      else this.silent(fault.message);
      return;
    }
    if (asking.signal.aborted || this.closed) return;
    this.shown(plan);
    if (!plan.exact && !plan.refusals.length) this.waiting = setTimeout(() => this.reckon("guarantee"), SLOW_MS);
  }

  silent(sentence) {
    this.plan = null;
    this.panel.state("silent");
    this.create.disabled = true;
    write(this.why, sentence);
  }

  shown(plan) {
    this.plan = { ...plan, asked_bins: Number(this.state["binning.bins"]) };
    this.panel.update(this.plan);
    this.panel.state(plan.refusals.length ? "refused" : plan.exact ? "exact" : "rough");
    this.mark();
  }

  /** Refusals beside their fields; what is merely missing is said there once the field was left. */
  mark() {
    const lacking = missing(this.state);
    const said = new Map(this.plan.refusals.map((one) => [this.fieldOf(one.field), one.sentence]));
    for (const [name, sentence] of lacking) if (this.touched.has(name) && !said.has(name)) said.set(name, sentence);
    for (const [name, field] of this.fields) field.refuse(said.get(name) ?? "");
    const nonsense = this.plan.refusals.length;
    this.create.disabled = nonsense > 0 || lacking.length > 0;
    const names = lacking.map(([name]) => this.fields.get(name).asked.label.toLowerCase());
    if (nonsense) write(this.why, this.plan.refusals[0].sentence);
    else write(this.why, lacking.length ? `Still missing: ${names.join(", ")}.` : "");
  }

  /** The field that a remark is about: its own, or the first of its group. */
  fieldOf(name) {
    if (this.fields.has(name)) return name;
    const known = [...this.fields.keys()];
    return known.find((one) => one.startsWith(`${name}.`)) ?? (name === "windows.hours" ? "hours_from" : name);
  }

  question(event) {
    event.preventDefault();
    if (this.create.disabled) return;
    const key = keyField();
    const refused = fact("refusal", "p", { class: "error", role: "alert" });
    write(refused, "");
    const confirm = el("button", { type: "submit", class: "primary", "data-action": "confirm" }, "Create it");
    const away = () => this.dialog.close();
    const cancel = el("button", { type: "button", "data-action": "cancel", onclick: away }, "Not yet");
    const { attacker, packages } = this.plan;
    this.dialog.replaceChildren(
      el(
        "form",
        { onsubmit: (sent) => void this.send(sent, { input: key.input, confirm, refused }) },
        el("h2", { id: "create-title" }, `Ask devices “${this.state.title.trim()}”?`),
        el("p", {}, "It is signed and public at once, and never changed: only paused, resumed and stopped."),
        el(
          "p",
          {},
          `Risk: at most ${times(attacker)}; ${count(packages?.per_round)} packages of a device in every round.` +
            (this.plan.exact ? "" : " The guarantee is still being planned: the coordinator does it too."),
        ),
        !holdsKey() && key.node,
        refused,
        el("div", { class: "row end" }, cancel, confirm),
      ),
    );
    this.dialog.showModal();
    (holdsKey() ? cancel : key.input).focus();
  }

  async send(event, asked) {
    write(asked.confirm, "Creating …");
    await sendWithKey(event, asked, async () => {
      const told = await operate("experiments", { content: specification(this.state) });
      this.dialog.close();
      this.page.announce("The experiment is made.");
      this.page.go(`/experiment/${encodeURIComponent(told.digest)}`);
    });
    write(asked.confirm, "Create it");
  }

  close() {
    this.closed = true;
    clearTimeout(this.waiting);
    clearTimeout(this.addressing);
    this.asking?.abort();
    this.panel.close();
    this.key.close();
  }
}

function logs(logged) {
  return logged
    ? "Its rounds will stand in this coordinator's log, cosigned by its witnesses."
    : "This coordinator has no log: devices join only tests, unless their people say otherwise.";
}

/** The form's own style, once. */
function style() {
  if (document.querySelector("link[data-style=new]")) return;
  const href = new URL("./new.css", import.meta.url).href;
  document.head.append(el("link", { rel: "stylesheet", href, "data-style": "new" }));
}
