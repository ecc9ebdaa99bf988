// What happened: the log of events as it is kept, read back from its end or from a time, and followed as it goes on.

import { Refused, lines } from "./api.js";
import { clock, el, number, plural } from "./format.js";
import { fill } from "./patch.js";
import { table } from "./table.js";

const KEPT = 20_000;
const PAGE = 500;
const RANGES = [["", "All of the log"], ["15m", "Last 15 minutes"], ["1h", "Last hour"], ["1d", "Last day"], ["7d", "Last 7 days"], ["between", "From … to …"]];

export function events(context) {
  let kept = [];
  let missed = 0;
  // Where older ones are read on; null where there are none.
  let previous = null;
  let paused = false;
  let reading = false;
  let refused = "";
  // What happened since the reader paused, the latest first.
  let fresh = [];
  let drawing = 0;
  let asked = null;
  let own = new AbortController();
  const input = (props) => el("input", { spellcheck: false, ...props });
  const object = input({ type: "search", placeholder: "application, node, queue …", "aria-label": "Events of this object", class: "id" });
  const search = input({ type: "search", placeholder: "in these events", "aria-label": "Filter the events that were read" });
  const type = el("select", { "aria-label": "Kind of object" }, [["", "All kinds"], ["app", "Applications"], ["node", "Nodes"], ["queue", "Queues"], ["request", "Requests"], ["usergroup", "Users & groups"]].map(([value, text]) => el("option", { value }, text)));
  const range = el("select", { "aria-label": "Time" }, RANGES.map(([value, text]) => el("option", { value }, text)));
  const since = input({ type: "datetime-local", step: 1, "aria-label": "From" });
  const until = input({ type: "datetime-local", step: 1, "aria-label": "To" });
  const hold = el("button", { type: "button", "aria-pressed": "false" }, "Pause");
  const older = el("button", { type: "button" }, "Older");
  const count = el("span", { class: "muted", role: "status" });
  const rows = table({
    label: "Events, the latest first",
    key: (event) => event.key,
    empty: "No such event.",
    columns: [
      { title: "Time", class: "time", cell: (event) => clock(event.at) },
      { title: "Kind", rank: 4, cell: (event) => event.type },
      { title: "Object", class: "name", cell: subject },
      { title: "Change", class: "word", cell: (event) => event.change },
      { title: "About", class: "word", rank: 2, cell: (event) => event.reference },
      { title: "Message", class: "wide", rank: 1, cell: (event) => el("span", { title: event.message }, event.message) },
      { title: "Id", class: "num", rank: 5, cell: (event) => String(event.id) },
    ],
  });
  const root = el("section", { class: "pane", "aria-label": "Events" }, el("div", { class: "tools" }, type, object, range, since, until, search, hold, older, count), rows.el);

  function subject(event) {
    const kind = { APP: "app", NODE: "node", QUEUE: "queue" }[event.type];
    if (!kind || !context.row()) return event.object;
    return el("a", { href: context.address("events", { ...Object.fromEntries(context.params()), open: `${kind}:${event.object}` }), tabIndex: -1 }, event.object);
  }

  const change = (event) => [event.eventChangeType, event.eventChangeDetail].filter((text) => text && !/^(NONE|DETAILS_NONE)$/.test(text)).map((text) => String(text).toLowerCase().replaceAll("_", " ")).join(", ");

  function read(item) {
    if (item.gap) {
      const { from, to, reason } = item.gap;
      // Not all of the ids that a kill leaves were given to events.
      const message = reason === "crash" ? `the server was killed: events from ${from} on may be missing; ids go on at ${to + 1}` : `${plural(to - from + 1, "event")} missing: ${reason}`;
      return { key: `gap-${from}`, id: `${from}–${to}`, first: from, at: "", type: "", object: "", change: "gap", reference: "", message };
    }
    const at = Number(BigInt(item.timestampNano || 0) / 1_000_000n);
    return { key: String(item.id), id: item.id, first: item.id, at, type: item.type || "", object: item.objectID || "", change: change(item), reference: item.referenceID || "", message: item.message || "" };
  }

  function draw() {
    drawing = 0;
    const text = search.value.trim().toLowerCase();
    const shown = kept.filter((event) => !text || `${event.object} ${event.reference} ${event.message} ${event.change}`.toLowerCase().includes(text));
    rows.set(shown);
    const words = [plural(shown.length, "event"), fresh.length && `${number(fresh.length)} new since you paused`, missed && `${number(missed)} more came too fast to be listed`, previous === null && !refused && (context.params().get("since") ? "all of that time" : "from the oldest that is kept"), refused];
    const said = words.filter(Boolean).join(", ");
    if (count.textContent !== said) count.textContent = said;
    older.disabled = previous === null;
  }

  const later = () => {
    if (!drawing) drawing = setTimeout(draw, 250);
  };

  /** New ones before the others; where these are too many, the oldest go, which Older reads again. */
  function add(found, all) {
    const both = found.concat(all);
    if (both.length <= KEPT) return both;
    both.length = KEPT;
    previous = both[KEPT - 1].first;
    return both;
  }

  /** What of the address decides which events are read. */
  function wanted() {
    const params = context.params();
    const given = new URLSearchParams();
    for (const name of ["type", "object", "since", "until"]) if (params.get(name)) given.set(name, params.get(name));
    return given;
  }

  /** One page back from an id, or from the end; gives the id where new ones will follow. */
  async function back(before, signal) {
    const query = wanted();
    query.set("last", PAGE);
    if (before !== null) query.set("before", before);
    const found = [];
    let end = {};
    for await (const { items } of lines(`/api/v1/events?${query}`, signal, Infinity)) {
      for (const item of items) {
        if (item.next !== undefined) end = item;
        else found.push(read(item));
      }
    }
    refused = "";
    // What was the oldest went meanwhile: Older goes on before what is that now.
    if (before !== null && before !== previous) return end.next;
    if (before === null) [kept, fresh] = [[], []];
    kept = kept.concat(found.reverse());
    previous = end.previous ?? null;
    later();
    return end.next;
  }

  async function follow(signal) {
    let wait = 500;
    let after = null;
    while (!signal.aborted) {
      try {
        if (after === null) after = await back(null, signal);
        if (wanted().has("until")) return;
        const query = wanted();
        // From an id on; a time may be one that has passed on.
        query.delete("since");
        query.set("from", after);
        query.set("follow", "true");
        for await (const { skipped, items } of lines(`/api/v1/events?${query}`, signal)) {
          wait = 500;
          missed += skipped;
          const found = items.filter((item) => item.gap || item.id !== undefined).map(read).reverse();
          const last = items.findLast((item) => item.id !== undefined || item.gap);
          if (last) after = last.gap ? last.gap.to + 1 : last.id + 1;
          if (paused) fresh = found.concat(fresh).slice(0, KEPT);
          else kept = add(found, kept);
          later();
          if (items.some((item) => item.closed)) break;
        }
      } catch (error) {
        if (signal.aborted) return;
        // The ids began anew: the server was started without its log.
        if (error instanceof Refused) {
          after = null;
          refused = error.message;
          later();
        } else context.failed(error);
      }
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(5_000, wait * 2);
    }
  }

  /** A time of the address as a field shows it, and back. */
  const local = (text) => {
    const at = new Date(text);
    return Number.isNaN(at.getTime()) ? "" : new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
  };
  const absolute = (text) => (text ? new Date(text).toISOString() : "");

  function changed() {
    const params = context.params();
    const from = params.get("since") || "";
    const preset = RANGES.some(([value]) => value === from) && !params.get("until");
    range.value = preset ? from : "between";
    since.hidden = until.hidden = preset;
    since.value = local(from);
    until.value = local(params.get("until") || "");
    type.value = params.get("type") || "";
    for (const [field, name] of [[object, "object"], [search, "text"]]) if (document.activeElement !== field) field.value = params.get(name) || "";
    const query = `${context.moment()} ${wanted()}`;
    if (query !== asked) {
      asked = query;
      own.abort();
      own = new AbortController();
      refused = "";
      [kept, missed, fresh, previous] = [[], 0, [], null];
      follow(own.signal);
    }
    draw();
  }

  hold.addEventListener("click", () => {
    paused = !paused;
    if (!paused) [kept, fresh] = [add(fresh, kept), []];
    hold.setAttribute("aria-pressed", String(paused));
    fill(hold, [paused ? "Go on" : "Pause"]);
    draw();
  });
  older.addEventListener("click", async () => {
    // Pressed twice, it is one page.
    if (reading) return;
    reading = true;
    try {
      await back(previous, own.signal);
    } catch (error) {
      context.failed(error);
    }
    reading = false;
    draw();
  });
  type.addEventListener("change", () => context.set({ type: type.value }));
  object.addEventListener("change", () => context.set({ object: object.value.trim() }));
  search.addEventListener("input", () => context.set({ text: search.value }, { typing: true }));
  range.addEventListener("change", () => {
    if (range.value !== "between") context.set({ since: range.value, until: "" });
    else context.set({ since: new Date(context.now() - 3_600_000).toISOString(), until: new Date(context.now()).toISOString() });
  });
  for (const field of [since, until]) field.addEventListener("change", () => context.set({ since: absolute(since.value), until: absolute(until.value) }));
  changed();
  return { el: root, changed, stop: () => own.abort() };
}
