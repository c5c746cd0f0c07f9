// The view of a collection: its members as points that move, or as clusters; and what lies in a
// circle, box or polygon that is drawn.
//
//   members in all, or in what is seen      shown as       moves
//   up to NAMED_MAX                         named points   each by its name, from the stream
//   up to CLOUD_MAX                         a cloud        read again at a pace, see `followMoves`
//   more                                    clusters       read again, seldom

import { ApiError, escapedName, latest, read, readPages, send } from "./api.js";
import { code, element, empty, failure, fill, foreign } from "./dom.js";
import { count, digits, meters, microseconds, place } from "./format.js";
import { options } from "./sites.js";

const NAMED_MAX = 5_000;
const CLOUD_MAX = 200_000;
/** The pauses between two readings while members move, as times of what a reading takes. */
const PACE = { cloud: { least: 40, factor: 2 }, clusters: { least: 1_500, factor: 10 } };
/** Moves are expected for so long after an event. */
const BUSY_MILLISECONDS = 400;
const HITS_PAGE = 100;
const EXAMPLE = "redis-cli -p 6380 GEOADD vans 8.68 50.11 van-1 13.40 52.52 van-2";

export class CollectionsView {
  constructor(root, { map, marks, points, drawing, legend, stream, goHash }) {
    Object.assign(this, { root, map, marks, points, drawing, legend, stream, goHash });
    this.collections = [];
    this.name = null;
    this.busyUntil = 0;
    this.movedAt = -Infinity;
    this.early = null;
    this.select = element("select", {
      id: "collection",
      on: { change: () => this.open(this.select.value) },
    });
    this.summary = element("p", { class: "muted note", id: "collection-summary" });
    this.body = element("div");
    this.controls = element(
      "div",
      { class: "row" },
      element("label", null, "Collection", this.select),
    );
    this.answer = element("div", { "aria-live": "polite" });
    fill(root, this.controls, this.body, this.summary, this.answer);
    this.load = latest((signal) => this.readPoints(signal));
    this.search = latest((signal, drawn, cursor) => this.readHits(signal, drawn, cursor));
    map.addEventListener("view", () => this.viewChanged());
  }

  /** From the part of the location behind `#points/`, or of the select. */
  open(name) {
    if (!name || name === this.name) return;
    this.name = name;
    this.isFresh = true;
    this.points.clear();
    this.drawing.cancel();
    this.marks.found = [];
    fill(this.answer);
    this.goHash("points", name);
    if (this.collections.some((one) => one.name === name)) this.select.value = name;
    if (this.isShown) this.start();
  }

  show() {
    this.isShown = true;
    this.start();
  }

  hide() {
    this.isShown = false;
    clearTimeout(this.timer);
    this.timer = null;
    this.load.stop();
    this.search.stop();
    this.points.clear();
    this.drawing.cancel();
    this.marks.found = [];
    this.legend.hide();
    this.map.invalidate("points", "marks");
    this.stream.watch([]);
  }

  /** Reads the names of the collections anew. */
  async refresh() {
    try {
      const found = await readPages("v1/collections", "collections");
      this.take(found.filter(({ kind }) => kind !== "scores"));
    } catch (error) {
      fill(this.body, failure(error));
    }
  }

  take(collections) {
    this.collections = collections;
    this.controls.hidden = collections.length === 0;
    if (collections.length === 0) {
      fill(
        this.body,
        empty(
          "No collection",
          "A collection holds named points; Redis's GEO commands fill it.",
          EXAMPLE,
        ),
      );
      this.summary.textContent = "";
      return;
    }
    fill(this.body);
    const names = collections.map(({ name }) => name);
    if (!names.includes(this.name)) {
      this.name = names[0];
      this.isFresh = true;
    }
    options(this.select, names, this.name);
    if (this.isShown) this.start();
  }

  own() {
    return this.collections.find(({ name }) => name === this.name);
  }

  path() {
    return `v1/collections/${escapedName(this.name, this.own()?.name_base64)}`;
  }

  start() {
    if (!this.own()) return;
    this.stream.watch([this.name]);
    if (this.isFresh && this.own().bounds) this.map.showBox(this.own().bounds);
    this.isFresh = false;
    this.reload();
  }

