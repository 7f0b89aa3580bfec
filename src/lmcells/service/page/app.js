// The page: a note goes to the service, comes back with its acronyms, and is shown.

import { Details } from "./details.js";
import { byId, element, Tabs, unitOffsets } from "./dom.js";
import { Explore } from "./explore.js";
import { Edits, InventoryDialog } from "./inventory.js";
import { level, LEVELS, NoteView } from "./note.js";
import { expand, startTokenDialog } from "./service.js";

const MOST = 8_000_000; // characters of a file; the service says what it allows

const field = byId("text");
let edits = new Edits();
let answer = null; // the service's answer for `text`
let text = "";
let chosen = null;
let loaded = null; // a file as it is: the field shows it with other line ends, and offsets are the file's

const note = new NoteView((index) => showChosen(index));
const details = new Details({
  choose: (index) => note.choose(index),
  next: (step) => note.next(step),
  close: () => closeDetails(),
  addSense: (short_form, long_form) => changeInventory((all) => all.add({ short_form, long_form }), report),
  removeSense: (short_form, long_form) => changeInventory((all) => all.remove({ short_form, long_form }), report),
});
const inventory = new InventoryDialog((edit) => changeInventory(edit));
const tabs = new Tabs(["write", "read", "expanded"]);

function report(problem) {
  const box = byId("problem");
  box.textContent = problem ?? "";
  box.hidden = !problem;
}

const say = (words) => (byId("status").textContent = words);

// Expanding

async function expandNote() {
  const given = loaded && loaded.shown === field.value ? loaded.text : field.value;
  if (!given.trim()) {
    report("There is no text to expand. Paste a note, open a file, or take the sample.");
    field.focus();
    return;
  }
  report(null);
  if (await ask(given, edits, report)) {
    tabs.show("read");
    byId("note").querySelector(".mark:not(:disabled)")?.focus({ preventScroll: true });
  }
}

async function ask(given, withEdits, onProblem) {
  const button = byId("expand");
  button.disabled = true;
  byId("note-panel").setAttribute("aria-busy", "true");
  try {
    const answered = await expand(given, withEdits.message);
    if (!given) return true; // only the inventory was to be checked
    text = given;
    answer = answered;
    showAnswer();
    return true;
  } catch (error) {
    if (error.name !== "AbortError") onProblem(error.message);
    return false;
  } finally {
    button.disabled = false;
    byId("note-panel").removeAttribute("aria-busy");
  }
}

// Returns what is wrong with a change, or null; a change that the service refuses is not kept.
async function changeInventory(edit, onProblem = () => {}) {
  const changed = edits.copy();
  edit(changed);
  let problem = null;
  const was = answer?.expansions[chosen]?.start;
  const isKept = await ask(answer ? text : "", changed, (said) => (problem = said));
  onProblem(problem);
  if (!isKept) return problem ?? "Another request came first. Try again.";
  edits = changed;
  inventory.show(edits);
  byId("n-edits").textContent = String(edits.size);
  byId("n-edits").hidden = edits.size === 0;
  const again = answer?.expansions.findIndex((expansion) => expansion.start === was) ?? -1;
  if (again >= 0) note.choose(again, { focus: false });
  return null;
}

// Showing

const isShown = (index) => {
  const expansion = answer.expansions[index];
  if (expansion.abstained) return byId("show-abstained").checked;
  return 100 * expansion.probability >= Number(byId("least").value);
};

function showAnswer() {
  chosen = null;
  note.show(text, answer.expansions);
  showExpanded();
  for (const tab of tabs.all) tab.disabled = false;
  byId("downloads").hidden = false;
  applyFilter();
  say(`${answer.expansions.length} acronyms found.`);
}

function applyFilter() {
  byId("least-shown").value = `${byId("least").value} %`;
  note.filter(isShown);
  const counts = new Map(LEVELS.map(([name]) => [name, 0]));
  for (const expansion of answer.expansions) counts.set(level(expansion), counts.get(level(expansion)) + 1);
  byId("legend").replaceChildren(
    ...LEVELS.filter(([name]) => counts.get(name) > 0).map(([name, words]) =>
      element("li", {}, element("span", { class: `swatch ${name}` }, String(counts.get(name))), ` ${words}`),
    ),
  );
  if (chosen !== null && !isShown(chosen)) chosen = null;
  if (chosen === null) closeDetails({ focus: false });
}

function showChosen(index) {
  chosen = index;
  if (index === null) return;
  const expansion = answer.expansions[index];
  const explanation = answer.explanations[index];
  details.showOne(text, expansion, explanation, `${index + 1} of ${answer.expansions.length}`);
  note.attend(text, explanation ? explanation.words.filter((word) => word.start !== expansion.start) : []);
  if (byId("view-read").hidden) tabs.show("read");
}

