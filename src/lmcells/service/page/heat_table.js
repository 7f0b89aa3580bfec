// A word under its sections, held against other words: how near it is to each, and whether the section pulls it there.

import { element, percent } from "./element.js";

const FULL = Math.log2(3); // three times as near, or a third, has the full colour

export function heatTable(senses, onWord) {
  const columns = [...senses.sections, senses.average];
  const most = columns.map((column) => Math.max(...column.likenesses.map(({ probability }) => probability)));
  const rows = senses.words.map((word, row) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, element("button", { type: "button", class: "word", onclick: () => onWord(word) }, word)),
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

export const sectionName = (section) => ({ null: "On average", "<null>": "No section", "<other>": "Other sections", "<no section>": "No header" })[section] ?? section;
