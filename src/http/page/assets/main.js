// The frame: which partition and view is shown (all of it is in the address), the overview that is read again and again,
// the connection, and the token.

import { Refused, Unauthorized, get, hear, keep, token } from "./api.js";
import { applications } from "./applications.js";
import { detail } from "./detail.js";
import { events } from "./events.js";
import { age, clock, el, number } from "./format.js";
import { nodes } from "./nodes.js";
import { fill } from "./patch.js";
import { past } from "./past.js";
import { people } from "./people.js";
import { queues } from "./queues.js";
import { search } from "./search.js";
import { server } from "./server.js";
import { summary } from "./summary.js";
import { trends } from "./trends.js";
import { whatif } from "./whatif.js";

const EVERY = 2_000;
const LONGEST_WAIT = 5_000;
// When a server of a cluster has been away for so long, another one is looked for.
const AWAY = 3_000;
const VIEWS = {
  applications: { title: "Applications", make: applications },
  queues: { title: "Queues", make: queues },
  nodes: { title: "Nodes", make: nodes },
  people: { title: "Users & groups", make: people },
  trends: { title: "Charts", make: trends },
  whatif: { title: "What if", make: whatif },
  // What was stays there when nobody is registered.
  events: { title: "Events", make: events, always: true },
};

const $ = (id) => document.getElementById(id);

let overview = null;
let offset = 0;
let lastGood = 0;
let lost = null;
// It is there, and does not give what is read here.
let refused = false;
let view = null;
let shownKey = "";
let partitions = null;
let panel = null;
let asking = null;
let others = [];
let wake = () => {};

/** A part of the address; one that nobody encoded is taken as it stands. */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** What the address says: `#/partition/view?parameters`. A partition that it names stays the one that is meant, also when it has gone:
 * another may have a node or a queue of the same name. */
function where() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [partition = "", name = ""] = path.split("/").map(decode);
  return {
    partition: partition || overview?.partitions[0]?.name || "",
    view: Object.hasOwn(VIEWS, name) ? name : "applications",
    params: new URLSearchParams(query),
  };
}

function address(name, params = {}, partition = where().partition) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value)).toString();
  return `#/${encodeURIComponent(partition)}/${name}${query ? `?${query}` : ""}`;
}

/** The address of this view with some parameters changed. */
const changed = (change) => address(where().view, { ...Object.fromEntries(where().params), ...change });

const context = {
  partition: () => where().partition,
  params: () => where().params,
  /** Time of the server. */
  now: () => Date.now() + offset,
  /** The number of the record after which a flight is shown; nothing in the present. */
  moment: () => moment.at(),
  row: () => overview?.partitions.find((row) => row.name === where().partition),
  overview: () => overview,
  /** May change things, which nobody can in the past. */
  operates: () => overview?.role === "operator" && !moment.is(),
  address,
  /** Changes parameters of the address, as a step that Back undoes; each letter that is typed is no step. */
  set(change, { typing = false } = {}) {
    const next = changed(change);
    // Closing the panel does not go back to before it: that would take away what was typed since.
    if (next !== location.hash && typing) history.replaceState(null, "", next);
    else if (next !== location.hash) history.pushState(null, "", next);
    render();
  },
  /** How the table of a view is sorted. */
  sorting: { get: () => where().params.get("sort") || "", set: (sort) => context.set({ sort }) },
  open(kind, id) {
    const next = changed({ open: `${kind}:${id}` });
    // The panel of another row takes the place of this one, so that one step back closes it.
    if (!$("detail").hidden) history.replaceState(history.state, "", next);
    else history.pushState({ opened: true }, "", next);
    render();
    $("detail").focus();
  },
  /** Goes to an address that was chosen elsewhere than in a link. */
  go(href) {
    history.pushState(null, "", href);
    render();
    if (panel) $("detail").focus();
  },
  opened(kind) {
    const open = where().params.get("open") || "";
    return open.startsWith(`${kind}:`) ? open.slice(kind.length + 1) : null;
  },
  /** Reads everything anew, now. */
  refresh: () => wake(),
  say(text) {
    $("say").textContent = text;
  },
  /** A view met an error that is not its own: the frame deals with it. */
  failed,
};

