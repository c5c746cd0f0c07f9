// The view of one address: its record and network in every database, the sets and rules that it
// meets, and the site that each pool would give it, with the reasons.

import { latest, read } from "./api.js";
import { byId, code, element, empty, failure, fill, foreign } from "./dom.js";
import { chosenSites, placeOf, placeText, poolReasons, ruleText, tree } from "./reasons.js";

const EXAMPLE = `[[database]]
name = "city"
path = "city.mmdb"`;

/** Parts of a packet that rules may ask for; the address itself is the source. */
const PACKET_FIELDS = [
  ["destination", "Destination", "192.0.2.1"],
  ["protocol", "Protocol", "tcp"],
  ["destination_port", "Destination port", "443"],
];

export class LookupView {
  constructor(root, { map, marks, goHash }) {
    Object.assign(this, { root, map, marks, goHash, address: null, answered: null });
    this.answer = element("div", { class: "answer", "aria-live": "polite" });
    this.inputs = PACKET_FIELDS.map(([name, title, example]) => {
      const input = element("input", {
        id: `packet-${name}`,
        name,
        placeholder: example,
        maxlength: 64,
      });
      return { name, input, title };
    });
    const packet = element(
      "details",
      { class: "packet" },
      element("summary", null, "As a packet"),
      element(
        "form",
        { on: { submit: (event) => this.resubmit(event) } },
        this.inputs.map(({ input, title }) => element("label", null, title, input)),
        element("button", { type: "submit" }, "Look up"),
      ),
    );
    fill(root, this.answer, packet);
    this.query = latest((signal, query) => read("v1/explain", { query, signal }));
    byId("search").addEventListener("submit", (event) => {
      event.preventDefault();
      this.look(byId("address").value.trim());
    });
    this.showEmpty();
  }

  showEmpty() {
    fill(
      this.answer,
      element(
        "div",
        { class: "empty" },
        element("h3", null, "Where is an address?"),
        element(
          "p",
          null,
          "Type one above: its record and network, the sets and rules that it meets, " +
            "and the site that it gets.",
        ),
      ),
    );
  }

  resubmit(event) {
    event.preventDefault();
    this.look(byId("address").value.trim());
  }

  /** From the part of the location behind `#lookup/`. */
  open(address) {
    if (!address || address === this.address) return;
    byId("address").value = address;
    this.look(address);
  }

  show() {
    this.mark();
  }

  hide() {
    this.marks.asked = null;
    this.marks.ways = [];
    this.marks.setSites([]);
    this.map.invalidate("marks");
  }

  refresh() {
    if (this.address) this.ask(this.address);
  }

  /** What the reader asks for. */
  look(address) {
    if (address === "") return byId("address").focus();
    this.goHash("lookup", address);
    this.ask(address);
  }

  async ask(address) {
    this.address = address;
    const query = { address };
    for (const { name, input } of this.inputs) query[name] = input.value.trim();
    this.root.setAttribute("aria-busy", "true");
    try {
      const answer = await this.query(query);
      if (answer) this.showAnswer(answer);
    } catch (error) {
      fill(this.answer, failure(error));
      this.answered = null;
      this.mark();
    } finally {
      this.root.removeAttribute("aria-busy");
    }
  }

  showAnswer(answer) {
    const databases = answer.databases ?? [];
    const parts = [
      element("h2", { class: "asked" }, code(answer.address)),
      this.databaseCards(databases),
      this.setCards(answer.sets ?? []),
      this.ruleCards(answer.rules ?? []),
      (answer.pools ?? []).map((reasons) =>
        card("Pool", reasons.question?.pool ?? "", poolReasons(reasons)),
      ),
    ];
    if ((answer.pools ?? []).length === 0) parts.push(note("No pool is configured."));
    fill(this.answer, parts);
    this.answered = answer;
    this.mark();
  }

  databaseCards(databases) {
    if (databases.length === 0) {
      return empty(
        "No database",
        "An address has no record, since no database is configured.",
        EXAMPLE,
      );
    }
    return databases.map(({ database, prefix, record }) => {
      const title = [element("span", null, prefix ? code(prefix) : "no network")];
      if (record === null || record === undefined) {
        return card("Database", database, element("p", { class: "muted" }, title, ", no record"));
      }
      const text = placeOf(record) || record?.country ? placeText(record) : null;
      return card(
        "Database",
        database,
        element("p", null, title, text ? [" · ", text] : null),
        element("details", null, element("summary", null, "Record"), tree(record)),
      );
    });
  }

  setCards(sets) {
    if (sets.length === 0) return note("In no prefix set.");
    return sets.map(({ set, prefix, value }) =>
      card(
        "Prefix set",
        set,
        element(
          "p",
          null,
          code(prefix),
          value === null || value === undefined ? "" : [" = ", foreign(value)],
        ),
      ),
    );
  }

  ruleCards(rules) {
    return rules.map(({ ruleset, verdict, rule }) =>
      card(
        "Ruleset",
        ruleset,
        element(
          "p",
          null,
          element("strong", null, foreign(verdict)),
          rule ? [" by ", ruleText(rule)] : " by its policy",
        ),
        rule?.text ? element("pre", { tabindex: "0" }, foreign(rule.text)) : null,
      ),
    );
  }

  /** The address on the map, with ways to the sites that it gets. */
  mark() {
    if (this.root.hidden) return;
    const { databases = [], pools = [] } = this.answered ?? {};
    const place = databases.map(({ record }) => placeOf(record)).find(Boolean) ?? null;
    this.marks.asked = place;
    this.marks.ways = [];
    this.marks.setSites(pools.flatMap(sitesOf));
    if (place) {
      for (const reasons of pools) {
        const [name] = chosenSites(reasons);
        const site = (reasons.candidates ?? []).find((one) => one.name === name);
        if (!Number.isFinite(site?.longitude_degrees)) continue;
        this.marks.ways.push({ from: place, to: [site.longitude_degrees, site.latitude_degrees] });
      }
      const [x, y] = this.map.toPixels(...place);
      const isSeen = x > 30 && y > 30 && x < this.map.width - 30 && y < this.map.height - 30;
      if (!isSeen) this.map.goTo(place);
    }
    this.map.invalidate("marks");
  }
}

/** The candidates of a pool as marks. */
function sitesOf({ candidates }) {
  return (candidates ?? []).map((site, index) => ({
    name: site.name,
    longitude: site.longitude_degrees,
    latitude: site.latitude_degrees,
    isUp: site.healthy !== false,
    index,
  }));
}

const note = (text) => element("p", { class: "muted note" }, text);

/** One job's answer: its kind, its name and what it says. */
export function card(kind, name, ...children) {
  return element(
    "article",
    { class: "card" },
    element("h3", null, element("span", { class: "kind" }, kind), " ", foreign(name)),
    children,
  );
}
