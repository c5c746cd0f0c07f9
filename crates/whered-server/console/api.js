// Requests to the server that this page came from, with the token where one was typed in.
//
// The token is in sessionStorage: this tab alone has it, and only until it is closed.
// Addresses are relative to this file, so that the page also works below a path of a proxy.

const BASE = new URL("../", import.meta.url);
const TOKEN_KEY = "whered-token";

/** What the server refused: `status`, `code` and `field` as docs/reference/http.md has them. */
export class ApiError extends Error {
  constructor(status, error) {
    super(error?.message ?? `the server answered with status ${status}`);
    this.status = status;
    this.code = error?.code ?? null;
    this.field = error?.field ?? null;
  }
}

/** Says `token-needed` (a request was refused for its token) and `unreachable`. */
export const requests = new EventTarget();

export const token = {
  get: () => sessionStorage.getItem(TOKEN_KEY),
  set: (value) => sessionStorage.setItem(TOKEN_KEY, value),
  forget: () => sessionStorage.removeItem(TOKEN_KEY),
};

/** A path from parts that may hold any text. */
export const path = (...parts) => parts.map((part) => encodeURIComponent(part)).join("/");

/** A name as a part of a path. One that is no UTF-8 has its exact bytes in base64. */
export function escapedName(name, base64) {
  if (!base64) return encodeURIComponent(name);
  const escaped = (byte) => `%${byte.charCodeAt(0).toString(16).padStart(2, "0")}`;
  return [...atob(base64)].map(escaped).join("");
}

/** Sends a request; gives the response where the server granted it. */
export async function send(target, { query = {}, body, signal } = {}) {
  const url = new URL(target, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  const headers = {};
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const method = body === undefined ? "GET" : "POST";
  let response;
  try {
    response = await fetch(url, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    requests.dispatchEvent(new Event("unreachable"));
    throw new ApiError(0, { message: "the server does not answer" });
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => null);
  const refusal = new ApiError(response.status, answer?.error);
  if (response.status === 401) requests.dispatchEvent(new Event("token-needed"));
  throw refusal;
}

/** Reads JSON. */
export const read = async (target, options) => (await send(target, options)).json();

/** All pages of a list, up to `most` things of `key`. */
export async function readPages(target, key, { count = 1000, most = 10_000, signal } = {}) {
  const found = [];
  let cursor;
  do {
    const page = await read(target, { query: { cursor, count }, signal });
    found.push(...page[key]);
    cursor = page.next;
  } while (cursor && found.length < most);
  return found;
}

/**
 * Like [`read`], but null where the server has no such route or thing, which is then no fault.
 */
export async function readIfThere(target, options) {
  try {
    return await read(target, options);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

/**
 * Runs one task at a time: a newer call aborts the one before, whose result is dropped.
 * Gives undefined where that happened. `stop` aborts what runs.
 */
export function latest(task) {
  let running = null;
  const run = async (...inputs) => {
    running?.abort();
    const own = new AbortController();
    running = own;
    try {
      const result = await task(own.signal, ...inputs);
      return own.signal.aborted ? undefined : result;
    } catch (error) {
      if (own.signal.aborted) return undefined;
      throw error;
    } finally {
      if (running === own) running = null;
    }
  };
  run.stop = () => running?.abort();
  return run;
}