  /** Clusters, and parts of large collections, depend on what is seen. */
  viewChanged() {
    if (this.isShown && this.own() && this.own().members > CLOUD_MAX) this.reload();
  }

  async reload() {
    clearTimeout(this.timer);
    this.timer = null;
    const began = performance.now();
    // Moves that come while the answer is under way may be newer than the answer.
    this.early = [];
    try {
      const shown = await this.load();
      if (!shown || !this.isShown) return;
      if (shown.kind === "named") this.early.forEach((event) => this.points.apply(event));
      this.took = performance.now() - began;
      this.map.invalidate("points");
      this.showSummary(shown);
      if (performance.now() < this.busyUntil) this.followMoves();
    } catch (error) {
      this.summary.textContent = error.message;
    }
  }

  /** Reads what the layer shows; gives what the summary says. */
  async readPoints(signal) {
    const base = this.path();
    const isLarge = this.own().members > CLOUD_MAX;
    const box = (isLarge ? this.map.box() : [-180, -90, 180, 90])
      .map((side) => side.toFixed(6))
      .join();
    let total = this.own().members;
    if (isLarge) {
      const query = { box, zoom: this.map.zoomLevel() };
      const answer = await read(`${base}/clusters`, { query, signal });
      if (signal.aborted) return null;
      if (answer.total > CLOUD_MAX / 4) {
        this.points.setClusters(answer.clusters);
        const { total: inBox, took_microseconds: took } = answer;
        return { kind: "clusters", total: inBox, shown: answer.clusters.length, took };
      }
      ({ total } = answer);
    }
    if (total <= NAMED_MAX) {
      const answer = await read(`${base}/within`, { query: { box, count: NAMED_MAX }, signal });
      if (signal.aborted) return null;
      if (answer.total <= NAMED_MAX) {
        this.points.setNamed(answer.hits);
        return { kind: "named", total: answer.total, took: answer.took_microseconds };
      }
    }
    const response = await send(`${base}/points`, { query: { box, limit: CLOUD_MAX }, signal });
    total = Number(response.headers.get("x-whered-total"));
    const buffer = await response.arrayBuffer();
    if (signal.aborted) return null;
    if (!this.points.setCloud(buffer)) throw new ApiError(200, { message: "these are no points" });
    return { kind: "cloud", total };
  }

  showSummary({ kind, total, shown, took }) {
    const what = {
      named: "as points",
      cloud: "as a cloud",
      clusters: `as ${count(shown)} clusters`,
    }[kind];
    const time = Number.isFinite(took) ? `, ${microseconds(took)} in the server` : "";
    const where = this.own().members > CLOUD_MAX ? " in view" : "";
    this.summary.textContent =
      `${count(total)} members${where} ${what}${time}. ` +
      "Draw a shape on the map: which members? A click: the nearest ones.";
    this.root.dataset.kind = kind;
    this.root.dataset.total = total;
    const words = kind === "clusters" ? "number: members" : "a dot: a member; stronger: many";
    this.legend.show(this.name, element("p", null, words), null);
  }

  /** Moves of members: events `move` and `resync` of the stream. */
  moved(event) {
    if (!this.isShown || event.collection !== this.name) return;
    this.early?.push(event);
    if (this.points.kind === "named" && event.changes) {
      this.points.apply(event);
      this.map.invalidate("points");
      if (this.points.named.size > NAMED_MAX) this.refresh();
      return;
    }
    const now = performance.now();
    // One event is a change; two in a row are a collection that moves.
    if (now - this.movedAt < BUSY_MILLISECONDS) this.busyUntil = now + BUSY_MILLISECONDS;
    this.movedAt = now;
    this.followMoves();
  }

  /** Reads again after a pause that leaves the server and the network mostly idle. */
  followMoves() {
    if (this.timer || document.hidden) return;
    const { least, factor } = PACE[this.points.kind] ?? PACE.cloud;
    const pause = Math.max(least, (this.took ?? 0) * factor);
    this.timer = setTimeout(() => this.reload(), pause);
  }

