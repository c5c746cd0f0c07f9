// The view of the feeds: what waits, how fast it goes, and what went wrong.

import { readIfThere } from "./api.js";
import { definitions, element, empty, failure, fill, foreign, visible } from "./dom.js";
import { bytes, count, digits, seconds } from "./format.js";
import { card } from "./lookup.js";

const EXAMPLE = `data_dir = "data"

[[feed]]
name = "sightings"
format = "ndjson"
member = "van"
longitude = "x"
latitude = "y"
time = "t"
into = { collection = "sightings" }`;
/** Readings of the backlog that the little chart shows. */
const HISTORY = 60;

export class FeedsView {
  constructor(root) {
    this.root = root;
    this.feeds = new Map();
    this.history = new Map();
  }

  show() {
    this.isShown = true;
    this.draw();
    this.timer = setInterval(() => this.refresh(), 2_000);
  }

  hide() {
    this.isShown = false;
    clearInterval(this.timer);
  }

  async refresh() {
    try {
      const answer = await readIfThere("v1/feeds");
      this.feeds = new Map();
      for (const feed of answer?.feeds ?? []) this.take(feed);
      this.draw();
    } catch (error) {
      if (this.feeds.size === 0) fill(this.root, failure(error));
    }
  }

  /** A feed's state: event `feed` of the stream. */
  change(feed) {
    this.take({ ...this.feeds.get(feed.name), ...feed });
    this.draw();
  }

  take(feed) {
    this.feeds.set(feed.name, feed);
    const history = this.history.get(feed.name) ?? [];
    history.push(feed.backlog?.uploads ?? 0);
    this.history.set(feed.name, history.slice(-HISTORY));
  }

  draw() {
    if (!this.isShown) return;
    if (this.feeds.size === 0) {
      return fill(
        this.root,
        empty(
          "No feed",
          "A feed takes uploads, which become rows of tables and members of collections.",
          EXAMPLE,
        ),
      );
    }
    fill(
      this.root,
      [...this.feeds.values()].map((feed) => this.feedCard(feed)),
    );
  }

  feedCard(feed) {
    const fault = feed.out_of_service || feed.failed || feed.full;
    const state = fault
      ? element("span", { class: "badge bad" }, feed.out_of_service ? "out of service" : "failing")
      : element(
          "span",
          { class: "badge good" },
          (feed.backlog?.uploads ?? 0) > 0 ? "working" : "idle",
        );
    const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
    return card(
      "Feed",
      feed.name,
      element("p", { class: "row" }, state, this.chart(feed.name)),
      definitions([
        [
          "Backlog",
          `${count(feed.backlog?.uploads)} uploads, ${bytes(feed.backlog?.bytes)}` +
            (feed.lag_seconds > 0 ? `, the oldest waits ${seconds(feed.lag_seconds)}` : ""),
        ],
        [
          "Rate",
          `${digits(feed.uploads_per_second)} uploads/s, ` +
            `${digits(feed.records_per_second)} records/s`,
        ],
        ["Records", `${count(feed.records)} applied, ${count(feed.rejected_records)} rejected`],
        ["Uploads", `${count(feed.uploads)} taken, ${count(feed.rejected_uploads)} rejected`],
        feed.tables?.length > 0 && ["Tables", feed.tables.map((name) => [foreign(name), " "])],
        feed.last_error && [
          "Last error",
          element("span", { class: "bad" }, visible(text(feed.last_error))),
        ],
        feed.failed && ["Failed", element("span", { class: "bad" }, visible(text(feed.failed)))],
        feed.full && ["Disk full", element("span", { class: "bad" }, visible(text(feed.full)))],
      ]),
    );
  }

  /** The backlog of the last readings as bars. */
  chart(name) {
    const history = this.history.get(name) ?? [];
    const most = Math.max(1, ...history);
    const canvas = element("canvas", {
      class: "chart",
      width: 240,
      height: 40,
      "aria-hidden": "true",
    });
    const context = canvas.getContext("2d");
    context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent");
    history.forEach((value, index) => {
      const height = value === 0 ? 2 : Math.max(3, (38 * value) / most);
      context.fillRect((HISTORY - history.length + index) * 4, 40 - height, 3, height);
    });
    return canvas;
  }
}
