// The console: puts map, views and stream together. docs/guide/console.md says what it shows.
//
//   stream ─ changes ─> views ─ requests ─> api ─> server
//   map ─ clicks ─────> views ─ what to draw ─> layers ─> map
//
// One view is shown at a time. The location's hash is its name and what it shows, such as
// `#sites/www`, so that a link leads there.

import { requests } from "./api.js";
import { Catchment } from "./catchment.js";
import { CollectionsView } from "./collections.js";
import { byId, element, fill, foreign } from "./dom.js";
import { Drawing } from "./drawing.js";
import { FeedsView } from "./feeds.js";
import { startKeys } from "./keys.js";
import { addLand } from "./land.js";
import { LookupView } from "./lookup.js";
import { WorldMap } from "./map.js";
import { Marks } from "./marks.js";
import { Points } from "./points.js";
import { ServerView } from "./server.js";
import { SitesView } from "./sites.js";
import { Stream } from "./stream.js";
import { startTheme, theme } from "./theme.js";
import { startToken } from "./token.js";

const VIEWS = ["lookup", "sites", "points", "feeds", "server"];
const SHAPES = { circle: "Circle", box: "Box", polygon: "Polygon" };

startTheme(byId("theme"));

const map = new WorldMap(byId("map"), {
  base: byId("map-base"),
  points: byId("map-points"),
  marks: byId("map-marks"),
});
const catchment = new Catchment();
const points = new Points();
const marks = new Marks();
map.addLayer("points", points);
map.addLayer("marks", marks);
addLand(map, catchment);
theme.addEventListener("change", () => map.invalidate("base", "points", "marks"));

const legend = {
  show(title, body, note) {
    const legend = byId("legend");
    const isWide = matchMedia("(min-width: 761px)").matches;
    const isOpen = legend.querySelector("details")?.open ?? isWide;
    fill(
      legend,
      element(
        "details",
        { open: isOpen },
        element("summary", null, foreign(title)),
        body,
        note ? element("p", { class: "muted" }, note) : null,
      ),
    );
    legend.hidden = false;
  },
  hide() {
    byId("legend").hidden = true;
  },
};

const stream = new Stream();
const drawing = new Drawing(map, marks, (shape) => {
  showTools();
  views.points.drawn(shape);
});
const context = { map, marks, points, catchment, drawing, legend, stream, goHash, reloadPage };
const views = {
  lookup: new LookupView(byId("view-lookup"), context),
  sites: new SitesView(byId("view-sites"), context),
  points: new CollectionsView(byId("view-points"), context),
  feeds: new FeedsView(byId("view-feeds")),
  server: new ServerView(byId("view-server"), context),
};
let shown = null;

/** Shows a view; `rest` is what the hash has behind its name. */
function show(name, rest) {
  if (shown !== name) {
    for (const one of VIEWS) {
      const tab = byId(`tab-${one}`);
      tab.setAttribute("aria-selected", String(one === name));
      tab.tabIndex = one === name ? 0 : -1;
      byId(`view-${one}`).hidden = one !== name;
    }
    if (shown) views[shown].hide?.();
    shown = name;
    byId("draw-tools").hidden = name !== "points";
    views[name].open?.(rest);
    views[name].show?.();
    byId("tip").hidden = true;
  } else {
    views[name].open?.(rest);
  }
}

/** Writes what is shown into the location, and shows that view. */
function goHash(name, rest) {
  const hash = `#${name}${rest ? `/${encodeURIComponent(rest)}` : ""}`;
  if (location.hash !== hash) history.replaceState(null, "", hash);
  if (shown !== name) show(name, rest);
}

function readHash() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  let text = "";
  try {
    text = decodeURIComponent(rest.join("/"));
  } catch {
    // A hash that somebody typed may be anything.
  }
  if (VIEWS.includes(name)) show(name, text);
  else show("lookup", "");
}

for (const [index, name] of VIEWS.entries()) {
  const tab = byId(`tab-${name}`);
  tab.addEventListener("click", () => {
    history.replaceState(null, "", `#${name}`);
    show(name, "");
  });
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = VIEWS[(index + step + VIEWS.length) % VIEWS.length];
    byId(`tab-${next}`).focus();
    byId(`tab-${next}`).click();
  });
}
window.addEventListener("hashchange", readHash);

