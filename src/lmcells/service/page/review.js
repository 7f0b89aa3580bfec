// Reviewing, if the service stores reviews: the queue of notes, decisions about mentions, undo and exports.

import { button, byId, element, report, say } from "./dom.js";
import { download } from "./files.js";
import { addReviewedNote, decide, deleteReviewedNote, exportReviews, reviewedNote, reviews, undo } from "./service.js";

// Each scope, the key that sets it, and its label for a mention; null where it does not apply.
const SCOPES = {
  mention: ["m", () => "this mention"],
  note: ["w", () => "this note"],
  section: ["s", ({ section }) => section && `always in ${section}`],
  category: ["t", (_, category) => category && `always in ${category} notes`],
  everywhere: ["e", () => "always"],
};

export class Review {
  isOn = document.body.dataset.reviews === "on";
  queue = []; // {id, name, n_left, n_disputed, is_done}
  #page;
  #scope = "mention";

  // `page` shows an answer (show), opens a note (open), and has the one that is shown (note).
  // `show` returns whether its note is still open: a reviewer may have gone on while the decision was stored.
  constructor(page) {
    this.#page = page;
    if (!this.isOn) return;
    byId("reviewing").hidden = false;
    byId("reviewer").addEventListener("change", () => this.#page.refresh());
    byId("done").addEventListener("click", () => this.done());
    byId("undo").addEventListener("click", () => this.undo());
    byId("open-keys").addEventListener("click", () => byId("keys-dialog").showModal());
    byId("open-export").addEventListener("click", () => this.#openExport());
    byId("delete-note").addEventListener("click", () => byId("deletion").showModal());
    byId("confirm-deletion").addEventListener("click", () => this.#delete());
    for (const button of document.querySelectorAll("[data-export]")) {
      button.addEventListener("click", () => this.#export(button.dataset.export));
    }
  }

  get reviewer() {
    return byId("reviewer").value.trim();
  }

  async start() {
    const found = await reviews(this.reviewer);
    if (!this.reviewer) byId("reviewer").value = found.reviewer;
    await this.load();
  }

  async load() {
    const found = await reviews(this.reviewer);
    this.queue = found.notes.map((note) => ({ ...note, remark: remark(note) }));
    const unlisted = found.n_notes - found.notes.length;
    byId("progress").textContent = `${found.n_done} of ${found.n_notes} notes done` + (unlisted > 0 ? `; the first ${found.notes.length} are listed` : "");
    byId("agreement").textContent = agreement(found);
    byId("export-remark").textContent =
      `${found.n_rules === 1 ? "1 rule" : `${found.n_rules} rules`} for the site inventory` +
      (found.n_contradictions > 0 ? `; ${found.n_contradictions} contradict each other and are left out` : "");
    byId("review-file").textContent = found.file;
  }

  read = (id) => reviewedNote(id, this.reviewer);

  // What a reviewer can decide about a mention: the scope, one of its senses, or none of them.
  controls(mention, category) {
    const scopes = Object.entries(SCOPES).map(([scope, [key, name]]) => {
      const words = name(mention, category);
      if (!words) return null;
      const choice = element("input", { type: "radio", name: "scope", value: scope, onchange: () => (this.#scope = scope) });
      choice.checked = scope === this.#scope;
      return element("label", { title: `Key: ${key}` }, choice, ` ${words}`);
    });
    const fieldset = element("fieldset", { class: "scopes" }, element("legend", {}, "Decide for"), ...scopes);
    const none = button("quiet small", () => this.choose(mention, null), "Not a short form", { title: "Key: 0" });
    return [fieldset, element("p", { class: "decide" }, none)];
  }

  // What was decided about a mention, and by whom.
  decisions(mention) {
    const said = [mention.mine, ...(mention.others ?? [])].filter(Boolean);
    return said.map((each, index) =>
      element(
        "li",
        { class: each.long_form === mention.mine.long_form ? "agrees" : "differs" },
        element("b", {}, index === 0 ? "You" : each.reviewer),
        ` ${each.long_form ?? "not a short form"} `,
        element("small", {}, `${SCOPES[each.scope][1](mention, this.#page.note().category) ?? "by a rule"}, ${each.at.slice(0, 10)}`),
      ),
    );
  }

  choose(mention, longForm) {
    return this.#decide(mention, { action: "is", long_form: longForm, scope: this.#scope });
  }

  never(mention, longForm) {
    const scope = ["mention", "note"].includes(this.#scope) ? "everywhere" : this.#scope;
    return this.#decide(mention, { action: "never", long_form: longForm, scope });
  }

  async done() {
    if (!(await this.#decide({ start: 0, end: 0 }, { action: "done" }))) return;
    const next = this.queue.find((note) => !note.is_done && note.id !== this.#page.note().id);
    if (next) this.#page.open(next);
    else say("All notes are done.");
  }

  async undo() {
    if (!this.#knowsReviewer()) return;
    const { note } = await this.#try(() => undo(this.reviewer));
    await this.load();
    if (note === null) say("There is nothing to undo.");
    else {
      await this.#page.open({ id: note });
      say("The last decision was undone.");
    }
  }

  // Returns whether a key was one of ours.
  onKey(event, mention) {
    const scope = Object.keys(SCOPES).find((name) => SCOPES[name][0] === event.key);
    const digit = /^Digit(\d)$/.exec(event.code)?.[1];
    if (event.key === "u") this.undo();
    else if (event.key === "d") this.done();
    else if (event.key === "?") byId("keys-dialog").showModal();
    else if (!mention) return false;
    else if (scope) document.querySelector(`.scopes [value=${scope}]`)?.click();
    else if (event.key === "a" && mention.answer) this.choose(mention, mention.answer);
    else if (digit === "0" && !event.shiftKey) this.choose(mention, null);
    else if (digit && mention.candidates[digit - 1]) {
      const { long_form: longForm } = mention.candidates[digit - 1];
      if (event.shiftKey) this.never(mention, longForm);
      else this.choose(mention, longForm);
    } else return false;
    return true;
  }

  async #decide({ start, end }, choice) {
    if (!this.#knowsReviewer()) return false;
    return this.#try(async () => {
      const note = this.#page.note();
      const id = note.id ?? (await addReviewedNote(note.name, note.text, this.reviewer)).id; // kept from now on
      const answer = await decide(id, { ...choice, start, end, reviewer: this.reviewer });
      this.#scope = "mention";
      await this.load();
      return this.#page.show(answer, { start, end, isNext: choice.action !== "never" });
    });
  }

  #knowsReviewer() {
    if (this.reviewer) return true;
    report("Enter the reviewer's name first.");
    byId("reviewer").focus();
    return false;
  }

  async #try(act) {
    try {
      report(null);
      return await act();
    } catch (error) {
      report(error.message);
      throw error;
    }
  }

  async #openExport() {
    await this.load();
    byId("exporting").showModal();
  }

  async #export(name) {
    const problem = byId("export-problem");
    problem.hidden = true;
    try {
      download(name, await exportReviews(name));
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
  }

  async #delete() {
    byId("deletion").close();
    const { id } = this.#page.note();
    if (id) await this.#try(() => deleteReviewedNote(id));
    await this.load();
    this.#page.clear();
    say("The note and its decisions are deleted.");
  }
}

function remark({ n_left: nLeft, n_disputed: nDisputed, is_done: isDone }) {
  const disputed = nDisputed > 0 ? `, ${nDisputed} disputed` : "";
  if (isDone) return `done${disputed}`;
  return (nLeft === 1 ? "1 doubt" : nLeft > 0 ? `${nLeft} doubts` : "no doubt left") + disputed;
}

function agreement({ n_shared: nShared, n_agreed: nAgreed }) {
  if (nShared === 0) return "";
  return `Reviewers agree on ${nAgreed} of ${nShared} mentions (${Math.round((100 * nAgreed) / nShared)} %).`;
}
