// Nodes: a heat map on a canvas, each node a cell, and the same as a table.

import { get, segment } from "./api.js";
import { clock, el, noun, number, order, plural } from "./format.js";
import { table } from "./table.js";

const MARKS = ["drained", "torpid", "offline", "reserved"];

export function nodes(context) {
  let all = [];
  let shown = [];
  let types = [];
  let picked = -1;
  let cell = 12;
  let across = 1;
  let drawing = 0;
  const metric = el("select", { "aria-label": "Colour by" });
  const only = el("select", { "aria-label": "Which nodes" }, [["", "All nodes"], ["drained", "Drained"], ["torpid", "Torpid"], ["offline", "Offline"], ["reserved", "Reserved"], ["full", "90 % or more"], ["empty", "Empty"]].map(([value, text]) => el("option", { value }, text)));
  const search = el("input", { type: "search", placeholder: "node id", "aria-label": "Filter nodes by id", spellcheck: false });
  const count = el("span", { class: "muted", role: "status" });
  const canvas = el("canvas", { tabIndex: 0, role: "img", "aria-describedby": "map-said" });
  const said = el("p", { id: "map-said", class: "said", "aria-live": "polite" });
  const legend = el("div", { class: "legend", "aria-hidden": "true" }, el("span", {}, "0 %"), el("i", { class: "ramp" }), el("span", {}, "100 %"), el("i", { class: "key hatched" }), "drained", el("i", { class: "key ringed" }), "torpid", el("i", { class: "key crossed" }), "offline", el("i", { class: "key cornered" }), "reserved");
  const rows = table({
    label: "Nodes",
    key: (node) => node.id,
    open: (node) => context.open("node", node.id),
    opened: (node) => context.opened("node") === node.id,
    empty: "No node matches.",
    sorting: context.sorting,
    columns: [
      { title: "Node", class: "name", cell: (node) => node.id, sort: (node) => node.id },
      { title: "State", cell: (node) => words(node), sort: (node) => words(node) },
      { title: "Fullest", class: "num", cell: (node) => (value(node) === null ? "–" : `${value(node)} %`), sort: (node) => value(node) ?? -1 },
      { title: "Used", rank: 3, cell: (node) => used(node) },
      { title: "Allocations", class: "num", rank: 1, cell: (node) => number(node.allocations), sort: (node) => node.allocations || 0 },
      { title: "Drained", class: "wide", rank: 2, cell: (node) => (node.drained ? `${node.drained}${node.drainedSince ? `, since ${clock(node.drainedSince)}` : ""}` : "–"), sort: (node) => node.drained || "" },
    ],
  });
  const map = el("div", { class: "map" }, canvas);
  const root = el("section", { class: "pane", "aria-label": "Nodes" }, el("div", { class: "tools" }, only, metric, search, legend, count), map, said, rows.el);

  const words = (node) => MARKS.filter((mark) => node[mark]).join(", ") || "ready";
  const used = (node) => (node.offline ? "–" : types.map((type, at) => (node.used[at] === null ? "" : `${noun(type)} ${node.used[at]} %`)).filter(Boolean).join(" · "));

  function value(node) {
    if (node.offline) return null;
    if (metric.value === "") return Math.max(0, ...node.used.filter((share) => share !== null));
    return node.used[types.indexOf(metric.value)] ?? null;
  }

  function describe(node) {
    return node ? `${node.id}: ${used(node)}${node.offline ? "offline" : `, ${plural(node.allocations || 0, "allocation")}`}${words(node) === "ready" ? "" : `, ${words(node)}`}${node.drained ? ` ${node.drained}` : ""}` : "";
  }

  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  function palette() {
    const ramp = Array.from({ length: 11 }, (_, step) => color(`--heat-${step}`));
    return { ramp, none: color("--line"), ink: color("--ink"), mark: color("--mark"), back: color("--paper"), focus: color("--accent") };
  }

  function draw() {
    drawing = 0;
    const width = map.clientWidth;
    const room = Math.max(120, Math.min(420, window.innerHeight * 0.4));
    cell = 30;
    while (cell > 4 && Math.ceil(shown.length / Math.max(1, Math.floor(width / cell))) * cell > room) cell -= 1;
    across = Math.max(1, Math.floor(width / cell));
    const height = Math.max(cell, Math.ceil(shown.length / across) * cell);
    const scale = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const pen = canvas.getContext("2d");
    const colors = palette();
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    const gap = cell > 8 ? 2 : 1;
    const size = cell - gap;
    shown.forEach((node, at) => {
      const x = (at % across) * cell;
      const y = Math.floor(at / across) * cell;
      const share = value(node);
      pen.fillStyle = share === null ? colors.none : colors.ramp[Math.max(0, Math.min(10, Math.ceil(share / 10)))];
      pen.fillRect(x, y, size, size);
      if (node.drained || node.torpid || node.offline || node.reserved) mark(pen, node, x, y, size, colors);
      if (at === picked) {
        pen.strokeStyle = colors.focus;
        pen.lineWidth = 2;
        pen.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
      }
    });
    const marked = MARKS.map((name) => [name, shown.filter((node) => node[name]).length]).filter(([, n]) => n);
    canvas.setAttribute("aria-label", `Heat map of ${plural(shown.length, "node")}${marked.map(([name, n]) => `, ${n} ${name}`).join("")}. Use the arrow keys to go from node to node, Enter to open one; the table below says the same.`);
  }

  // Shapes, so that nothing depends on telling colours apart.
  function mark(pen, node, x, y, size, colors) {
    pen.save();
    pen.beginPath();
    pen.rect(x, y, size, size);
    pen.clip();
    pen.strokeStyle = colors.mark;
    pen.lineWidth = size > 12 ? 2 : 1;
    pen.beginPath();
    if (node.drained) {
      const step = Math.max(3, size / 3);
      for (let at = -size; at < size; at += step) {
        pen.moveTo(x + at, y + size);
        pen.lineTo(x + at + size, y);
      }
    }
    if (node.offline) {
      pen.moveTo(x, y);
      pen.lineTo(x + size, y + size);
      pen.moveTo(x + size, y);
      pen.lineTo(x, y + size);
    }
    pen.stroke();
    if (node.torpid) {
      pen.beginPath();
      pen.arc(x + size / 2, y + size / 2, Math.max(1.5, size / 3.2), 0, 2 * Math.PI);
      pen.fillStyle = colors.back;
      pen.fill();
      pen.lineWidth = Math.max(1, size / 8);
      pen.stroke();
    }
    if (node.reserved) {
      pen.beginPath();
      pen.moveTo(x + size, y);
      pen.lineTo(x + size, y + size * 0.55);
      pen.lineTo(x + size * 0.45, y);
      pen.fillStyle = colors.mark;
      pen.fill();
    }
    pen.restore();
  }

  const later = () => {
    if (!drawing) drawing = requestAnimationFrame(draw);
  };

  function choose() {
    const id = shown[picked]?.id;
    const text = search.value.trim().toLowerCase();
    const which = only.value;
    shown = all.filter((node) => {
      if (text && !node.id.toLowerCase().includes(text)) return false;
      if (which === "full") return (value(node) ?? 0) >= 90;
      if (which === "empty") return !node.offline && !node.allocations;
      return !which || Boolean(node[which]);
    });
    picked = id === undefined ? -1 : shown.findIndex((node) => node.id === id);
    rows.set(shown);
    count.textContent = shown.length === all.length ? plural(all.length, "node") : `${number(shown.length)} of ${plural(all.length, "node")}`;
    later();
  }

  function pick(at) {
    if (at < 0 || at >= shown.length) return;
    picked = at;
    said.textContent = describe(shown[at]);
    later();
  }

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / cell);
    return column < across ? Math.floor((event.clientY - box.top) / cell) * across + column : -1;
  };
  canvas.addEventListener("mousemove", (event) => pick(at(event)));
  canvas.addEventListener("click", (event) => shown[at(event)] && context.open("node", shown[at(event)].id));
  canvas.addEventListener("focus", () => picked < 0 && pick(0));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across, Home: -picked, End: shown.length - 1 - picked }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      pick(picked + step);
    } else if (event.key === "Enter" && shown[picked]) context.open("node", shown[picked].id);
  });
  only.addEventListener("change", () => context.set({ only: only.value }));
  metric.addEventListener("change", () => context.set({ by: metric.value }));
  search.addEventListener("input", () => context.set({ text: search.value }, { typing: true }));
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", later);
  const watch = new ResizeObserver(later);
  watch.observe(map);

  let next = 0;
  async function refresh() {
    // Many nodes are read less often: the answer is large.
    if (performance.now() < next) return;
    const answer = await get(`/api/v1/partition/${segment(context.partition())}/nodes`);
    next = performance.now() + (answer.nodes.length > 2000 ? 4000 : 0);
    all = answer.nodes;
    if (answer.types.join() !== types.join()) {
      types = answer.types;
      const chosen = context.params().get("by") || "";
      metric.replaceChildren(el("option", { value: "" }, "Fullest resource"), ...order(types).map((type) => el("option", { value: type }, noun(type))));
      metric.value = types.includes(chosen) ? chosen : "";
    }
    choose();
    if (picked >= 0) said.textContent = describe(shown[picked]);
  }

  function changed() {
    const params = context.params();
    only.value = params.get("only") || "";
    metric.value = types.includes(params.get("by")) ? params.get("by") : "";
    if (document.activeElement !== search) search.value = params.get("text") || "";
    choose();
  }

  changed();
  return {
    el: root,
    refresh,
    changed,
    focus: (id) => rows.focus((node) => node.id === id),
    stop() {
      watch.disconnect();
      scheme.removeEventListener("change", later);
    },
  };
}
