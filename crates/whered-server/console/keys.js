// The keyboard. The help dialog of index.html lists the keys.

import { byId } from "./dom.js";

const SHAPE_KEYS = { c: "circle", b: "box", p: "polygon" };

/** Whether keys belong to what is typed. */
const isTyping = ({ target }) => target.closest("input, textarea, select, dialog[open]") !== null;

export function startKeys({ map, chooseView, draw, finish, escape }) {
  const help = byId("help-dialog");
  byId("help").addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Escape") return escape();
    if (isTyping(event)) return;
    const isOnMap = document.activeElement === map.container;
    if (isOnMap && map.key(event.key)) return event.preventDefault();
    const actions = {
      "/": () => byId("address").focus(),
      "?": () => help.showModal(),
      m: () => map.container.focus(),
      f: finish,
    };
    const action =
      actions[event.key] ??
      (SHAPE_KEYS[event.key] && (() => draw(SHAPE_KEYS[event.key]))) ??
      (/^[1-5]$/.test(event.key) ? () => chooseView(Number(event.key) - 1) : null);
    if (!action) return;
    event.preventDefault();
    action();
  });
}
