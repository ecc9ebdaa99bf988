// The panel beside a view: one application explained, one queue, one node.

import { Refused, get, named, segment } from "./api.js";
import { act, operations } from "./actions.js";
import { age, amounts, bar, clock, el, figures, noun, number, order, plural, state } from "./format.js";
import { fill } from "./patch.js";

/** Rows of a list of allocations. */
const LISTED = 200;

/** Milliseconds. */
const ADVISE_EVERY = 15_000;

/** `kind`: `app`, `queue` or `node`. */
export function detail(context, kind, id, close) {
  const body = el("div", { class: "body" });
  const kinds = { app: "Application", queue: "Queue", node: "Node" };
  const known = Object.hasOwn(kinds, kind);
  const title = el("h2", { class: "name" }, id);
  const root = el(
    "div",
    { class: "panel" },
    el("header", {}, el("span", { class: "kind" }, known && kinds[kind]), title, el("button", { type: "button", class: "quiet close", "aria-label": "Close details", on: { click: close } }, "✕")),
    body,
  );
  const base = `/partition/${segment(context.partition())}`;
  const ws = `/ws/v1/partition/${named(context.partition())}`;
  const missing = (error) => {
    if (error instanceof Refused) return null;
    throw error;
  };
  // What each kind is made of; the first has to be there.
  const reads = {
    app: () => [explained(), get(`${ws}/application/${named(id)}`).catch(missing)],
    // The server decodes the path of a queue twice.
    queue: () => [get(`${ws}/queue/${segment(segment(id))}`), get(`/api/v1${base}/queue/${segment(id)}`)],
    node: () => [get(`${ws}/node/${named(id)}`), get(`/api/v1${base}/nodes?node=${segment(id)}`)],
  };
  const parts = { app: application, queue, node };
  // What would help takes the server a moment to find out: it is asked for that less often than for the rest.
  let advised = -Infinity;
  const advice = new Map();
  let past;
  let shown;

  async function explained() {
    const path = `/api/v1${base}/application/${segment(id)}/explain`;
    const fresh = shown !== context.moment() || performance.now() - advised >= ADVISE_EVERY;
    const answer = await get(fresh ? `${path}?timeline=true` : `${path}?remedies=false`);
    const name = (group) => `${group.first} ${group.reason.code}`;
    if (fresh) {
      advised = performance.now();
      shown = context.moment();
      advice.clear();
      answer.waiting.forEach((group) => advice.set(name(group), group));
      past = answer.timeline;
    }
    answer.timeline ??= past;
    answer.waiting.forEach((group) => { group.advice ??= advice.get(name(group))?.advice; group.when ??= advice.get(name(group))?.when; });
    return answer;
  }

  async function refresh() {
    if (!known) return;
    if (id === "." || id === "..") {
      fill(body, [el("p", { class: "muted" }, `A browser cannot ask for what is called "${id}": in an address this means something else.`), links(context, kind, id)]);
      return;
    }
    try {
      const answers = await Promise.all(reads[kind]());
      fill(body, parts[kind](context, ...answers).flat());
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      fill(body, [el("p", { class: "muted" }, error.status === 404 ? "It is not there any more." : error.message), kind === "app" && links(context, "app", id)]);
    }
  }
  act(context, body, refresh);
  return { el: root, refresh };
}

/** Where else something can be looked at. */
function links(context, kind, id, ...more) {
  const to = (text, view, params) => el("a", { href: context.address(view, params) }, text);
  return el("p", { class: "links" }, ...more, kind !== "app" && to("Over time", "trends", { of: kind, name: id }), to("Timeline", "events", { object: id }));
}

const fact = (name, ...value) => [el("dt", {}, name), el("dd", {}, ...value)];

