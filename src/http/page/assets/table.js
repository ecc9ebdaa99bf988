// A table of any length: only the rows in sight are in the document. One row has the focus at a time; arrows, Page Up and
// Down, Home and End move it, Enter opens it; in a tree Left and Right close and open.

import { el } from "./format.js";

const ROW = 36;
const SPARE = 8;

/**
 * `columns`: `{title, class, cell(row), sort(row)?}`; `key(row)` tells rows apart; `open(row)` is called on Enter or click;
 * `tree`: `{level(row), expanded(row), toggle(row)}` where rows are a tree (`expanded` undefined: a leaf).
 */
export function table({ label, columns, key, open, tree, empty = "Nothing here.", opened = () => null }) {
  let rows = [];
  let shown = [];
  let current = null;
  let sorted = null;
  const body = el("tbody");
  const head = el("tr", {}, columns.map((column, at) => heading(column, at)));
  const grid = el("table", { role: tree ? "treegrid" : "grid", "aria-label": label }, el("thead", {}, head), body);
  const nothing = el("p", { class: "nothing", hidden: true }, empty);
  const box = el("div", { class: "scroll" }, grid, nothing);
  let drawing = 0;

  function heading(column, at) {
    const cell = el("th", { scope: "col", class: column.class || "" });
    if (column.sort) cell.append(el("button", { type: "button", on: { click: () => sortBy(at) } }, column.title));
    else cell.append(column.title);
    return cell;
  }

  function sortBy(at) {
    sorted = sorted && sorted.at === at ? (sorted.down ? { at, down: false } : null) : { at, down: true };
    [...head.children].forEach((cell, place) => {
      if (sorted && sorted.at === place) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    arrange();
    draw();
  }

  function arrange() {
    shown = rows;
    if (!sorted) return;
    const by = columns[sorted.at].sort;
    const sign = sorted.down ? -1 : 1;
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
    shown = [...rows].sort((a, b) => sign * compare(by(a), by(b)));
  }

  function line(row, at) {
    const id = key(row);
    const node = el("tr", { tabIndex: id === current ? 0 : -1, "aria-rowindex": String(at + 2), "data-key": id });
    if (open) node.classList.add("can-open");
    if (opened() === id) node.setAttribute("aria-selected", "true");
    if (tree) {
      node.setAttribute("aria-level", String(tree.level(row) + 1));
      const expanded = tree.expanded(row);
      if (expanded !== undefined) node.setAttribute("aria-expanded", String(expanded));
    }
    for (const column of columns) node.append(el("td", { class: column.class || "" }, column.cell(row)));
    return node;
  }

  const spacer = (count) => el("tr", { class: "spacer", "aria-hidden": "true" }, el("td", { colSpan: columns.length }));

  function draw() {
    drawing = 0;
    const top = Math.max(0, Math.floor((box.scrollTop - ROW) / ROW) - SPARE);
    const count = Math.ceil((box.clientHeight || 600) / ROW) + 2 * SPARE;
    const first = Math.min(top, Math.max(0, shown.length - count));
    const last = Math.min(shown.length, first + count);
    if (current === null || !shown.some((row) => key(row) === current)) current = shown.length ? key(shown[0]) : null;
    const focused = body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const part = [];
    const before = spacer();
    before.firstChild.style.height = `${first * ROW}px`;
    const after = spacer();
    after.firstChild.style.height = `${(shown.length - last) * ROW}px`;
    part.push(before);
    for (let at = first; at < last; at += 1) part.push(line(shown[at], at));
    part.push(after);
    body.replaceChildren(...part);
    grid.setAttribute("aria-rowcount", String(shown.length + 1));
    nothing.hidden = shown.length > 0;
    if (focused !== null) (find(focused) || box).focus({ preventScroll: true });
  }

  const later = () => {
    if (!drawing) drawing = requestAnimationFrame(draw);
  };
  const find = (id) => [...body.children].find((node) => node.dataset.key === id);
  const place = () => shown.findIndex((row) => key(row) === current);

  function move(to) {
    if (!shown.length) return;
    const at = Math.max(0, Math.min(shown.length - 1, to));
    const id = key(shown[at]);
    const above = at * ROW;
    const room = box.clientHeight - 2 * ROW;
    if (box.scrollTop > above) box.scrollTop = above;
    else if (box.scrollTop + room < above) box.scrollTop = above - room;
    current = id;
    draw();
    find(id)?.focus({ preventScroll: true });
  }

  box.addEventListener("scroll", later, { passive: true });
  new ResizeObserver(later).observe(box);
  body.addEventListener("click", (event) => {
    const node = event.target.closest("tr[data-key]");
    if (!node || event.target.closest("a, button")) return;
    current = node.dataset.key;
    const row = shown[place()];
    if (event.target.closest(".twist")) tree.toggle(row);
    else if (open) open(row, node);
    later();
  });
  body.addEventListener("focusin", (event) => {
    const id = event.target.dataset.key;
    if (id === undefined || id === current) return;
    for (const node of body.children) node.tabIndex = node.dataset.key === id ? 0 : -1;
    current = id;
  });
  body.addEventListener("keydown", (event) => {
    if (!event.target.matches("tr[data-key]")) return;
    const at = place();
    const page = Math.max(1, Math.floor(box.clientHeight / ROW) - 2);
    const row = shown[at];
    const expanded = tree && row ? tree.expanded(row) : undefined;
    const action = {
      ArrowDown: () => move(at + 1),
      ArrowUp: () => move(at - 1),
      PageDown: () => move(at + page),
      PageUp: () => move(at - page),
      Home: () => move(0),
      End: () => move(shown.length - 1),
      Enter: () => open && row && open(row, event.target),
      ArrowRight: () => (expanded === false ? tree.toggle(row) : expanded && move(at + 1)),
      ArrowLeft: () => (expanded ? tree.toggle(row) : tree && parent(at)),
    }[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });

  function parent(at) {
    for (let above = at - 1; above >= 0; above -= 1) {
      if (tree.level(shown[above]) < tree.level(shown[at])) return move(above);
    }
    return undefined;
  }

  return {
    el: box,
    /** Replaces the rows. */
    set(next) {
      rows = next;
      arrange();
      draw();
    },
    draw: later,
    /** Gives the focus to a row, where it is there. */
    focus(id) {
      const at = shown.findIndex((row) => key(row) === id);
      if (at >= 0) move(at);
    },
  };
}
