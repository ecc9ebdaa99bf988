// What would be: a change is tried on a copy by the server, which tells what would fare otherwise; a configuration is planned too.

import { post, segment } from "./api.js";
import { quoted } from "./actions.js";
import { el, figures, noun, number, order, plural } from "./format.js";
import { fill } from "./patch.js";

/** Fields that are in the address. The texts are too long for it. */
const FIELDS = ["count", "like", "drain", "undrain", "queue", "set", "app", "user", "asks", "size", "for"];

export function whatif(context) {
  const inputs = {};
  const input = (name, label, placeholder, type = "text") => {
    inputs[name] = el("input", { type, name, placeholder, autocomplete: "off", spellcheck: false, ...(type === "number" ? { min: "0", max: "10000" } : {}) });
    return el("label", {}, `${label} `, inputs[name]);
  };
  const config = el("textarea", { rows: 6, spellcheck: false, placeholder: "partitions: …", name: "config" });
  const fault = el("p", { class: "fault", role: "alert" });
  const out = el("div", { class: "outcome", "aria-live": "polite" });
  const command = el("code", {});
  const plan = el("button", { type: "button" }, "Plan");
  const go = el("button", { type: "submit", class: "main" }, "What if");
  const form = el("form", { class: "whatif", "aria-label": "A change to try" },
    el("fieldset", {}, el("legend", {}, "Nodes"), input("count", "Add", "10", "number"), input("like", "like", "node"), input("drain", "Drain", "n1,n[3-5]"), input("undrain", "Undrain", "n2")),
    el("fieldset", {}, el("legend", {}, "Queue"), input("queue", "Path", "root.a"), input("set", "Settings", "max.memory=2Ti, maxapplications=5")),
    el("fieldset", {}, el("legend", {}, "Application"), input("app", "Queue", "root.a"), input("user", "User", "alice"), input("asks", "Asks", "10", "number"), input("size", "Size of each", "memory=4Gi, vcore=1")),
    el("details", { "data-id": "config" }, el("summary", {}, "Another configuration"), el("label", {}, "As YAML ", config), plan, el("span", { class: "muted" }, " Plan tells which settings, applications and quotas it is about.")),
    el("p", { class: "tools" }, input("for", "Look ahead", "5m"), go, el("span", { class: "muted" }, "Nothing is touched. "), command),
    fault);
  const root = el("section", { class: "pane", "aria-label": "What if" }, form, out);

  const text = (name) => inputs[name].value.trim();
  const pairs = (given) => Object.fromEntries(given.split(",").map((pair) => pair.split("=").map((part) => part.trim())).filter(([name]) => name));

  /** The change as the server takes it. */
  function change() {
    const body = {};
    if (Number(text("count")) > 0) body.nodeAdd = [{ count: Number(text("count")), like: text("like") }];
    if (text("drain")) body.nodeDrain = [text("drain")];
    if (text("undrain")) body.nodeUndrain = [text("undrain")];
    if (text("set")) body.queue = [{ queue: text("queue"), set: pairs(text("set")) }];
    if (text("size")) body.submit = [{ queue: text("app"), user: text("user"), asks: [{ count: Number(text("asks")) || 1, resource: pairs(text("size")) }] }];
    if (config.value.trim()) body.config = config.value;
    if (text("for")) body.for = text("for");
    return body;
  }

  /** What is missing of a change: without it nothing would be tried, and the answer would seem to be about it. */
  function missing() {
    if (text("like") && !(Number(text("count")) > 0)) return "How many nodes are added is missing.";
    if (text("queue") && !text("set")) return "Settings of the queue are missing.";
    if ((text("app") || text("user") || text("asks")) && !text("size")) return "The size of each ask is missing.";
    return "";
  }

  /** The same for the command line, as far as it has no file in it. */
  function words() {
    const all = ["callboard whatif"];
    if (Number(text("count")) > 0) all.push(`--node-add ${quoted(`${text("count")}:like=${text("like")}`)}`);
    if (text("drain")) all.push(`--node-drain ${quoted(text("drain"))}`);
    if (text("undrain")) all.push(`--node-undrain ${quoted(text("undrain"))}`);
    if (text("set")) all.push(`--queue ${quoted(`${text("queue")}:${text("set").replaceAll(" ", "")}`)}`);
    if (text("size")) all.push("--submit APP.yaml");
    if (config.value.trim()) all.push("--config NEW.yaml");
    if (text("for")) all.push(`--for ${quoted(text("for"))}`);
    if (context.partition() !== "default") all.push(`--partition ${quoted(context.partition())}`);
    return all.length > 1 ? `${all.join(" ")} --server ${location.origin}` : "";
  }

  async function run(ask, show) {
    fault.textContent = "";
    go.disabled = plan.disabled = true;
    try {
      const answer = await ask();
      fill(out, show(answer).flat(2));
      context.say("Computed.");
    } catch (error) {
      fault.textContent = error.message;
    }
    go.disabled = plan.disabled = false;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    context.set(Object.fromEntries(FIELDS.map((name) => [name, text(name)])));
    if (missing()) {
      fill(out, []);
      fault.textContent = missing();
      return;
    }
    run(() => post(`/api/v1/whatif?partition=${segment(context.partition())}`, change()), outcome);
  });
  form.addEventListener("input", () => { command.textContent = words(); });
  plan.addEventListener("click", () => run(() => post(`/api/v1/plan${manager()}`, config.value), planned));

  const manager = () => (context.row()?.rm ? `?rm=${segment(context.row().rm)}` : "");

  let told = null;
  function changed() {
    const params = context.params();
    // What was typed and not tried yet stays, unless the address says something else now.
    const said = JSON.stringify(FIELDS.map((name) => params.get(name) || ""));
    if (said === told) return;
    told = said;
    FIELDS.forEach((name) => { if (document.activeElement !== inputs[name]) inputs[name].value = params.get(name) || ""; });
    command.textContent = words();
  }

  const open = (kind, view, id) => el("a", { href: context.address(view, { open: `${kind}:${id}` }) }, id);

  function outcome(answer) {
    const { without, with: then } = answer.whole;
    const types = order(Object.keys({ ...without.capacity, ...then.capacity })).slice(0, 6);
    const used = (type) => {
      const [before, allBefore, after, allAfter] = figures(type, [without.used, without.capacity, then.used, then.capacity].map((all) => all[type] || 0));
      return [`${noun(type)} used`, `${before} / ${allBefore}`, `${after} / ${allAfter}`];
    };
    const average = (type) => {
      const told = figures(type, [without, then].map((whole) => whole.averageUsed[type] || 0));
      const share = (whole) => (100 * (whole.averageUsed[type] || 0) / (whole.averageCapacity[type] || 1)).toFixed(1);
      return [`${noun(type)} used on average`, ...[without, then].map((whole, at) => `${told[at]} (${share(whole)} %)`)];
    };
    const waits = (all) => !all.asks ? "none was placed" : `half ${ahead(all.p50Seconds)}, nine of ten ${ahead(all.p90Seconds)}, all ${ahead(all.longestSeconds)} at most`;
    const rows = [
      ["Allocations", number(without.allocations), number(then.allocations)],
      ["Asks that wait", number(without.waiting), number(then.waiting)],
      ["Asks placed on the way", number(without.placed), number(then.placed)],
      ["Preempted on the way", number(without.preempted), number(then.preempted)],
      ...types.map(used),
      ...(answer.seenSeconds > 0 ? types.map(average) : []),
      ...(answer.seenSeconds > 0 ? [["Waits of those placed", waits(without.waits), waits(then.waits)]] : []),
    ];
    return [
      el("p", {}, `${ahead(answer.seenSeconds)} ahead. ${answer.ends}`),
      !answer.complete && el("p", { class: "bad-text" }, `There was not enough time for all of ${ahead(answer.forSeconds)}: figures are those until then.`),
      ...(answer.warnings || []).map((one) => el("p", { class: "muted" }, `Warning: ${one.message}`)),
      ...(answer.refused || []).map((one) => el("p", { class: "bad-text" }, `Refused: ${one.what}: ${one.reason}`)),
      answer.copy && el("pre", { class: "copy" }, answer.copy),
      grid("The partition", ["", "Without", "With"], rows),
      answer.applications.length ? grid("Applications that would fare otherwise", ["Application", "Queue", "User", "Allocations", "Waiting", "Preempted", "Effect"], answer.applications.map(fate)) : el("p", { class: "muted" }, "No application would fare otherwise."),
      answer.moreApplications > 0 && el("p", { class: "muted" }, `${plural(answer.moreApplications, "application")} more`),
      answer.queues.length > 0 && grid("Queues that would fare otherwise", ["Queue", "Running", ...types.map((type) => `${noun(type)} used`)], answer.queues.map((queue) => [
        queue.there.without ? open("queue", "queues", queue.queueName) : `${queue.queueName} (new)`,
        pair(queue.running, number),
        ...types.map((type) => {
          const both = [queue.used.without, queue.used.with].map((used) => used[type] || 0);
          const told = figures(type, both);
          return pair({ without: both[0], with: both[1] }, (value) => told[both.indexOf(value)]);
        }),
      ])),
    ];
  }

  function fate(app) {
    const effects = [
      app.new && "new",
      app.placedOnly.with && `${number(app.placedOnly.with)} more placed`,
      app.placedOnly.without && `${number(app.placedOnly.without)} no longer placed`,
      app.sooner && `${number(app.sooner)} sooner`,
      app.later && `${number(app.later)} later`,
      app.why,
    ].filter(Boolean);
    return [app.new ? app.applicationID : open("app", "applications", app.applicationID), app.queueName, app.user || "–", pair(app.allocations, number), pair(app.waiting, number), pair(app.preempted, number), effects.join(" · ")];
  }

  function planned(answer) {
    if (answer.unchanged) return [el("p", {}, "This configuration is in force: nothing would change.")];
    return [
      answer.warnings.map((one) =>
        el("p", { class: "muted" }, `Warning${one.line ? `, line ${one.line}` : ""}: ${one.message}`)),
      answer.partitions.flatMap((part) => [
        el("h3", { class: "part" }, `Partition ${part.partition}: ${part.change}`),
        setting(part.settings),
        part.queues.length > 0 && grid("Queues", ["Queue", "Change", "Applications", "Settings"], part.queues.map((queue) => [queue.queueName, queue.change, number(queue.applications), queue.settings.map((one) => `${one.setting}: ${one.from ?? "–"} → ${one.to ?? "–"}`).join(" · ")])),
        part.applications.length > 0 && grid("Applications that would not be admitted", ["Application", "Queue", "Reason"], part.applications.map((app) => [open("app", "applications", app.applicationID), app.queueName, app.reason])),
        part.exceeded.length > 0 && grid("Quotas that would stand below usage", ["Queue", "Whose", "What", "Limit", "Used"], part.exceeded.map((row) => [row.queueName, row.user || row.group || "queue", row.what, number(row.limit), number(row.used)])),
        part.more > 0 && el("p", { class: "muted" }, `${plural(part.more, "row")} more`),
      ]),
    ];
  }

  const setting = (list) => list.map((one) => el("p", {}, `${one.setting}: ${one.from ?? "–"} → ${one.to ?? "–"}`));

  changed();
  return { el: root, changed };
}

const pair = (both, show) => (both.without === both.with ? show(both.with) : el("b", {}, `${show(both.without)} → ${show(both.with)}`));

function ahead(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 360) / 10} h`;
}

function grid(title, heads, rows) {
  return [
    el("h3", { class: "part" }, title),
    el("div", { class: "grid", tabIndex: 0, role: "region", "aria-label": title }, el("table", { class: "small" }, el("thead", {}, el("tr", {}, heads.map((text) => (text ? el("th", { scope: "col" }, text) : el("td", {}))))), el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell) => el("td", {}, cell))))))),
  ];
}
