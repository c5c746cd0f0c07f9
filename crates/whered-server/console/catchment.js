// A layer of the base canvas: which site the clients of each cell of the world get.
//
// A cell is coloured as the site of most of its addresses, the stronger the more addresses it has.

import { WORLD, toUnits } from "./map.js";
import { categoryColor } from "./theme.js";

const STRENGTHS = [0.35, 0.5, 0.65, 0.8];
/** Addresses of the faintest and of the strongest cells, as powers of ten. */
const POWERS = [1.5, 6.5];

export class Catchment {
  constructor() {
    this.clear();
  }

  clear() {
    this.sites = [];
    this.cells = new Map();
    this.groups = [];
    this.totals = new Map();
    this.degrees = 1;
  }

  /** Takes an answer of /v1/pools/{pool}/catchment. */
  set(answer, degrees) {
    this.clear();
    this.sites = answer.sites;
    this.degrees = degrees;
    for (const [west, south, site, addresses, networks] of answer.cells) {
      const key = `${west},${south}`;
      if (!this.cells.has(key)) this.cells.set(key, { west, south, parts: [] });
      this.cells.get(key).parts.push({ site, addresses, networks });
      const total = this.totals.get(site) ?? { addresses: 0, networks: 0 };
      total.addresses += addresses;
      total.networks += networks;
      this.totals.set(site, total);
    }
    const groups = new Map();
    for (const cell of this.cells.values()) {
      cell.parts.sort((one, other) => weight(other) - weight(one));
      const sum = cell.parts.reduce((all, part) => all + weight(part), 0);
      const scale = (Math.log10(Math.max(sum, 1)) - POWERS[0]) / (POWERS[1] - POWERS[0]);
      const strength = Math.max(0, Math.min(3, Math.floor(scale * 4)));
      const key = `${cell.parts[0].site},${strength}`;
      if (!groups.has(key))
        groups.set(key, { site: cell.parts[0].site, strength, path: new Path2D() });
      const [left, top] = toUnits(cell.west, cell.south + degrees);
      const [right, bottom] = toUnits(cell.west + degrees, cell.south);
      groups.get(key).path.rect(left, top, right - left, bottom - top);
    }
    this.groups = [...groups.values()];
  }

  /** The cell of a place, or undefined. */
  at([longitude, latitude]) {
    const floor = (value) => Math.floor(value / this.degrees) * this.degrees;
    return this.cells.get(`${floor(longitude)},${floor(latitude)}`);
  }

  draw(context, map) {
    map.inUnits(context);
    context.beginPath();
    context.rect(0, 0, WORLD, WORLD);
    context.clip();
    for (const { site, strength, path } of this.groups) {
      context.globalAlpha = STRENGTHS[strength];
      context.fillStyle = categoryColor(site);
      context.fill(path);
    }
  }
}

/** Addresses of IPv4; where a database has only IPv6, its networks. */
const weight = (part) => part.addresses || part.networks;
