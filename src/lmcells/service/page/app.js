// The page: a note goes to the service, comes back with its acronyms, and is shown.

import { Details, isExplained } from "./details.js";
import { byId, report, say, startDialogs, startTips, Tabs } from "./dom.js";
import { startViews } from "./explore.js";
import { acceptDrops, readFiles, SAMPLE, startDownloads } from "./files.js";
import { Edits, InventoryDialog } from "./inventory.js";
import { Contents, isDoubt, level, NoteView, showLegend, writtenOut } from "./note.js";
import { Review } from "./review.js";
import { expand, explain, giveUp, startTokenDialog } from "./service.js";

const field = byId("text");
const hidden = new Set(); // levels that the legend hides
let edits = new Edits();
let files = []; // that are open
let opened = null; // one of them, or a note of the queue; the field may change its line ends, but offsets count in the original
let text = "";
let answer = null; // the service's answer for `text`; null as soon as the field holds anything else
let chosen = null;

const note = new NoteView((index) => showChosen(index));
const review = new Review({
  note: () => ({ id: answer?.id, name: opened?.name ?? (answer && nameOf(answer)), text, category: answer?.category }),
  show: (reviewed, decided) => showDecided(reviewed, decided),
  open: (entry) => openNote(entry),
  clear: () => clear(),
  refresh: () => refresh(),
});
const details = new Details({
  choose: (index) => note.choose(index),
  next: (step) => note.next(step),
  nextDoubt: (step) => nextDoubt(step),
  close: () => closeDetails(),
  addSense: (short_form, long_form) => changeInventory((all) => all.add({ short_form, long_form }), report),
  removeSense: (short_form, long_form) => changeInventory((all) => all.remove({ short_form, long_form }), report),
  mark: () => markSelection(),
}, review);
const contents = new Contents({ openNote: (entry) => openNote(entry), choose: (index) => note.choose(index) });
const inventory = new InventoryDialog((edit) => changeInventory(edit));
const tabs = new Tabs(["write", "read", "expanded"], () => showTools());

// A pasted note keeps its first name: decisions that are stored at the same time are about one note.
const nameOf = (of) => (of.name ??= `note of ${new Date().toISOString().slice(0, 19)}`);

// Expanding