function application(context, app, whole) {
  const link = (queue) => el("a", { href: context.address("queues", { open: `queue:${queue}` }) }, queue);
  const waits = app.waiting.map((group, at) => el(
    "section",
    { class: `reason ${group.reason.code}` },
    el("h3", {}, el("i", { class: `dot ${group.reason.code}`, "aria-hidden": "true" }), `${plural(group.asks, group.placeholder ? "placeholder" : "ask")} of ${amounts(group.resource)}`),
    el("p", { class: "because" }, group.reason.text),
    shortage(group.reason),
    nodeCounts(context, group.reason.nodes),
    el("p", { class: "muted" }, [
      `waiting for ${age(group.since, context.now())}`,
      `first: ${group.first}`,
      group.taskGroup ? `task group ${group.taskGroup}` : "",
      group.priority ? `priority ${group.priority}` : "",
    ].filter(Boolean).join(" · ")),
    inLine(group.line, link),
    heldBy(context, group.heldBy, link),
    group.when && el("p", { class: "when" }, el("b", {}, "When: "), group.when.text),
    helps(group.advice),
    group.reason.queue && el("p", {}, "Queue ", link(group.reason.queue)),
    group.reason.node && el("p", {}, "Node ", el("a", { href: context.address("nodes", { open: `node:${group.reason.node}` }) }, group.reason.node)),
    group.log.length > 0 && el("details", { "data-id": `log-${at}` }, el("summary", {}, "What the scheduler noted"), el("ul", {}, group.log.map((entry) => el("li", {}, `${entry.message} `, el("span", { class: "muted" }, `${number(entry.count)}×, last ${clock(entry.last)}`))))),
  ));
  if (app.more) waits.push(el("p", { class: "muted" }, `${plural(app.more.asks, "more ask")} in ${plural(app.more.groups, "group")}: callboard why ${app.applicationID} ASK explains one.`));
  return [
    el("p", { class: "line" }, state(app.state), " ", el("span", { class: "muted" }, `submitted ${age(app.submitted, context.now())} ago by ${app.user || "nobody"}`)),
    links(context, "app", app.applicationID, el("a", { href: context.address("applications", { user: app.user }) }, `All of ${app.user || "nobody"}`)),
    app.message && el("p", { class: "bad-text" }, app.message),
    helps(app.advice),
    app.queues[0]?.order && el("p", { class: "bad-text" }, `${app.queues[0].order}. No new application is taken; what this one has and asks for goes on.`),
    waits.length ? el("h3", { class: "part" }, "Why it waits") : el("p", { class: "muted" }, "No ask of it waits."),
    ...waits,
    allocations(context, whole),
    app.taskGroups.length > 0 && el("h3", { class: "part" }, "Gang"),
    app.taskGroups.length > 0 && gang(app.taskGroups),
    app.queues.length > 0 && el("h3", { class: "part" }, "Limits on its way up"),
    ...app.queues.map((level) => levelOf(level, link, context.row()?.capacity)),
    app.userAvailable && el("p", {}, `User and groups may still use ${amounts(app.userAvailable)}.`),
    el("h3", { class: "part" }, "Has"),
    el("dl", {}, fact("Allocations", number(app.allocations)), fact("Uses", amounts(app.used, 9)), fact("Pending", amounts(app.pending, 9)), fact("Queue", app.queueName ? link(app.queueName) : "–"), fact("Groups", app.groups.join(", ") || "–")),
    Object.keys(app.tags).length > 0 && el("h3", { class: "part" }, "Tags"),
    Object.keys(app.tags).length > 0 && el("dl", {}, Object.entries(app.tags).map(([key, value]) => fact(key, value))),
    app.timeline?.rows.length > 0 && el("h3", { class: "part" }, "So far"),
    app.timeline?.rows.length > 0 && el("ol", { class: "history" }, [...app.timeline.rows].reverse().map((row) => el("li", {}, el("time", {}, clock(row.at)), ` ${row.of} ${row.of === "application" ? "" : `${row.name} `}${row.text}`, row.count > 1 && el("span", { class: "muted" }, ` ${number(row.count)}×`)))),
    el("h3", { class: "part" }, "History"),
    el("ol", { class: "history" }, app.stateLog.map((entry) => el("li", {}, el("time", {}, clock(entry.at)), " ", state(entry.state)))),
  ];
}

/** What an application has, and where. */
function allocations(context, whole) {
  const all = whole?.allocations || [];
  if (!all.length) return null;
  const rows = all.slice(0, LISTED).map((one) => el("tr", {}, el("td", {}, one.allocationKey), el("td", {}, el("a", { href: context.address("nodes", { open: `node:${one.nodeId}` }) }, one.nodeId)), el("td", { class: "figures" }, amounts(one.resource, 4))));
  return [el("h3", { class: "part" }, plural(all.length, "allocation")), el("table", { class: "small" }, headings("Allocation", "Node", "Size"), el("tbody", {}, rows)), all.length > LISTED && el("p", { class: "muted" }, `the first ${LISTED} are shown`)];
}

const headings = (...titles) => el("thead", {}, el("tr", {}, titles.map((text) => el("th", { scope: "col" }, text))));

/** Where the first of them stands: in its application, its queue, and so on up. */
function inLine(line, link) {
  if (!line?.length) return null;
  const names = { asks: ["ask of its own", "asks of its own"], applications: ["application in", "applications in"], queues: ["queue below", "queues below"] };
  const places = line.map((place, at) => [at ? "; " : "In line: ", el("b", {}, number(place.place)), ` of ${number(place.of)} `, el("span", { title: `by ${place.by}` }, names[place.what][place.of === 1 ? 0 : 1]), place.queue ? [" ", link(place.queue)] : ""]);
  return el("p", { class: "muted line-up" }, ...places.flat(2));
}

