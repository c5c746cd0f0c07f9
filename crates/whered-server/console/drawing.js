// Draws a circle, a box or a polygon by clicks on the map, or by Enter on its centre.
//
//   circle    centre, then a point of the rim
//   box       a corner, then the opposite one
//   polygon   corners; a double click, the first corner again, or `finish` ends it
//
// Gives `{kind, shape, ...}`: `shape` is GeoJSON to draw, the rest is what the server is asked.
// Between two corners a shape goes the shorter way round the globe: over the date line where they
// are more than 180 degrees apart.

import { geoCircle, geoDistance } from "./vendor.js";

/** As the server measures (docs/guide/points.md). */
const EARTH_RADIUS_METERS = 6372797.560856;
const NEAR_PIXELS = 10;
const VERTICES_MAX = 1000;

export class Drawing {
  constructor(map, marks, report) {
    this.map = map;
    this.marks = marks;
    this.report = report;
    this.kind = null;
    map.addEventListener("hover", (event) => {
      if (this.kind && event.detail?.degrees) this.preview(event.detail.degrees);
    });
  }

  begin(kind) {
    this.cancel();
    this.kind = kind;
    this.map.isDrawing = true;
    this.map.container.dataset.drawing = kind;
  }

  cancel() {
    this.kind = null;
    this.map.isDrawing = false;
    delete this.map.container.dataset.drawing;
    this.show([], null);
  }

  show(vertices, shape) {
    this.marks.vertices = vertices;
    this.marks.shape = shape;
    this.map.invalidate("marks");
  }

  /** A click while drawing. */
  add({ degrees, at, clicks }) {
    const vertices = this.marks.vertices;
    if (this.kind !== "polygon") {
      if (vertices.length === 0) return this.show([degrees], null);
      return this.end([...vertices, degrees]);
    }
    const isFirst = vertices.length > 2 && this.isNear(vertices[0], at);
    if (clicks > 1 || isFirst || vertices.length >= VERTICES_MAX) return this.finish();
    this.show([...vertices, degrees], null);
    this.preview(degrees);
  }

  isNear(vertex, [x, y]) {
    const [left, top] = this.map.toPixels(...vertex);
    return Math.hypot(left - x, top - y) <= NEAR_PIXELS;
  }

  /** Ends a polygon of three corners or more. */
  finish() {
    if (this.kind === "polygon" && this.marks.vertices.length > 2) this.end(this.marks.vertices);
  }

  preview(degrees) {
    const vertices = [...this.marks.vertices, degrees];
    if (vertices.length < 2) return;
    this.marks.shape = shapeOf(this.kind, vertices).shape;
    this.map.invalidate("marks");
  }

  end(vertices) {
    const drawn = shapeOf(this.kind, vertices);
    this.cancel();
    this.show([], drawn.shape);
    this.report(drawn);
  }
}

function shapeOf(kind, vertices) {
  const last = vertices.at(-1);
  if (kind === "circle") return circleOf(vertices[0], last);
  if (kind === "box") return boxOf(vertices[0], last);
  if (vertices.length < 3) return { kind, shape: { type: "LineString", coordinates: vertices } };
  return polygonOf(vertices);
}

export function polygonOf(vertices) {
  const ring = unrolled(vertices);
  const polygons = cut(ring).map((part) => ({
    type: "Polygon",
    coordinates: [[...part, part[0]]],
  }));
  return { kind: "polygon", shape: outline([...ring, ring[0]]), corners: vertices.length, polygons };
}

/**
 * The vertices with longitudes that go on beyond 180 degrees where an edge goes over the date line;
 * as they are where the ring goes round a pole, which no flat polygon does.
 */
function unrolled(vertices) {
  const [first, ...others] = vertices;
  const ring = [first];
  for (const [x, y] of others) ring.push([near(x, ring.at(-1)[0]), y]);
  const sides = ring.map(([x]) => x);
  const isOpen = near(first[0], sides.at(-1)) !== first[0];
  const width = Math.max(...sides) - Math.min(...sides);
  return isOpen || width > 360 ? vertices : ring;
}

/** The longitude of the same place that is nearest to another longitude. */
function near(x, other) {
  if (x - other > 180) return x - 360;
  return other - x > 180 ? x + 360 : x;
}

/** The parts of a ring on both sides of the date line, each within the map. */
function cut(ring) {
  const sides = ring.map(([x]) => x);
  if (Math.min(...sides) < -180) return cut(ring.map(([x, y]) => [x + 360, y]));
  if (Math.max(...sides) <= 180) return [ring];
  const west = clipped(ring, (x) => x <= 180);
  const east = clipped(ring, (x) => x >= 180).map(([x, y]) => [x - 360, y]);
  return [west, east].filter((part) => part.length > 2);
}

/** What of a ring is on one side of 180 degrees. */
function clipped(ring, isInside) {
  const part = [];
  for (const [index, [x, y]] of ring.entries()) {
    const [x0, y0] = ring.at(index - 1);
    if (isInside(x) !== isInside(x0)) part.push([180, y0 + ((y - y0) * (180 - x0)) / (x - x0)]);
    if (isInside(x)) part.push([x, y]);
  }
  return part;
}

export function circleOf(center, rim) {
  const radians = geoDistance(center, rim);
  const shape = geoCircle()
    .center(center)
    .radius((radians * 180) / Math.PI)
    .precision(3)();
  return { kind: "circle", shape, center, radius: radians * EARTH_RADIUS_METERS };
}

export function boxOf([x1, y1], [x2, y2]) {
  const [left, right] = [Math.min(x1, x2), Math.max(x1, x2)];
  const [south, north] = [Math.min(y1, y2), Math.max(y1, y2)];
  const isOverLine = right - left > 180;
  const [west, east] = isOverLine ? [right, left + 360] : [left, right];
  const corners = [
    [west, south],
    [west, north],
    [east, north],
    [east, south],
    [west, south],
  ];
  const box = [west, south, isOverLine ? left : east, north];
  return { kind: "box", shape: outline(corners), box };
}

/**
 * A ring as it lies on the flat map: its sides are straight there, as they are for the server,
 * whereas GeoJSON's sides on the globe would bend. So it is drawn in steps.
 */
function outline(ring) {
  const points = [];
  for (let index = 1; index < ring.length; index += 1) {
    const [x1, y1] = ring[index - 1];
    const [x2, y2] = ring[index];
    const steps = Math.max(1, Math.ceil(Math.max(Math.abs(x2 - x1), Math.abs(y2 - y1)) / 2));
    for (let step = 0; step < steps; step += 1) {
      points.push([x1 + ((x2 - x1) * step) / steps, y1 + ((y2 - y1) * step) / steps]);
    }
  }
  points.push(ring.at(-1));
  return { type: "LineString", coordinates: points };
}
