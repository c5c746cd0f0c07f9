// The map: a Mercator projection of the whole world on three canvases, moved by pointer and keys.
//
//   base     land, catchment areas, borders     drawn when the view, the theme or the areas change
//   points   members of a collection            drawn when they move
//   marks    sites, shapes, the client           drawn when the view or the selection changes
//
// Coordinates: degrees (longitude, latitude); world units, in which the world is a square of WORLD;
// and pixels of the screen. The view is d3-zoom's transform: pixels = units * k + (x, y).
//
// Not for: what the layers show. A layer has `draw(context, view)`.
// Events: `choose` (a click or Enter; degrees in `detail`), `hover`, `view` (the view has changed
// and rests).

import { geoMercator, geoPath, pointer, select, zoom, zoomIdentity } from "./vendor.js";

export const WORLD = 1024;
const LATITUDE_MAX = 85.05;
/** A pixel is then about a meter. */
const SCALE_MAX = 1 << 15;
const REST_MILLISECONDS = 180;
const STEP_PIXELS = 80;

const projection = geoMercator()
  .scale(WORLD / (2 * Math.PI))
  .translate([WORLD / 2, WORLD / 2]);

/** World units of a place. */
export function toUnits(longitude, latitude) {
  const bounded = Math.max(-LATITUDE_MAX, Math.min(LATITUDE_MAX, latitude));
  const angle = Math.PI / 4 + (bounded * Math.PI) / 360;
  return [
    (WORLD * (longitude + 180)) / 360,
    WORLD * (0.5 - Math.log(Math.tan(angle)) / (2 * Math.PI)),
  ];
}

/** The place of world units, or null outside of the world. */
export function toDegrees([x, y]) {
  if (x < 0 || x > WORLD || y < 0 || y > WORLD) return null;
  const latitude = (Math.atan(Math.exp((0.5 - y / WORLD) * 2 * Math.PI)) * 360) / Math.PI - 90;
  return [(360 * x) / WORLD - 180, latitude];
}

/** A GeoJSON object as a path in world units. */
export function toPath(object) {
  const made = new Path2D();
  geoPath(projection, made)(object);
  return made;
}

/** What the map moves within: from the north of Greenland to the coast of Antarctica. */
const TOP = toUnits(0, 84)[1];
const BOTTOM = toUnits(0, -66)[1];

export class WorldMap extends EventTarget {
  constructor(container, canvases) {
    super();
    this.container = container;
    this.canvases = canvases;
    this.layers = { base: [], points: [], marks: [] };
    this.dirty = new Set();
    this.frames = 0;
    this.transform = zoomIdentity;
    this.isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.isDrawing = false;
    this.top = select(canvases.marks);
    this.zoom = zoom()
      .scaleExtent([0.1, SCALE_MAX])
      .translateExtent([
        [0, TOP],
        [WORLD, BOTTOM],
      ])
      .clickDistance(4)
      .on("zoom", (event) => this.move(event.transform));
    this.top.call(this.zoom);
    this.top.on("click", (event) => this.click(event));
    this.top.on("pointermove", (event) => this.hover(event));
    this.top.on("pointerleave", () => this.dispatchEvent(new CustomEvent("hover")));
    this.top.on("dblclick.zoom", (event) => {
      if (!this.isDrawing) this.zoomBy(event.shiftKey ? 0.5 : 2, pointer(event));
    });
    new ResizeObserver(() => this.resize()).observe(container);
    this.resize();
    this.showAll(false);
  }

  /** Takes the container's size; the place in the middle stays there. */
  resize() {
    const { clientWidth: width, clientHeight: height } = this.container;
    if (width === 0 || height === 0) return;
    const center = this.width ? this.center() : null;
    this.width = width;
    this.height = height;
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    for (const canvas of Object.values(this.canvases)) {
      canvas.width = Math.round(width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
    }
    // The smallest scale is that at which all land is seen.
    const fits = Math.min(width / WORLD, height / (BOTTOM - TOP));
    this.zoom.extent([
      [0, 0],
      [width, height],
    ]);
    this.zoom.scaleExtent([fits, SCALE_MAX]);
    this.fits = fits;
    this.invalidate("base", "points", "marks");
    if (center && this.transform.k < fits * 0.999) this.showAll(false);
    else if (center) this.goTo(center, this.transform.k, false);
  }

  addLayer(name, layer) {
    this.layers[name].push(layer);
    this.invalidate(name);
  }

  /** Draws canvases at the next frame. */
  invalidate(...names) {
    for (const name of names) this.dirty.add(name);
    if (this.isPending) return;
    this.isPending = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.isPending = false;
    const names = [...this.dirty];
    this.dirty.clear();
    for (const name of names) {
      const canvas = this.canvases[name];
      const context = canvas.getContext("2d");
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.clearRect(0, 0, canvas.width, canvas.height);
      context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
      for (const layer of this.layers[name]) {
        context.save();
        layer.draw(context, this);
        context.restore();
      }
    }
    if (names.includes("points")) this.frames += 1;
  }

  move(transform) {
    this.transform = transform;
    this.invalidate("base", "points", "marks");
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.dispatchEvent(new Event("view")), REST_MILLISECONDS);
  }

