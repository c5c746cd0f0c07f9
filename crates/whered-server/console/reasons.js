// Shows an explanation (docs/guide/explain.md): the choice, and each reason for it.

import { code, definitions, element, foreign } from "./dom.js";
import { count, meters, percent } from "./format.js";

const CANDIDATES_MAX = 12;

/** The names of the chosen sites; empty for a verdict or nothing. */
export function chosenSites(explanation) {
  const choice = explanation?.choice;
  if (typeof choice === "string") return [choice];
  if (!Array.isArray(choice)) return [];
  return choice.map((one) => (typeof one === "string" ? one : one.name));
}

/** The choice in words. */
function choiceText({ choice }) {
  if (choice === null || choice === undefined) return element("em", null, "no site");
  if (typeof choice === "string") return foreign(choice);
  if (!Array.isArray(choice))
    return [`the query is ${choice.verdict === "drop" ? "dropped" : "refused"}`];
  const parts = choice.map((one) => {
    if (typeof one === "string") return foreign(one);
    const share = Number.isFinite(one.share) ? ` ${percent(one.share, 1)}` : "";
    return element("span", null, foreign(one.name), share);
  });
  return parts.flatMap((part, index) => (index > 0 ? [", ", part] : [part]));
}

/** A pool's choice for a client or a place, with its reasons. */
export function poolReasons(explanation) {
  const { database, prefix, set_entry: entry, rule, map, candidates } = explanation;
  const isChosen = new Set(chosenSites(explanation));
  const rows = [
    database && ["Database", [foreign(database.name), prefix ? [", network ", code(prefix)] : ""]],
    explanation.record && placeOf(explanation.record) && ["Record", placeText(explanation.record)],
    entry && [
      "Prefix set",
      [
        foreign(entry.set),
        " has ",
        code(entry.prefix),
        entry.value === null ? "" : [" = ", foreign(entry.value)],
      ],
    ],
    rule && ["Rules", ruleText(rule)],
    map && ["Map", [map.map ? foreign(map.map) : "the pool's own", ", list ", foreign(map.list)]],
    explanation.question?.address &&
      Number.isFinite(explanation.scope_length_bits) && [
        "Scope",
        explanation.scope_length_bits === 0
          ? "the same answer for everybody"
          : `the first ${explanation.scope_length_bits} bits of the address decide`,
      ],
  ];
  return element(
    "div",
    { class: "reasons" },
    element("p", { class: "choice" }, choiceText(explanation)),
    definitions(rows),
    candidates?.length > 0 ? candidateTable(candidates, isChosen) : null,
  );
}

function candidateTable(candidates, isChosen) {
  const sorted = [...candidates].sort((one, other) => {
    const chosen = isChosen.has(other.name) - isChosen.has(one.name);
    return chosen || (one.distance_meters ?? Infinity) - (other.distance_meters ?? Infinity);
  });
  const row = (site) => {
    const why = [
      isChosen.has(site.name) ? "chosen" : null,
      site.healthy === false ? "down" : null,
      site.healthy !== false && site.eligible === false ? "not kept by the policy" : null,
    ].filter(Boolean);
    return element(
      "tr",
      { class: isChosen.has(site.name) ? "chosen" : null },
      element("td", null, foreign(site.name)),
      element("td", { class: "number" }, meters(site.distance_meters)),
      element("td", { class: site.healthy === false ? "bad" : "muted" }, why.join(", ")),
    );
  };
  const rest = sorted.length - CANDIDATES_MAX;
  return element(
    "table",
    null,
    element("thead", null, heads(["Site", "Distance", ""], [false, true, false])),
    element("tbody", null, sorted.slice(0, CANDIDATES_MAX).map(row)),
    rest > 0 ? element("caption", null, `and ${count(rest)} more`) : null,
  );
}

/** The head of a table. */
export function heads(names, isNumber = []) {
  return element(
    "tr",
    null,
    names.map((name, index) =>
      element("th", { scope: "col", class: isNumber[index] ? "number" : null }, name),
    ),
  );
}

export function ruleText(rule) {
  if (rule.ruleset === undefined)
    return [`rule ${rule.number}`, rule.origin ? [" at ", code(rule.origin)] : ""];
  const by =
    rule.number === null
      ? "its policy"
      : [`rule ${rule.number}`, rule.origin ? [" at ", code(rule.origin)] : ""];
  return [foreign(rule.ruleset), " says ", foreign(rule.verdict), " by ", by];
}

/** Longitude and latitude of a record, or null. */
export function placeOf(record) {
  const location = record?.location ?? record;
  const longitude = Number(location?.longitude ?? location?.lon ?? NaN);
  const latitude = Number(location?.latitude ?? location?.lat ?? NaN);
  const isPlace = Math.abs(longitude) <= 180 && Math.abs(latitude) <= 90;
  return isPlace ? [longitude, latitude] : null;
}

/** City, region and country of a record, as far as it has them. */
export function placeText(record) {
  const name = (part) => part?.names?.en ?? part?.name ?? part?.iso_code ?? null;
  const parts = [record?.city, record?.subdivisions?.[0], record?.country].map(name);
  const shown = parts.filter((part) => typeof part === "string");
  if (shown.length === 0) return "a place";
  return foreign([...new Set(shown)].join(", "));
}

/** Any JSON as a tree of names and values. */
export function tree(value, depth = 0) {
  if (value === null || typeof value !== "object") {
    const kind = typeof value === "string" ? "text" : "literal";
    return foreign(value === null ? "null" : value, { class: kind });
  }
  const entries = Object.entries(value);
  if (entries.length === 0)
    return element("span", { class: "muted" }, Array.isArray(value) ? "[]" : "{}");
  if (depth > 12) return foreign(JSON.stringify(value));
  const items = entries.slice(0, 200).map(([key, inner]) => {
    const isLeaf = inner === null || typeof inner !== "object" || Object.keys(inner).length === 0;
    const title = Array.isArray(value)
      ? element("span", { class: "muted" }, key)
      : foreign(key, { class: "key" });
    if (isLeaf) return element("li", null, title, " ", tree(inner, depth + 1));
    return element(
      "li",
      null,
      element(
        "details",
        { open: depth < 3 },
        element("summary", null, title),
        tree(inner, depth + 1),
      ),
    );
  });
  const rest = entries.length - items.length;
  if (rest > 0) items.push(element("li", { class: "muted" }, `and ${count(rest)} more`));
  return element("ul", { class: "tree" }, items);
}
