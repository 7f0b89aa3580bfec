// A word under several sections: its nearest words, how it moves, and where its cells lie.

import { bar, button, byId, element, percent } from "./dom.js";
import { PointMap, swatch } from "./map.js";
import { explore } from "./service.js";
import { Picture, Suggest } from "./suggest.js";

const MOST_SECTIONS = 6; // one per colour
const CELLS = 60;
const AVERAGE = 6; // its marker: a cross

export class Word extends Picture {
  #remember;
  #answer = null;
  #word = new Suggest(byId("word-word"), { kind: "word", onChoose: (word) => this.ask({ word }) });
  #plane = new PointMap(byId("word-plane"), {
    height: (width) => Math.min(420, Math.max(280, 0.72 * width)),
    onChoose: ({ name, isAverage }) => (isAverage ? null : this.#toggle(name)),
  });

  constructor(first, remember) {
    super("word");
    this.#remember = remember;
    this.state = { word: first.word, sections: [...first.sections] };
    new Suggest(byId("word-section"), { kind: "section", keeps: false, onChoose: (section) => this.#toggle(section, { add: true }) });
  }

  show(asked) {
    const word = asked?.get("word") ?? this.state.word;
    const sections = asked?.has("section") ? asked.getAll("section").slice(0, MOST_SECTIONS) : this.state.sections;
    if (this.#answer && word === this.state.word && String(sections) === String(this.state.sections)) return this.#recall();
    this.ask({ word, sections });
  }

  #toggle(section, { add = false } = {}) {
    const { sections } = this.state;
    if (sections.includes(section)) {
      if (!add && sections.length > 1) this.ask({ sections: sections.filter((each) => each !== section) });
    } else this.ask({ sections: [...sections.slice(sections.length < MOST_SECTIONS ? 0 : 1), section] });
  }

  async fetch({ word, sections }) {
    return { senses: await explore("senses", { word, section: sections }), mixture: await explore("mixture", { word, most: CELLS }) };
  }

  names(wanted) {
    const sections = wanted.sections.map((text, index) => {
      const choose = (section) => this.ask({ ...wanted, sections: wanted.sections.with(index, section) });
      return { kind: "section", text, choose };
    });
    return [{ kind: "word", text: wanted.word, choose: (word) => this.ask({ ...wanted, word }) }, ...sections];
  }

  draw({ senses, mixture }) {
    const { word, count, sections, average } = senses;
    this.#answer = senses;
    this.state = { word, sections: sections.map(({ section }) => section) };
    byId("word-halves").classList.toggle("stacked", sections.length > 3); // a wide table
    this.#word.value = word;
    byId("word-title").replaceChildren(element("b", {}, word), element("small", {}, ` seen ${times(count)}`));
    byId("word-sections").replaceChildren(...sections.map(({ section }, index) => this.#chip(section, index)));
    const usual = new Set(average.neighbors.map((near) => near.word));
    byId("word-nearest").replaceChildren(...[...sections, average].map((sense, index) => this.#column(sense, index, usual)));
    byId("word-table").replaceChildren(heatTable(senses, (other) => this.ask({ word: other })));
    this.#drawPlane(mixture);
    this.#recall();
  }

  #recall() {
    this.#remember([["word", this.state.word], ...this.state.sections.map((section) => ["section", section])]);
  }

  #chip(section, index) {
    const remove = button("remove", () => this.#toggle(section), "×", { "aria-label": `Remove ${section}` });
    const isOnly = this.state.sections.length === 1;
    return element("li", { class: `chosen-section series-${index}` }, swatch(index), sectionName(section), isOnly ? null : remove);
  }

  #column(sense, index, usual) {
    const isAverage = sense.section === null;
    const facts = isAverage ? "over the sections in which it occurs" : `seen ${times(sense.count ?? 0)} · moved ${sense.moved.toFixed(2)} nats`;
    const words = sense.neighbors.map(({ word, divergence }) => {
      const isNew = !isAverage && !usual.has(word);
      return element(
        "li",
        { class: isNew ? "new" : "" },
        button("word", () => this.ask({ word }), word),
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

  #drawPlane({ components, expected, share, n_counted: counted }) {
    const chosen = this.state.sections;
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
      `The two axes show ${percent(share)} of the variation. Larger cells hold more of the ${counted.toLocaleString("en")} occurrences. Choose a cell to compare its section.` +
      (absent.length > 0 ? ` Too rare to show: ${absent.map(sectionName).join(", ")}.` : "");
  }
}

const times = (count) => (count === 1 ? "once" : `${count.toLocaleString("en")} times`);

// A table of a word's sections against other words: how near it is to each, and whether the section pulls it there.

const FULL = Math.log2(3); // three times as near, or a third, has the full colour

function heatTable(senses, onWord) {
  const columns = [...senses.sections, senses.average];
  const most = columns.map((column) => Math.max(...column.likenesses.map(({ probability }) => probability)));
  const rows = senses.words.map((word, row) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, button("word", () => onWord(word), word)),
      ...columns.map((column, place) => cell(column.likenesses[row], column.section === null, most[place])),
    ),
  );
  return element(
    "table",
    { class: "heat" },
    element("caption", { class: "unseen" }, `What ${senses.word} is near to, by section`),
    element("thead", {}, element("tr", {}, element("td"), ...columns.map(({ section }) => element("th", { scope: "col" }, sectionName(section))))),
    element("tbody", {}, ...rows),
  );
}

function cell({ probability, ratio }, isAverage, most) {
  const value = element(probability === most ? "b" : "span", {}, percent(probability));
  if (isAverage) return element("td", { class: "average" }, value);
  const pull = Math.max(-1, Math.min(1, Math.log2(Math.max(ratio, 1e-9)) / FULL));
  const sign = ratio >= 1.05 ? "▲" : ratio <= 0.95 ? "▼" : "";
  const made = element("td", { class: pull < 0 ? "less" : "more" }, value, " ", element("small", {}, `${sign}×${ratio < 9.95 ? ratio.toFixed(1) : Math.round(ratio)}`));
  made.style.setProperty("--pull", `${Math.round(Math.abs(pull) * 70)}%`);
  return made;
}

const sectionName = (section) => ({ null: "On average", "<null>": "No section", "<other>": "Other sections", "<no section>": "No header" })[section] ?? section;
