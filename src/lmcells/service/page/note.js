// The note with its acronyms (one tab stop, arrow keys between them) and how sure, and why, each answer is.

import { button, byId, element, percent, unitOffsets } from "./dom.js";

export class NoteView {
  #box = byId("note");
  #marks = [];
  #chosen = null;
  #onChoose;

  constructor(onChoose) {
    this.#onChoose = onChoose;
    this.#box.addEventListener("keydown", (event) => this.#onKey(event));
    this.#box.addEventListener("click", (event) => {
      const mark = event.target.closest(".mark");
      if (mark && !mark.classList.contains("filtered")) this.choose(this.#marks.indexOf(mark));
    });
  }

  show(text, expansions) {
    this.#chosen = null;
    this.#marks = [];
    const shown = pieces(text, expansions).map(([piece, expansion]) => {
      if (!expansion) return piece;
      const mark = element(
        "button",
        { type: "button", class: `mark ${level(expansion)}${expansion.source === "review" && expansion.abstained ? " none" : ""}`, tabindex: -1, "aria-pressed": "false", "data-tip": describe(expansion) },
        piece,
      );
      mark.setAttribute("aria-label", `${piece}, ${describe(expansion)}`);
      this.#marks.push(mark);
      return mark;
    });
    this.#box.replaceChildren(...shown);
    for (const mark of this.#marks) keepPunctuation(mark);
    this.attend("", []);
    this.#rove(this.#visible()[0]);
  }

  filter(isShown) {
    this.#marks.forEach((mark, index) => {
      mark.classList.toggle("filtered", !isShown(index));
      mark.tabIndex = -1;
      mark.disabled = !isShown(index);
    });
    const visible = this.#visible();
    this.#rove(visible.includes(this.#marks[this.#chosen]) ? this.#marks[this.#chosen] : visible[0]);
  }

  choose(index, { focus = true } = {}) {
    this.#marks[this.#chosen]?.setAttribute("aria-pressed", "false");
    this.#chosen = index;
    const mark = this.#marks[index];
    if (mark) {
      mark.setAttribute("aria-pressed", "true");
      this.#rove(mark);
      if (focus) mark.focus({ preventScroll: true });
    }
    this.#onChoose(index);
    mark?.scrollIntoView({ block: "nearest" });
  }

  next(step) {
    const visible = this.#visible();
    const place = visible.indexOf(this.#marks[this.#chosen]) + step;
    if (visible[place]) this.choose(this.#marks.indexOf(visible[place]), { focus: false });
  }

  // Shade words by their effect on the answer; a browser without highlights lists them beside the note only.
  attend(text, words) {
    if (!globalThis.CSS?.highlights) return;
    const ranges = Object.fromEntries(SHADES.map((name) => [name, []]));
    const unit = unitOffsets(text);
    for (const word of words) {
      ranges[shade(word.effect)].push(...this.#ranges(unit(word.start), unit(word.end)));
    }
    for (const [name, found] of Object.entries(ranges)) CSS.highlights.set(name, new Highlight(...found));
  }

  // What the reader has selected in the note, without the space around it; null where that is nothing.
  selection() {
    const selection = getSelection();
    const range = selection.rangeCount > 0 ? selection.getRangeAt(0) : null;
    const written = range && this.#box.contains(range.commonAncestorContainer) ? range.toString() : "";
    if (!written.trim()) return null;
    const before = new Range();
    before.setStart(this.#box, 0);
    before.setEnd(range.startContainer, range.startOffset);
    const count = (words) => [...words].length; // of code points
    const start = count(before.toString()) + count(written) - count(written.trimStart());
    return { start, end: start + count(written.trim()), short_form: written.trim() };
  }

  *#ranges(start, end) {
    const walker = document.createTreeWalker(this.#box, NodeFilter.SHOW_TEXT);
    let position = 0;
    while (walker.nextNode() && position < end) {
      const length = walker.currentNode.data.length;
      if (position + length > start) {
        const range = new Range();
        range.setStart(walker.currentNode, Math.max(0, start - position));
        range.setEnd(walker.currentNode, Math.min(length, end - position));
        yield range;
      }
      position += length;
    }
  }

  #visible() {
    return this.#marks.filter((mark) => !mark.classList.contains("filtered"));
  }

  #rove(mark) {
    for (const each of this.#marks) each.tabIndex = -1;
    if (mark) mark.tabIndex = 0;
  }

  #onKey(event) {
    const visible = this.#visible();
    const place = visible.indexOf(event.target.closest(".mark"));
    if (place < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const target = {
      ArrowRight: visible[place + 1], ArrowDown: visible[place + 1],
      ArrowLeft: visible[place - 1], ArrowUp: visible[place - 1],
      Home: visible[0], End: visible[visible.length - 1],
    }[event.key];
    if (!["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    if (!target) return;
    this.#rove(target);
    target.focus();
    if (this.#chosen !== null) this.choose(this.#marks.indexOf(target));
  }
}

// A line may break beside any button, even before a full stop, so brackets and punctuation are kept with their mark.
function keepPunctuation(mark) {
  const [before, after] = [mark.previousSibling, mark.nextSibling];
  let opens = before.length;
  while ('(["“‘'.includes(before.data[opens - 1] ?? " ")) opens -= 1;
  const closes = /^[.,;:!?)\]"”'’/-]{0,3}/.exec(after.data)[0].length;
  if (opens === before.length && closes === 0) return;
  after.splitText(closes);
  const kept = element("span", { class: "kept" });
  mark.replaceWith(kept);
  kept.append(before.splitText(opens), mark, after);
}

// A text cut at its expansions, as pairs of a piece and its expansion; null between them.
function pieces(text, expansions) {
  const unit = unitOffsets(text);
  const cut = [];
  let position = 0;
  for (const expansion of expansions) {
    const [start, end] = [unit(expansion.start), unit(expansion.end)];
    cut.push([text.slice(position, start), null], [text.slice(start, end), expansion]);
    position = end;
  }
  return [...cut, [text.slice(position), null]];
}

// A text with its acronyms written out, as nodes. The service has written out all of them; those that are hidden stay as
// they are.
export function writtenOut(text, shown, { text: expanded, offset_map: { starts, new_starts: newStarts, new_ends: newEnds } }) {
  const characters = [...expanded];
  const long = new Map(starts.map((start, index) => [start, characters.slice(newStarts[index], newEnds[index]).join("")]));
  return pieces(text, shown).map(([piece, expansion]) => {
    if (!expansion) return piece;
    const written = long.get(expansion.start);
    return element(written === undefined ? "span" : "ins", { class: level(expansion), "data-tip": describe(expansion) }, written ?? piece);
  });
}

// How sure an expansion is: its class, which sets colour and underline, and its wording.

const LEVELS = [
  ["reviewed", "decided"],
  ["definition", "defined in the note"],
  ["sure", "90 % or more"],
  ["unsure", "60 to 90 %"],
  ["doubtful", "below 60 %"],
  ["abstained", "abstained"],
];

// Each level with its number of acronyms; choosing one hides or shows them.
export function showLegend(expansions, hidden, onChange) {
  const counts = Object.fromEntries(LEVELS.map(([name]) => [name, expansions.filter((each) => level(each) === name).length]));
  const entries = LEVELS.filter(([name]) => counts[name] > 0).map(([name, words]) => {
    const toggle = () => {
      hidden.has(name) ? hidden.delete(name) : hidden.add(name);
      onChange();
      byId(`level-${name}`).focus();
    };
    const count = element("span", { class: `swatch ${name}` }, String(counts[name]));
    return element("li", {}, button("level", toggle, [count, ` ${words}`], { id: `level-${name}`, "aria-pressed": String(!hidden.has(name)) }));
  });
  byId("legend").replaceChildren(...entries);
}

const REASONS = {
  low_confidence: "no sense is likely enough",
  no_sense_fits: "no sense of the inventory fits",
  no_known_long_form: "the model knows no word of its long forms",
  not_in_inventory: "it is not in the inventory",
  not_a_short_form: "it is not a short form",
  excluded_by_review: "its sense was excluded",
};

const GIVEN = {
  definition: "defined in the note",
  header: "a header of the note",
  grammar: "expanded by a grammar",
  pinned: "pinned by a rule",
  review: "decided by you",
};

// What a mark stands for, and how sure the answer is, in a few words.
export function describe(expansion) {
  if (expansion.abstained) return `${expansion.source === "review" ? "decided by you" : "abstained"}: ${reason(expansion)}`;
  return `${expansion.long_form}, ${GIVEN[expansion.source] ?? percent(expansion.probability)}`;
}

export const isDoubt = (expansion) => ["unsure", "doubtful", "abstained"].includes(level(expansion));

export function level(expansion) {
  if (expansion.source === "review") return "reviewed";
  if (expansion.abstained) return "abstained";
  if (expansion.source === "definition") return "definition";
  if (expansion.probability >= 0.9) return "sure";
  return expansion.probability >= 0.6 ? "unsure" : "doubtful";
}

export const reason = (expansion) => REASONS[expansion.abstained] ?? String(expansion.abstained).replaceAll("_", " ");

// The effect of a word or of the section on an answer's log-odds: its shade and its wording.

const NOTABLE = 0.1; // a tenth of the odds
const STRONG = [0.25, 0.75]; // effects from which a word gets the second and the third shade

const FOR = ["words-1", "words-2", "words-3"];
const AGAINST = "words-against";
const SHADES = [...FOR, AGAINST];

// An effect is null where there was nothing to mask or to compare.
export const isNotable = (effect) => effect !== null && Math.abs(effect) > NOTABLE;

export const isAgainst = (effect) => isNotable(effect) && effect < 0;

const shade = (effect) => (isAgainst(effect) ? AGAINST : FOR[STRONG.filter((least) => effect >= least).length]);

// "×3.0" for evidence for the first sense, "÷2.0" for evidence against it.
export function factor(effect) {
  const times = Math.exp(Math.abs(effect));
  return `${effect > 0 ? "×" : "÷"}${times < 10 ? times.toFixed(1) : times > 1000 ? "1000+" : Math.round(times)}`;
}

export function ofTheSection(effect) {
  if (!isNotable(effect)) return "The section changes little here.";
  return `The section speaks ${effect > 0 ? "for" : "against"} the first sense (${factor(effect)}).`;
}

export function legend(expansion, { words }) {
  if (expansion.candidates.length < 2) return "It has only one sense, so no word decides.";
  if (words.every((word) => word.effect === null)) return "The effect of each word was not computed here.";
  return "× multiplies the odds of the first sense, ÷ divides them.";
}

// The column on the left: the notes that are open, and the sections of the one that is shown.

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
    reveal(byId("notes"));
    const count = ({ n, nDoubts }) => (nDoubts > 0 ? `${nDoubts} of ${n} in doubt` : String(n));
    byId("outline").replaceChildren(...sections.map((each) => this.#entry(each.name, count(each), () => this.#actions.choose(each.first))));
  }

  #entry(name, count, onclick, isCurrent = false) {
    const ends = name.match(/[^/_.-]*[/_.-]|[^/_.-]+$/g) ?? [name]; // where the name of a file may break
    const parts = ends.flatMap((part) => [part, element("wbr")]);
    const words = [element("span", { class: "name" }, ...parts), element("small", {}, count)];
    return element("li", {}, button(null, onclick, words, { title: name, "aria-current": isCurrent ? "true" : null }));
  }
}

// Scrolls a list, and nothing around it, to its current entry.
function reveal(list) {
  const entry = list.querySelector("[aria-current]")?.getBoundingClientRect();
  if (!entry) return;
  const box = list.getBoundingClientRect();
  list.scrollLeft += Math.min(0, entry.left - box.left) || Math.max(0, entry.right - box.right);
  list.scrollTop += Math.min(0, entry.top - box.top) || Math.max(0, entry.bottom - box.bottom);
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
