// The panel beside the note: all acronyms, or one with its senses, its section, and what the model relied on.

import { bar, button, byId, element, percent, unitOffsets } from "./dom.js";
import { factor, isAgainst, isNotable, legend, level, ofTheSection, reason } from "./note.js";

const SHOWN = 8;

export class Details {
  #box = byId("details");
  #actions;
  #review;

  constructor(actions, review) {
    this.#actions = actions; // choose, next, nextDoubt, close, addSense, removeSense, mark
    this.#review = review;
  }

  showNothing() {
    const steps = [
      "Paste a note, open a file, or start with the sample.",
      "Choose an acronym to see its senses and the reasons.",
      this.#review.isOn ? "Decide: keys 1 to 9 choose a sense, n goes to the next doubt." : "Add or remove senses; the note is expanded again.",
    ];
    this.#fill(
      "empty",
      element("h2", {}, "From short forms to what they mean"),
      element("p", {}, "Each acronym of the inventory is found, and its meanings are ranked by the words around it and by its section."),
      element("ol", {}, ...steps.map((step) => element("li", {}, step))),
    );
  }

  showAll(text, expansions, isShown) {
    const unit = unitOffsets(text);
    const shown = expansions.map((expansion, index) => [expansion, index]).filter(([expansion]) => isShown(expansion));
    const rows = shown.map(([expansion, index]) => {
      const written = element("span", { class: `swatch ${level(expansion)}` }, text.slice(unit(expansion.start), unit(expansion.end)));
      const long = element("span", { class: "long" }, expansion.long_form ?? reason(expansion));
      const words = [element("span", {}, written), long, element("span", { class: "percent" }, sureness(expansion))];
      return element("li", {}, button(null, () => this.#actions.choose(index), words));
    });
    const title = expansions.length === 0 ? "No acronym of the inventory was found" : counted(shown.length, expansions.length);
    const marking = button("quiet small", () => this.#actions.mark(), "Mark the selected text", { title: "Key: x" });
    const next = this.#review.isOn
      ? element("p", { class: "faint" }, "Missed a short form? Select it in the note. ", marking)
      : expansions.length === 0 ? element("p", { class: "faint" }, "If one was missed, add it under Inventory: the note is expanded again.") : null;
    this.#fill("", ...[element("h3", {}, title), element("ul", { class: "overview" }, ...rows), next].filter(Boolean));
  }

  showOne(text, expansion, place, category = null) {
    const isReview = this.#review.isOn;
    const unit = unitOffsets(text);
    const written = text.slice(unit(expansion.start), unit(expansion.end));
    const concept = expansion.candidates[0]?.concept_id;
    this.#fill(
      "chosen",
      element(
        "div",
        { class: "details-head" },
        button("quiet small", () => this.#actions.close(), "All"),
        element("span", {}, place),
        button("quiet small", () => this.#actions.next(-1), "‹", { "aria-label": "Previous acronym" }),
        button("quiet small", () => this.#actions.next(1), "›", { "aria-label": "Next acronym" }),
        button("quiet small", () => this.#actions.nextDoubt(1), "Next doubt", { title: "Key: n; back: p" }),
      ),
      element("h2", {}, written),
      element("p", { class: "answer" }, expansion.long_form ?? (expansion.abstained === "not_a_short_form" ? "Not a short form" : "No answer")),
      element(
        "p",
        { class: "facts" },
        element("span", { class: `chip swatch ${level(expansion)}` }, expansion.abstained ? reason(expansion) : sureness(expansion) + onlyOne(expansion)),
        element("span", { class: "chip" }, expansion.section ?? "no section"),
        expansion.long_form && concept ? element("span", { class: "chip" }, concept) : null,
      ),
      ...(expansion.mine ? [element("ul", { class: "decisions", "aria-label": "Decisions" }, ...this.#review.decisions(expansion))] : []),
      ...(isReview ? this.#review.controls(expansion, category) : []),
      element("h3", {}, expansion.candidates.length === 1 ? "Sense" : "Senses"),
      this.#senses(expansion),
      this.#addForm(expansion),
      element("div", { id: "reasons" }, ...(isExplained(expansion) ? [element("h3", {}, "What the model relied on"), element("p", { class: "faint" }, "…")] : [])),
      ...(SOURCES[expansion.source] ? [element("h3", {}, "Where this comes from"), element("p", { class: "faint" }, SOURCES[expansion.source])] : []),
    );
  }

  // Fills in what the model relied on, once the service has said it.
  explain(text, expansion, explanation, problem = "") {
    const title = element("h3", {}, "What the model relied on");
    const said = explanation ? this.#reasons(text, unitOffsets(text), explanation, expansion) : [element("p", { class: "faint" }, problem)];
    byId("reasons")?.replaceChildren(...(explanation || problem ? [title, ...said] : []));
  }

  #senses(expansion) {
    const first = expansion.candidates.slice(0, SHOWN);
    const one = (candidate, index) => (this.#review.isOn ? this.#choice(expansion, candidate, index) : this.#sense(expansion, candidate));
    const list = element("ol", { class: "senses" }, ...first.map(one));
    const rest = expansion.candidates.slice(first.length);
    if (rest.length > 0) {
      const showRest = () => item.replaceWith(...rest.map((candidate, index) => one(candidate, first.length + index)));
      const item = element("li", {}, button("quiet small", showRest, `${rest.length} more`));
      list.append(item);
    }
    return list;
  }

  // A sense to choose, or to exclude for good.
  #choice(expansion, candidate, index) {
    const name = candidate.long_form;
    const look = expansion.never?.includes(name) ? "choose gone" : "choose";
    const isChosen = expansion.mine?.long_form === name;
    const key = index < 9 ? String(index + 1) : null;
    const words = [key && element("span", { class: "key", "aria-hidden": "true" }, key), element("span", { class: "name" }, name)];
    const choose = button(look, () => this.#review.choose(expansion, name), words, { "aria-pressed": String(isChosen), title: key && `Key: ${key}` });
    const named = { title: key && `Never this sense; key: Shift ${key}`, "aria-label": `${expansion.short_form} is never ${name}` };
    return this.#row(candidate, choose, button("remove", () => this.#review.never(expansion, name), "never", named));
  }

  #sense(expansion, candidate) {
    const [short, long] = [expansion.short_form, candidate.long_form];
    const named = { title: "Remove this sense for the session", "aria-label": `Remove ${long} from the senses of ${short}` };
    const remove = button("remove", () => this.#actions.removeSense(short, long), "×", named);
    // Only senses of the inventory can be removed from it.
    return this.#row(candidate, element("span", { class: "name" }, long), expansion.source === "model" ? remove : element("span"));
  }

  #row({ probability }, name, action) {
    return element("li", {}, name, element("span", { class: "percent" }, percent(probability)), action, bar(probability, percent(probability)));
  }

  #addForm(expansion) {
    const asked = `Another sense of ${expansion.short_form}`;
    const field = element("input", { placeholder: asked, "aria-label": asked, maxlength: 200, required: true, autocomplete: "off" });
    const onsubmit = (event) => {
      event.preventDefault();
      const name = field.value.trim();
      if (!name) return;
      if (this.#review.isOn) this.#review.choose(expansion, name);
      else this.#actions.addSense(expansion.short_form, name);
    };
    return element("form", { class: "inline-add", onsubmit }, field, element("button", { class: "quiet small" }, this.#review.isOn ? "Choose" : "Add"));
  }

  #reasons(text, unit, explanation, expansion) {
    const ofSection = explanation.section_weight;
    const shares = [ofSection > 0 ? share("of-section", ofSection) : null, share("of-words", 1 - ofSection)];
    const weights = element("div", { class: "weights", "aria-hidden": true }, ...shares);
    const named = (word) => (word.start === expansion.start ? "(the acronym)" : text.slice(unit(word.start), unit(word.end)));
    const words = explanation.words.map((word) => {
      const effect = isNotable(word.effect) ? [" ", element("small", {}, factor(word.effect))] : [];
      const item = element("li", { class: isAgainst(word.effect) ? "against" : null }, named(word), ...effect);
      item.style.setProperty("--share", `${Math.round(Math.min(60, 8 + 26 * Math.abs(word.effect ?? 0)))}%`);
      return item;
    });
    const [section, others] = [`Section ${percent(ofSection)}`, `Words ${percent(1 - ofSection)}`];
    const attention = explanation.words.map((word) => `${named(word)} ${percent(word.weight)}`).join(", ");
    const ofWords = [
      element("ul", { class: "words", "aria-label": "Words read, with their effect" }, ...words),
      element("p", { class: "faint" }, legend(expansion, explanation)),
      element("details", { class: "attention" }, element("summary", {}, "Words attended to"), element("p", {}, attention)),
    ];
    const shown = [
      element("p", { class: "weight-names" }, element("span", { class: "of-section" }, section), " ", element("span", { class: "of-words" }, others)),
      weights,
      explanation.section_effect !== null ? element("p", { class: "effect-of-section" }, ofTheSection(explanation.section_effect)) : null,
      ofSection > 0 ? element("p", { class: "to-gate" }, element("a", { href: gateAddress(expansion) }, "Move the gate by hand, without the words")) : null,
      ...(words.length > 0 ? ofWords : [element("p", { class: "faint" }, "The model knows none of the words around it.")]),
    ];
    return shown.filter((each) => each !== null);
  }

  #fill(kind, ...children) {
    const label = this.#box.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    this.#box.className = `card details ${kind}`.trim();
    this.#box.replaceChildren(...children);
    this.#box.scrollTop = 0;
    if (label) this.#box.querySelector(`[aria-label="${CSS.escape(label)}"]`)?.focus(); // "Next" stays under the finger
    document.body.classList.toggle("has-choice", kind === "chosen");
  }
}

function share(kind, weight) {
  const part = element("span", { class: kind });
  part.style.flexGrow = String(weight);
  part.style.flexBasis = "0";
  return part;
}

const SOURCES = {
  definition: "The note defines it; the model was not used.",
  header: "It is a header of the note; the model was not used.",
  grammar: "It is a counted or joined form, expanded by a grammar; the model was not used.",
  letters: "It is not in the inventory: the model chose among words that its letters may stand for.",
  pinned: "A rule of the inventory pins it here; the model was not used.",
};

// Whether the model ranked senses, which it can explain.
export const isExplained = ({ source, candidates }) => ["model", "review"].includes(source) && candidates.length > 0;

const gateAddress = ({ short_form, section }) => `#explore/gate?${new URLSearchParams({ short_form, section })}`;

const SURE = { definition: "defined", header: "header", grammar: "read out", pinned: "pinned", review: "decided" };

const sureness = (expansion) => (expansion.abstained ? "–" : (SURE[expansion.source] ?? percent(expansion.probability)));

const onlyOne = ({ source, candidates }) => (source === "model" && candidates.length === 1 ? ", its only sense" : "");

function counted(n, all) {
  const acronyms = all === 1 ? "acronym" : "acronyms";
  return n === all ? `${all} ${acronyms}` : `${n} of ${all} ${acronyms}`;
}
