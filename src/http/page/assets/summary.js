// The strip below the header: what waits and why, how full the partition is, its nodes and applications.

import { bar, el, number, order, plural } from "./format.js";
import { fill } from "./patch.js";

export function summary(context, box, params) {
  const row = context.row();
  box.hidden = !row;
  document.getElementById("tabs").hidden = !context.overview();
  if (!row) return;
  const { waiting, nodes, used, pending, capacity } = row;
  // A second click takes the filter away again.
  const chip = (view, name, value, count, title) => {
    const on = params.get(name) === value;
    return el("a", { class: `chip ${value}`, "aria-current": on ? "true" : null, href: context.address(view, { [name]: on ? "" : value }) }, el("b", {}, number(count)), ` ${title}`);
  };
  const card = (kind, title, word, ...rest) => el("div", { class: `card ${kind}` }, el("h2", {}, title), el("p", {}, word), ...rest);
  const chips = (list) => el("div", { class: "chips" }, list);
  const flags = ["drained", "torpid", "offline", "reserved"].filter((flag) => nodes[flag] > 0);
  const types = order(Object.keys(capacity)).slice(0, 4);
  const states = Object.entries(row.applications);
  const live = states.reduce((sum, [, count]) => sum + count, 0);
  fill(box, [
    card("why", waiting.asks ? plural(waiting.asks, "ask waits", "asks wait") : "Nothing waits", waiting.asks ? `in ${plural(waiting.applications, "application")}, because:` : "Every ask has its place.",
      chips(waiting.reasons.map((entry) => chip("applications", "reason", entry.code, entry.asks, entry.title)))),
    card("full", "Capacity", types.length ? "" : "No node is registered.",
      el("div", { class: "meters" }, types.map((type) => bar(type, { used: used[type] || 0, pending: pending[type] || 0, limit: capacity[type], label: true })))),
    card("count", plural(nodes.total, "node"), flags.length ? "" : "all take allocations",
      chips(flags.map((flag) => chip("nodes", "only", flag, nodes[flag], flag)))),
    card("count", plural(live, "application"), plural(row.allocations, "allocation"),
      chips(states.map(([name, count]) => chip("applications", "state", name, count, name.toLowerCase())))),
  ]);
}
