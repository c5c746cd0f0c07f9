// The view of a pool: its sites with their states, the catchment area of each on the map, and the
// site for a place that is clicked, with the reasons.

import { latest, path, read, readIfThere, readPages } from "./api.js";
import { element, empty, failure, fill, foreign } from "./dom.js";
import { count, percent, place, short } from "./format.js";
import { chosenSites, poolReasons } from "./reasons.js";
import { categoryColor } from "./theme.js";

/** Sides of cells: where few have clients, far away, and close to. */
const CELL_DEGREES = { sparse: 3, far: 1, near: 0.25 };
const SPARSE_CELLS = 300;
const NEAR_ZOOM = 5;
/** Changes within so many milliseconds are drawn as one. */
const GATHER_MILLISECONDS = 40;
const EXAMPLE = `[[pool]]
name = "www"
owners = []                     # names of a [[zone]]

[[pool.site]]
name = "fra"
at = { longitude = 8.68, latitude = 50.11 }
addresses = ["192.0.2.10"]`;

export class SitesView {
  constructor(root, { map, marks, catchment, legend, goHash }) {
    Object.assign(this, { root, map, marks, catchment, legend, goHash });
    this.pool = null;
    this.sites = [];
    this.databases = [];
    this.answer = element("div", { "aria-live": "polite" });
    this.list = element("div");
    this.poolSelect = element("select", {
      id: "pool",
      on: { change: () => this.choosePool(this.poolSelect.value) },
    });
    this.databaseSelect = element("select", {
      id: "catchment-database",
      on: { change: () => this.draw() },
    });
    this.note = element("p", { class: "muted note" });
    this.controls = element(
      "div",
      { class: "row" },
      element("label", null, "Pool", this.poolSelect),
      element("label", null, "Clients of", this.databaseSelect),
    );
    fill(root, this.controls, this.list, this.note, this.answer);
    this.loadArea = latest((signal) => this.readArea(signal));
    map.addEventListener("view", () => {
      if (this.isShown && this.isNear !== undefined && this.isNear !== this.seesNear()) this.draw();
    });
    this.ask = latest((signal, pool, [longitude, latitude]) =>
      read(`v1/pools/${path(pool)}/choose`, {
        query: { longitude: longitude.toFixed(5), latitude: latitude.toFixed(5), explain: 1 },
        signal,
      }),
    );
  }

  /** From the part of the location behind `#sites/`. */
  open(pool) {
    if (pool && pool !== this.pool && this.sites.some((site) => site.pool === pool))
      this.choosePool(pool);
    this.wanted = pool || null;
  }

  show() {
    this.isShown = true;
    this.showMarks();
    this.draw();
  }

  hide() {
    this.isShown = false;
    this.loadArea.stop();
    this.ask.stop();
    this.catchment.clear();
    this.marks.setSites([]);
    this.marks.asked = null;
    this.marks.ways = [];
    this.legend.hide();
    this.map.invalidate("base", "marks");
  }

  /** Reads the sites and databases anew. */
  async refresh() {
    try {
      const [sites, databases] = await Promise.all([
        readPages("v1/sites", "sites"),
        readIfThere("v1/databases"),
      ]);
      this.databases = (databases?.databases ?? []).map(({ name }) => name);
      this.take(sites);
    } catch (error) {
      fill(this.list, failure(error));
    }
  }

  take(sites) {
    this.sites = sites;
    const pools = [...new Set(sites.map(({ pool }) => pool))];
    this.controls.hidden = pools.length === 0;
    if (pools.length === 0) {
      fill(
        this.list,
        empty("No pool", "A pool answers DNS with the nearest healthy one of its sites.", EXAMPLE),
      );
      this.note.textContent = "";
      return;
    }
    options(this.poolSelect, pools, this.pool ?? this.wanted);
    options(this.databaseSelect, this.databases, this.databaseSelect.value);
    this.databaseSelect.disabled = this.databases.length === 0;
    if (!pools.includes(this.pool)) this.pool = this.poolSelect.value;
    this.showMarks();
    this.showList();
    if (this.isShown) this.draw();
  }

  choosePool(pool) {
    this.pool = pool;
    this.poolSelect.value = pool;
    this.goHash("sites", pool);
    fill(this.answer);
    this.marks.asked = null;
    this.marks.ways = [];
    this.showMarks();
    this.showList();
    this.draw();
  }

  own() {
    return this.sites.filter(({ pool }) => pool === this.pool);
  }

  indexOf(name) {
    const index = this.catchment.sites.indexOf(name);
    return index >= 0 ? index : this.own().findIndex(({ site }) => site === name);
  }

  showMarks() {
    if (!this.isShown) return;
    this.marks.setSites(
      this.own().map((site) => ({
        name: site.site,
        longitude: site.longitude,
        latitude: site.latitude,
        isUp: site.healthy,
        index: this.indexOf(site.site),
      })),
    );
    this.map.invalidate("marks");
  }

  /** A site's state has changed: event `site` of the stream. */
  change(news) {
    const found = this.sites.find(({ pool, site }) => pool === news.pool && site === news.site);
    // The first event of a stream gives what is known already.
    const isNews = ["healthy", "state", "override"].some((key) => found?.[key] !== news[key]);
    if (!isNews && !news.removed) return;
    if (found && !news.removed) Object.assign(found, news);
    if (this.gather) return;
    this.gather = setTimeout(() => {
      this.gather = null;
      this.refresh();
    }, GATHER_MILLISECONDS);
  }

  seesNear() {
    return this.map.zoomLevel() >= NEAR_ZOOM;
  }

