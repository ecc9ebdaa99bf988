// The frame: which partition and view is shown (all of it is in the address), the overview that is read again and again,
// the connection, and the token.

import { Refused, Unauthorized, get, keep, token } from "./api.js";
import { applications } from "./applications.js";
import { detail } from "./detail.js";
import { events } from "./events.js";
import { age, amount, bar, clock, el, noun, number, order, plural } from "./format.js";
import { nodes } from "./nodes.js";
import { people } from "./people.js";
import { queues } from "./queues.js";

const EVERY = 2_000;
const LONGEST_WAIT = 5_000;
const VIEWS = {
  applications: { title: "Applications", make: applications },
  queues: { title: "Queues", make: queues },
  nodes: { title: "Nodes", make: nodes },
  events: { title: "Events", make: events },
  people: { title: "Users & groups", make: people },
};

const $ = (id) => document.getElementById(id);

let overview = null;
let offset = 0;
let lastGood = 0;
let lost = null;
let view = null;
let shownKey = "";
let panel = null;
let asking = null;
let wake = () => {};

/** What the address says: `#/partition/view?parameters`. */
function where() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [partition = "", name = ""] = path.split("/").map(decodeURIComponent);
  const names = (overview?.partitions || []).map((row) => row.name);
  return {
    partition: names.includes(partition) ? partition : names[0] || partition,
    view: VIEWS[name] ? name : "applications",
    params: new URLSearchParams(query),
  };
}

function address(name, params = {}, partition = where().partition) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value)).toString();
  return `#/${encodeURIComponent(partition)}/${name}${query ? `?${query}` : ""}`;
}

const context = {
  partition: () => where().partition,
  params: () => where().params,
  /** Time of the server. */
  now: () => Date.now() + offset,
  row: () => overview?.partitions.find((row) => row.name === where().partition),
  overview: () => overview,
  address,
  /** Changes parameters of the address; with the present view unless another is named. */
  set(change, name = where().view) {
    const params = Object.fromEntries(where().params);
    const next = address(name, { ...params, ...change });
    if (next !== location.hash) history.replaceState(null, "", next);
    render();
  },
  open(kind, id) {
    context.set({ open: `${kind}:${id}` });
    $("detail").focus();
  },
  opened(kind) {
    const open = where().params.get("open") || "";
    return open.startsWith(`${kind}:`) ? open.slice(kind.length + 1) : null;
  },
  say(text) {
    $("say").textContent = text;
  },
  /** A view met an error that is not its own: the frame deals with it. */
  failed,
};

function render() {
  const { partition, view: name, params } = where();
  $("tabs").replaceChildren(
    ...Object.entries(VIEWS).map(([key, { title }]) =>
      el("a", { href: address(key), "aria-current": key === name ? "page" : null, "data-view": key }, title),
    ),
  );
  summary();
  const key = `${partition}/${name}`;
  if (key !== shownKey) {
    shownKey = key;
    view?.stop?.();
    view = null;
    if (overview?.partitions.length) {
      view = VIEWS[name].make(context);
      $("view").replaceChildren(view.el);
    }
  }
  view?.changed?.();
  showPanel(params.get("open"));
  wake();
}

function showPanel(open) {
  const box = $("detail");
  const key = open ? `${where().partition}/${open}` : "";
  if ((panel?.key || "") === key) return;
  panel?.stop?.();
  panel = null;
  box.hidden = !open;
  document.body.classList.toggle("with-detail", Boolean(open));
  if (!open) return box.replaceChildren();
  const at = open.indexOf(":");
  panel = detail(context, open.slice(0, at), open.slice(at + 1), closePanel);
  panel.key = key;
  box.tabIndex = -1;
  return box.replaceChildren(panel.el);
}

function closePanel() {
  const open = where().params.get("open") || "";
  context.set({ open: "" });
  view?.focus?.(open.slice(open.indexOf(":") + 1));
}

