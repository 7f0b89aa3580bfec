// The Explore view: three pictures of what the model has learnt. The address says which one, and of what.

import { byId, Tabs } from "./dom.js";
import { Gate } from "./gate.js";
import { Sections } from "./sections.js";
import { explore } from "./service.js";
import { showProblem } from "./suggest.js";
import { Word } from "./word.js";

const PAUSE = 250; // milliseconds
const PICTURES = { gate: Gate, word: Word, sections: Sections };

class Explore {
  #tabs = new Tabs(Object.keys(PICTURES), (name) => this.#pictures?.[name].show(null));
  #pictures = null;
  #isOpening = false;

  async open(hash) {
    const [, name, asked] = /^#explore\/(\w+)\??(.*)$/.exec(hash) ?? [];
    if (!this.#pictures && !(await this.#start())) return;
    if (Object.hasOwn(PICTURES, name)) {
      this.#tabs.show(name, { quiet: true });
      this.#pictures[name].show(new URLSearchParams(asked));
    } else this.#tabs.show(this.#tabs.shown ?? "gate");
  }

  // A model that reads no sections has nothing to show, and says so.
  async #start() {
    if (this.#isOpening) return false;
    this.#isOpening = true;
    byId("explore-problem").hidden = true;
    try {
      const first = await explore("start");
      byId("explore-size").textContent =
        `${first.n_words.toLocaleString("en")} words · ${first.n_sections.toLocaleString("en")} sections · ${first.n_short_forms.toLocaleString("en")} short forms`;
      this.#pictures = Object.fromEntries(
        Object.entries(PICTURES).map(([name, Picture]) => [name, new Picture(first, (state) => remember(name, state))]),
      );
      byId("explore-card").hidden = false;
      return true;
    } catch (error) {
      byId("explore-card").hidden = true;
      showProblem(byId("explore-problem"), error, []);
      return false;
    } finally {
      this.#isOpening = false;
    }
  }
}

let pause = 0;

// The address can be bookmarked and shared; choices make no history entries. It is written when nothing has changed for a
// while: a browser fetches the page's icon again each time.
function remember(name, state) {
  const hash = `#explore/${name}?${new URLSearchParams(state)}`;
  byId("to-explore").setAttribute("href", hash);
  clearTimeout(pause);
  pause = setTimeout(() => {
    if (location.hash.startsWith("#explore")) history.replaceState(null, "", hash);
  }, PAUSE);
}

// Two views, chosen by the address: #explore... is the model, anything else the note

export function startViews() {
  const explore = new Explore();
  const show = () => {
    const isExplore = location.hash.startsWith("#explore");
    byId("note-view").hidden = isExplore;
    byId("explore-view").hidden = !isExplore;
    byId("open-inventory").hidden = isExplore; // its changes go with notes
    byId("skip").href = isExplore ? "#explore-view" : "#note-panel";
    byId("skip").textContent = isExplore ? "Skip to the charts" : "Skip to the note";
    for (const [id, isIt] of [["to-note", !isExplore], ["to-explore", isExplore]]) {
      if (isIt) byId(id).setAttribute("aria-current", "page");
      else byId(id).removeAttribute("aria-current");
    }
    if (isExplore) explore.open(location.hash);
  };
  addEventListener("hashchange", show);
  show();
}
