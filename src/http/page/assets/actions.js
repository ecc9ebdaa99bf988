// What operators do from a panel, each with the same as a command; others are told what it takes.

import { post, segment } from "./api.js";
import { el } from "./format.js";

/** A word as a shell takes it. */
export const quoted = (text) => (/^[\w.,:@%+=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** What can be done: each with its path below the partition, its body, and its command. */
const ACTIONS = {
  /** `targets`: what is meant now; `name`: what is meant later too, when ranks may be those of others. */
  node({ targets, name, drained, own }) {
    if (!drained) return [{ title: "Drain", path: "resource/drain", body: { targets }, command: `resource drain ${quoted(name)}`, reason: true }];
    // What the resource manager drained is not ours to undrain.
    return own ? [{ title: "Undrain", path: "resource/undrain", body: { targets }, command: `resource undrain ${quoted(name)}` }] : [];
  },
  queue({ path, told }) {
    const to = (title, word, reason) => ({ title, path: `queue/${segment(path)}/${word}`, body: {}, command: `queue ${word} ${quoted(path)}${reason ? " --reason" : ""}`, reason });
    if (!told) return [to("Stop", "stop", true), to("Drain", "drain", true)];
    // What was told a queue above is taken back there.
    return told.queue === path ? [to("Resume", "resume", false)] : [];
  },
};

/** The part of a panel with what can be done. */
export function operations(context, kind, about) {
  const list = ACTIONS[kind](about);
  if (!list.length || context.moment() !== undefined) return null;
  if (!context.operates()) return el("p", { class: "muted" }, `${list.map(({ title }) => title).join(", ")}: takes a token with the role operator.`);
  const command = ({ command: words, reason }) => `callboard ${words}${reason ? " REASON" : ""} --server ${location.origin}${context.partition() === "default" ? "" : ` --partition ${quoted(context.partition())}`}`;
  return el("form", { class: "operations" },
    list.some(({ reason }) => reason) && el("input", { name: "reason", placeholder: "reason", "aria-label": "Reason", autocomplete: "off" }),
    list.map((action) => el("button", { type: "button", "data-do": "act", "data-path": action.path, "data-body": JSON.stringify(action.body), "data-reason": action.reason ? "yes" : "" }, action.title)),
    el("p", { class: "fault", role: "alert", "data-keep": "" }),
    list.map((action) => el("p", { class: "muted copy" }, el("code", {}, command(action)), el("button", { type: "button", "data-do": "copy" }, "Copy"))));
}

/** Carries out what is pressed in a panel. */
export function act(context, body, done) {
  body.addEventListener("submit", (event) => {
    event.preventDefault();
    event.target.querySelector("[data-do=act]")?.click();
  });
  body.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-do]");
    if (!button) return;
    if (button.dataset.do === "copy") {
      await copy(button.parentElement.querySelector("code"));
      context.say("Copied.");
      return;
    }
    const form = button.closest("form");
    const reason = form.querySelector("[name=reason]")?.value.trim();
    const fault = form.querySelector(".fault");
    fault.textContent = "";
    button.disabled = true;
    try {
      await post(`/api/v1/partition/${segment(context.partition())}/${button.dataset.path}`, { ...JSON.parse(button.dataset.body), ...(button.dataset.reason && reason ? { reason } : {}) });
      context.say(`${button.textContent}: done.`);
      await done();
      context.refresh();
    } catch (error) {
      fault.textContent = error.message;
    }
    button.disabled = false;
    // Who pressed it by keyboard goes on in the panel: what had the focus has gone, or could not keep it.
    if (document.activeElement === document.body) body.closest("aside")?.focus();
  });
}

async function copy(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    // Not over plain HTTP from elsewhere: it is marked, to be copied by hand.
    getSelection().selectAllChildren(code);
  }
}