/** The strip below the header: what waits and why, how full the partition is, its nodes. */
function summary() {
  const row = context.row();
  const box = $("summary");
  box.hidden = !row;
  $("tabs").hidden = !row;
  if (!row) return;
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset.id : null;
  const { waiting, nodes: counts } = row;
  const reason = where().params.get("reason");
  const chips = waiting.reasons.map((entry) =>
    el(
      "a",
      {
        class: `chip ${entry.code}`,
        "data-id": `reason-${entry.code}`,
        "aria-current": entry.code === reason ? "true" : null,
        href: address("applications", { reason: entry.code === reason ? "" : entry.code }),
      },
      el("b", {}, number(entry.asks)),
      ` ${entry.title}`,
    ),
  );
  const why = el(
    "div",
    { class: "card why" },
    el("h2", {}, waiting.asks ? plural(waiting.asks, "ask waits", "asks wait") : "Nothing waits"),
    el("p", {}, waiting.asks ? `in ${plural(waiting.applications, "application")}, because:` : "Every ask has its place."),
    el("div", { class: "chips" }, chips),
  );
  const types = order(Object.keys(row.capacity)).slice(0, 4);
  const full = el(
    "div",
    { class: "card full" },
    el("h2", {}, "Capacity"),
    types.length === 0 && el("p", {}, "No node is registered."),
    types.map((type) =>
      el(
        "div",
        { class: "meter" },
        el("span", {}, noun(type)),
        bar(type, { used: row.used[type] || 0, pending: row.pending[type] || 0, limit: row.capacity[type] }),
      ),
    ),
  );
  const flags = ["drained", "torpid", "offline", "reserved"].filter((flag) => counts[flag] > 0);
  const machine = el(
    "div",
    { class: "card count" },
    el("h2", {}, plural(counts.total, "node")),
    el("p", {}, flags.length ? "" : "all take allocations"),
    el("div", { class: "chips" }, flags.map((flag) =>
      el("a", { class: `chip ${flag}`, "data-id": `flag-${flag}`, href: address("nodes", { only: flag }) }, el("b", {}, number(counts[flag])), ` ${flag}`),
    )),
  );
  const states = Object.entries(row.applications);
  const live = states.reduce((sum, [, count]) => sum + count, 0);
  const work = el(
    "div",
    { class: "card count" },
    el("h2", {}, plural(live, "application")),
    el("p", {}, `${plural(row.allocations, "allocation")}`),
    el("div", { class: "chips" }, states.map(([name, count]) => el("span", { class: `chip plain ${name.toLowerCase()}` }, el("b", {}, number(count)), ` ${name.toLowerCase()}`))),
  );
  box.replaceChildren(why, full, machine, work);
  if (focused) box.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
}

function head() {
  const select = $("partition");
  const rows = overview?.partitions || [];
  const names = rows.map((row) => `${row.name} ${row.waiting.asks}`).join("\n");
  if (select.dataset.names !== names) {
    select.dataset.names = names;
    select.replaceChildren(
      ...rows.map((row) => el("option", { value: row.name }, row.waiting.asks ? `${row.name} – ${number(row.waiting.asks)} waiting` : row.name)),
    );
  }
  select.parentElement.hidden = rows.length === 0;
  select.disabled = rows.length < 2;
  select.value = where().partition;
  $("forget").hidden = !token();
  if (rows.length === 0 && overview) empty();
}

function empty() {
  view?.stop?.();
  view = null;
  shownKey = "";
  $("view").replaceChildren(
    el(
      "div",
      { class: "hollow" },
      el("h2", {}, "No resource manager is registered"),
      el("p", {}, "The board is empty until one registers: POST /si/v1/rm, or the gRPC door. Partitions, queues, applications and nodes appear here by themselves."),
    ),
  );
}

/** Says what the reader must know of before anything else: no connection, a resource manager that is away. */
function banner() {
  const row = context.row();
  let text = "";
  let kind = "";
  if (lost) {
    kind = "lost";
    text = `Connection lost. ${lastGood ? `What you see is from ${clock(lastGood)}.` : ""} Trying again… (${lost})`;
  } else if (row && row.rmState !== "Running") {
    kind = "away";
    const since = row.rmSince ? ` for ${age(row.rmSince, context.now())}` : "";
    text = `Resource manager ${row.rm} is ${row.rmState}${since}: nothing new is placed in this partition until it is back.`;
    if (row.rmWhy) text += ` (${row.rmWhy})`;
  }
  const box = $("banner");
  if (box.textContent !== text) box.textContent = text;
  box.className = `banner ${kind}`;
  box.hidden = !text;
  const live = $("live");
  const word = lost ? "Connection lost" : "Live";
  if (live.textContent !== word) live.textContent = word;
  live.className = `pill ${lost ? "bad" : "good"}`;
  document.body.classList.toggle("stale", Boolean(lost));
}

