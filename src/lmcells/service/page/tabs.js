// Tabs and the panels that they control: one stop for Tab, arrows between them.

import { byId } from "./element.js";

export class Tabs {
  all;
  shown = null;
  #onShow;

  // Of each name there is a button `tab-NAME`.
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
