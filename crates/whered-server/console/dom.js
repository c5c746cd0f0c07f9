// Builds elements. Every text becomes a text node, so foreign text is never read as markup.
//
// Not for: what is shown (the views). Foreign text (members, keys, names, records) goes through
// `foreign`, which also keeps it from changing the direction of the text around it.

/** The element with an id of index.html. */
export const byId = (id) => document.getElementById(id);

/**
 * An element. `properties` are `class`, `on` (listeners by name) and attributes; null and false
 * leave an attribute out. A child is a node, a text, a list of both, or null.
 */
export function element(name, properties, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (key === "on") {
      for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    } else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(key, value === true ? "" : String(value));
    }
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

/** Replaces what an element has inside. */
export function fill(parent, ...children) {
  parent.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined),
  );
}

// Control characters, marks of direction, and halves of surrogate pairs.
const UNSEEN =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]|\p{Cs}/gu;

/** A text with its invisible characters written out, and no longer than `length`. */
export function visible(text, length = 300) {
  const whole = String(text);
  const cut = whole.length > length ? `${whole.slice(0, length)}…` : whole;
  return cut.replace(UNSEEN, (found) => `\\u{${found.codePointAt(0).toString(16)}}`);
}

/** Foreign text as an element of its own. */
export function foreign(text, properties) {
  return element("bdi", properties, visible(text));
}

/** Foreign text in the typeface of addresses and names. */
export const code = (text) => foreign(text, { class: "code" });

/** A list of names and values; rows whose value is null are left out. */
export function definitions(rows) {
  const shown = rows.filter((row) => row && row[1] !== null && row[1] !== undefined);
  return element(
    "dl",
    { class: "definitions" },
    shown.map(([name, value]) => [element("dt", null, name), element("dd", null, value)]),
  );
}

/** A message in place of data that is not there: what it would be, and what to configure. */
export function empty(title, text, example) {
  return element(
    "div",
    { class: "empty" },
    element("h3", null, title),
    element("p", null, text),
    example ? element("pre", { tabindex: "0", "aria-label": "Example" }, example) : null,
  );
}

/** A refusal or a fault. */
export function failure(error) {
  const text = error?.message ?? String(error);
  return element("p", { class: "failure", role: "alert" }, visible(text, 600));
}
