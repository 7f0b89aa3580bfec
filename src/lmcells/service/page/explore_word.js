// A word under several sections: its nearest words, how it moves, and where its cells lie.

import { PointMap } from "./chart_map.js";
import { bar, byId, element, percent } from "./element.js";
import { heatTable, sectionName } from "./heat_table.js";
import { swatch } from "./markers.js";
import { explore } from "./service.js";
import { Suggest } from "./suggest.js";
import { clearProblem, showProblem } from "./unknown_name.js";

const MOST_SECTIONS = 6; // one of them a colour
const CELLS = 60;
const AVERAGE = 6; // its marker: a cross

export class Word {
  #remember;
  #state;
  #answer = null;
  #mixture = null;
  #asked = 0;
  #word = new Suggest(byId("word-word"), { kind: "word", onChoose: (word) => this.#ask({ word }) });
  #plane = new PointMap(byId("word-plane"), {
    height: (width) => Math.min(420, Math.max(280, 0.72 * width)),
    onChoose: ({ name, isAverage }) => (isAverage ? null : this.#toggle(name)),
  });

  constructor(first, remember) {
    this.#remember = remember;
    this.#state = { word: first.word, sections: [...first.sections] };
    new Suggest(byId("word-section"), { kind: "section", keeps: false, onChoose: (section) => this.#toggle(section, { add: true }) });
  }

  show(asked) {
    const word = asked?.get("word") ?? this.#state.word;
    const sections = asked?.has("section") ? asked.getAll("section").slice(0, MOST_SECTIONS) : this.#state.sections;
    if (this.#answer && word === this.#state.word && String(sections) === String(this.#state.sections)) return this.#recall();
    this.#ask({ word, sections });
  }

  #toggle(section, { add = false } = {}) {
    const { sections } = this.#state;
    if (sections.includes(section)) {
      if (!add && sections.length > 1) this.#ask({ sections: sections.filter((each) => each !== section) });
    } else this.#ask({ sections: [...sections.slice(sections.length < MOST_SECTIONS ? 0 : 1), section] });
  }

  async #ask(change) {
    const asked = ++this.#asked;
    const wanted = { ...this.#state, ...change };
    const box = byId("word-problem");
    byId("view-word").setAttribute("aria-busy", "true");
    try {
      const answer = await explore("senses", { word: wanted.word, section: wanted.sections });
      const mixture = await explore("mixture", { word: wanted.word, most: CELLS });
      if (asked !== this.#asked) return;
      clearProblem(box);
      this.#answer = answer;
      this.#mixture = mixture;
      this.#state = { word: answer.word, sections: answer.sections.map(({ section }) => section) };
      this.#draw();
    } catch (error) {
      if (asked === this.#asked) {
        showProblem(box, error, [
          { kind: "word", text: wanted.word, choose: (word) => this.#ask({ ...wanted, word }) },
          ...wanted.sections.map((section, index) => ({
            kind: "section",
            text: section,
            choose: (other) => this.#ask({ ...wanted, sections: wanted.sections.with(index, other) }),
          })),
        ]);
      }
    } finally {
      byId("view-word").removeAttribute("aria-busy");
    }
  }

  #draw() {
    const { word, count, sections, average } = this.#answer;
    byId("view-word").classList.remove("empty-picture");
    byId("word-halves").classList.toggle("stacked", sections.length > 3); // a wide table
    this.#word.value = word;
    byId("word-title").replaceChildren(element("b", {}, word), element("small", {}, ` seen ${times(count)}`));
    byId("word-sections").replaceChildren(...sections.map(({ section }, index) => this.#chip(section, index)));
    const usual = new Set(average.neighbors.map((near) => near.word));
    byId("word-nearest").replaceChildren(...[...sections, average].map((sense, index) => this.#column(sense, index, usual)));
    byId("word-table").replaceChildren(heatTable(this.#answer, (other) => this.#ask({ word: other })));
    this.#drawPlane();
    this.#recall();
  }

  #recall() {
    this.#remember([["word", this.#state.word], ...this.#state.sections.map((section) => ["section", section])]);
  }

  #chip(section, index) {
    const isOnly = this.#state.sections.length === 1;
    return element(
      "li",
      { class: `chosen-section series-${index}` },
      swatch(index),
      sectionName(section),
      isOnly
        ? null
        : element("button", { type: "button", class: "remove", "aria-label": `Remove ${section}`, onclick: () => this.#toggle(section) }, "×"),
    );
  }

  #column(sense, index, usual) {
    const isAverage = sense.section === null;
    const facts = isAverage ? "over the sections it was seen in" : `seen ${times(sense.count ?? 0)} · moved ${sense.moved.toFixed(2)} nats`;
    const words = sense.neighbors.map(({ word, divergence }) => {
      const isNew = !isAverage && !usual.has(word);
      return element(
        "li",
        { class: isNew ? "new" : "" },
        element("button", { type: "button", class: "word", onclick: () => this.#ask({ word }) }, word),
        isNew ? element("span", { class: "sign", title: "not among the nearest on average" }, "+", element("span", { class: "unseen" }, " not near on average")) : element("span"),
        element("span", { class: "percent" }, divergence.toFixed(2)),
        bar(Math.exp(-divergence), `divergence ${divergence.toFixed(2)}`),
      );
    });
    return element(
      "section",
      { class: `near series-${isAverage ? "none" : index}` },
      element("h4", {}, swatch(isAverage ? AVERAGE : index), sectionName(sense.section)),
      element("p", { class: "faint" }, facts),
      element("ol", {}, ...words),
    );
  }

  #drawPlane() {
    const { components, expected, share, n_counted: counted } = this.#mixture;
    const chosen = this.#state.sections;
    const most = Math.max(...components.map(({ weight }) => weight));
    const points = components.map(({ section, weight, x, y }) => ({
      name: section,
      title: sectionName(section),
      x,
      y,
      radius: 3 + 7 * Math.sqrt(weight / most),
      group: chosen.includes(section) ? chosen.indexOf(section) : null,
      label: `${sectionName(section)}, ${percent(weight)} of its occurrences`,
    }));
    points.push({ name: "on average", title: "on average", shape: AVERAGE, x: expected.x, y: expected.y, radius: 6, group: null, label: "Its average meaning", isAverage: true });
    this.#plane.show(points);
    this.#plane.choose("on average", chosen);
    const absent = chosen.filter((section) => !components.some((each) => each.section === section));
    byId("word-plane-note").textContent =
      `Two axes that show ${percent(share)} of the differences; larger: more of the ${counted.toLocaleString("en")} occurrences counted. Choose a cell to compare its section.` +
      (absent.length > 0 ? ` Too rare to be shown: ${absent.map(sectionName).join(", ")}.` : "");
  }
}

const times = (count) => (count === 1 ? "once" : `${count.toLocaleString("en")} times`);
