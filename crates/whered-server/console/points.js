// The layer of the points canvas: members of a collection as named points, as a cloud of many, or
// as clusters.
//
//   named      up to some thousands, as circles; moves come by name
//   cloud      up to some hundred thousand, as pixels; brighter where more lie on one pixel
//   clusters   any number, as discs with counts
//
// Cost of a frame of the cloud: one pass over the points and two over the pixels.

import { WORLD, toUnits } from "./map.js";
import { color } from "./theme.js";
import { visible } from "./dom.js";
import { short } from "./format.js";

const DOT_PIXELS = 2;
const NEAR_PIXELS = 12;
/** How many points on one pixel give it its full strength. */
const RAMP = 12;
/** Names are written while so few points are seen. */
const NAMES_MAX = 40;
const COUNTS_MAX = 600;
const LABEL_LENGTH = 24;

export class Points {
  constructor() {
    this.clear();
  }

  clear() {
    this.kind = "none";
    this.named = new Map();
    this.xs = new Float64Array(0);
    this.ys = new Float64Array(0);
    this.clusters = [];
  }

  /** Members with names and degrees. */
  setNamed(hits) {
    this.clear();
    this.kind = "named";
    for (const hit of hits) {
      this.place(hit.member, hit.longitude, hit.latitude, hit.member_base64);
    }
  }

  /** Puts a member somewhere; `base64` has the bytes of a name that is no UTF-8. */
  place(member, longitude, latitude, base64) {
    const [x, y] = toUnits(longitude, latitude);
    this.named.set(keyOf(member, base64), { member, longitude, latitude, x, y });
  }

  /** Takes an event `move` of the stream. */
  apply({ changes = [], removed = [], removed_base64: removedBytes = [] }) {
    for (const change of changes) this.place(...change);
    for (const member of removed) this.named.delete(keyOf(member));
    for (const bytes of removedBytes) this.named.delete(keyOf("", bytes));
  }

  /** The body of /v1/collections/{name}/points; false if it is none. */
  setCloud(buffer) {
    const view = new DataView(buffer);
    if (buffer.byteLength < 8 || view.getUint32(0, true) !== 1) return false;
    const length = view.getUint32(4, true);
    if (buffer.byteLength !== 8 + 8 * length) return false;
    if (this.kind !== "cloud" || this.xs.length !== length) {
      this.clear();
      this.kind = "cloud";
      this.xs = new Float64Array(length);
      this.ys = new Float64Array(length);
    }
    // Every machine that runs a browser today has the byte order of the body.
    const degrees = new Float32Array(buffer, 8);
    const perDegree = WORLD / 360;
    const half = Math.PI / 360;
    const perRadian = WORLD / (2 * Math.PI);
    for (let index = 0; index < length; index += 1) {
      const latitude = degrees[2 * index + 1];
      this.xs[index] = (degrees[2 * index] + 180) * perDegree;
      const angle = Math.PI / 4 + Math.max(-85.05, Math.min(85.05, latitude)) * half;
      this.ys[index] = WORLD / 2 - Math.log(Math.tan(angle)) * perRadian;
    }
    return true;
  }

  setClusters(clusters) {
    this.clear();
    this.kind = "clusters";
    this.clusters = clusters.map((cluster) => {
      const [x, y] = toUnits(cluster.longitude, cluster.latitude);
      return { ...cluster, x, y };
    });
    this.clusters.sort((one, other) => other.count - one.count);
  }

  draw(context, map) {
    if (this.kind === "named") this.drawNamed(context, map);
    if (this.kind === "cloud") this.drawCloud(context, map);
    if (this.kind === "clusters") this.drawClusters(context, map);
  }

  drawNamed(context, map) {
    const seen = [];
    for (const point of this.named.values()) {
      const [x, y] = map.transform.apply([point.x, point.y]);
      if (x > -20 && y > -20 && x < map.width + 20 && y < map.height + 20) seen.push([x, y, point]);
    }
    context.beginPath();
    const isDense = seen.length > 400;
    const radius = isDense ? 2 : 4;
    for (const [x, y] of seen) {
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
    }
    context.fillStyle = color("accent");
    context.fill();
    if (!isDense) {
      context.lineWidth = 1;
      context.strokeStyle = color("halo");
      context.stroke();
    }
    if (seen.length <= NAMES_MAX) {
      for (const [x, y, point] of seen) label(context, point.member, x + 7, y + 4);
    }
  }

