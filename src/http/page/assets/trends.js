// Charts of what a partition, queue, user, group or node used, had pending, was guaranteed and might use at most, and of what
// asks waited for.

import { Refused, get, lines, named, segment } from "./api.js";
import { amount, clock, el, isBytes, noun, number, order } from "./format.js";
import { fill } from "./patch.js";

const RANGES = [["15m", "15 minutes"], ["1h", "1 hour"], ["6h", "6 hours"], ["1d", "1 day"], ["7d", "7 days"], ["between", "From … to …"]];
const LENGTHS = { "15m": 900, "1h": 3_600, "6h": 21_600, "1d": 86_400, "7d": 604_800 };
const STEPS = 240;
const MEASURES = [["used", "--fill", []], ["pending", "--fill-high", []], ["guaranteed", "--blue", [6, 4]], ["max", "--bad", [2, 3]]];
const WAITS = ["--fill-high", "--fill-over", "--blue", "--fill", "--good", "--soft", "--heat-6", "--ink"];

// Ticks of bytes.
const POWERS = Array.from({ length: 60 }, (_, power) => 2 ** power);

let library = null;

/** The charts are drawn by uPlot, which is read when they are first wanted. */
function uplot() {
  library ||= new Promise((done, fail) => {
    document.head.append(el("script", { src: "/page/uplot.js", on: { load: () => done(window.uPlot), error: () => fail(new Error("the charts could not be read")) } }));
  });
  return library;
}

const two = (value) => String(value).padStart(2, "0");

