// The panel beside a view: one application explained, one queue, one node.

import { Refused, get, segment } from "./api.js";
import { age, amount, amounts, bar, clock, el, noun, number, order, plural, state } from "./format.js";

/** `kind`: `app`, `queue` or `node`. */
export function detail(context, kind, id, close) {
  const body = el("div", { class: "body" });
  const title = el("h2", { class: "name" }, id);
  const root = el(
    "div",
    { class: "panel" },
    el("header", {}, el("span", { class: "kind" }, { app: "Application", queue: "Queue", node: "Node" }[kind] || ""), title, el("button", { type: "button", class: "quiet close", "aria-label": "Close details", on: { click: close } }, "✕")),
    body,
  );
  const base = `/partition/${segment(context.partition())}`;
  const paths = {
    app: `/api/v1${base}/application/${segment(id)}/explain`,
    // A name that is decoded twice by the server is encoded twice.
    queue: `/ws/v1${base}/queue/${segment(segment(id))}`,
    node: `/ws/v1${base}/node/${segment(id)}`,
  };
  const parts = { app: application, queue, node };
  let last = "";

  async function refresh() {
    if (!parts[kind]) return;
    try {
      const answer = await get(paths[kind]);
      if (kind === "queue") answer.door = await get(`/api/v1${base}/queue/${segment(id)}`);
      const text = JSON.stringify(answer);
      // The text is new where anything is; ages are told anew every time.
      if (text === last && kind !== "app") return;
      last = text;
      const top = body.scrollTop;
      const focused = [...body.querySelectorAll("a, summary")].indexOf(document.activeElement);
      const opened = new Set([...body.querySelectorAll("details[open]")].map((node) => node.dataset.id));
      body.replaceChildren(...parts[kind](context, answer).filter(Boolean));
      body.querySelectorAll("details").forEach((node) => { node.open = opened.has(node.dataset.id); });
      body.scrollTop = top;
      if (focused >= 0) [...body.querySelectorAll("a, summary")][focused]?.focus();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      body.replaceChildren(el("p", { class: "muted" }, error.status === 404 ? "It is not there any more." : error.message));
    }
  }
  return { el: root, refresh };
}

const fact = (name, ...value) => [el("dt", {}, name), el("dd", {}, ...value)];

function application(context, app) {
  const link = (queue) => el("a", { href: context.address("queues", { open: `queue:${queue}` }) }, queue);
  const waits = app.waiting.map((group, at) => el(
    "section",
    { class: `reason ${group.reason.code}` },
    el("h3", {}, el("i", { class: `dot ${group.reason.code}`, "aria-hidden": "true" }), `${plural(group.asks, group.placeholder ? "placeholder" : "ask")} of ${amounts(group.resource)}`),
    el("p", { class: "because" }, group.reason.text),
    shortage(group.reason),
    nodeCounts(group.reason.nodes),
    el("p", { class: "muted" }, [
      `waiting for ${age(group.since, context.now())}`,
      `first: ${group.first}`,
      group.taskGroup ? `task group ${group.taskGroup}` : "",
      group.priority ? `priority ${group.priority}` : "",
    ].filter(Boolean).join(" · ")),
    group.reason.queue && el("p", {}, "Queue ", link(group.reason.queue)),
    group.reason.node && el("p", {}, "Node ", el("a", { href: context.address("nodes", { open: `node:${group.reason.node}` }) }, group.reason.node)),
    group.log.length > 0 && el("details", { "data-id": `log-${at}` }, el("summary", {}, "What the scheduler noted"), el("ul", {}, group.log.map((entry) => el("li", {}, `${entry.message} `, el("span", { class: "muted" }, `${number(entry.count)}×, last ${clock(entry.last)}`))))),
  ));
  return [
    el("p", { class: "line" }, state(app.state), " ", el("span", { class: "muted" }, `submitted ${age(app.submitted, context.now())} ago by ${app.user || "nobody"}`)),
    app.message && el("p", { class: "bad-text" }, app.message),
    waits.length ? el("h3", { class: "part" }, "Why it waits") : el("p", { class: "muted" }, "No ask of it waits."),
    ...waits,
    app.taskGroups.length > 0 && el("h3", { class: "part" }, "Gang"),
    app.taskGroups.length > 0 && gang(app.taskGroups),
    app.queues.length > 0 && el("h3", { class: "part" }, "Limits on its way up"),
    ...app.queues.map((level) => levelOf(level, link, context.row()?.capacity)),
    app.userAvailable && el("p", {}, `User and groups may still use ${amounts(app.userAvailable)}.`),
    el("h3", { class: "part" }, "Has"),
    el("dl", {}, fact("Allocations", number(app.allocations)), fact("Uses", amounts(app.used, 9)), fact("Pending", amounts(app.pending, 9)), fact("Queue", app.queueName ? link(app.queueName) : "–"), fact("Groups", app.groups.join(", ") || "–")),
    Object.keys(app.tags).length > 0 && el("h3", { class: "part" }, "Tags"),
    Object.keys(app.tags).length > 0 && el("dl", {}, Object.entries(app.tags).map(([key, value]) => fact(key, value))),
    el("h3", { class: "part" }, "History"),
    el("ol", { class: "history" }, app.stateLog.map((entry) => el("li", {}, el("time", {}, clock(entry.at)), " ", state(entry.state)))),
  ];
}

