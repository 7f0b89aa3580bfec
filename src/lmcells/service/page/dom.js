// Building blocks: elements (strings become text nodes, never markup), tabs, tips, and offsets.

const SVG = "http://www.w3.org/2000/svg";

export const element = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

export const button = (look, onclick, words, more = {}) => element("button", { type: "button", class: look, onclick, ...more }, ...[words].flat());

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export const byId = (id) => document.getElementById(id);

export function bar(share, label) {
  const part = element("span");
  part.style.width = `${100 * share}%`;
  return element("div", { class: "track", role: "img", "aria-label": label }, part);
}

export function percent(share) {
  const hundredths = 100 * share;
  if (hundredths > 0 && hundredths < 1) return "<1 %";
  if (hundredths > 99 && hundredths < 100) return ">99 %";
  return `${Math.round(hundredths)} %`;
}

// What is wrong, if anything, above the note; and what happened, for screen readers.

export function report(problem) {
  byId("problem").textContent = problem ?? "";
  byId("problem").hidden = !problem;
}

export const say = (words) => (byId("status").textContent = words);

export function startDialogs() {
  for (const each of document.querySelectorAll("[data-close]")) each.addEventListener("click", () => each.closest("dialog").close());
}

// Tabs and their panels: one tab stop, arrow keys between them.

export class Tabs {
  all;
  shown = null;
  #onShow;

  // Each name has a button `tab-NAME`.
  constructor(names, onShow = () => {}) {
    this.all = names.map((name) => byId(`tab-${name}`));
    this.#onShow = onShow;
    for (const tab of this.all) {
      tab.addEventListener("click", () => this.show(tab.id.slice("tab-".length)));
      tab.addEventListener("keydown", (event) => this.#onKey(event, tab));
    }
  }

  show(name, { quiet = false } = {}) {
    this.shown = name;
    for (const tab of this.all) {
      const isIt = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", String(isIt));
      tab.tabIndex = isIt ? 0 : -1;
      byId(tab.getAttribute("aria-controls")).hidden = !isIt;
    }
    if (!quiet) this.#onShow(name);
  }

  #onKey(event, tab) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const enabled = this.all.filter((each) => !each.disabled);
    const next = enabled[enabled.indexOf(tab) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
    next.click();
  }
}

// The text of `data-tip`, shown beside the element while the pointer is over it.

export function startTips() {
  const tip = element("div", { class: "hover-tip", "aria-hidden": "true", hidden: true });
  document.body.append(tip);
  document.addEventListener("mouseover", (event) => {
    const over = event.target.closest?.("[data-tip]");
    tip.hidden = !over;
    if (!over) return;
    tip.textContent = over.dataset.tip;
    const { left, top, bottom } = over.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${top > tip.offsetHeight + 8 ? top - tip.offsetHeight - 6 : bottom + 6}px`;
  });
  document.addEventListener("scroll", () => (tip.hidden = true), { capture: true, passive: true });
}

// The service counts code points, JavaScript counts UTF-16 units: they differ after the first emoji.

export function unitOffsets(text) {
  if (!/[\ud800-\udfff]/.test(text)) return (offset) => offset;
  const units = [0];
  for (const character of text) units.push(units[units.length - 1] + character.length);
  return (offset) => units[offset];
}
