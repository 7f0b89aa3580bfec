// A field that suggests names as one types: those that begin with the text, else the nearest that the model knows.

import { button, byId, element } from "./dom.js";
import { explore } from "./service.js";

const LIMIT = 8;
const PAUSE = 120; // milliseconds without a key, before a search
const UNITS = { word: "×", section: " words", short_form: " senses" };

export class Suggest {
  #field;
  #kind;
  #onChoose;
  #list;
  #options = [];
  #active = -1;
  #asked = 0;
  #timer = 0;
  #value = "";
  #keeps;

  // With `keeps` the field shows what was chosen last; else it is emptied for the next.
  constructor(field, { kind, onChoose, keeps = true }) {
    this.#field = field;
    this.#kind = kind;
    this.#onChoose = onChoose;
    this.#keeps = keeps;
    this.#list = element("ul", { class: "suggestions", role: "listbox", id: `${field.id}-list`, "aria-label": "Suggestions", hidden: true });
    field.after(this.#list);
    for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": this.#list.id, autocomplete: "off", autocapitalize: "none", spellcheck: "false" })) {
      field.setAttribute(name, value);
    }
    field.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#search(), PAUSE);
    });
    field.addEventListener("keydown", (event) => this.#onKey(event));
    field.addEventListener("focus", () => field.select());
    field.addEventListener("blur", () => this.#close({ restore: true }));
    this.#list.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
  }

  set value(name) {
    this.#value = this.#keeps ? name : "";
    this.#field.value = this.#value;
  }

  async #search() {
    const asked = ++this.#asked;
    const text = this.#field.value;
    const found = await explore("names", { kind: this.#kind, search: text.slice(0, 200), limit: LIMIT }).catch(() => null);
    if (asked !== this.#asked || found === null) return null; // a later search was faster, or there is no answer
    if (document.activeElement === this.#field) this.#open(text, found);
    return found;
  }

  #open(text, { known, names }) {
    const typed = text.trim().toLowerCase();
    const isLike = known !== null || names.some(({ name }) => name.toLowerCase().includes(typed));
    this.#options = names.map(({ name, count }, index) =>
      element(
        "li",
        { role: "option", id: `${this.#list.id}-${index}`, "aria-selected": "false", onclick: () => this.#take(name) },
        element("span", { class: "name" }, name),
        " ",
        element("small", {}, counted(count, this.#kind)),
      ),
    );
    const note = isLike || this.#kind === "short_form" ? [] : [element("li", { class: "note", role: "presentation" }, `Not known: “${text.trim()}”. Nearest:`)];
    this.#list.replaceChildren(...note, ...this.#options);
    this.#list.hidden = this.#options.length === 0;
    this.#field.setAttribute("aria-expanded", String(!this.#list.hidden));
    this.#activate(-1);
  }

  #close({ restore = false } = {}) {
    clearTimeout(this.#timer);
    this.#asked++;
    this.#list.hidden = true;
    this.#field.setAttribute("aria-expanded", "false");
    this.#field.removeAttribute("aria-activedescendant");
    this.#active = -1;
    if (restore) this.#field.value = this.#value;
  }

  #take(name) {
    this.value = name;
    this.#close();
    if (document.activeElement === this.#field) this.#field.select(); // so that typing replaces it
    this.#onChoose(name);
  }

  #activate(index) {
    this.#active = index;
    this.#options.forEach((option, place) => option.setAttribute("aria-selected", String(place === index)));
    if (index < 0) this.#field.removeAttribute("aria-activedescendant");
    else {
      this.#field.setAttribute("aria-activedescendant", this.#options[index].id);
      this.#options[index].scrollIntoView({ block: "nearest" });
    }
  }

  async #onKey(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (this.#list.hidden) return void (await this.#search());
      const n = this.#options.length;
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.#activate(this.#active < 0 ? (step > 0 ? 0 : n - 1) : (this.#active + step + n) % n);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (this.#active >= 0) return this.#options[this.#active].click();
      if (!this.#field.value.trim()) return;
      clearTimeout(this.#timer);
      const found = await this.#search();
      if (found?.known) this.#take(found.known);
    } else if (event.key === "Escape" && (!this.#list.hidden || this.#field.value !== this.#value)) {
      event.stopPropagation();
      this.#close({ restore: true });
    }
  }
}

function counted(count, kind) {
  const number = count.toLocaleString("en");
  if (kind === "word") return `${UNITS.word}${number}`;
  return `${number}${count === 1 ? UNITS[kind].slice(0, -1) : UNITS[kind]}`;
}

// A picture of the model in the panel `view-NAME`. Those that extend it keep what is asked for in `state`, and have
// `fetch` (what to ask the service), `draw` (the answer) and `names` (those that were asked for, for `showProblem`).
export class Picture {
  #name;
  #asked = 0;

  constructor(name) {
    this.#name = name;
  }

  async ask(change) {
    const asked = ++this.#asked;
    const wanted = { ...this.state, ...change };
    const [view, box] = [byId(`view-${this.#name}`), byId(`${this.#name}-problem`)];
    view.setAttribute("aria-busy", "true");
    try {
      const answer = await this.fetch(wanted);
      if (asked !== this.#asked) return; // a later question was faster
      box.hidden = true;
      view.classList.remove("empty-picture");
      this.draw(answer, wanted);
    } catch (error) {
      if (asked === this.#asked) showProblem(box, error, this.names(wanted));
    } finally {
      view.removeAttribute("aria-busy");
    }
  }
}

// What to show for an unknown name: the service's message, and buttons for the nearest known names.

const SHOWN = 5;

// `names` are those that were asked for: the `kind` of each, its `text`, and what to do with another name.
export async function showProblem(box, error, names) {
  const said = element("p", {}, sayOf(error));
  box.replaceChildren(said);
  box.hidden = false;
  if (error.status !== 422) return;
  for (const { kind, text, choose } of names) {
    const found = await explore("names", { kind, search: text, limit: SHOWN }).catch(() => null);
    if (!box.contains(said)) return; // another question has been answered meanwhile
    if (!found || found.known !== null) continue;
    const buttons = found.names.map(({ name }) => element("li", {}, button("quiet small", () => choose(name), name)));
    box.append(element("ul", { class: "nearest", "aria-label": `Nearest to ${text}` }, ...buttons));
  }
}

// The buttons take the place of the message's own list of names.
const sayOf = ({ message }) => message[0].toUpperCase() + message.slice(1).replace(/ Nearest: .*$/, " Did you mean:");
