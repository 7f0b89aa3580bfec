// The column on the left: the notes that are open, and the sections of the one that is shown.

import { byId, element } from "./dom.js";
import { isDoubt } from "./note.js";

export class Contents {
  #actions;

  constructor(actions) {
    this.#actions = actions; // openNote, choose
  }

  show(notes, isCurrent, expansions, { isReview }) {
    const sections = outline(expansions);
    const isListed = notes.length > 1 || isReview;
    byId("notes-title").hidden = !isListed;
    byId("sections-outline").hidden = sections.length < 2;
    byId("contents").hidden = !isListed && sections.length < 2;
    byId("note-view").classList.toggle("has-contents", !byId("contents").hidden);
    byId("notes").replaceChildren(
      ...(isListed ? notes : []).map((note) => this.#entry(note.name, note.remark ?? "", () => this.#actions.openNote(note), isCurrent(note))),
    );
    byId("outline").replaceChildren(
      ...sections.map(({ name, first, n, nDoubts }) =>
        this.#entry(name, nDoubts > 0 ? `${nDoubts} of ${n} in doubt` : String(n), () => this.#actions.choose(first)),
      ),
    );
  }

  #entry(name, count, onclick, isCurrent = false) {
    const attributes = { type: "button", onclick, "aria-current": isCurrent ? "true" : null };
    return element("li", {}, element("button", attributes, element("span", { class: "name" }, name), element("small", {}, count)));
  }
}

// The sections that hold acronyms, in the order of the note, each with its first one.
function outline(expansions) {
  const sections = [];
  expansions.forEach((expansion, index) => {
    const name = expansion.section ?? "No section";
    if (sections.at(-1)?.name !== name) sections.push({ name, first: index, n: 0, nDoubts: 0 });
    sections.at(-1).n += 1;
    sections.at(-1).nDoubts += isDoubt(expansion) ? 1 : 0;
  });
  return sections;
}
