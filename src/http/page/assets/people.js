// Users and groups: what they use in which queue, and their limits there.

import { get, named } from "./api.js";
import { bar, el, noun, number, order, plural } from "./format.js";
import { table } from "./table.js";

export function people(context) {
  let all = [];
  let types = [];
  let rows = null;
  const search = el("input", { type: "search", placeholder: "name or queue", "aria-label": "Filter users and groups", spellcheck: false });
  const which = el("select", { "aria-label": "Users or groups" }, [["", "Users and groups"], ["user", "Users"], ["group", "Groups"]].map(([value, text]) => el("option", { value }, text)));
  const limited = el("input", { type: "checkbox", on: { change: () => context.set({ limited: limited.checked ? "yes" : "" }) } });
  const count = el("span", { class: "muted", role: "status" });
  const root = el("section", { class: "pane", "aria-label": "Users and groups" }, el("div", { class: "tools" }, which, search, el("label", {}, limited, " with a limit only"), count));

  function flatten(kind, name, usage, found) {
    const runs = usage.runningApplications?.length || 0;
    const has = runs || Object.keys(usage.resourceUsage || {}).length || usage.maxApplications || Object.keys(usage.maxResources || {}).length;
    if (has) found.push({ kind, name, queue: usage.queuePath, used: usage.resourceUsage || {}, max: usage.maxResources || {}, runs, most: usage.maxApplications || 0 });
    for (const child of usage.children || []) flatten(kind, name, child, found);
  }

  function columns() {
    return [
      { title: "Name", class: "name", cell: (row) => el("span", {}, row.name, row.kind === "group" && el("span", { class: "tag" }, "group")), sort: (row) => row.name },
      { title: "Queue", class: "word", cell: (row) => row.queue, sort: (row) => row.queue },
      ...types.map((type, at) => ({ title: noun(type), class: "bars", rank: at && 3 + at, cell: (row) => share(row, type), sort: (row) => row.used[type] || 0 })),
      { title: "Running", class: "num", rank: 2, cell: (row) => el("span", { class: row.most && row.runs >= row.most ? "bad-text" : "" }, `${number(row.runs)}${row.most ? ` / ${number(row.most)}` : ""}`), sort: (row) => row.runs },
      { title: "Over time", rank: 1, cell: (row) => el("a", { href: context.address("trends", { of: row.kind, name: row.name, queue: row.queue }), tabIndex: -1, "aria-label": `Chart of ${row.kind} ${row.name} in ${row.queue}` }, "chart") },
    ];
  }

  function share(row, type) {
    const own = row.max[type];
    return bar(type, { used: row.used[type] || 0, limit: own ?? context.row()?.capacity[type], limited: own !== undefined });
  }

  function draw() {
    if (!rows) return;
    const text = search.value.trim().toLowerCase();
    const shown = all.filter((row) => (!which.value || row.kind === which.value) && (!limited.checked || row.most || Object.keys(row.max).length) && (!text || `${row.name} ${row.queue}`.toLowerCase().includes(text)));
    rows.set(shown);
    const names = new Set(shown.map((row) => `${row.kind} ${row.name}`)).size;
    count.textContent = `${plural(names, "name")} in ${plural(shown.length, "row")}`;
  }

  async function refresh() {
    const base = `/ws/v1/partition/${named(context.partition())}/usage`;
    const [users, groups] = await Promise.all([get(`${base}/users`), get(`${base}/groups`)]);
    const found = [];
    for (const user of users) flatten("user", user.userName, user.queues, found);
    for (const group of groups) flatten("group", group.groupName, group.queues, found);
    all = found;
    const seen = new Set();
    for (const row of all) [row.used, row.max].forEach((amounts) => Object.keys(amounts).forEach((type) => seen.add(type)));
    const next = order(seen).slice(0, 3);
    if (!rows || next.join() !== types.join()) {
      types = next;
      rows?.el.remove();
      rows = table({
        label: "Users and groups",
        key: (row) => `${row.kind}/${row.name}/${row.queue}`,
        empty: "Nobody uses anything, and nobody has a limit.",
        sorting: context.sorting,
        open: (row) => { location.hash = row.kind === "user" ? context.address("applications", { user: row.name, queue: row.queue }) : context.address("applications", { queue: row.queue }); },
        columns: columns(),
      });
      root.append(rows.el);
    }
    draw();
  }

  function changed() {
    const params = context.params();
    if (document.activeElement !== search) search.value = params.get("text") || "";
    which.value = params.get("which") || "";
    limited.checked = params.get("limited") === "yes";
    draw();
  }

  search.addEventListener("input", () => context.set({ text: search.value }, { typing: true }));
  which.addEventListener("change", () => context.set({ which: which.value }));
  changed();
  return { el: root, refresh, changed };
}