/** Who has the largest parts of what is short. */
function heldBy(context, holders, link) {
  if (!holders) return null;
  const told = (...amounts) => figures(holders.resource, [...amounts, ...[...holders.applications, ...holders.users, ...holders.queues].map((one) => one.amount), holders.total]);
  const part = (holder) => holders.resource ? ` ${told(holder.amount)[0]}` : holder.amount > 1 ? ` ${number(holder.amount)}` : "";
  const list = (rows, make) => rows.flatMap((row, at) => [at ? ", " : "", make(row.name), part(row)]);
  const what = holders.resource ? `${told(holders.total)[0]} ${noun(holders.resource, holders.total)}` : plural(holders.total, "running application");
  return el("p", { class: "held" },
    `Held: ${what} of `,
    ...list(holders.applications, (id) => el("a", { href: context.address("applications", { open: `app:${id}` }) }, id)),
    "; users ", ...list(holders.users, (user) => user || "nobody"),
    "; queues ", ...list(holders.queues, link),
    holders.foreign ? `; other schedulers ${told(holders.foreign)[0]}` : "", ".");
}

/** Changes that were tried on a copy and place the asks, the smallest first. */
function helps(advice) {
  if (!advice) return null;
  if (advice.none) return el("p", { class: "help" }, el("b", {}, "What would help: "), advice.none);
  const who = { resourceManager: "resource manager", nobody: "" };
  const one = (remedy) => el("li", {},
    remedy.text, " ",
    el("span", { class: "muted" }, [
      who[remedy.who] ?? remedy.who,
      remedy.placedBefore ? `${plural(remedy.placedBefore, "ask")} of others before it` : "",
      // How long it is waited for is in the sentence.
      remedy.preempted && remedy.kind !== "wait" ? `${plural(remedy.preempted, "allocation")} preempted${remedy.afterSeconds > 0 ? ` after ${number(Math.ceil(remedy.afterSeconds))} s` : ""}` : "",
      remedy.plan && remedy.plan.applications + remedy.plan.exceeded ? `plan: ${plural(remedy.plan.applications, "application")}, ${plural(remedy.plan.exceeded, "quota")} suffer` : "",
    ].filter(Boolean).join(" · ")),
    remedy.copy && el("pre", { class: "copy" }, remedy.copy));
  return el("div", { class: "help" }, el("b", {}, "What would help"), el("ol", {}, advice.remedies.map(one)));
}

function shortage(reason) {
  if (!reason.short?.length) return null;
  const free = (row) => {
    const [wanted, available] = figures(row.resource, [row.wanted, row.available]);
    return `${noun(row.resource)}: ${wanted} wanted, ${available} ${reason.code === "tooLarge" ? "on the largest node" : "free at most"}`;
  };
  // The shortage shows in the figures.
  const holds = (used, limit, wanted) => used + wanted > limit;
  return el("ul", { class: "short" }, reason.short.map((row) => el("li", {}, row.limit === undefined
    ? free(row)
    : bar(row.resource, { used: row.used + (row.promised || 0) + (row.kept || 0), pending: row.wanted, limit: row.limit, label: true, holds }))));
}

function nodeCounts(context, counts) {
  if (!counts) return null;
  const names = { full: "without room", tooSmall: "too small", drained: "drained", reserved: "reserved for others", refused: "refused", open: "open" };
  // Those by which nodes can be picked out.
  const only = { drained: "drained", reserved: "reserved" };
  const rows = Object.entries(names).filter(([key]) => counts[key] > 0);
  return el("p", { class: "counts" }, rows.map(([key, text]) => el(only[key] ? "a" : "span", { class: `chip plain ${key}`, href: only[key] && context.address("nodes", { only: only[key] }) }, el("b", {}, number(counts[key])), ` ${text}`)));
}

