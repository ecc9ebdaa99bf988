// The queue tree: what is used, guaranteed, at most allowed and pending.

import { get, named } from "./api.js";
import { bar, el, noun, number, order, plural, state } from "./format.js";
import { table } from "./table.js";

export function queues(context) {
  const closed = new Set();
  let tree = null;
  let types = [];
  let rows = null;
  let byPath = new Map();
  const search = el("input", { type: "search", placeholder: "queue", "aria-label": "Filter queues by name", spellcheck: false });
  const busy = el("input", { type: "checkbox", on: { change: () => context.set({ busy: busy.checked ? "yes" : "" }) } });
  const all = el("button", { type: "button", on: { click: () => fold(false) } }, "Open all");
  const none = el("button", { type: "button", on: { click: () => fold(true) } }, "Close all");
  const count = el("span", { class: "muted", role: "status" });
  const legend = el("span", { class: "legend", "aria-hidden": "true" }, el("i", { class: "key fill" }), "used", el("i", { class: "key wait" }), "pending", el("i", { class: "key tick" }), "guaranteed");
  const root = el("section", { class: "pane", "aria-label": "Queues" }, el("div", { class: "tools" }, search, el("label", {}, busy, " in use only"), all, none, legend, count));

  const level = (row) => row.queuename.split(".").length - 1;
  const expanded = (row) => (row.children?.length ? !closed.has(row.queuename) : undefined);

  function toggle(row) {
    if (!closed.delete(row.queuename)) closed.add(row.queuename);
    draw();
  }

  function fold(shut) {
    closed.clear();
    if (shut) walk(tree, (row) => row.children?.length && level(row) > 0 && closed.add(row.queuename));
    draw();
  }

  function walk(row, visit) {
    if (!row) return;
    visit(row);
    for (const child of row.children || []) walk(child, visit);
  }

  function columns() {
    return [
      { title: "Queue", class: "name tree", cell: name },
      ...types.map((type, at) => ({ title: noun(type), class: "bars", rank: at && 3 + at, cell: (row) => share(row, type) })),
      { title: "Running", class: "num", rank: 2, cell: running },
      { title: "State", rank: 1, cell: (row) => state(row.status || "Active") },
    ];
  }

  function name(row) {
    const open = expanded(row);
    const twist = el("span", { class: `twist${open === undefined ? " leaf" : ""}`, "aria-hidden": "true" }, open === undefined ? "" : open ? "▾" : "▸");
    const short = el("span", { class: "label", title: row.queuename }, row.queuename.split(".").pop());
    const box = el("span", { class: "indent" }, twist, short, !row.isManaged && el("span", { class: "tag" }, "dynamic"));
    box.style.paddingInlineStart = `${Math.min(level(row), 12) * 1.1}rem`;
    return box;
  }

  function running(row) {
    const full = row.maxRunningApps && row.runningApps >= row.maxRunningApps;
    return el("span", { class: full ? "bad-text" : "" }, `${number(row.runningApps)}${row.maxRunningApps ? ` / ${number(row.maxRunningApps)}` : ""}`);
  }

  function share(row, type) {
    const own = row.maxResource?.[type];
    const used = row.allocatedResource?.[type] || 0;
    const pending = row.pendingResource?.[type] || 0;
    const guaranteed = row.guaranteedResource?.[type];
    // Without a max of its own, the bar is against the whole cluster.
    return bar(type, { used, pending, guaranteed, limit: own ?? tree.maxResource?.[type], limited: own !== undefined });
  }

  function draw() {
    if (!tree) return;
    const text = search.value.trim().toLowerCase();
    const used = (row) => Object.values(row.allocatedResource || {}).some(Boolean) || Object.values(row.pendingResource || {}).some(Boolean);
    const shown = [];
    let total = 0;
    // A queue is shown for itself, and for what is shown below it.
    const collect = (row) => {
      total += 1;
      const at = shown.length;
      shown.push(row);
      let wanted = (!text || row.queuename.includes(text)) && (!busy.checked || used(row));
      const start = shown.length;
      for (const child of row.children || []) if (collect(child)) wanted = true;
      if (!text && closed.has(row.queuename)) shown.length = start;
      if (!wanted) shown.length = at;
      return wanted;
    };
    collect(tree);
    rows.set(shown);
    count.textContent = shown.length === total ? plural(total, "queue") : `${number(shown.length)} of ${plural(total, "queue")}`;
  }

  async function refresh() {
    tree = await get(`/ws/v1/partition/${named(context.partition())}/queues`);
    byPath = new Map();
    const found = new Set();
    walk(tree, (row) => {
      byPath.set(row.queuename, row);
      for (const kind of ["maxResource", "guaranteedResource", "allocatedResource", "pendingResource"]) Object.keys(row[kind] || {}).forEach((type) => found.add(type));
    });
    const next = order(found).slice(0, 3);
    if (!rows || next.join() !== types.join()) {
      types = next;
      rows?.el.remove();
      rows = table({ label: "Queues", key: (row) => row.queuename, open: (row) => context.open("queue", row.queuename), opened: (row) => context.opened("queue") === row.queuename, tree: { level, expanded, toggle }, columns: columns(), empty: "No queue matches." });
      root.append(rows.el);
    }
    draw();
  }

  function changed() {
    if (document.activeElement !== search) search.value = context.params().get("text") || "";
    busy.checked = context.params().get("busy") === "yes";
    draw();
  }

  search.addEventListener("input", () => context.set({ text: search.value }, { typing: true }));
  changed();
  return { el: root, refresh, changed, focus: (id) => rows?.focus((row) => row.queuename === id) };
}
