// What happens, as it happens: the log of events, followed by a stream that goes on where it broke off.

import { Refused, lines } from "./api.js";
import { clock, el, number, plural } from "./format.js";
import { table } from "./table.js";

const KEPT = 5_000;
const PAST = 200;

export function events(context) {
  let kept = [];
  let missed = 0;
  let after = null;
  let paused = false;
  let fresh = 0;
  let drawing = 0;
  const own = new AbortController();
  const search = el("input", { type: "search", placeholder: "object, message or change", "aria-label": "Filter events", spellcheck: false });
  const type = el("select", { "aria-label": "Kind of object" }, [["", "All"], ["APP", "Applications"], ["NODE", "Nodes"], ["QUEUE", "Queues"], ["REQUEST", "Requests"], ["USERGROUP", "Users & groups"]].map(([value, text]) => el("option", { value }, text)));
  const hold = el("button", { type: "button", "aria-pressed": "false" }, "Pause");
  const count = el("span", { class: "muted", role: "status" });
  const rows = table({
    label: "Events, the latest first",
    key: (event) => event.key,
    empty: "No event yet.",
    columns: [
      { title: "Time", class: "time", cell: (event) => clock(event.at) },
      { title: "Kind", class: "opt", cell: (event) => event.type },
      { title: "Object", class: "name", cell: subject },
      { title: "Change", cell: (event) => event.change },
      { title: "About", class: "opt", cell: (event) => event.reference },
      { title: "Message", class: "wide", cell: (event) => el("span", { title: event.message }, event.message) },
      { title: "Id", class: "num opt2", cell: (event) => event.id },
    ],
  });
  const root = el("section", { class: "pane", "aria-label": "Events" }, el("div", { class: "tools" }, type, search, hold, count), rows.el);

  function subject(event) {
    const kind = { APP: "app", NODE: "node", QUEUE: "queue" }[event.type];
    if (!kind) return event.object;
    return el("a", { href: context.address("events", { open: `${kind}:${event.object}` }), tabIndex: -1 }, event.object);
  }

  const change = (event) => [event.eventChangeType, event.eventChangeDetail].filter((text) => text && !/^(NONE|DETAILS_NONE)$/.test(text)).map((text) => String(text).toLowerCase().replaceAll("_", " ")).join(", ");

  function read(item) {
    if (item.gap) {
      const { from, to, reason } = item.gap;
      return { key: `gap-${from}`, id: `${from}–${to}`, at: "", type: "", object: "", change: "gap", reference: "", message: `${plural(to - from + 1, "event")} missing: ${reason}` };
    }
    const at = Number(BigInt(item.timestampNano || 0) / 1_000_000n);
    return { key: String(item.id), id: item.id, at, type: item.type || "", object: item.objectID || "", change: change(item), reference: item.referenceID || "", message: item.message || "" };
  }

  function draw() {
    drawing = 0;
    const text = search.value.trim().toLowerCase();
    const wanted = (event) => (!type.value || event.type === type.value) && (!text || `${event.object} ${event.reference} ${event.message} ${event.change}`.toLowerCase().includes(text));
    const shown = kept.filter(wanted);
    if (!paused) rows.set(shown);
    const waiting = paused && fresh ? `, ${number(fresh)} new since you paused` : "";
    const lostOnes = missed ? `, ${number(missed)} more came too fast to be listed` : "";
    count.textContent = `${plural(shown.length, "event")}${waiting}${lostOnes}`;
  }

  const later = () => {
    if (!drawing) drawing = setTimeout(draw, 250);
  };

  /** The next id to read; null for "only what comes". */
  function start() {
    const next = context.overview()?.nextEvent;
    if (after !== null) return after;
    return next === undefined || next === null ? null : Math.max(0, next - PAST);
  }

  async function follow() {
    let wait = 500;
    while (!own.signal.aborted) {
      try {
        const from = start();
        for await (const { skipped, items } of lines(`/api/v1/events?follow=true${from === null ? "" : `&from=${from}`}`, own.signal)) {
          wait = 500;
          missed += skipped;
          const closed = items.find((item) => item.closed);
          const found = items.filter((item) => item.gap || item.id !== undefined).map(read).reverse();
          const last = items.findLast((item) => item.id !== undefined || item.gap);
          if (last) after = last.gap ? last.gap.to + 1 : last.id + 1;
          kept = found.concat(kept).slice(0, KEPT);
          fresh += found.length;
          later();
          if (closed) break;
        }
      } catch (error) {
        if (own.signal.aborted) return;
        // The ids began anew: the server was started without its log.
        if (error instanceof Refused && error.status === 400) after = null;
        else context.failed(error);
      }
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(5_000, wait * 2);
    }
  }

  hold.addEventListener("click", () => {
    paused = !paused;
    fresh = 0;
    hold.setAttribute("aria-pressed", String(paused));
    hold.textContent = paused ? "Go on" : "Pause";
    draw();
  });
  search.addEventListener("input", draw);
  type.addEventListener("change", draw);
  follow();
  draw();
  return { el: root, stop: () => own.abort() };
}