function gang(groups) {
  return el("table", { class: "small numbers" }, el("thead", {}, el("tr", {}, ["Task group", "Placeholders", "Placed", "Waiting", "Replaced", "Timed out"].map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, groups.map((group) => el("tr", {}, el("th", { scope: "row" }, group.name), [group.placeholders, group.placed, group.live - group.placed, group.replaced, group.timedOut].map((value) => el("td", { class: "num" }, number(value)))))));
}

function levelOf(level, link, whole) {
  const types = order(Object.keys({ ...level.max, ...level.guaranteed, ...level.used })).slice(0, 5);
  const apps = level.maxRunning ? el("p", { class: level.running >= level.maxRunning ? "bad-text" : "muted" }, `runs ${number(level.running)} of ${plural(level.maxRunning, "application")}`) : null;
  return el("div", { class: "level" }, el("p", {}, link(level.queue)), apps, types.map((type) => bar(type, { used: level.used[type] || 0, guaranteed: level.guaranteed?.[type], limit: level.max?.[type] ?? whole?.[type], limited: level.max?.[type] !== undefined, label: true })));
}

function queue(context, row, door) {
  const types = order(Object.keys({ ...row.maxResource, ...row.guaranteedResource, ...row.allocatedResource, ...row.pendingResource }));
  const properties = Object.entries(row.properties || {});
  const { order: told, refusals, refused } = door;
  return [
    el("p", { class: "line" }, state(row.status || "Active"), " ", el("span", { class: "muted" }, `${row.isLeaf ? "leaf" : "parent"}, ${row.isManaged ? "configured" : "dynamic"}`)),
    told && el("p", { class: "bad-text" }, `${told.queue} was ${told.order === "stop" ? "stopped" : "drained"} by ${told.by} at ${clock(told.since)}: ${told.reason || "no reason was given"}`),
    links(context, "queue", row.queuename, el("a", { href: context.address("applications", { queue: row.queuename }) }, "Applications of this queue")),
    operations(context, "queue", { path: row.queuename, told }),
    ...types.map((type) => bar(type, { used: row.allocatedResource?.[type] || 0, pending: row.pendingResource?.[type] || 0, guaranteed: row.guaranteedResource?.[type], limit: row.maxResource?.[type] ?? context.row()?.capacity[type], limited: row.maxResource?.[type] !== undefined, label: true })),
    el("dl", {},
      fact("Running applications", `${number(row.runningApps)}${row.maxRunningApps ? ` of at most ${number(row.maxRunningApps)}` : ""}`),
      fact("Headroom", amounts(row.headroom, 9)),
      fact("Being preempted", amounts(row.preemptingResource, 9)),
      fact("Order of applications", row.sortingPolicy || "–"),
      fact("Preemption", row.preemptionEnabled ? (row.isPreemptionFence ? "fenced" : `after ${row.preemptionDelay}`) : "disabled")),
    refusals.length > 0 && el("h3", { class: "part" }, `Refused ${plural(refused, "application")}`),
    refusals.length > 0 && el("details", { "data-id": "refusals" }, el("summary", {}, refusals.length === refused ? "Whom, and why" : `The last ${number(refusals.length)}, and why`), el("ul", {}, refusals.map((entry) => el("li", {}, el("time", {}, clock(entry.time)), ` ${entry.applicationID}: ${entry.reason}`)))),
    properties.length > 0 && el("h3", { class: "part" }, "Properties"),
    properties.length > 0 && el("dl", {}, properties.flatMap(([name, value]) => fact(name, value))),
  ];
}

/** A host as a target: what reads as ranks is taken for them, unless a comma ends it. */
const hosts = (name) => (/^\d+(-\d+)?$/.test(name) ? `${name},` : name);

function node(context, row, short) {
  const types = order(Object.keys(row.capacity || {}));
  const all = row.allocations || [];
  const foreign = row.foreignAllocations || [];
  const one = short?.nodes[0] || {};
  const rows = all.slice(0, LISTED).map((allocation) => el("tr", {}, el("td", {}, el("a", { href: context.address("applications", { open: `app:${allocation.applicationId}` }) }, allocation.applicationId)), el("td", {}, allocation.allocationKey), el("td", { class: "figures" }, amounts(allocation.resource, 4))));
  return [
    el("p", { class: "line" }, row.schedulable ? el("span", { class: "state running" }, "takes allocations") : el("span", { class: "state drained" }, "drained"), row.isReserved && el("span", { class: "state accepted" }, "reserved"), one.torpid && el("span", { class: "state drained" }, "torpid")),
    one.drained && el("p", { class: "because" }, `Drained ${one.drained}${one.drainedSince ? `, for ${age(one.drainedSince, context.now())}` : ""}.`),
    links(context, "node", row.nodeID),
    context.row()?.standby ? el("p", { class: "muted" }, `Nodes are drained and undrained at the server that leads: ${context.row().standby.leader || "there is none at present"}.`) : one.host && operations(context, "node", { targets: String(one.rank), name: hosts(one.host), drained: !row.schedulable, own: one.drained?.startsWith("by an operator") }),
    ...types.map((type) => bar(type, { used: (row.allocated?.[type] || 0) + (row.occupied?.[type] || 0), limit: row.capacity[type], label: true })),
    el("dl", {}, fact("Host", row.hostName || "–"), fact("Rack", row.rackName || "–"), fact("Free", amounts(row.available, 9)), fact("Used by others", amounts(row.occupied, 9)), fact("Reserved for", (row.reservations || []).join(", ") || "–")),
    el("h3", { class: "part" }, plural(all.length, "allocation")),
    all.length > 0 && el("table", { class: "small" }, headings("Application", "Allocation", "Size"), el("tbody", {}, rows)),
    all.length > LISTED && el("p", { class: "muted" }, `the first ${LISTED} are shown`),
    foreign.length > 0 && el("p", { class: "muted" }, `${plural(foreign.length, "allocation")} of other schedulers`),
  ];
}
