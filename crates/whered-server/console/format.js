// Numbers as people read them. No foreign text comes through here.

const WHOLE = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** 12,345 */
export const count = (number) => (Number.isFinite(number) ? WHOLE.format(number) : "–");

/** 12.3K */
export const short = (number) => (Number.isFinite(number) ? SHORT.format(number) : "–");

/** With three significant digits, and a dash for no number. */
export function digits(number) {
  if (!Number.isFinite(number)) return "–";
  return Math.abs(number) >= 100 ? count(Math.round(number)) : String(+number.toPrecision(3));
}

export function bytes(number) {
  if (!Number.isFinite(number)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(Math.floor(Math.log10(Math.max(number, 1)) / 3), units.length - 1);
  return `${digits(number / 1000 ** power)} ${units[power]}`;
}

export function meters(number) {
  if (!Number.isFinite(number)) return "–";
  return number < 1000 ? `${digits(number)} m` : `${digits(number / 1000)} km`;
}

export function microseconds(number) {
  if (!Number.isFinite(number)) return "–";
  return number < 1000 ? `${digits(number)} µs` : `${digits(number / 1000)} ms`;
}

export function seconds(number) {
  if (!Number.isFinite(number)) return "–";
  if (number < 1) return `${digits(number * 1000)} ms`;
  if (number < 60) return `${digits(number)} s`;
  const parts = [
    [Math.floor(number / 86400), "d"],
    [Math.floor(number / 3600) % 24, "h"],
    [Math.floor(number / 60) % 60, "min"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  return parts
    .slice(first, first + 2)
    .map(([value, unit]) => `${value} ${unit}`)
    .join(" ");
}

export function percent(part, whole) {
  if (!(whole > 0)) return "–";
  const share = (100 * part) / whole;
  return share > 0 && share < 0.1 ? "< 0.1 %" : `${share.toFixed(1)} %`;
}

/** 50.11° N, 8.68° E; more digits the closer the map is. */
export function place(longitude, latitude, decimals = 2) {
  const one = (value, positive, negative) =>
    `${Math.abs(value).toFixed(decimals)}° ${value < 0 ? negative : positive}`;
  return `${one(latitude, "N", "S")}, ${one(longitude, "E", "W")}`;
}
