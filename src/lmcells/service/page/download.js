// The answer as a file, made in the browser.

import { unitOffsets } from "./offsets.js";

const COLUMNS = ["start", "end", "written", "short_form", "section", "long_form", "probability", "source", "abstained"];

const cell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

function csv(text, expansions) {
  const unit = unitOffsets(text);
  const rows = expansions.map((expansion) => {
    const values = { ...expansion, written: text.slice(unit(expansion.start), unit(expansion.end)) };
    return COLUMNS.map((name) => cell(values[name])).join(",");
  });
  return [COLUMNS.join(","), ...rows, ""].join("\r\n");
}

const MAKE = {
  json: (_, answer) => ["application/json", JSON.stringify(answer.expansions, null, 1)],
  csv: (text, answer) => ["text/csv", csv(text, answer.expansions)],
  txt: (_, answer) => ["text/plain", answer.expanded.text],
};

export function download(kind, text, answer, name) {
  const [type, content] = MAKE[kind](text, answer);
  const address = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = address;
  link.download = `${name}.${kind === "txt" ? "expanded.txt" : `expansions.${kind}`}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
