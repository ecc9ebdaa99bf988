// Reading from the server: with the token of this tab, with a time limit, and as a stream of lines.

const KEY = "callboard.token";
const LIMIT = 20_000;

/** The server wants a token, or does not take this one. */
export class Unauthorized extends Error {}

/** The server answered, and not with what was wanted. */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

let past = null;

/** Calls this with the moment of each answer that is of one of the past. */
export function hear(listener) {
  past = listener;
}

export const token = () => sessionStorage.getItem(KEY) || "";

export function keep(text) {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

async function open(path, signal, body) {
  // No header takes it: a quote that was pasted along, for example.
  if (/[^\x20-\x7e]/.test(token())) throw new Unauthorized("The server does not take this token.");
  const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
  if (body !== undefined) headers["Content-Type"] = typeof body === "string" ? "application/yaml" : "application/json";
  const sent = body === undefined ? {} : { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body) };
  const response = await fetch(path, { ...sent, headers, signal, cache: "no-store", credentials: "omit", redirect: "error" });
  if (response.headers.has("callboard-moment")) past?.(response.headers.get("callboard-moment"));
  if (response.status === 401) throw new Unauthorized(token() ? "The server does not take this token." : "");
  if (!response.ok) throw new Refused(response.status, await detail(response));
  return response;
}

async function detail(response) {
  try {
    const body = await response.json();
    return body.detail || body.message || `status ${response.status}`;
  } catch {
    return `status ${response.status}`;
  }
}

/** One JSON document. */
export async function get(path, signal) {
  const limit = AbortSignal.timeout(LIMIT);
  const response = await open(path, signal ? AbortSignal.any([signal, limit]) : limit);
  return response.json();
}

/** Sends a JSON document, or a text; gives the answer. */
export async function post(path, body) {
  return (await open(path, AbortSignal.timeout(LIMIT), body)).json();
}

/**
 * A stream of JSON lines, as lists of what arrived together. Of more than `most` at once only the last are read; `skipped`
 * says how many were not. A stream that says nothing for half a minute is taken for dead: the server sends empty lines.
 */
export async function* lines(path, signal, most = 1000) {
  const own = new AbortController();
  const response = await open(path, signal ? AbortSignal.any([signal, own.signal]) : own.signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const silence = setTimeout(() => own.abort(new Error("the stream fell silent")), 30_000);
      const { value, done } = await reader.read().finally(() => clearTimeout(silence));
      if (done) return;
      rest += value;
      const end = rest.lastIndexOf("\n");
      if (end < 0) continue;
      const texts = rest.slice(0, end).split("\n").filter((text) => text !== "");
      rest = rest.slice(end + 1);
      const skipped = Math.max(0, texts.length - most);
      if (texts.length) yield { skipped, items: texts.slice(skipped).map((text) => JSON.parse(text)) };
    }
  } finally {
    own.abort();
  }
}

/** A segment of a path. */
export const segment = (text) => encodeURIComponent(text);

/** An id in an address of `/ws/v1`, where one with a slash is escaped twice. */
export const named = (id) => (id.includes("/") ? segment(segment(id)) : segment(id));
