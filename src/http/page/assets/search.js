// Search over everything: applications, queues, nodes, users and groups of the partition, and the views.

import { get, segment } from "./api.js";
import { el } from "./format.js";
import { fill } from "./patch.js";

const EACH = 8;

export function search(context, dialog, views) {
  const input = dialog.querySelector("input");
  const list = dialog.querySelector("[role=listbox]");
  const said = dialog.querySelector("[role=status]");
  let found = [];
  let at = 0;
  // Queues, nodes, users and groups, read once each time it is opened.
  let names = [];
  let reading = null;
  let typing = 0;

  const base = (api) => `/${api}/v1/partition/${segment(context.partition())}`;

  async function load() {
    const [tree, nodes, users, groups] = await Promise.all([get(`${base("ws")}/queues`), get(`${base("api")}/nodes`), get(`${base("ws")}/usage/users`), get(`${base("ws")}/usage/groups`)]);
    const queues = [];
    const walk = (row) => {
      queues.push(row.queuename);
      (row.children || []).forEach(walk);
    };
    walk(tree);
    const of = (kind, view, params) => (name) => ({ kind, name, href: context.address(view, params(name)) });
    names = [
      ...queues.map(of("Queue", "queues", (name) => ({ open: `queue:${name}` }))),
      ...nodes.nodes.map(({ id }) => id).map(of("Node", "nodes", (name) => ({ open: `node:${name}` }))),
      ...users.map(({ userName }) => userName).map(of("User", "people", (text) => ({ text }))),
      ...groups.map(({ groupName }) => groupName).map(of("Group", "people", (text) => ({ text }))),
    ];
  }

  async function look() {
    clearTimeout(typing);
    typing = 0;
    const text = input.value.trim().toLowerCase();
    reading?.abort();
    reading = new AbortController();
    const pages = Object.entries(views).map(([view, { title }]) => ({ kind: "View", name: title, href: context.address(view) }));
    const place = ({ name }) => name.toLowerCase().indexOf(text);
    const counts = {};
    const few = ({ kind }) => (counts[kind] = (counts[kind] || 0) + 1) <= EACH;
    const own = [...names, ...pages].filter((entry) => place(entry) >= 0).sort((a, b) => place(a) - place(b)).filter(few);
    show(own);
    if (!text || !context.row()) return;
    try {
      const lists = await Promise.all(["active", "completed"].map((list) => get(`${base("api")}/applications?${new URLSearchParams({ text, list, limit: EACH })}`, reading.signal)));
      show([...lists.flatMap((answer) => answer.applications).map(({ applicationID: name, state }) => ({ kind: `Application, ${state.toLowerCase()}`, name, href: context.address("applications", { open: `app:${name}` }) })), ...own]);
    } catch (error) {
      if (error.name !== "AbortError") context.failed(error);
    }
  }

  function show(next) {
    if (next) [found, at] = [next, 0];
    fill(list, found.map((entry, place) => el("a", { role: "option", id: `found-${place}`, href: entry.href, tabIndex: -1, "aria-selected": String(place === at) }, el("span", {}, entry.name), el("span", { class: "muted" }, entry.kind))));
    list.hidden = found.length === 0;
    said.textContent = found.length ? `${found.length} found` : "Nothing found.";
    if (found.length) input.setAttribute("aria-activedescendant", `found-${at}`);
    else input.removeAttribute("aria-activedescendant");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  input.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(look, 120);
  });
  input.addEventListener("keydown", async (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length) {
      event.preventDefault();
      at = (at + step + found.length) % found.length;
      show();
    } else if (event.key === "Enter") {
      event.preventDefault();
      // What was typed last is looked for first: what stands there yet is of less, or of nothing.
      if (typing) await look();
      if (!found[at] || !dialog.open) return;
      dialog.close();
      context.go(found[at].href);
    }
  });
  list.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

  return {
    open() {
      if (!context.overview()) return;
      names = [];
      input.value = "";
      dialog.showModal();
      input.focus();
      look();
      if (context.row()) load().then(() => dialog.open && look()).catch(context.failed);
    },
  };
}
