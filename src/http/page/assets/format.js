// Amounts, times and elements.

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const isBytes = (type) => type === "memory" || type === "ephemeral-storage" || type.startsWith("hugepages-");

const text = (value, digits) => value.toLocaleString("en", { maximumFractionDigits: digits });

/** What is above zero never reads as 0: the smallest part of a core is a thousandth. */
const digits = (value) => (Math.abs(value) >= 100 ? 0 : Math.abs(value) < 0.1 ? 3 : 1);

function unitOf(value) {
  let unit = 0;
  while (Math.abs(value) >= 1024 ** (unit + 1) && unit < BYTES.length - 1) unit += 1;
  return unit;
}

/** An amount of a resource, short. */
export function amount(type, value) {
  if (value === undefined || value === null) return "–";
  if (type === "vcore") return text(value / 1000, digits(value / 1000));
  if (!isBytes(type)) return text(value, 0);
  const unit = unitOf(value);
  const rest = value / 1024 ** unit;
  return `${text(rest, digits(rest))} ${BYTES[unit]}`;
}

/**
 * How amounts of a type are told that stand side by side: short; but exact, in one unit, where two would read alike though they
 * differ, or `holds`, which is given what would be read, says that what is told of them would not hold.
 */
export function figures(type, values, holds = () => true) {
  const read = values.map((value) => {
    if (type !== "vcore" && !isBytes(type)) return value;
    const unit = type === "vcore" ? 1000 : 1024 ** unitOf(value);
    const shift = 10 ** digits(value / unit);
    return (Math.round((value / unit) * shift) / shift) * unit;
  });
  const apart = values.every((a, i) => values.every((b, j) => Math.sign(a - b) === Math.sign(read[i] - read[j])));
  if (apart && holds(...read)) return values.map((value) => amount(type, value));
  if (type === "vcore") return values.map((value) => text(value / 1000, 3));
  let unit = Math.max(...values.map(unitOf));
  while (values.some((value) => (value * 100) % 1024 ** unit !== 0)) unit -= 1;
  return values.map((value) => `${text(value / 1024 ** unit, 2)} ${BYTES[unit]}`);
}

/** A resource type for people; with a value what follows it. */
export const noun = (type, value) => (type !== "vcore" ? type : value === 1000 ? "core" : "cores");

/** All amounts of a resource in one line. */
export function amounts(resource, limit = 3) {
  const types = order(Object.keys(resource || {}).filter((type) => resource[type] !== 0));
  const shown = types.slice(0, limit).map((type) => `${amount(type, resource[type])} ${type === "memory" ? "" : noun(type, resource[type])}`.trim());
  if (types.length > limit) shown.push(`+${types.length - limit}`);
  return shown.join(" · ") || "–";
}

/** Memory and cores first, then by name. */
export function order(types) {
  const rank = (type) => (type === "memory" ? 0 : type === "vcore" ? 1 : 2);
  return [...types].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

export const number = (value) => (value || 0).toLocaleString("en");

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** How long ago, coarse. `now` is the time of the server. */
export function age(text, now) {
  const at = typeof text === "number" ? text : Date.parse(text);
  if (!Number.isFinite(at)) return "–";
  const seconds = Math.max(0, Math.floor((now - at) / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d`;
}

const two = (value) => String(value).padStart(2, "0");

/** A time of day; with the date where it is not today. */
export function clock(text) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return "–";
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} `;
  return `${day}${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** An element; `props` are properties, `data-` and `aria-` attributes, `class`, or `on` with handlers. */
export function el(name, props = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") node.className = value;
    else if (key === "on") for (const [type, handler] of Object.entries(value)) node.addEventListener(type, handler);
    else if (key.includes("-") || key === "role" || key === "scope" || key === "for") node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/**
 * A bar of one resource: what is used, what waits on top of it, a tick where the guarantee is, against `limit`. The figures
 * above it say the same, short where there is no `label`, which tells the type too. `holds`: as of `figures`.
 */
export function bar(type, { used = 0, pending = 0, guaranteed, limit, limited = true, label = false, holds }) {
  const scale = limit > 0 ? limit : 0;
  const share = (value) => (scale ? Math.min(100, (100 * Math.max(0, value)) / scale) : 0);
  const percent = scale ? Math.round((100 * used) / scale) : null;
  const level = !limited ? "free" : percent >= 100 ? "over" : percent >= 90 ? "high" : "";
  const fill = el("i", { class: `fill ${level}` });
  fill.style.width = `${share(used)}%`;
  const wait = el("i", { class: "wait" });
  wait.style.left = `${share(used)}%`;
  wait.style.width = `${Math.min(100 - share(used), share(pending))}%`;
  const tick = el("i", { class: "tick", hidden: !(guaranteed > 0 && scale) });
  if (!tick.hidden) tick.style.left = `${share(guaranteed)}%`;
  const [isUsed, isLimit, isPending, isGuaranteed] = figures(type, [used, limit ?? 0, pending, guaranteed ?? 0], holds);
  const whole = limited ? isLimit : limit > 0 ? `${isLimit} in all` : "no limit";
  const words = [`${isUsed} used of ${whole}`];
  if (guaranteed > 0) words.push(`${isGuaranteed} guaranteed`);
  if (pending > 0) words.push(`${isPending} pending`);
  const said = `${noun(type)}: ${words.join(", ")}`;
  const [hasUsed, hasLimit, hasPending] = label ? [isUsed, isLimit, isPending] : [used, limit, pending].map((value) => amount(type, value));
  const figure = el("span", { class: "figure" }, limit > 0 || limited ? `${hasUsed} / ${limited ? hasLimit : "∞"}` : hasUsed, pending > 0 && el("em", {}, ` +${hasPending}`));
  return el("span", { class: "bar", title: said, role: "img", "aria-label": said }, el("span", { class: "words" }, label && el("span", { class: "of" }, noun(type)), figure), el("span", { class: "track", "aria-hidden": "true" }, fill, wait, tick));
}

/** A state as a word in its colour. */
export const state = (name) => el("span", { class: `state ${String(name).toLowerCase()}` }, name);