async function health() {
  const pill = $("health");
  try {
    const result = await get("/ws/v1/scheduler/healthcheck");
    const failed = (result.HealthChecks || []).filter((check) => !check.Succeeded);
    pill.hidden = false;
    const warnings = result.Warnings || [];
    const good = warnings.length ? plural(warnings.length, "warning") : "Healthy";
    pill.textContent = result.Healthy ? good : `${plural(failed.length, "check")} failed`;
    pill.className = `pill ${result.Healthy ? (warnings.length ? "wait" : "good") : "bad"}`;
    const found = [...failed, ...warnings].map((check) => `${check.Name}: ${check.DiagnosisMessage}`);
    pill.title = found.join("\n") || "All health checks pass";
  } catch (error) {
    if (error instanceof Unauthorized) throw error;
    pill.hidden = true;
  }
}

function failed(error) {
  if (error?.name === "AbortError") return;
  if (error instanceof Unauthorized) ask(error.message);
  else if (!(error instanceof Refused)) {
    lost = error?.name === "TimeoutError" ? "no answer" : error?.message || "no answer";
    banner();
  }
}

/** Asks for a token; ends when there is one. */
function ask(fault) {
  if (asking) return asking;
  const dialog = $("login");
  $("login-fault").textContent = fault || "";
  $("login-fault").hidden = !fault;
  $("token").value = "";
  asking = new Promise((done) => {
    dialog.oncancel = (event) => event.preventDefault();
    dialog.querySelector("form").onsubmit = () => {
      keep($("token").value.trim());
      asking = null;
      done();
      wake();
    };
  });
  dialog.showModal();
  $("token").focus();
  return asking;
}

/** Sleeps until it is time again, or something changed. */
function pause(time) {
  return new Promise((done) => {
    const timer = setTimeout(done, time);
    wake = () => {
      clearTimeout(timer);
      done();
    };
  });
}

async function look() {
  const began = Date.now();
  overview = await get("/api/v1/overview");
  offset = Date.parse(overview.now) - (began + Date.now()) / 2;
  const back = lost;
  lost = null;
  lastGood = Date.now();
  if (back) context.say("Connected again.");
  head();
  banner();
  if (overview.partitions.length) {
    if (!view) render();
    else summary();
  } else summary();
  await Promise.all([view?.refresh?.(), panel?.refresh?.()]);
}

async function run() {
  let wait = 500;
  for (let round = 0; ; round += 1) {
    const began = performance.now();
    try {
      await look();
      if (round % 5 === 0) await health();
      wait = 500;
      // A server or page that takes long is asked less often.
      await pause(Math.max(EVERY, 3 * (performance.now() - began)));
    } catch (error) {
      failed(error);
      if (asking) await asking;
      else if (error instanceof Refused || lost) {
        if (!lost) lost = error.message;
        banner();
        await pause(wait);
        wait = Math.min(LONGEST_WAIT, wait * 2);
      } else {
        // A fault of the page itself must not end it.
        console.error(error);
        await pause(EVERY);
      }
    }
  }
}

window.addEventListener("hashchange", () => {
  head();
  render();
});
window.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !$("detail").hidden && !$("login").open) closePanel();
  if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
    const search = document.querySelector("main input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  }
});
window.addEventListener("online", () => wake());
document.addEventListener("visibilitychange", () => document.hidden || wake());
$("partition").addEventListener("change", (event) => {
  location.hash = address(where().view, {}, event.target.value);
});
$("forget").addEventListener("click", () => {
  keep("");
  location.reload();
});
window.addEventListener("error", (event) => context.say(`Fault of the page: ${event.message}`));
run();
