// The health pill and what it opens: each check and what to do where it failed, resource managers, and the log level.

import { Refused, get, post } from "./api.js";
import { cluster } from "./cluster.js";
import { age, el, plural } from "./format.js";
import { fill } from "./patch.js";

const REPORT = "Read the log, which names the object, and report it with a state dump (/debug/fullstatedump). Scheduling goes on.";
// What an operator does first; docs/troubleshooting.md says more.
const REMEDIES = {
  "Scheduling errors": REPORT,
  // Of nodes it is mostly the resource manager's doing; of partitions it is not.
  "Negative resources": "More is on the nodes that are named than they have: mostly the resource manager made them smaller, or others run there, and nothing is wrong here. Where partitions are named, or the log has books-inconsistent, report it with a state dump (/debug/fullstatedump).",
  "Consistency of data": REPORT,
  "Orphan allocation on node check": REPORT,
  "Orphan allocation on app check": REPORT,
  "Unconfirmed releases": "Look after the shim: GET /api/v1/partition/{partition}/releases names what it has not confirmed.",
  "Resource journal": "Read resource.damage in the directory of the journal, look after the disk, and remove that file when it is settled.",
  "Log": "Make room on the disk, or look at the directory that the message names. Nothing new is placed until it can be written.",
  "Data directory": "Put it back where it was. Where that is not possible, restart the server: resource managers register again, and drains are said again.",
  "Partitions answer": "Look after the disk of the data directory: what hangs there holds up the partition.",
  "Overdue drains": "Look at the nodes: what still runs there is named.",
  "Audit log": "Where it cannot be written, make room on the disk before the server is restarted: records wait in memory meanwhile. Where records are missing, find out what changed files of the data directory.",
  "Event store": "Make room on the disk, or set the clock right. Nothing has to be restarted: events wait in memory meanwhile.",
};

export function server(context, pill, dialog) {
  const body = dialog.querySelector(".body");
  let health = {};
  let level = null;
  let fault = "";
  const servers = cluster(context, body, () => show());

  const check = (kind, mark) => ({ Name, DiagnosisMessage, Description }) => el("li", { class: kind }, el("b", {}, `${mark} ${Name}`), el("p", {}, DiagnosisMessage), kind !== "fine" && el("p", { class: "remedy" }, el("b", {}, "What to do: "), REMEDIES[Name] || Description));
  const manager = ({ rmID, state, since, why }) => el("li", {}, el("b", {}, rmID), ` ${state}${since ? ` for ${age(since, context.now())}` : ""}${why ? `: ${why}` : ""}`);

  function show() {
    const checks = health.HealthChecks || [];
    const fine = checks.filter((one) => one.Succeeded);
    const managers = context.overview()?.resourceManagers || [];
    fill(body, [
      el("h3", { class: "part" }, "Health"),
      el("ul", { class: "checks" }, checks.filter((one) => !one.Succeeded).map(check("bad", "✕")), (health.Warnings || []).map(check("warn", "!"))),
      el("details", { "data-id": "fine" }, el("summary", {}, `${plural(fine.length, "check")} passed`), el("ul", { class: "checks" }, fine.map(check("fine", "✓")))),
      el("h3", { class: "part" }, "Resource managers"),
      managers.length ? el("ul", { class: "checks" }, managers.map(manager)) : el("p", { class: "muted" }, context.overview()?.partitions.length ? "None has its session here." : "None was registered."),
      (context.overview()?.unanswered || []).map((why) => el("p", { class: "fault" }, why)),
      servers.part(),
      el("h3", { class: "part" }, "Log"),
      el("p", { class: "line", hidden: !level }, el("label", {}, "Level ", el("select", { id: "log-level", disabled: !context.operates() }, ["debug", "info", "warn", "error"].map((name) => el("option", { value: name }, name)))), " ", el("button", { type: "button", "data-do": "reset", hidden: !level?.operator }, "As configured"), el("span", { class: "muted" }, level?.environment ? `RUST_LOG says ${level.environment}` : "")),
      context.operates() ? el("p", { class: "muted" }, "On the command line: ", el("code", {}, `callboard log-level debug --server ${location.origin}`)) : el("p", { class: "muted" }, context.moment() === undefined ? "Changing it takes a token with the role operator." : "Nothing can be changed in the past."),
      el("p", { class: "fault", role: "alert" }, fault),
      el("p", { class: "muted" }, `Callboard ${context.overview()?.version || ""}`),
    ]);
    const select = body.querySelector("#log-level");
    if (level && document.activeElement !== select) select.value = level.level;
  }

  async function change(to) {
    try {
      level = await post("/api/v1/log/level", { level: to });
      fault = "";
    } catch (error) {
      fault = error.message;
    }
    show();
  }

  body.addEventListener("change", (event) => event.target.id === "log-level" && change(event.target.value));
  body.addEventListener("click", (event) => event.target.dataset.do === "reset" && change(null));
  pill.addEventListener("click", () => {
    show();
    dialog.showModal();
    refresh().catch(context.failed);
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());

  async function refresh() {
    try {
      health = await get("/ws/v1/scheduler/healthcheck");
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      pill.hidden = true;
      return;
    }
    const failed = health.HealthChecks?.filter((one) => !one.Succeeded).length || 0;
    const warnings = health.Warnings?.length || 0;
    pill.hidden = false;
    pill.textContent = !health.Healthy ? `${plural(failed, "check")} failed` : warnings ? plural(warnings, "warning") : "Healthy";
    pill.className = `pill ${!health.Healthy ? "bad" : warnings ? "wait" : "good"}`;
    if (!dialog.open) return;
    level = await get("/api/v1/log/level");
    await servers.refresh();
    show();
  }

  return { refresh };
}
