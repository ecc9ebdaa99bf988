// What the server's dialog shows of a cluster: servers, who leads which resource manager, and how far the others follow.

import { Refused, get, post } from "./api.js";
import { el, number } from "./format.js";

const PATH = "/api/v1/cluster";

/** The part of the dialog whose body is `box`. */
export function cluster(context, box, changed) {
  let shown = null;
  let alone = false;
  let fault = "";

  const name = (id) => {
    const at = shown.servers.find((server) => server.id === id);
    return at?.http || id || "nobody";
  };
  const button = (text, label, path, body) => el("button", { type: "button", "aria-label": label, "data-do": "cluster", "data-path": path, "data-body": JSON.stringify(body) }, text);

  async function act(path, body) {
    try {
      shown = await post(`${PATH}/${path}`, body);
      fault = "";
    } catch (error) {
      fault = error.message;
    }
    changed();
  }
  box.addEventListener("click", (event) => {
    const pressed = event.target.closest("[data-do=cluster]");
    if (pressed) act(pressed.dataset.path, JSON.parse(pressed.dataset.body));
  });

  function server(row) {
    const here = row.id === shown.server ? " (this one)" : "";
    const at = row.http || row.id;
    const drained = row.drained ? `drained${row.drained.by ? ` by ${row.drained.by}` : ""}${row.drained.reason ? `: ${row.drained.reason}` : ""}` : "";
    const broken = (row.follows || []).filter((follow) => follow.fault);
    return el(
      "li",
      { class: row.state === "there" && !broken.length ? (row.drained ? "warn" : "fine") : "bad" },
      el("b", {}, at),
      `${here} ${row.state}, leads ${number(row.leads)}, follows ${number((row.follows || []).length - broken.length)}${drained ? `, ${drained}` : ""} `,
      context.operates() && (row.drained ? button("Undrain", `Let ${at} lead again`, "undrain", { server: row.id }) : button("Drain", `Have ${at} lead nothing`, "drain", { server: row.id })),
      broken.map((follow) => el("p", {}, `cannot follow ${follow.rmID}: ${follow.fault}`)),
    );
  }

  function follower(row, group) {
    const follow = (row.follows || []).find((one) => one.rmID === group.rmID);
    if (!follow) return null;
    const behind = Math.max(0, group.index - follow.applied);
    return el("li", {}, `${row.http || row.id}: `, follow.fault ? "what it applies differs, or cannot be read" : `record ${number(follow.applied)}${behind ? `, ${number(behind)} behind` : ""}, digests equal`);
  }

  function group(row) {
    const full = row.bytes >= row.maxBytes;
    const others = shown.servers.filter((at) => at.state === "there" && at.id !== row.leader && !at.drained);
    return el(
      "li",
      { class: row.led && !row.fault && !full ? "fine" : "bad" },
      el("b", {}, row.rmID),
      ` led by ${name(row.leader)}${row.led ? "" : " (which is gone)"}, epoch ${number(row.epoch)}, record ${number(row.index)}, ${(row.bytes / 1048576).toFixed(1)} MiB in etcd${full ? ": no room, nothing new is placed" : ""}`,
      row.role !== "leads" && el("p", {}, `This server ${row.role}${row.lag === undefined ? "" : `, ${row.lag.toFixed(1)} s behind at most`}${row.fault ? `: ${row.fault}` : ""}.`),
      el("ul", {}, shown.servers.map((at) => follower(at, row))),
      context.operates() && row.led && others.map((at) => button(`Move to ${at.http || at.id}`, `Have ${at.http || at.id} lead ${row.rmID}`, "move", { rm: row.rmID, server: at.id })),
    );
  }

  return {
    async refresh() {
      if (alone) return;
      try {
        shown = await get(PATH);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        alone = error.status === 404;
      }
    },
    /** The part of the dialog; nothing where the server is alone. */
    part() {
      if (!shown) return null;
      const { etcd, servers, resourceManagers } = shown;
      return el(
        "section",
        { id: "cluster" },
        el("h3", { class: "part" }, "Cluster"),
        el("p", { class: etcd.trouble ? "fault" : "muted" }, etcd.trouble ? `etcd: ${etcd.trouble}` : `etcd ${etcd.version || ""} answers (${etcd.members}${etcd.bytes ? `, ${(etcd.bytes / 1048576).toFixed(1)} MiB` : ""})`),
        el("ul", { class: "checks" }, servers.map(server)),
        el("ul", { class: "checks" }, resourceManagers.map(group)),
        el("p", { class: "fault", role: "alert" }, fault),
      );
    },
  };
}