  /** A shape was drawn: which members, and how long did it take? */
  async drawn(shape) {
    fill(this.answer);
    try {
      const answer = await this.search(shape);
      if (answer) this.showHits(shape, answer, answer.hits);
    } catch (error) {
      fill(this.answer, failure(error));
    }
  }

  /** A page of the members inside; `cursors` are those of the page before, one for each part. */
  async readHits(signal, drawn, cursors) {
    const parts = drawn.polygons ?? [undefined];
    const pages = await Promise.all(
      parts.map((polygon, index) => {
        const cursor = cursors?.[index];
        return cursors && !cursor ? null : this.readPart(signal, drawn, polygon, cursor);
      }),
    );
    const sum = (key) => pages.reduce((all, page) => all + (page?.[key] ?? 0), 0);
    const next = pages.map((page) => page?.next);
    return {
      total: sum("total"),
      took_microseconds: sum("took_microseconds"),
      hits: pages.flatMap((page) => page?.hits ?? []),
      next: next.some(Boolean) ? next : null,
    };
  }

  readPart(signal, drawn, polygon, cursor) {
    const query = { count: HITS_PAGE, cursor };
    if (drawn.kind === "circle") {
      [query.longitude, query.latitude] = drawn.center;
      query.radius_meters = drawn.radius;
    } else if (drawn.kind === "box") {
      query.box = drawn.box.join();
    }
    return read(`${this.path()}/within`, { query, body: polygon, signal });
  }

  showHits(drawn, answer, hits) {
    this.marks.found = hits;
    this.map.invalidate("marks");
    const titles = {
      circle: () => `Circle of ${meters(drawn.radius)} around ${place(...drawn.center)}`,
      box: () => `Box ${drawn.box.map((side) => digits(side)).join(", ")}`,
      polygon: () => `Polygon of ${drawn.corners} corners`,
    };
    const more = async () => {
      try {
        const page = await this.search(drawn, answer.next);
        if (page) this.showHits(drawn, { ...page, total: answer.total }, [...hits, ...page.hits]);
      } catch (error) {
        this.answer.append(failure(error));
      }
    };
    const rows = hits.map(({ member, longitude, latitude }) =>
      element(
        "li",
        null,
        element(
          "button",
          {
            class: "link",
            type: "button",
            on: { click: () => this.map.goTo([longitude, latitude]) },
          },
          foreign(member),
        ),
        element("span", { class: "muted" }, place(longitude, latitude, 4)),
      ),
    );
    const hasMore = Boolean(answer.next);
    fill(
      this.answer,
      element(
        "article",
        { class: "card", id: "within" },
        element("h3", null, titles[drawn.kind]()),
        element(
          "p",
          null,
          element("strong", null, `${count(answer.total)} members`),
          ` in ${microseconds(answer.took_microseconds)}`,
        ),
        element("ol", { class: "hits" }, rows),
        hasMore ? element("button", { type: "button", on: { click: more } }, "More") : null,
      ),
    );
  }

  /** A click on the map: the member that is nearest. */
  async choose({ degrees, at }) {
    if (!this.own()) return;
    const found = this.points.near(at, this.map);
    if (found?.count > 1)
      return this.map.goTo([found.longitude, found.latitude], this.map.transform.k * 4);
    const [longitude, latitude] = degrees.map((one) => one.toFixed(6));
    try {
      const { hits } = await read(`${this.path()}/near`, {
        query: { longitude, latitude, count: 5 },
      });
      this.marks.found = hits;
      this.map.invalidate("marks");
      const rows = hits.map(({ member, distance_meters: distance }) =>
        element("li", null, code(member), element("span", { class: "muted" }, meters(distance))),
      );
      fill(
        this.answer,
        element(
          "article",
          { class: "card", id: "nearest" },
          element("h3", null, `Nearest to ${place(...degrees)}`),
          element("ol", { class: "hits" }, rows),
        ),
      );
    } catch (error) {
      fill(this.answer, failure(error));
    }
  }

  tip({ at }) {
    const found = this.points.near(at, this.map);
    if (!found) return null;
    if (found.count > 1) return `${count(found.count)} members`;
    return found.member === undefined ? "1 member" : foreign(found.member);
  }
}