function refresh() {
  for (const view of Object.values(views)) view.refresh?.();
}

// The map.
map.addEventListener("choose", ({ detail }) => {
  if (drawing.kind) {
    drawing.add(detail);
    showTools();
  } else {
    views[shown].choose?.(detail);
  }
});
map.addEventListener("hover", ({ detail }) => {
  const text = detail && !drawing.kind ? views[shown].tip?.(detail) : null;
  const tip = byId("tip");
  tip.hidden = !text;
  if (!text) return;
  fill(tip, text);
  const [x, y] = detail.at;
  const isRight = x > map.width - 220;
  tip.style.transform = `translate(${isRight ? x - 12 : x + 14}px, ${y + 14}px)`;
  tip.dataset.side = isRight ? "left" : "right";
});
byId("zoom-in").addEventListener("click", () => map.zoomBy(2));
byId("zoom-out").addEventListener("click", () => map.zoomBy(0.5));
byId("zoom-all").addEventListener("click", () => map.showAll());

function draw(kind) {
  if (shown !== "points") return;
  if (drawing.kind === kind) drawing.cancel();
  else drawing.begin(kind);
  showTools();
}

function showTools() {
  const buttons = Object.entries(SHAPES).map(([kind, title]) =>
    element(
      "button",
      {
        type: "button",
        id: `draw-${kind}`,
        "aria-pressed": String(drawing.kind === kind),
        on: { click: () => draw(kind) },
      },
      title,
    ),
  );
  const hints = {
    circle: marks.vertices.length > 0 ? "click on the rim" : "click on the centre",
    box: marks.vertices.length > 0 ? "click on the opposite corner" : "click on a corner",
    polygon: marks.vertices.length > 2 ? "double click, or Finish" : "click on the corners",
  };
  const hint = drawing.kind ? element("span", { role: "status" }, hints[drawing.kind]) : null;
  const finish =
    drawing.kind === "polygon" && marks.vertices.length > 2
      ? element("button", { type: "button", on: { click: () => drawing.finish() } }, "Finish")
      : null;
  const focused = document.activeElement?.id;
  fill(byId("draw-tools"), buttons, finish, hint);
  if (focused?.startsWith("draw-")) byId(focused)?.focus();
}
showTools();

startKeys({
  map,
  chooseView: (index) => byId(`tab-${VIEWS[index]}`)?.click(),
  draw,
  finish: () => drawing.finish(),
  escape: () => {
    drawing.cancel();
    showTools();
  },
});

// The server.
const STATES = {
  connecting: "connecting",
  live: "live",
  polling: "connected",
  lost: "no answer",
  refused: "needs a token",
};
stream.addEventListener("state", () => {
  byId("state").dataset.state = stream.state;
  byId("state-text").textContent = STATES[stream.state];
  showBanner();
});
function showBanner() {
  const isLost = stream.state === "lost" && stream.retryAt !== null;
  if (stream.state !== "connecting") byId("banner").hidden = !isLost;
  if (!isLost) return;
  const left = Math.max(0, Math.ceil((stream.retryAt - Date.now()) / 1000));
  byId("banner-wait").textContent = `Next try in ${left} s.`;
}
setInterval(showBanner, 500);
byId("retry").addEventListener("click", () => stream.restart());
requests.addEventListener("unreachable", () => stream.doubt());
stream.addEventListener("up", refresh);
stream.addEventListener("poll", () => {
  if (shown === "sites" || shown === "points") views[shown].refresh();
});
stream.addEventListener("generation", () => views.sites.refresh());
stream.addEventListener("site", ({ detail }) => views.sites.change(detail));
stream.addEventListener("feed", ({ detail }) => views.feeds.change(detail));
stream.addEventListener("move", ({ detail }) => views.points.moved(detail));
stream.addEventListener("resync", ({ detail }) => views.points.moved(detail));
startToken(() => {
  stream.restart();
});

/** The server was exchanged for another version. */
function reloadPage() {
  location.reload();
}

readHash();
stream.start();
// For tests and for the curious: nothing in the page reads it.
window.whered = { map, stream, views, points, catchment };