  /** The catchment in cells that are seen: small ones when the map is near. */
  async readArea(signal) {
    const target = `v1/pools/${path(this.pool)}/catchment`;
    const ask = async (degrees) => {
      const query = { database: this.databaseSelect.value, cell_degrees: degrees };
      return { answer: await read(target, { query, signal }), degrees };
    };
    this.isNear = this.seesNear();
    const found = await ask(this.isNear ? CELL_DEGREES.near : CELL_DEGREES.far);
    const isSparse = !this.isNear && found.answer.cells.length < SPARSE_CELLS;
    return isSparse ? ask(CELL_DEGREES.sparse) : found;
  }

  async draw() {
    if (!this.isShown || !this.pool) return;
    if (this.databases.length === 0) {
      this.note.textContent = "Catchment areas need a database with places.";
      return;
    }
    const began = performance.now();
    try {
      const found = await this.loadArea();
      if (!found || !this.isShown) return;
      const { answer, degrees } = found;
      this.catchment.set(answer, degrees);
      this.map.invalidate("base");
      this.note.textContent =
        `Catchment of ${count(answer.cells.length)} cells of ${degrees}° in ` +
        `${Math.round(performance.now() - began)} ms, generation ${answer.generation}. ` +
        "Click on the map: which site, and why?";
      this.root.dataset.generation = answer.generation;
    } catch (error) {
      this.catchment.clear();
      this.map.invalidate("base");
      this.note.textContent = `No catchment areas: ${error.message}`;
    }
    this.showMarks();
    this.showList();
  }

  showList() {
    const totals = this.catchment.totals;
    const whole = [...totals.values()].reduce((sum, { addresses }) => sum + addresses, 0);
    const rows = this.own().map((site) => {
      const index = this.indexOf(site.site);
      const total = totals.get(index);
      const go = () => this.map.goTo([site.longitude, site.latitude]);
      return element(
        "tr",
        { class: site.healthy ? null : "down" },
        element(
          "td",
          null,
          swatch(index, site.healthy),
          Number.isFinite(site.longitude)
            ? element(
                "button",
                { class: "link", type: "button", on: { click: go } },
                foreign(site.site),
              )
            : foreign(site.site),
        ),
        element("td", { class: site.healthy ? "good" : "bad" }, foreign(stateOf(site))),
        element("td", { class: "number" }, total ? short(total.addresses) : "–"),
        element("td", { class: "number" }, percent(total?.addresses ?? 0, whole)),
      );
    });
    fill(
      this.list,
      element(
        "table",
        null,
        element(
          "thead",
          null,
          element(
            "tr",
            null,
            element("th", { scope: "col" }, "Site"),
            element("th", { scope: "col" }, "State"),
            element("th", { scope: "col", class: "number" }, "IPv4"),
            element("th", { scope: "col", class: "number" }, "Share"),
          ),
        ),
        element("tbody", null, rows),
      ),
    );
    this.showLegend();
  }

  showLegend() {
    if (!this.isShown) return;
    const rows = this.own().map((site) => {
      const index = this.indexOf(site.site);
      return element(
        "li",
        null,
        swatch(index, site.healthy),
        foreign(site.site),
        site.healthy ? "" : " (down)",
      );
    });
    this.legend.show(
      "Site of most addresses",
      element("ul", null, rows),
      "stronger: more addresses",
    );
  }

  /** A click on the map. */
  async choose({ degrees }) {
    if (!this.pool) return;
    this.marks.asked = degrees;
    this.marks.ways = [];
    this.map.invalidate("marks");
    try {
      const reasons = await this.ask(this.pool, degrees);
      if (!reasons) return;
      const [name] = chosenSites(reasons);
      const site = this.own().find((one) => one.site === name);
      if (Number.isFinite(site?.longitude)) {
        this.marks.ways = [{ from: degrees, to: [site.longitude, site.latitude] }];
      }
      fill(
        this.answer,
        element(
          "article",
          { class: "card", id: "chosen" },
          element(
            "h3",
            null,
            element("span", { class: "kind" }, "A client at"),
            " ",
            place(...degrees),
          ),
          poolReasons(reasons),
        ),
      );
      this.answer.scrollIntoView({ block: "nearest" });
    } catch (error) {
      fill(this.answer, failure(error));
    }
    this.map.invalidate("marks");
  }

  /** What the tip says about a place. */
  tip({ at, degrees }) {
    const site = this.marks.near(at, this.map);
    if (site) return [foreign(site.name), site.isUp ? "" : " (down)"];
    const cell = degrees && this.catchment.at(degrees);
    if (!cell) return null;
    return cell.parts
      .slice(0, 4)
      .map(({ site: index, addresses, networks }) =>
        element(
          "div",
          null,
          swatch(index, true),
          index === null ? "no site" : foreign(this.catchment.sites[index]),
          `: ${short(addresses)} IPv4, ${short(networks)} networks`,
        ),
      );
  }
}

/** What an operator ordered, or what the checks say (docs/guide/health.md). */
function stateOf({ override, state, healthy }) {
  if (override && override !== "auto") return `${override} (by hand)`;
  return state ?? (healthy ? "up" : "down");
}

function swatch(index, isFilled) {
  const made = element("span", {
    class: isFilled ? "swatch" : "swatch hollow",
    "aria-hidden": "true",
  });
  made.style.color = index === null || index < 0 ? "gray" : categoryColor(index);
  return made;
}

/** Options of a select; keeps what is chosen where it is still there. */
export function options(select, names, chosen) {
  fill(
    select,
    names.map((name) => {
      const option = element("option", { value: name });
      option.append(foreign(name).textContent);
      return option;
    }),
  );
  if (names.includes(chosen)) select.value = chosen;
}
