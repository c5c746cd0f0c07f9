// The view of the server: its version, its health, what it holds, and its listeners.

import { read, readIfThere } from "./api.js";
import { definitions, element, failure, fill, foreign } from "./dom.js";
import { bytes, count, seconds } from "./format.js";
import { card } from "./lookup.js";
import { tree } from "./reasons.js";

const NOTICE = new URL("./NOTICE.txt", import.meta.url);

export class ServerView {
  constructor(root, { reloadPage }) {
    this.root = root;
    this.reloadPage = reloadPage;
    this.version = null;
  }

  show() {
    this.isShown = true;
    this.refresh();
    this.timer = setInterval(() => this.refresh(), 5_000);
  }

  hide() {
    this.isShown = false;
    clearInterval(this.timer);
  }

  async refresh() {
    try {
      const [status, ready] = await Promise.all([
        readIfThere("v1/status"),
        read("readyz").catch((error) => ({ status: error.status ? "not ready" : "no answer" })),
      ]);
      this.notice(status);
      if (this.isShown) this.draw(status, ready);
    } catch (error) {
      if (this.isShown) fill(this.root, failure(error));
    }
  }

  /** Another version of the server may need another page. */
  notice(status) {
    if (!status?.version) return;
    const version = `${status.version} ${status.commit ?? ""}`;
    if (this.version !== null && this.version !== version) this.reloadPage();
    this.version = version;
  }

  draw(status, ready) {
    const isReady = ready?.status === "ready";
    const badge = element(
      "span",
      { class: isReady ? "badge good" : "badge bad" },
      foreign(ready?.status ?? "?"),
    );
    const cards = [
      card(
        "Server",
        "",
        element("p", null, badge, ready?.reason ? [" ", foreign(ready.reason)] : ""),
        definitions([
          [
            "Version",
            status?.version && [
              foreign(status.version),
              status.commit ? [" ", foreign(status.commit)] : "",
            ],
          ],
          ["Up", Number.isFinite(status?.uptime_seconds) ? seconds(status.uptime_seconds) : null],
          ["Generation", status?.generation ?? ready?.generation],
          ["Process", status?.pid],
        ]),
      ),
    ];
    const shown = new Set([
      "version",
      "commit",
      "uptime_seconds",
      "generation",
      "pid",
      "ready",
      "reason",
    ]);
    for (const [name, value] of Object.entries(status ?? {})) {
      if (shown.has(name)) continue;
      cards.push(card(title(name), "", section(name, value)));
    }
    const licences = element(
      "a",
      { href: NOTICE.href, target: "_blank", rel: "noreferrer" },
      "licences",
    );
    fill(
      this.root,
      cards,
      element(
        "p",
        { class: "muted note" },
        "Outlines: Natural Earth. Packages in this page: ",
        licences,
        ".",
      ),
    );
  }
}

function section(name, value) {
  if (Array.isArray(value)) {
    return element(
      "ul",
      { class: "plain-list" },
      value.map((one) => element("li", null, inline(one))),
    );
  }
  if (value === null || typeof value !== "object") return element("p", null, scalar(name, value));
  const rows = Object.entries(value).map(([key, inner]) => [
    title(key),
    inner !== null && typeof inner === "object" ? section(key, inner) : scalar(key, inner),
  ]);
  return definitions(rows);
}

/** Objects of plain values on one line, others as a tree. */
function inline(value) {
  if (value === null || typeof value !== "object") return foreign(value);
  const values = Object.values(value);
  if (values.some((one) => one !== null && typeof one === "object")) return tree(value);
  return values.flatMap((one, index) => [index > 0 ? " " : "", foreign(one ?? "–")]);
}

function scalar(name, value) {
  if (typeof value !== "number") return foreign(value ?? "–");
  if (name.endsWith("bytes")) return bytes(value);
  if (name.endsWith("seconds")) return seconds(value);
  return count(value);
}

/** `journal_bytes` as `Journal`: the value has the unit. */
function title(name) {
  const words = name.replace(/_(bytes|seconds)$/, "").replaceAll("_", " ");
  return foreign(words.charAt(0).toUpperCase() + words.slice(1));
}