  drawCloud(context, map) {
    const { canvas } = context;
    const { width, height } = canvas;
    if (this.image?.width !== width || this.image?.height !== height) {
      this.image = new ImageData(width, height);
      this.counts = new Uint8Array(width * height);
    }
    const pixels = new Uint32Array(this.image.data.buffer);
    const { counts, xs, ys } = this;
    counts.fill(0);
    pixels.fill(0);
    const scale = map.transform.k * map.ratio;
    const left = map.transform.x * map.ratio - DOT_PIXELS / 2;
    const top = map.transform.y * map.ratio - DOT_PIXELS / 2;
    const ramp = rampOf(color("accent"));
    const right = width - DOT_PIXELS;
    const bottom = height - DOT_PIXELS;
    for (let index = 0; index < xs.length; index += 1) {
      const x = (xs[index] * scale + left) | 0;
      const y = (ys[index] * scale + top) | 0;
      if (x < 0 || y < 0 || x > right || y > bottom) continue;
      const at = y * width + x;
      const level = counts[at] < RAMP ? (counts[at] += 1) : RAMP;
      const shade = ramp[level];
      pixels[at] = shade;
      pixels[at + 1] = shade;
      pixels[at + width] = shade;
      pixels[at + width + 1] = shade;
    }
    context.putImageData(this.image, 0, 0);
  }

  drawClusters(context, map) {
    const seen = [];
    for (const cluster of this.clusters) {
      const [x, y] = map.transform.apply([cluster.x, cluster.y]);
      const radius = clusterRadius(cluster.count);
      if (x < -40 || y < -40 || x > map.width + 40 || y > map.height + 40) continue;
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.globalAlpha = cluster.count === 1 ? 1 : 0.82;
      context.fillStyle = color("accent");
      context.fill();
      context.globalAlpha = 1;
      context.lineWidth = 1;
      context.strokeStyle = color("halo");
      context.stroke();
      if (radius >= 11) seen.push([x, y, cluster.count]);
    }
    this.drawCounts(context, seen);
  }

  /** Counts of clusters, the largest first, where they do not lie on each other. */
  drawCounts(context, seen) {
    const written = [];
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = "600 11px system-ui, sans-serif";
    context.fillStyle = color("on-accent");
    for (const [x, y, count] of seen.slice(0, COUNTS_MAX)) {
      const isFree = written.every(
        ([left, top]) => Math.abs(left - x) > 34 || Math.abs(top - y) > 13,
      );
      if (!isFree) continue;
      written.push([x, y]);
      context.fillText(short(count), x, y);
    }
  }

  /** The named point or the cluster at a pixel, or null. */
  near([x, y], map) {
    let best = null;
    const consider = (thing, reach) => {
      const [left, top] = map.transform.apply([thing.x, thing.y]);
      const distance = Math.hypot(left - x, top - y);
      if (distance <= reach && distance < (best?.distance ?? Infinity)) best = { thing, distance };
    };
    for (const point of this.named.values()) consider(point, NEAR_PIXELS);
    for (const cluster of this.clusters) {
      consider(cluster, Math.max(NEAR_PIXELS, clusterRadius(cluster.count)));
    }
    return best?.thing ?? null;
  }
}

const keyOf = (member, base64) => (base64 ? `base64 ${base64}` : `text ${member}`);

const clusterRadius = (count) => (count === 1 ? 4 : Math.min(26, 6 + 3.4 * Math.log10(count)));

/** Text with a rim, readable on land and on water. */
export function label(context, text, x, y) {
  const shown = visible(text, LABEL_LENGTH);
  context.font = "12px system-ui, sans-serif";
  context.lineJoin = "round";
  context.lineWidth = 3;
  context.strokeStyle = color("halo");
  context.strokeText(shown, x, y);
  context.fillStyle = color("text");
  context.fillText(shown, x, y);
}

let ramps = { of: null, made: null };

/** Colours of the cloud by the number of points on a pixel: from half to full strength. */
function rampOf(hex) {
  if (ramps.of !== hex) {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    const made = new Uint32Array(RAMP + 1);
    for (let level = 1; level <= RAMP; level += 1) {
      const alpha = Math.round(255 * (0.45 + (0.55 * level) / RAMP));
      made[level] = ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
    }
    ramps = { of: hex, made };
  }
  return ramps.made;
}
