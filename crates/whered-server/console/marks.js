// The layer of the marks canvas: sites, the place that was asked about, the way to the chosen site,
// and the shape that is drawn.

import { geoPath, geoMercator } from "./vendor.js";
import { WORLD } from "./map.js";
import { label } from "./points.js";
import { categoryColor, color } from "./theme.js";

const SITE_PIXELS = 7;
const NEAR_PIXELS = 14;
/** Names of sites are left out where they would lie on each other. */
const NAME_PIXELS = [90, 16];

const projection = geoMercator()
  .scale(WORLD / (2 * Math.PI))
  .translate([WORLD / 2, WORLD / 2])
  .precision(0.05);

export class Marks {
  constructor() {
    this.sites = [];
    this.asked = null;
    this.ways = [];
    this.shape = null;
    this.vertices = [];
    this.found = [];
  }

  /** Sites with `name`, `longitude`, `latitude`, `index` of its colour and `isUp`. */
  setSites(sites) {
    this.sites = sites.filter((site) => Number.isFinite(site.longitude));
  }

  draw(context, map) {
    this.drawShape(context, map);
    for (const { from, to } of this.ways) drawWay(context, map, from, to);
    this.drawFound(context, map);
    this.drawSites(context, map);
    if (this.asked) drawPin(context, map.toPixels(...this.asked));
  }

  drawSites(context, map) {
    const named = [];
    for (const site of this.sites) {
      const [x, y] = map.toPixels(site.longitude, site.latitude);
      context.beginPath();
      context.arc(x, y, SITE_PIXELS, 0, 2 * Math.PI);
      context.fillStyle = site.isUp ? categoryColor(site.index) : color("halo");
      context.fill();
      context.lineWidth = 2.5;
      context.strokeStyle = color("halo");
      context.stroke();
      context.lineWidth = 1.5;
      context.strokeStyle = site.isUp ? color("text") : color("bad");
      context.stroke();
      if (!site.isUp) drawCross(context, x, y);
      const isFree = named.every(
        ([left, top]) => Math.abs(left - x) > NAME_PIXELS[0] || Math.abs(top - y) > NAME_PIXELS[1],
      );
      if (isFree) {
        named.push([x, y]);
        label(context, site.name, x + SITE_PIXELS + 4, y + 4);
      }
    }
  }

  drawFound(context, map) {
    context.fillStyle = color("found");
    context.strokeStyle = color("halo");
    context.lineWidth = 1;
    for (const { longitude, latitude } of this.found) {
      const [x, y] = map.toPixels(longitude, latitude);
      context.beginPath();
      context.arc(x, y, 4, 0, 2 * Math.PI);
      context.fill();
      context.stroke();
    }
  }

  drawShape(context, map) {
    if (this.shape) {
      map.inUnits(context);
      const path = new Path2D();
      geoPath(projection, path)(this.shape);
      context.globalAlpha = 0.16;
      context.fillStyle = color("found");
      context.fill(path);
      context.globalAlpha = 1;
      context.strokeStyle = color("found");
      context.lineWidth = 1.5 / map.transform.k;
      context.stroke(path);
      context.setTransform(map.ratio, 0, 0, map.ratio, 0, 0);
    }
    context.fillStyle = color("found");
    for (const vertex of this.vertices) {
      const [x, y] = map.toPixels(...vertex);
      context.fillRect(x - 3, y - 3, 6, 6);
    }
  }

  /** The site at a pixel, or null. */
  near([x, y], map) {
    const isNear = (site) => {
      const [left, top] = map.toPixels(site.longitude, site.latitude);
      return Math.hypot(left - x, top - y) <= NEAR_PIXELS;
    };
    return this.sites.find(isNear) ?? null;
  }
}

function drawCross(context, x, y) {
  const reach = SITE_PIXELS * 0.5;
  context.beginPath();
  context.moveTo(x - reach, y - reach);
  context.lineTo(x + reach, y + reach);
  context.moveTo(x + reach, y - reach);
  context.lineTo(x - reach, y + reach);
  context.lineWidth = 2;
  context.strokeStyle = color("bad");
  context.stroke();
}

/** The great circle from the client to a site. */
function drawWay(context, map, from, to) {
  map.inUnits(context);
  const path = new Path2D();
  geoPath(projection, path)({ type: "LineString", coordinates: [from, to] });
  context.setLineDash([6 / map.transform.k, 5 / map.transform.k]);
  context.lineWidth = 4 / map.transform.k;
  context.strokeStyle = color("halo");
  context.stroke(path);
  context.lineWidth = 2 / map.transform.k;
  context.strokeStyle = color("accent");
  context.stroke(path);
  context.setLineDash([]);
  context.setTransform(map.ratio, 0, 0, map.ratio, 0, 0);
}

function drawPin(context, [x, y]) {
  context.beginPath();
  context.moveTo(x, y);
  context.bezierCurveTo(x - 3, y - 8, x - 9, y - 10, x - 9, y - 17);
  context.arc(x, y - 17, 9, Math.PI, 0);
  context.bezierCurveTo(x + 9, y - 10, x + 3, y - 8, x, y);
  context.fillStyle = color("accent");
  context.fill();
  context.lineWidth = 1.5;
  context.strokeStyle = color("halo");
  context.stroke();
  context.beginPath();
  context.arc(x, y - 17, 3.5, 0, 2 * Math.PI);
  context.fillStyle = color("halo");
  context.fill();
}