  /** Pixels of a place. */
  toPixels(longitude, latitude) {
    return this.transform.apply(toUnits(longitude, latitude));
  }

  /** The place below a pixel, or null. */
  fromPixels(at) {
    return toDegrees(this.transform.invert(at));
  }

  center() {
    return this.fromPixels([this.width / 2, this.height / 2]);
  }

  /** West, south, east, north of what is seen. */
  box() {
    const clamp = (at) => Math.max(0, Math.min(WORLD, at));
    const corner = (at) => toDegrees(this.transform.invert(at).map(clamp));
    const [west, north] = corner([0, 0]);
    const [east, south] = corner([this.width, this.height]);
    return [west, south, east, north];
  }

  /** As tiles of 256 pixels count it: 0 is the world in one tile. */
  zoomLevel() {
    return Math.max(0, Math.min(24, Math.round(Math.log2((WORLD * this.transform.k) / 256))));
  }

  /** Sets the context to world units. */
  inUnits(context) {
    const { k, x, y } = this.transform;
    const { ratio } = this;
    context.setTransform(ratio * k, 0, 0, ratio * k, ratio * x, ratio * y);
  }

  zoomBy(factor, at) {
    this.animated().call(this.zoom.scaleBy, factor, at);
  }

  panBy(x, y) {
    this.top.call(this.zoom.translateBy, x / this.transform.k, y / this.transform.k);
  }

  goTo([longitude, latitude], scale = this.transform.k, isAnimated = true) {
    const [x, y] = toUnits(longitude, latitude);
    const view = zoomIdentity
      .translate(this.width / 2, this.height / 2)
      .scale(scale)
      .translate(-x, -y);
    this.animated(isAnimated).call(this.zoom.transform, view);
  }

  showAll(isAnimated = true) {
    if (this.width) this.goTo(toDegrees([WORLD / 2, (TOP + BOTTOM) / 2]), this.fits, isAnimated);
  }

  /** Shows a box of west, south, east, north with a margin. */
  showBox([west, south, east, north]) {
    if (west > east) return this.showAll();
    const [left, top] = toUnits(west, north);
    const [right, bottom] = toUnits(east, south);
    const fits = Math.min(
      this.width / Math.max(right - left, 1e-3),
      this.height / Math.max(bottom - top, 1e-3),
    );
    const scale = Math.max(this.fits, Math.min(fits * 0.8, SCALE_MAX / 4));
    const middle = toDegrees([(left + right) / 2, (top + bottom) / 2]);
    if (middle) this.goTo(middle, scale);
  }

  animated(isAnimated = true) {
    const isMoved = isAnimated && !this.isStill && !document.hidden;
    return isMoved ? this.top.transition().duration(250) : this.top;
  }

  click(event) {
    if (event.defaultPrevented) return;
    this.choose(pointer(event), event.detail);
  }

  /** As if a pixel was clicked; `clicks` is 2 for the second of a double click. */
  choose(at, clicks = 1) {
    const degrees = this.fromPixels(at);
    if (degrees) this.dispatchEvent(new CustomEvent("choose", { detail: { degrees, at, clicks } }));
  }

  hover(event) {
    const at = pointer(event);
    const detail = { at, degrees: this.fromPixels(at) };
    this.dispatchEvent(new CustomEvent("hover", { detail }));
  }

  /** What a key does on the map; true if it did something. */
  key(key) {
    const moves = {
      ArrowLeft: () => this.panBy(STEP_PIXELS, 0),
      ArrowRight: () => this.panBy(-STEP_PIXELS, 0),
      ArrowUp: () => this.panBy(0, STEP_PIXELS),
      ArrowDown: () => this.panBy(0, -STEP_PIXELS),
      "+": () => this.zoomBy(2),
      "=": () => this.zoomBy(2),
      "-": () => this.zoomBy(0.5),
      0: () => this.showAll(),
      Enter: () => this.choose([this.width / 2, this.height / 2]),
    };
    moves[key]?.();
    return key in moves;
  }
}
