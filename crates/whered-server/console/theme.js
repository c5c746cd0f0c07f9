// Light and dark: as the system says, or as the reader chose (kept in localStorage). Canvases read
// their colours here, since they know no style sheet.

const KEY = "whered-theme";
const CHOICES = ["auto", "light", "dark"];
const SIGNS = { auto: "◐", light: "☀", dark: "☾" };
const TITLES = { auto: "as the system", light: "light", dark: "dark" };

/** Fires `change`. */
export const theme = new EventTarget();

/** Ten colours that are told apart on light and on dark land (Observable 10). */
const CATEGORIES = [
  "#4269d0",
  "#efb118",
  "#ff725c",
  "#3ca951",
  "#a463f2",
  "#6cc5b0",
  "#ff8ab7",
  "#9c6b4e",
  "#97bbf5",
  "#9498a0",
];

/** A colour for a site by its number; from the eleventh on by the golden angle. */
export function categoryColor(index) {
  if (index < CATEGORIES.length) return CATEGORIES[index];
  return `hsl(${Math.round((index * 137.508) % 360)} 55% 55%)`;
}

let colors = null;

/** A colour of style.css by its name. */
export function color(name) {
  colors ??= new Map();
  if (!colors.has(name)) {
    const found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
    colors.set(name, found.trim());
  }
  return colors.get(name);
}

function apply(choice) {
  if (choice === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  colors = null;
  theme.dispatchEvent(new Event("change"));
}

/** Lets a button change the theme. */
export function startTheme(button) {
  let choice = localStorage.getItem(KEY);
  if (!CHOICES.includes(choice)) choice = "auto";
  const show = () => {
    button.textContent = SIGNS[choice];
    button.setAttribute("aria-label", `Colours: ${TITLES[choice]}`);
    button.title = `Colours: ${TITLES[choice]}`;
    apply(choice);
  };
  button.addEventListener("click", () => {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
    localStorage.setItem(KEY, choice);
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}