async function expandNote() {
  if (opened?.id && opened.shown === field.value) return openNote(opened);
  const given = opened?.shown === field.value ? opened.text : field.value;
  if (!given.trim()) {
    report("There is no text to expand. Paste a note, open a file, or use the sample.");
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

// Showing. The slider and the legend apply to everything: the note, the list, the text written out, and downloads.

function isShown(expansion) {
  if (hidden.has(level(expansion))) return false;
  return expansion.abstained !== null || 100 * expansion.probability >= Number(byId("least").value);
}

const shown = () => answer.expansions.filter(isShown);

function showAnswer() {
  chosen = null;
  note.show(text, answer.expansions);
  for (const tab of tabs.all) tab.disabled = false;
  applyFilter();
  showTools();
  say(`${answer.expansions.length} acronyms found.`);
}

function showTools() {
  const isEmpty = !answer?.expansions.length;
  byId("downloads").hidden = isEmpty;
  byId("filter").hidden = answer === null || tabs.shown === "write" || (isEmpty && !review.isOn);
  byId("filter").classList.toggle("empty-filter", isEmpty);
  const isRead = answer !== null && tabs.shown !== "write";
  const isOpen = (entry) => entry === opened || (entry.id !== undefined && entry.id === answer?.id);
  contents.show([...files, ...review.queue], isOpen, isRead ? answer.expansions : [], { isReview: review.isOn });
  byId("review-actions").hidden = !review.isOn || answer === null;
  byId("delete-note").hidden = !answer?.id;
}

function applyFilter() {
  byId("least-shown").value = `${byId("least").value} %`;
  note.filter((index) => isShown(answer.expansions[index]));
  showLegend(answer.expansions, hidden, applyFilter);
  byId("expanded").replaceChildren(...writtenOut(text, shown(), answer.expanded));
  if (chosen !== null && !isShown(answer.expansions[chosen])) chosen = null;
  if (chosen === null) closeDetails({ focus: false });
}

function showChosen(index) {
  chosen = index;
  if (index === null) return;
  const expansion = answer.expansions[index];
  details.showOne(text, expansion, `${index + 1} of ${answer.expansions.length}`, answer.category);
  note.attend("", []);
  showReasons(answer, index);
  if (byId("view-read").hidden) tabs.show("read");
}

// What the model relied on is asked for when an acronym is opened: it takes longer than expanding the note.
async function showReasons(of, index) {
  of.reasons ??= new Map();
  if (!isExplained(of.expansions[index])) return details.explain(text, of.expansions[index], null);
  if (!of.reasons.has(index)) of.reasons.set(index, explain(text, edits.message, of.expansions[index], of.category));
  let explanation = null;
  try {
    explanation = await of.reasons.get(index);
  } catch (error) {
    of.reasons.delete(index);
    if (of === answer && chosen === index) details.explain(text, of.expansions[index], null, error.message);
    return;
  }
  if (of !== answer || chosen !== index) return; // another was opened meanwhile
  const { start } = of.expansions[index];
  details.explain(text, of.expansions[index], explanation);
  note.attend(text, explanation ? explanation.words.filter((word) => word.start !== start) : []);
}

function closeDetails({ focus = true } = {}) {
  const was = chosen;
  chosen = null;
  note.choose(null);
  note.attend("", []);
  details.showAll(text, answer.expansions, isShown);
  if (focus && was !== null) byId("note").querySelectorAll(".mark")[was].focus({ preventScroll: true });
}

function nextDoubt(step) {
  const doubts = answer.expansions.map((each, index) => index).filter((index) => isDoubt(answer.expansions[index]) && isShown(answer.expansions[index]));
  const from = chosen ?? (step > 0 ? -1 : answer.expansions.length);
  const next = step > 0 ? doubts.find((index) => index > from) : doubts.findLast((index) => index < from);
  const hint = review.isOn && step > 0 ? " Key d: the rest is right, next note." : "";
  if (next === undefined) say(`No ${step > 0 ? "further" : "earlier"} doubt in this note.${hint}`);
  else note.choose(next);
}

// Clear whatever no longer belongs to the text in the field, before anything else can be done with it.
function forget() {
  giveUp();
  answer = null;
  text = "";
  chosen = null;
  note.show("", []);
  byId("expanded").replaceChildren();
  for (const tab of tabs.all.slice(1)) tab.disabled = true;
  details.showNothing();
  tabs.show("write");
  report(null);
}

function startAgain() {
  files = [];
  opened = null;
  forget();
}

function clear() {
  startAgain();
  field.value = "";
  field.focus();
}

// Reviewing

function showReviewed(reviewed) {
  text = reviewed.text;
  answer = reviewed;
  opened = { ...opened, id: reviewed.id, name: reviewed.name, text, shown: field.value };
  files = files.filter((file) => file.name !== reviewed.name);
  showAnswer();
  tabs.show("read");
}

// After a decision the next doubt is opened; after the exclusion of a sense the same mention; what was opened meanwhile stays.
function showDecided(reviewed, { start, end, isNext }) {
  if (text !== reviewed.text || (answer?.id ?? reviewed.id) !== reviewed.id) {
    showTools();
    return false;
  }
  const open = answer?.expansions[chosen]?.start ?? start;
  showReviewed(reviewed);
  const { expansions } = answer;
  const isLeft = (each) => isDoubt(each) && isShown(each);
  const stays = open !== start || !isNext ? expansions.find((each) => each.start === open) : undefined;
  const next = stays ?? expansions.find((each) => isLeft(each) && each.start >= end) ?? expansions.find(isLeft);
  if (next) note.choose(expansions.indexOf(next));
  else {
    say("No doubt is left in this note.");
    byId("done").focus();
  }
  return true;
}

async function refresh() {
  await review.load();
  if (answer?.id) await openNote({ id: answer.id });
  else showTools();
}

// The text selected in the note becomes a mention, once its long form is given.
function markSelection() {
  const selected = note.selection();
  if (!selected) return report("Nothing is selected. Select a short form in the note.");
  report(null);
  closeDetails({ focus: false });
  const unknown = { section: null, long_form: null, probability: null, source: "model", candidates: [], abstained: "not_in_inventory" };
  details.showOne(text, { ...selected, ...unknown }, "marked by hand", answer.category);
  document.querySelector("#details .inline-add input").focus();
}

// Files

async function load(given) {
  if (given.length === 0) return;
  const read = await readFiles(given);
  if (read.notes.length > 0) {
    startAgain();
    files = read.notes;
    await openNote(files[0]);
  }
  if (read.problems.length > 0) report(read.problems.join(" "));
}

async function openNote(given) {
  forget();
  if (given.id !== undefined) {
    try {
      const reviewed = await review.read(given.id);
      field.value = reviewed.text;
      opened = given;
      showReviewed(reviewed);
      byId("note").querySelector(".mark:not(:disabled)")?.focus({ preventScroll: true });
    } catch (error) {
      report(error.message);
    }
    return;
  }
  field.value = given.text;
  given.shown = field.value;
  opened = given;
  await expandNote();
}

// Controls

byId("expand").addEventListener("click", expandNote);
byId("open-file").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", async (event) => {
  await load([...event.target.files]);
  event.target.value = "";
});
acceptDrops(byId("note-panel"), load);
byId("sample").addEventListener("click", () => {
  startAgain();
  field.value = SAMPLE;
  expandNote();
});
byId("clear").addEventListener("click", clear);
field.addEventListener("input", () => {
  if (opened?.id) opened = null; // another note from now on
  if (answer !== null || byId("expand").disabled) forget();
});
field.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    expandNote();
  }
});
byId("least").addEventListener("input", applyFilter);
byId("monospaced").addEventListener("change", (event) => byId("note-panel").classList.toggle("monospaced", event.target.checked));
byId("open-inventory").addEventListener("click", () => inventory.open());
startDownloads(() => ({ name: opened?.text === text ? opened.name : "note", text, expansions: shown(), expanded: byId("expanded").textContent }));
document.addEventListener("keydown", (event) => {
  if (answer === null || document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && chosen !== null) closeDetails();
  // Single keys work where there is nothing to type: in the note and in the panel beside it.
  if (!event.target.closest("#note, #details") || event.target.matches("input")) return;
  if (event.key === "n") nextDoubt(1);
  else if (event.key === "p") nextDoubt(-1);
  else if (review.isOn && event.key === "x") markSelection();
  else if (!review.isOn || !review.onKey(event, chosen === null ? null : answer.expansions[chosen])) return;
  event.preventDefault();
});
if (/Mac|iP(hone|ad)/.test(navigator.platform)) document.querySelector("kbd").textContent = "⌘ ⏎";
startTokenDialog();
startDialogs();
startTips();
details.showNothing();
startViews();
if (review.isOn) {
  byId("storing").textContent = "Notes with decisions are stored in the file of reviews, others nowhere; none is logged.";
  review.start().then(
    () => (review.queue[0] && !field.value ? openNote(review.queue[0]) : showTools()),
    (error) => report(error.message),
  );
  addEventListener("focus", () => review.load().then(showTools, () => {})); // others may have decided meanwhile
}