function render() {
  const { partition, view: name, params } = where();
  fill($("tabs"), Object.entries(VIEWS).map(([key, { title }]) =>
    el("a", { href: address(key), "aria-current": key === name ? "page" : null, "data-view": key }, title)));
  summary(context, $("summary"), params);
  const there = overview && (context.row() || VIEWS[name].always);
  const key = there ? `${partition}/${name}` : overview ? `nothing/${partition}/${overview.partitions.length > 0}` : "";
  if (key !== shownKey) {
    shownKey = key;
    view?.stop?.();
    view = there ? VIEWS[name].make(context) : null;
    $("view").replaceChildren(view?.el || hollow());
  }
  view?.changed?.();
  showPanel(there ? params.get("open") : null);
  banner();
  wake();
}

function showPanel(open) {
  const box = $("detail");
  const key = open ? `${where().partition}/${open}` : "";
  if ((panel?.key || "") === key) return;
  panel?.stop?.();
  panel = null;
  box.hidden = !open;
  if (!open) return box.replaceChildren();
  const at = open.indexOf(":");
  panel = detail(context, open.slice(0, at), open.slice(at + 1), closePanel);
  panel.key = key;
  panel.row = open.slice(at + 1);
  box.tabIndex = -1;
  return box.replaceChildren(panel.el);
}

function closePanel() {
  // As Back does, where it was opened from here.
  if (history.state?.opened) return history.back();
  const { row } = panel;
  context.set({ open: "" });
  return view?.focus?.(row);
}

function head() {
  const select = $("partition");
  const rows = overview?.partitions || [];
  fill(select, rows.map((row) => el("option", { value: row.name }, row.waiting.asks && rows.length > 1 ? `${row.name} – ${number(row.waiting.asks)} waiting` : row.name)));
  if (rows.length && !context.row()) select.prepend(el("option", { value: where().partition }, `${where().partition} – not there`));
  select.parentElement.hidden = rows.length === 0;
  select.disabled = select.options.length < 2;
  select.value = where().partition;
  $("forget").hidden = !token();
}

/** Resource managers that ended, and why; beside others only for an hour. */
function stopped() {
  const recent = ({ since }) => !context.row() || context.now() - Date.parse(since) < 3_600_000;
  return overview.resourceManagers.filter((row) => row.state === "Stopped" && recent(row)).map((row) => `Resource manager ${row.rmID} stopped ${age(row.since, context.now())} ago${row.why ? `: ${row.why}` : ""}.`);
}

function hollow() {
  if (overview?.partitions.length)
    return el(
      "div",
      { class: "hollow" },
      el("h2", {}, `Partition ${where().partition} is not there`),
      el("p", {}, "Its resource manager ended or its configuration has it no longer. It is shown again when it comes back. Above are the partitions that there are."),
      el("p", {}, el("a", { href: address("events") }, "Events of the past")),
    );
  return el(
    "div",
    { class: "hollow" },
    el("h2", {}, overview ? "No resource manager is registered" : "Connecting"),
    overview && el("p", {}, "The board is empty until one registers: POST /si/v1/rm, or the gRPC door. Partitions, queues, applications and nodes appear here by themselves."),
    overview && el("p", {}, el("a", { href: address("events") }, "Events of the past")),
  );
}

