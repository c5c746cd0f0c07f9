// Draws a circle, a box or a polygon by clicks on the map, or by Enter on its centre.
//
//   circle    centre, then a point of the rim
//   box       a corner, then the opposite one
//   polygon   corners; a double click, the first corner again, or `finish` ends it
//
// Gives `{kind, shape, ...}`: `shape` is GeoJSON to draw, the rest is what the server is asked.

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
  const ring = [...vertices, vertices[0]];
  return { kind, shape: outline(ring), polygon: { type: "Polygon", coordinates: [ring] } };
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
  const box = [Math.min(x1, x2), Math.min(y1, y2), Math.max(x1, x2), Math.max(y1, y2)];
  const [west, south, east, north] = box;
  const corners = [
    [west, south],
    [west, north],
    [east, north],
    [east, south],
    [west, south],
  ];
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
