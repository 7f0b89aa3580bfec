// Text in and out of the page: files opened or dropped, the clipboard, and downloads made in the browser.

import { unitOffsets } from "./dom.js";

const MOST = 8_000_000; // characters of a file; the service says what it allows

// Returns the notes of text files, and what is wrong with the others.
export async function readFiles(files) {
  const notes = [];
  const problems = [];
  for (const file of files) {
    if (file.size > MOST) problems.push(`${file.name} is too large. Open a smaller file.`);
    else {
      try {
        const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
        notes.push({ name: file.name, text });
      } catch {
        problems.push(`${file.name} is not UTF-8 text. Save it as UTF-8.`);
      }
    }
  }
  return { notes, problems };
}

export function acceptDrops(panel, onFiles) {
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    panel.classList.add("dropping");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) panel.classList.remove("dropping");
  });
  document.addEventListener("drop", (event) => {
    panel.classList.remove("dropping");
    if (!hasFiles(event)) return;
    event.preventDefault();
    onFiles([...event.dataTransfer.files]);
  });
}

// A page that is not served over HTTPS or from this machine has no clipboard; a selection can be copied anywhere.
export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

const COLUMNS = ["start", "end", "written", "short_form", "section", "long_form", "probability", "source", "abstained"];

const cell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

export function csv(text, expansions) {
  const unit = unitOffsets(text);
  const rows = expansions.map((expansion) => {
    const values = { ...expansion, written: text.slice(unit(expansion.start), unit(expansion.end)) };
    return COLUMNS.map((name) => cell(values[name])).join(",");
  });
  return [COLUMNS.join(","), ...rows, ""].join("\r\n");
}

const TYPES = { json: "application/json", jsonl: "application/jsonl", csv: "text/csv", txt: "text/plain" };

export function download(name, content) {
  const type = TYPES[name.slice(name.lastIndexOf(".") + 1)];
  const address = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