/** Says what the reader must know of before anything else: no connection, a resource manager that is away. */
function banner() {
  const row = context.row();
  let text = "";
  let kind = "away";
  if (lost) {
    kind = "lost";
    text = `${refused ? "The server refuses what is read here." : "Connection lost."} ${lastGood ? `What you see is from ${clock(lastGood)}.` : ""} Trying again… (${lost})`;
  } else if (row?.standby) {
    const { leader, index, lag } = row.standby;
    text = `This server follows: ${row.rm} is led by ${leader || "nobody at present"}. What you see is from record ${number(index)}, ${lag < 0.05 ? "up to date" : `${lag.toFixed(1)} s behind at most`}.`;
  } else if (row && row.rmState !== "Running" && !moment.is()) {
    const since = row.rmSince ? ` for ${age(row.rmSince, context.now())}` : "";
    text = `Resource manager ${row.rm} is ${row.rmState}${since}: nothing new is placed in this partition until it is back.`;
    if (row.rmWhy) text += ` (${row.rmWhy})`;
  } else if (overview) {
    const gone = overview.partitions.length ? `Partition ${where().partition} is not there` : "No resource manager is registered";
    const none = !row && VIEWS[where().view].always ? [`${gone}: what was stays readable here.`] : [];
    text = [...none, ...stopped()].join(" ");
  }
  const box = $("banner");
  if (box.textContent !== text) box.textContent = text;
  box.className = `banner ${kind}`;
  box.hidden = !text;
  const live = $("live");
  const standby = Boolean(context.row()?.standby);
  const word = lost ? (refused ? "Refused" : "Connection lost") : moment.is() ? "The past" : standby ? "Standby" : "Live";
  if (live.textContent !== word) live.textContent = word;
  live.className = `pill ${lost ? "bad" : moment.is() || standby ? "wait" : "good"}`;
  document.body.classList.toggle("stale", Boolean(lost));
}

function failed(error) {
  if (error?.name === "AbortError") return;
  if (error instanceof Unauthorized) ask(error.message);
  else if (!(error instanceof Refused)) {
    lost = error?.name === "TimeoutError" ? "no answer" : error?.message || "no answer";
    refused = false;
    banner();
  }
}

/** The other servers of the cluster: those that the policy of this page lets it reach. */
async function servers() {
  const policy = (await fetch(location.pathname + location.search, { cache: "force-cache" })).headers.get("content-security-policy") || "";
  return policy.match(/connect-src 'self'([^;]*)/)?.[1].trim().split(" ").filter(Boolean) || [];
}

/** Goes on at another server of the cluster, where this one has been away for a while. It has no token of this one's tab. */
async function elsewhere() {
  if (Date.now() - lastGood < AWAY) return;
  for (const url of others) {
    try {
      // Whether it is there is all that may be known.
      await fetch(`${url}/livez`, { mode: "no-cors", cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(AWAY) });
      location.replace(`${url}/${location.hash}`);
      return;
    } catch {
      // Perhaps the next.
    }
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
    // Escape closes it all the same where the browser has seen nothing pressed before: nothing else would ask again.
    dialog.onclose = () => asking && !dialog.open && dialog.showModal();
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
  const names = overview.partitions.map((row) => row.name).join("\n");
  // Partitions came or went: what is shown may not be there any more. Where it is, it stays as the reader left it.
  if (names !== partitions) {
    partitions = names;
    render();
  } else summary(context, $("summary"), where().params);
  await Promise.all([view?.refresh?.(), panel?.refresh?.()]);
}

async function run() {
  let wait = 500;
  for (let round = 0; ; round += 1) {
    const began = performance.now();
    try {
      await look();
      if (round % 5 === 0) await board.refresh();
      wait = 500;
      // A server or page that takes long is asked less often.
      await pause(Math.max(EVERY, 3 * (performance.now() - began)));
    } catch (error) {
      failed(error);
      if (asking) await asking;
      else if (error instanceof Refused || lost) {
        if (!lost) lost = error.message;
        refused = error instanceof Refused;
        banner();
        if (!(error instanceof Refused)) await elsewhere();
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

servers().then((urls) => (others = urls)).catch(failed);
// Each answer of a server that shows the past says so.
const moment = past($("past"), () => {
  view?.changed?.();
  wake();
});
hear((at) => moment.heard(at).catch(failed));
const board = server(context, $("health"), $("server"));
const find = search(context, $("search"), VIEWS);
window.addEventListener("popstate", () => {
  const row = panel?.row;
  head();
  render();
  // Where a panel was closed, the reader goes on at its row.
  if (row && !panel) view?.focus?.(row);
});
window.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && panel) closePanel();
  // A dialog that was just closed may have the focus for a moment still.
  const typing = document.activeElement.matches("input, select, textarea") && document.activeElement.checkVisibility();
  if (event.key === "/" && !typing) {
    event.preventDefault();
    find.open();
  }
});
$("find").addEventListener("click", () => find.open());
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
