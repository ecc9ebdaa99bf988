// A table of any length: only the rows in sight are in the document, and what is in them is changed in place. One row has the
// focus at a time; arrows, Page Up and Down, Home and End move it, Enter opens it; in a tree Left and Right close and open.

import { el } from "./format.js";
import { patch } from "./patch.js";

const ROW = 40;
const SPARE = 8;

/**
 * `columns`: `{title, class, cell(row), sort(row)?, rank?}`: where there is not room for all, those of the highest rank go
 * first, and those without one stay; `key(row)` tells rows apart; `open(row)` is called on Enter or click; `opened(row)`
 * tells whether it is the one that is open; `sorting`: `{get(), set(text)}`, the title of a column, with `-` before it downwards;
 * `tree`: `{level(row), expanded(row), toggle(row)}` where rows are a tree (`expanded` undefined: a leaf).
 */
export function table({ label, columns, key, open, tree, sorting, empty = "Nothing here.", opened = () => false }) {
  let rows = [];
  let shown = [];
  let current = null;
  let drawing = 0;
  let width = 0;
  let sorted = "";
  // Columns that there is no room for.
  let away = new Set();
  const body = el("tbody");
  const head = el("tr", {}, columns.map(heading));
  const grid = el("table", { role: tree ? "treegrid" : "grid", "aria-label": label }, el("thead", {}, head), body);
  const nothing = el("p", { class: "nothing", hidden: true }, empty);
  const box = el("div", { class: "scroll" }, grid, nothing);
  const before = spacer();
  const after = spacer();
  const lines = new Map();
  body.append(before, after);

  function heading(column) {
    const cell = el("th", { scope: "col", class: column.class || "" });
    cell.append(column.sort && sorting ? el("button", { type: "button", on: { click: () => sortBy(column) } }, column.title) : column.title);
    return cell;
  }

  function spacer() {
    return el("tr", { class: "spacer", "aria-hidden": "true" }, el("td", { colSpan: columns.length }));
  }

  function sortBy({ title }) {
    sorting.set(sorted === `-${title}` ? title : sorted === title ? "" : `-${title}`);
    arrange();
    draw();
  }

  function arrange() {
    sorted = sorting?.get() || "";
    const down = sorted.startsWith("-");
    const by = columns.find((column) => column.sort && column.title === (down ? sorted.slice(1) : sorted));
    columns.forEach((column, at) => {
      if (column === by) head.children[at].setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.children[at].removeAttribute("aria-sort");
    });
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
    shown = by ? [...rows].sort((a, b) => (down ? -1 : 1) * compare(by.sort(a), by.sort(b))) : rows;
  }

  function line(row, at) {
    const id = key(row);
    const node = el("tr", { tabIndex: id === current ? 0 : -1, "aria-rowindex": String(at + 2), "data-key": id });
    if (open) node.classList.add("can-open");
    if (opened(row)) node.setAttribute("aria-selected", "true");
    if (tree) {
      node.setAttribute("aria-level", String(tree.level(row) + 1));
      const expanded = tree.expanded(row);
      if (expanded !== undefined) node.setAttribute("aria-expanded", String(expanded));
    }
    for (const column of columns) node.append(el("td", { class: column.class || "", hidden: away.has(column) }, column.cell(row)));
    return node;
  }

  function draw() {
    drawing = 0;
    const top = Math.max(0, Math.floor((box.scrollTop - ROW) / ROW) - SPARE);
    const count = Math.ceil((box.clientHeight || 600) / ROW) + 2 * SPARE;
    const first = Math.min(top, Math.max(0, shown.length - count));
    const last = Math.min(shown.length, first + count);
    if (current === null || !shown.some((row) => key(row) === current)) current = shown.length ? key(shown[0]) : null;
    const focused = body.contains(document.activeElement) ? document.activeElement.closest("tr").dataset.key : null;
    before.firstChild.style.height = `${first * ROW}px`;
    after.firstChild.style.height = `${(shown.length - last) * ROW}px`;
    const wanted = new Map(shown.slice(first, last).map((row, at) => [key(row), line(row, first + at)]));
    for (const [id, node] of lines) {
      if (wanted.has(id)) continue;
      node.remove();
      lines.delete(id);
    }
    let place = before;
    for (const [id, fresh] of wanted) {
      const node = lines.has(id) ? patch(lines.get(id), fresh) : fresh;
      lines.set(id, node);
      if (place.nextSibling !== node) place.after(node);
      place = node;
    }
    grid.setAttribute("aria-rowcount", String(shown.length + 1));
    nothing.hidden = shown.length > 0;
    fit();
    if (focused !== null && !body.contains(document.activeElement)) (lines.get(focused) || box).focus({ preventScroll: true });
  }

  /** Leaves columns out until the others have room. */
  function fit() {
    if (box.clientWidth !== width && away.size) show(new Set());
    width = box.clientWidth;
    const ranked = columns.filter((column) => column.rank && !away.has(column)).sort((a, b) => a.rank - b.rank);
    while (ranked.length && grid.scrollWidth > box.clientWidth) show(new Set([...away, ranked.pop()]));
  }

  function show(next) {
    away = next;
    for (const node of [head, ...lines.values()]) columns.forEach((column, at) => { node.children[at].hidden = away.has(column); });
  }

  const later = () => {
    if (!drawing) drawing = requestAnimationFrame(draw);
  };
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
    lines.get(id)?.focus({ preventScroll: true });
  }

  box.addEventListener("scroll", later, { passive: true });
  new ResizeObserver(later).observe(box);
  body.addEventListener("click", (event) => {
    const node = event.target.closest("tr[data-key]");
    // Who marks text does not want it opened.
    if (!node || event.target.closest("a, button") || !getSelection().isCollapsed) return;
    current = node.dataset.key;
    const row = shown[place()];
    if (event.target.closest(".twist")) tree.toggle(row);
    else if (open) open(row);
    later();
  });
  body.addEventListener("focusin", (event) => {
    const id = event.target.dataset.key;
    if (id === undefined || id === current) return;
    for (const node of lines.values()) node.tabIndex = node.dataset.key === id ? 0 : -1;
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
      Enter: () => open && row && open(row),
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
    /** Draws anew what may have changed with the address. */
    draw() {
      arrange();
      later();
    },
    /** Gives the focus to the row for which this holds, where it is there. */
    focus(is) {
      const at = shown.findIndex(is);
      if (at >= 0) move(at);
    },
  };
}
