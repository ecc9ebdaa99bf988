// Applications: those that wait first, and why.

import { get, segment } from "./api.js";
import { age, amounts, el, number, plural, state } from "./format.js";
import { table } from "./table.js";

export function applications(context) {
  const search = el("input", { type: "search", placeholder: "id, queue or user", "aria-label": "Filter applications by id, queue or user", spellcheck: false });
  const list = el(
    "select",
    { "aria-label": "Which applications" },
    [["active", "Live"], ["waiting", "Waiting only"], ["completed", "Ended"], ["rejected", "Rejected"]].map(([value, text]) => el("option", { value }, text)),
  );
  const filter = el("div", { class: "filters" });
  const count = el("span", { class: "muted", role: "status" });
  // `name`: what the server calls it, which sorts where there are more than are shown.
  const columns = [
    { title: "Application", name: "application", class: "name", cell: (row) => row.applicationID, sort: (row) => row.applicationID },
    { title: "State", name: "state", cell: (row) => state(row.state), sort: (row) => row.state },
    { title: "Why it waits", name: "why", class: "wide", cell: why, sort: (row) => row.reason?.text || row.message || "" },
    { title: "Asks", name: "asks", class: "num", rank: 1, cell: (row) => (row.asks ? number(row.asks) : "–"), sort: (row) => row.asks || 0 },
    { title: "For", name: "waits", class: "num", rank: 2, cell: (row) => (row.waitingSince ? age(row.waitingSince, context.now()) : "–"), sort: (row) => (row.waitingSince ? context.now() - Date.parse(row.waitingSince) : -1) },
    { title: "Pending", name: "pending", rank: 4, cell: (row) => amounts(row.pending, 2), sort: (row) => row.pending?.memory || 0 },
    { title: "Has", name: "allocations", rank: 5, cell: (row) => (row.allocations ? `${number(row.allocations)}: ${amounts(row.used, 2)}` : "–"), sort: (row) => row.allocations },
    { title: "Queue", name: "queue", class: "word", rank: 3, cell: (row) => row.queueName || "–", sort: (row) => row.queueName },
    { title: "User", name: "user", class: "word", rank: 6, cell: (row) => row.user || "–", sort: (row) => row.user },
  ];
  const rows = table({
    label: "Applications",
    key: (row) => row.applicationID + (row.finished || ""),
    open: (row) => context.open("app", row.applicationID),
    opened: (row) => context.opened("app") === row.applicationID,
    empty: "No application matches.",
    sorting: context.sorting,
    columns,
  });
  const root = el("section", { class: "pane", "aria-label": "Applications" }, el("div", { class: "tools" }, list, search, filter, count), rows.el);

  function why(row) {
    if (row.message) return el("span", { class: "bad-text", title: row.message }, row.message);
    if (!row.reason) return el("span", { class: "muted" }, row.asks ? "" : "–");
    const more = row.reasons > 1 ? el("span", { class: "more" }, ` +${row.reasons - 1} more`) : "";
    return el("span", { title: row.reason.text }, el("i", { class: `dot ${row.reason.code}`, "aria-hidden": "true" }), row.reason.text, more);
  }

  let reading = null;
  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => context.set({ text: search.value }, { typing: true }), 200);
  });
  list.addEventListener("change", () => context.set({ list: list.value === "active" ? "" : list.value, reason: "" }));

  async function refresh() {
    reading?.abort();
    reading = new AbortController();
    const params = context.params();
    const which = params.get("list") || "active";
    const query = new URLSearchParams({ limit: "2000" });
    if (which === "waiting") query.set("waiting", "true");
    else query.set("list", which);
    for (const name of ["reason", "state", "text", "queue", "user"]) if (params.get(name)) query.set(name, params.get(name));
    const sort = context.sorting.get();
    const by = columns.find((column) => column.title === sort.replace(/^-/, ""));
    if (by) query.set("sort", `${sort.startsWith("-") ? "-" : ""}${by.name}`);
    try {
      const answer = await get(`/api/v1/partition/${segment(context.partition())}/applications?${query}`, reading.signal);
      rows.set(answer.applications);
      const first = by || which === "completed" || which === "rejected" ? "" : ", those that wait longest,";
      const beyond = answer.matched > answer.applications.length ? `: only the first ${number(answer.applications.length)}${first} are shown` : "";
      const text = `${number(answer.matched)} of ${plural(answer.total, "application")}${beyond}`;
      if (count.textContent !== text) count.textContent = text;
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    }
  }

  function changed() {
    const params = context.params();
    list.value = params.get("list") || "active";
    if (document.activeElement !== search) search.value = params.get("text") || "";
    const active = ["reason", "state", "queue", "user"].filter((name) => params.get(name));
    filter.replaceChildren(
      ...active.map((name) =>
        el("button", { type: "button", class: "chip on", "aria-label": `Remove filter ${name} ${params.get(name)}`, on: { click: () => context.set({ [name]: "" }) } }, `${name}: ${title(name, params.get(name))} ✕`),
      ),
    );
    rows.draw();
  }

  function title(name, value) {
    if (name !== "reason") return value;
    return context.row()?.waiting.reasons.find((entry) => entry.code === value)?.title || value;
  }

  changed();
  return { el: root, refresh, changed, focus: (id) => rows.focus((row) => row.applicationID === id), stop: () => reading?.abort() };
}