/** What the ticks of the time say: the day where it is another, and what the distance between them takes. */
function moments(own, ticks, axis, space, distance) {
  let day = "";
  return ticks.map((tick) => {
    const at = new Date(tick * 1000);
    const time = `${two(at.getHours())}:${two(at.getMinutes())}${distance < 60 ? `:${two(at.getSeconds())}` : ""}`;
    const date = `${at.getMonth() + 1}-${two(at.getDate())}`;
    const text = distance >= 86_400 ? date : day === date ? time : `${time}\n${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    day = date;
    return text;
  });
}

export function trends(context) {
  let charts = [];
  let next = 0;
  let drawn;
  let asked = "";
  const of = el("select", { "aria-label": "Of what" }, [["", "The partition"], ["queue", "A queue"], ["user", "A user"], ["group", "A group"], ["node", "A node"]].map(([value, text]) => el("option", { value }, text)));
  const name = el("input", { type: "search", class: "id", spellcheck: false, "aria-label": "Its name", placeholder: "its name" });
  name.setAttribute("list", "trend-names");
  const names = el("datalist", { id: "trend-names" });
  const queue = el("input", { type: "search", class: "id", spellcheck: false, "aria-label": "In this queue", placeholder: "in all queues" });
  const range = el("select", { "aria-label": "Time" }, RANGES.map(([value, text]) => el("option", { value }, text)));
  const since = el("input", { type: "datetime-local", step: 1, "aria-label": "From" });
  const until = el("input", { type: "datetime-local", step: 1, "aria-label": "To" });
  const said = el("span", { class: "muted", role: "status" });
  const box = el("div", { class: "charts" });
  const root = el("section", { class: "pane", "aria-label": "Charts" }, el("div", { class: "tools" }, of, name, names, queue, range, since, until, said), box);
  const base = () => `/partition/${segment(context.partition())}`;

  /** From when to when, in milliseconds, and the length of a step. */
  function span() {
    const params = context.params();
    const to = params.get("until") ? Date.parse(params.get("until")) : context.now();
    const length = LENGTHS[params.get("since") || "1h"];
    const from = length ? to - length * 1000 : Date.parse(params.get("since"));
    if (!(from < to)) throw new Refused(400, "The end is not later than the beginning.");
    return { from, to, step: Math.max(10, Math.ceil((to - from) / 1000 / STEPS)) };
  }

  /** What was used before the server took samples is in the history of usage, unless it is of a node. */
  async function history(answer, kind, id, { from, to, step }) {
    if (kind === "node" || (answer.sampled && Date.parse(answer.sampled) <= from)) return;
    const by = kind === "user" || kind === "group" ? kind : "queue";
    const wanted = by === "queue" ? id || "root" : id;
    const place = by === "queue" ? wanted : context.params().get("queue");
    const query = new URLSearchParams({ by, since: new Date(from).toISOString(), until: new Date(to).toISOString(), step: `${step}s` });
    if (place) query.set("queue", place);
    const ends = new Map(answer.times.slice(1).map((time, at) => [Math.round(time / 1000), at]));
    const found = {};
    for await (const { items } of lines(`/api/v1${base()}/usage/history?${query}`, null, Infinity)) {
      for (const item of items) {
        const at = ends.get(Math.round(Date.parse(item.to) / 1000));
        if (item[by] !== wanted || at === undefined) continue;
        const seconds = (Date.parse(item.to) - Date.parse(item.from)) / 1000;
        for (const [type, value] of Object.entries(item.resourceSeconds)) (found[type] ||= {})[at] = Math.round(Number(value) / seconds);
      }
    }
    for (const [type, values] of Object.entries(found)) {
      answer.used[type] ||= answer.times.slice(1).map(() => null);
      for (const [at, value] of Object.entries(values)) answer.used[type][at] ??= value;
    }
  }

  async function refresh() {
    const params = context.params();
    const kind = params.get("of") || "partition";
    const id = params.get("name") || "";
    if (kind !== "partition" && !id) return none("Whose? Choose a name.");
    if (performance.now() < next && drawn === context.moment()) return undefined;
    drawn = context.moment();
    const began = performance.now();
    const key = params.toString();
    try {
      const times = span();
      const query = new URLSearchParams({ of: kind, since: new Date(times.from).toISOString(), until: new Date(times.to).toISOString(), step: `${times.step}s` });
      if (id) query.set("name", id);
      if (params.get("queue")) query.set("queue", params.get("queue"));
      const answer = await get(`/api/v1${base()}/trends?${query}`);
      await history(answer, kind, id, times);
      const draw = await uplot();
      if (key === context.params().toString()) show(draw, answer);
      const rest = context.moment() === undefined ? answer.sampled && `since the server started (${clock(answer.sampled)})` : "not kept in a flight, which tells what was used";
      const part = answer.leftOut ? "; of so many queues, users and groups, only those that use most" : "";
      fill(said, [kind === "node" || !rest ? "" : `pending, limits and reasons: ${rest}${part}`]);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (key === context.params().toString()) none(error.message);
    }
    next = performance.now() + Math.max(5_000, 10 * (performance.now() - began));
    return undefined;
  }

  function show(draw, answer) {
    // The value of a step stands at its end.
    const times = answer.times.slice(1).map((time) => time / 1000);
    const types = order(new Set(MEASURES.flatMap(([measure]) => Object.keys(answer[measure]))));
    const wanted = types.map((type) => {
      const series = MEASURES.filter(([measure]) => answer[measure][type]?.some((value) => value !== null));
      return { id: type, title: noun(type), bytes: isBytes(type), value: (value) => amount(type, value), series: series.map(([measure, color, dash]) => ({ label: measure, color, dash, values: answer[measure][type] })) };
    }).filter(({ series }) => series.length);
    const reasons = Object.keys(answer.waiting).filter((code) => answer.waiting[code].some(Boolean));
    if (reasons.length) wanted.push({ id: "waiting", title: "asks that waited, by reason", value: (value) => (value === null || value === undefined ? "–" : number(value)), series: reasons.map((code, at) => ({ label: titles(code), color: WAITS[at % WAITS.length], dash: [], values: answer.waiting[code] })) });
    const ids = wanted.map(({ id, series }) => `${id}:${series.map(({ label }) => label)}`).join();
    if (ids !== charts.ids) {
      clear();
      charts = wanted.map((one) => chart(draw, one));
      charts.ids = ids;
      box.replaceChildren(...charts.map(({ el: node }) => node));
      if (!wanted.length) box.replaceChildren(el("p", { class: "nothing" }, "Nothing is known of that time."));
    }
    charts.forEach((one, at) => one.set(times, wanted[at]));
  }

  const titles = (code) => context.row()?.waiting.reasons.find((entry) => entry.code === code)?.title || code;
  const color = (variable) => getComputedStyle(root).getPropertyValue(variable).trim();

  function chart(Draw, { title, bytes, value, series }) {
    const place = el("div", { class: "plot", role: "img" });
    const node = el("figure", {}, el("figcaption", {}, title), place);
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 } };
    let plot = null;
    const width = () => Math.max(240, place.clientWidth);
    const watch = new ResizeObserver(() => plot && plot.width !== width() && plot.setSize({ width: width(), height: 180 }));
    watch.observe(place);
    return {
      el: node,
      set(times, now) {
        const data = [times, ...now.series.map(({ values }) => values)];
        const last = (values) => values.findLast((one) => one !== null);
        place.setAttribute("aria-label", `${title}: ${now.series.map(({ label, values }) => `${label} ${value(last(values))} at the end, ${value(Math.max(...values))} at most`).join("; ")}`);
        if (plot) return plot.setData(data);
        plot = new Draw({
          width: width(),
          height: 180,
          cursor: { drag: { setScale: false } },
          hooks: { setSelect: [(own) => own.select.width > 8 && zoom(own.posToVal(own.select.left, "x"), own.posToVal(own.select.left + own.select.width, "x"))] },
          scales: { y: { range: (own, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
          axes: [{ ...axis, values: moments }, { ...axis, size: 76, values: (own, ticks) => ticks.map(value), ...(bytes ? { incrs: POWERS } : {}) }],
          series: [{ value: (own, at) => (at ? clock(at * 1000) : "") }, ...series.map((one) => ({ label: one.label, stroke: color(one.color), width: 1.75, dash: one.dash, points: { show: false }, value: (own, at) => value(at) }))],
        }, data, place);
        return plot;
      },
      destroy() {
        watch.disconnect();
        plot?.destroy();
      },
    };
  }

  const zoom = (from, to) => context.set({ since: new Date(from * 1000).toISOString(), until: new Date(to * 1000).toISOString() });

  /** Says why nothing is drawn: what was drawn is of something else. */
  function none(why) {
    clear();
    box.replaceChildren();
    fill(said, [why]);
  }

  function clear() {
    charts.forEach((one) => one.destroy());
    charts = [];
  }

  const local = (text) => {
    const at = new Date(text);
    return Number.isNaN(at.getTime()) ? "" : new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
  };

  /** Names to choose from. */
  async function offer(kind) {
    const ws = `/ws/v1/partition/${named(context.partition())}`;
    const walk = (row) => [row.queuename, ...(row.children || []).flatMap(walk)];
    const found = {
      queue: async () => walk(await get(`${ws}/queues`)),
      user: async () => (await get(`${ws}/usage/users`)).map(({ userName }) => userName),
      group: async () => (await get(`${ws}/usage/groups`)).map(({ groupName }) => groupName),
      node: async () => (await get(`/api/v1${base()}/nodes`)).nodes.map(({ id }) => id),
    }[kind];
    fill(names, found ? (await found()).slice(0, 1_000).map((value) => el("option", { value })) : []);
  }

  function changed() {
    const params = context.params();
    if (of.value !== (params.get("of") || "") || !asked) offer(params.get("of")).catch(context.failed);
    of.value = params.get("of") || "";
    name.hidden = !of.value;
    queue.hidden = of.value !== "user" && of.value !== "group";
    for (const [field, key] of [[name, "name"], [queue, "queue"]]) if (document.activeElement !== field) field.value = params.get(key) || "";
    const preset = LENGTHS[params.get("since") || "1h"] && !params.get("until");
    range.value = preset ? params.get("since") || "1h" : "between";
    since.hidden = until.hidden = Boolean(preset);
    since.value = local(params.get("since") || "");
    until.value = local(params.get("until") || "");
    const key = `?${params}`;
    if (key !== asked) {
      asked = key;
      next = 0;
    }
  }

  of.addEventListener("change", () => context.set({ of: of.value, name: "", queue: "" }));
  name.addEventListener("change", () => context.set({ name: name.value.trim() }));
  queue.addEventListener("change", () => context.set({ queue: queue.value.trim() }));
  range.addEventListener("change", () => {
    if (range.value !== "between") context.set({ since: range.value === "1h" ? "" : range.value, until: "" });
    else zoom(context.now() / 1000 - 3_600, context.now() / 1000);
  });
  for (const field of [since, until]) {
    field.addEventListener("change", () => since.value && until.value && zoom(new Date(since.value) / 1000, new Date(until.value) / 1000));
  }
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const again = () => {
    clear();
    next = 0;
    context.refresh();
  };
  scheme.addEventListener("change", again);
  changed();
  return {
    el: root,
    refresh,
    changed,
    stop() {
      clear();
      scheme.removeEventListener("change", again);
    },
  };
}
