// The connection to the server's stream of changes (`/v1/stream`), which is kept for as long as the
// page is open.
//
//   connecting ─> live ──(it ends, or is silent for SILENCE)──> lost ─(pause)─> connecting
//        └─> polling: a server without the stream is asked every POLL whether it is there
//
// Read by fetch, since an EventSource sends no token. Pauses grow from 1 to 30 seconds, with some
// chance in them, so that many pages do not come back at the same moment.
//
// Events: `state`; `up` when everything should be read anew; those of the stream: `move`, `resync`,
// `site`, `feed`, `generation`, with their data in `detail`.

import { send } from "./api.js";

const PAUSES_SECONDS = [1, 2, 4, 8, 15, 30];
/** The server writes a comment every 15 seconds. */
const SILENCE_MILLISECONDS = 40_000;
const POLL_MILLISECONDS = 3_000;
/** After so many the stream is tried again. */
const POLLS = 20;
/** A connection that lasts so long was a good one. */
const STEADY_MILLISECONDS = 5_000;
/** A larger event is nothing that the server sends. */
const EVENT_LENGTH_MAX = 32 << 20;

export class Stream extends EventTarget {
  constructor() {
    super();
    this.state = "connecting";
    this.retryAt = null;
    this.collections = [];
    // Whether the page has read everything from this server, and heard of all changes since.
    this.isKnown = false;
    this.failures = 0;
    this.upAt = Infinity;
    this.abort = null;
    this.wake = () => {};
  }

  /** Starts; it never ends. */
  start() {
    this.run();
  }

  /** Which collections to report moves of. */
  watch(collections) {
    if (collections.join("\n") === this.collections.join("\n")) return;
    this.collections = collections;
    if (this.state === "live") this.isKnown = true;
    this.reconnect();
  }

  /** Connects anew at once, as after a new token. */
  restart() {
    this.isKnown = false;
    this.reconnect();
  }

  reconnect() {
    this.failures = 0;
    this.isRestarted = true;
    this.abort?.abort();
    this.wake();
  }

  /** A request failed elsewhere: looks at once whether the server is still there. Failures of a
   * try that is under way are no news. */
  doubt() {
    if (this.state === "live" || this.state === "polling") this.restart();
  }

  async run() {
    for (;;) {
      this.isRestarted = false;
      this.abort = new AbortController();
      if (this.state !== "lost") this.change("connecting");
      try {
        await this.connect(this.abort.signal);
      } catch (error) {
        if (error.status === 401 || error.status === 403) {
          this.change("refused");
          await this.sleep(null);
          continue;
        }
      }
      if (this.isRestarted) continue;
      this.isKnown = false;
      // A server that takes connections and drops them is no better than none.
      if (Date.now() - this.upAt > STEADY_MILLISECONDS) this.failures = 0;
      this.upAt = Infinity;
      const pause = PAUSES_SECONDS[Math.min(this.failures, PAUSES_SECONDS.length - 1)];
      this.failures += 1;
      const milliseconds = pause * 1000 * (0.9 + 0.2 * Math.random());
      this.retryAt = Date.now() + milliseconds;
      this.change("lost");
      await this.sleep(milliseconds);
      this.retryAt = null;
    }
  }

  async connect(signal) {
    const collections = this.collections.map((name) => `&collection=${encodeURIComponent(name)}`);
    const query = `sites=1&feeds=1${collections.join("")}`;
    let response;
    try {
      response = await send(`v1/stream?${query}`, { signal });
    } catch (error) {
      // No such route, or too many streams: the server is there all the same.
      if (error.status < 402 || error.status === 403) throw error;
      return this.poll(signal);
    }
    this.up("live");
    await this.readEvents(response.body, signal);
  }

  /** Events of a body until it ends. */
  async readEvents(body, signal) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser((name, data) => {
      this.dispatchEvent(new CustomEvent(name, { detail: data }));
    });
    for (;;) {
      const silence = setTimeout(() => this.abort.abort(), SILENCE_MILLISECONDS);
      try {
        const { value, done } = await reader.read();
        if (done || signal.aborted) return;
        parser.push(value);
      } finally {
        clearTimeout(silence);
      }
    }
  }

  async poll(signal) {
    for (let turn = 0; turn < POLLS; turn += 1) {
      await send("healthz", { signal }).catch((error) => {
        // A server that is not well answers, too.
        if (error.status !== 503) throw error;
      });
      if (this.state !== "polling") this.up("polling");
      await this.sleep(POLL_MILLISECONDS);
      if (signal.aborted) return;
      this.dispatchEvent(new Event("poll"));
    }
    this.isKnown = true;
    this.reconnect();
  }

  up(state) {
    this.upAt = Date.now();
    this.change(state);
    if (!this.isKnown) this.dispatchEvent(new Event("up"));
    this.isKnown = true;
  }

  change(state) {
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  /** Waits, at most until [`restart`]; null: only until then. */
  sleep(milliseconds) {
    return new Promise((resolve) => {
      const timer = milliseconds === null ? null : setTimeout(resolve, milliseconds);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** Reads the lines of text/event-stream; an event whose data is no JSON is dropped. */
export class EventParser {
  constructor(report) {
    this.report = report;
    this.rest = "";
    this.name = "message";
    this.data = [];
  }

  push(text) {
    this.rest += text;
    if (this.rest.length > EVENT_LENGTH_MAX) throw new Error("an event of the stream is too long");
    const lines = this.rest.split(/\r\n|\n/);
    this.rest = lines.pop();
    for (const line of lines) this.line(line);
  }

  line(line) {
    if (line === "") return this.end();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.name = value;
    if (field === "data") this.data.push(value);
  }

  end() {
    if (this.data.length > 0) {
      let data;
      try {
        data = JSON.parse(this.data.join("\n"));
      } catch {
        data = undefined;
      }
      if (data !== undefined) this.report(this.name, data);
    }
    this.name = "message";
    this.data = [];
  }
}