function closeDetails({ focus = true } = {}) {
  const was = chosen;
  chosen = null;
  note.choose(null);
  note.attend("", []);
  details.showAll(text, answer.expansions, isShown);
  if (focus && was !== null) byId("note").querySelectorAll(".mark")[was].focus({ preventScroll: true });
}

function showExpanded() {
  const written = answer.expanded.text;
  const unit = unitOffsets(written);
  const { new_starts: starts, new_ends: ends } = answer.expanded.offset_map;
  const pieces = [];
  let position = 0;
  starts.forEach((start, index) => {
    pieces.push(written.slice(position, unit(start)), element("ins", {}, written.slice(unit(start), unit(ends[index]))));
    position = unit(ends[index]);
  });
  byId("expanded").replaceChildren(...pieces, written.slice(position));
}

function startAgain() {
  answer = null;
  text = "";
  chosen = null;
  loaded = null;
  note.show("", []);
  byId("expanded").replaceChildren();
  byId("downloads").hidden = true;
  for (const tab of tabs.all.slice(1)) tab.disabled = true;
  details.showNothing();
  report(null);
}

// Files

async function load(file) {
  if (!file) return;
  if (file.size > MOST) return report(`${file.name} is too large. Open a smaller file.`);
  try {
    const content = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    startAgain();
    field.value = content;
    loaded = { text: content, shown: field.value, name: file.name };
    await expandNote();
  } catch {
    report(`${file.name} is not UTF-8 text. Save it as UTF-8.`);
  }
}

const panel = byId("note-panel");
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
  load(event.dataTransfer.files[0]);
});

// Two views, chosen by the address: #explore... is the model, anything else the note

function startViews(explore) {
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

// Downloads, made in the browser

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

function download(kind, text, answer, name) {
  const [type, content] = MAKE[kind](text, answer);
  const address = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = address;
  link.download = `${name}.${kind === "txt" ? "expanded.txt" : `expansions.${kind}`}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// An invented note

const SAMPLE = `CHIEF COMPLAINT: SOB and leg swelling.

HISTORY OF PRESENT ILLNESS: 71 yo man with CHF, AF on warfarin and COPD, s/p CABG in 2015, who came to the ED with worsening DOE for one week. He denies CP. He was seen by his PCP, who stopped HCTZ and ordered a TTE with an EF of 35 %.

PAST MEDICAL HISTORY: CVA in 2019, CAD, HTN, DM, CKD stage 3, MI, OSA on CPAP. No history of PE or DVT.

MEDICATIONS: Metoprolol 25 mg PO BID, ASA 81 mg PO daily, insulin SQ, albuterol PRN.

PHYSICAL EXAM: BP 152/88, HR 96, RR 22. JVP elevated. Lungs with rales, no CVA tenderness. Abdomen soft, NT, ND.

LABORATORY DATA: BNP 1,240, WBC 9.8, Cr 1.9, BUN 42, PT 24 and INR 2.4.

ASSESSMENT AND PLAN: Acute exacerbation of heart failure. Start IV furosemide, check BMP daily, follow I/O. PT and OT to evaluate gait and balance. DNR. Follow up with renal for acute kidney injury (AKI); AKI is likely prerenal.
`;

// Controls

byId("expand").addEventListener("click", expandNote);
byId("open-file").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", async (event) => {
  await load(event.target.files[0]);
  event.target.value = "";
});
byId("sample").addEventListener("click", () => {
  startAgain();
  field.value = SAMPLE;
  expandNote();
});
byId("clear").addEventListener("click", () => {
  startAgain();
  field.value = "";
  field.focus();
});
field.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    expandNote();
  }
});
byId("least").addEventListener("input", applyFilter);
byId("show-abstained").addEventListener("change", applyFilter);
byId("open-inventory").addEventListener("click", () => inventory.open());
for (const button of document.querySelectorAll("[data-close]")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}
for (const button of document.querySelectorAll("[data-download]")) {
  const name = () => (loaded && loaded.text === text ? loaded.name.replace(/\.[^.]*$/, "") : "note");
  button.addEventListener("click", () => download(button.dataset.download, text, answer, name()));
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosen !== null && !document.querySelector("dialog[open]")) closeDetails();
});
if (/Mac|iP(hone|ad)/.test(navigator.platform)) document.querySelector("kbd").textContent = "⌘ ⏎";
startTokenDialog();
details.showNothing();
startViews(new Explore());