function shortage(reason) {
  if (!reason.short?.length) return null;
  return el("ul", { class: "short" }, reason.short.map((row) => row.limit === undefined
    ? el("li", { class: "plain" }, `${noun(row.resource)}: ${amount(row.resource, row.wanted)} wanted, ${amount(row.resource, row.available)} ${reason.code === "tooLarge" ? "on the largest node" : "free at most"}`)
    : el("li", {}, el("span", {}, noun(row.resource)), bar(row.resource, { used: row.used, pending: row.wanted, limit: row.limit }))));
}

function nodeCounts(counts) {
  if (!counts) return null;
  const names = { full: "without room", tooSmall: "too small", drained: "drained", reserved: "reserved for others", refused: "refused", open: "open" };
  const rows = Object.entries(names).filter(([key]) => counts[key] > 0);
  return el("p", { class: "counts" }, rows.map(([key, text]) => el("span", { class: `chip plain ${key}` }, el("b", {}, number(counts[key])), ` ${text}`)));
}

function gang(groups) {
  return el("table", { class: "small numbers" }, el("thead", {}, el("tr", {}, ["Task group", "Placeholders", "Held", "Replaced", "Timed out"].map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, groups.map((group) => el("tr", {}, el("th", { scope: "row" }, group.name), [group.placeholders, group.live, group.replaced, group.timedOut].map((value) => el("td", { class: "num" }, number(value)))))));
}

function levelOf(level, link, whole) {
  const types = order(Object.keys({ ...level.max, ...level.guaranteed, ...level.used })).slice(0, 5);
  const apps = level.maxRunning ? el("p", { class: level.running >= level.maxRunning ? "bad-text" : "muted" }, `runs ${number(level.running)} of ${number(level.maxRunning)} applications`) : null;
  return el("div", { class: "level" }, el("p", {}, link(level.queue)), apps, types.map((type) => el("div", { class: "meter" }, el("span", {}, noun(type)), bar(type, { used: level.used[type] || 0, guaranteed: level.guaranteed?.[type], limit: level.max?.[type] ?? whole?.[type], limited: level.max?.[type] !== undefined }))));
}

function queue(context, row) {
  const types = order(Object.keys({ ...row.maxResource, ...row.guaranteedResource, ...row.allocatedResource, ...row.pendingResource }));
  const properties = Object.entries(row.properties || {});
  const { order: told, refusals } = row.door;
  return [
    el("p", { class: "line" }, state(row.status || "Active"), " ", el("span", { class: "muted" }, `${row.isLeaf ? "leaf" : "parent"}, ${row.isManaged ? "configured" : "dynamic"}`)),
    told && el("p", { class: "bad-text" }, `${told.queue} was ${told.order === "stop" ? "stopped" : "drained"} by ${told.by} at ${clock(told.since)}: ${told.reason || "no reason was given"}`),
    ...types.map((type) => el("div", { class: "meter" }, el("span", {}, noun(type)), bar(type, { used: row.allocatedResource?.[type] || 0, pending: row.pendingResource?.[type] || 0, guaranteed: row.guaranteedResource?.[type], limit: row.maxResource?.[type] ?? context.row()?.capacity[type], limited: row.maxResource?.[type] !== undefined }))),
    el("dl", {},
      fact("Running applications", `${number(row.runningApps)}${row.maxRunningApps ? ` of at most ${number(row.maxRunningApps)}` : ""}`),
      fact("Headroom", amounts(row.headroom, 9)),
      fact("Being preempted", amounts(row.preemptingResource, 9)),
      fact("Order of applications", row.sortingPolicy || "–"),
      fact("Preemption", row.preemptionEnabled ? (row.isPreemptionFence ? "fenced" : `after ${row.preemptionDelay}`) : "disabled")),
    el("p", {}, el("a", { href: context.address("applications", { queue: row.queuename }) }, "Applications of this queue")),
    refusals.length > 0 && el("h3", { class: "part" }, `Refused ${plural(row.door.refused, "application")}`),
    refusals.length > 0 && el("details", { "data-id": "refusals" }, el("summary", {}, refusals.length === row.door.refused ? "Whom, and why" : `The last ${number(refusals.length)}, and why`), el("ul", {}, refusals.map((entry) => el("li", {}, el("time", {}, clock(entry.time)), ` ${entry.applicationID}: ${entry.reason}`)))),
    properties.length > 0 && el("h3", { class: "part" }, "Properties"),
    properties.length > 0 && el("dl", {}, properties.flatMap(([name, value]) => fact(name, value))),
  ];
}

function node(context, row) {
  const types = order(Object.keys(row.capacity || {}));
  const allocations = (row.allocations || []).slice(0, 200);
  const foreign = row.foreignAllocations || [];
  return [
    el("p", { class: "line" }, row.schedulable ? el("span", { class: "state running" }, "takes allocations") : el("span", { class: "state drained" }, "drained"), row.isReserved && el("span", { class: "state accepted" }, "reserved")),
    ...types.map((type) => el("div", { class: "meter" }, el("span", {}, noun(type)), bar(type, { used: (row.allocated?.[type] || 0) + (row.occupied?.[type] || 0), limit: row.capacity[type] }))),
    el("dl", {}, fact("Host", row.hostName || "–"), fact("Rack", row.rackName || "–"), fact("Free", amounts(row.available, 9)), fact("Used by others", amounts(row.occupied, 9)), fact("Reserved for", (row.reservations || []).join(", ") || "–")),
    el("h3", { class: "part" }, plural((row.allocations || []).length, "allocation")),
    allocations.length > 0 && el("table", { class: "small" }, el("thead", {}, el("tr", {}, ["Application", "Allocation", "Size"].map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, allocations.map((allocation) => el("tr", {}, el("td", {}, el("a", { href: context.address("applications", { open: `app:${allocation.applicationId}` }) }, allocation.applicationId)), el("td", {}, allocation.allocationKey), el("td", {}, amounts(allocation.resource, 2)))))),
    (row.allocations || []).length > allocations.length && el("p", { class: "muted" }, `the first ${allocations.length} are shown`),
    foreign.length > 0 && el("p", { class: "muted" }, `${plural(foreign.length, "allocation")} of other schedulers`),
  ];
}
