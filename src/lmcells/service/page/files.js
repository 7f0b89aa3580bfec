// Text in and out of the page: files opened or dropped, the clipboard, and downloads made in the browser.

import { byId, say, unitOffsets } from "./dom.js";

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
async function copyText(text) {
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

function csv(text, expansions) {
  const unit = unitOffsets(text);
  const rows = expansions.map((expansion) => {
    const values = { ...expansion, written: text.slice(unit(expansion.start), unit(expansion.end)) };
    return COLUMNS.map((name) => cell(values[name])).join(",");
  });
  return [COLUMNS.join(","), ...rows, ""].join("\r\n");
}

// `shown` returns the note's name and text, its expansions, and the text written out.
export function startDownloads(shown) {
  const make = {
    json: ({ expansions }) => ["expansions.json", JSON.stringify(expansions, null, 1)],
    csv: ({ text, expansions }) => ["expansions.csv", csv(text, expansions)],
    txt: ({ expanded }) => ["expanded.txt", expanded],
  };
  for (const button of document.querySelectorAll("[data-download]")) {
    button.addEventListener("click", () => {
      const [ending, content] = make[button.dataset.download](shown());
      download(`${shown().name.replace(/\.[^.]*$/, "")}.${ending}`, content);
    });
  }
  byId("copy").addEventListener("click", async () => {
    await copyText(shown().expanded);
    say("Copied, with its acronyms written out.");
  });
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

// An invented note

export const SAMPLE = `CHIEF COMPLAINT: SOB and leg swelling.

HISTORY OF PRESENT ILLNESS: 71 yo man with CHF, AF on warfarin and COPD, s/p CABG in 2015, who came to the ED with worsening DOE for one week. He denies CP. He was seen by his PCP, who stopped HCTZ and ordered a TTE with an EF of 35 %.

PAST MEDICAL HISTORY: CVA in 2019, CAD, HTN, DM, CKD stage 3, MI, OSA on CPAP. No history of PE or DVT.

MEDICATIONS: Metoprolol 25 mg PO BID, ASA 81 mg PO daily, insulin SQ, albuterol PRN.

PHYSICAL EXAM: BP 152/88, HR 96, RR 22. JVP elevated. Lungs with rales, no CVA tenderness. Abdomen soft, NT, ND.

LABORATORY DATA: BNP 1,240, WBC 9.8, Cr 1.9, BUN 42, PT 24 and INR 2.4.

ASSESSMENT AND PLAN: Acute exacerbation of heart failure. Start IV furosemide, check BMP daily, follow I/O. PT and OT to evaluate gait and balance. DNR. Follow up with renal for acute kidney injury (AKI); AKI is likely prerenal.
`;
