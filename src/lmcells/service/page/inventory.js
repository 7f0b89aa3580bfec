// Changes to the inventory for this session, and the dialog in which they are made.

import { button, byId, element } from "./dom.js";
import { search } from "./service.js";

const LIMIT = 40;
const PAUSE = 200; // milliseconds without a key, before a search

const isSame = (one, other) =>
  one.short_form === other.short_form && one.long_form.toLowerCase() === other.long_form.toLowerCase();

export class Edits {
  #add = [];
  #remove = [];

  get size() {
    return this.#add.length + this.#remove.length;
  }

  get list() {
    return [...this.#add.map((sense) => ({ kind: "add", sense })), ...this.#remove.map((sense) => ({ kind: "remove", sense }))];
  }

  get message() {
    return this.size === 0 ? null : { add: [...this.#add], remove: [...this.#remove] };
  }

  copy() {
    const copied = new Edits();
    copied.#add = [...this.#add];
    copied.#remove = [...this.#remove];
    return copied;
  }

  // What was removed is put back rather than added, and the other way round.
  add(sense) {
    const without = this.#remove.filter((other) => !isSame(sense, other));
    const isKnown = without.length < this.#remove.length || this.#add.some((other) => isSame(sense, other));
    if (!isKnown) this.#add.push(sense);
    this.#remove = without;
  }

  remove(sense) {
    const without = this.#add.filter((other) => !isSame(sense, other));
    if (without.length === this.#add.length) this.#remove.push(sense);
    this.#add = without;
  }

  undo({ kind, sense }) {
    if (kind === "add") this.remove(sense);
    else this.add(sense);
  }

  isRemoved(sense) {
    return this.#remove.some((other) => isSame(sense, other));
  }
}

export class InventoryDialog {
  #dialog = byId("inventory");
  #change;
  #edits = new Edits();
  #timer = 0;
  #asked = 0;

  // `change` applies a function to the edits and says what is wrong with them, or nothing.
  constructor(change) {
    this.#change = change;
    byId("search").addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#search(), PAUSE);
    });
    byId("add-sense").addEventListener("submit", async (event) => {
      event.preventDefault();
      const form = event.target;
      const given = new FormData(form);
      const sense = { short_form: given.get("short_form").trim(), long_form: given.get("long_form").trim() };
      if (await this.#apply((edits) => edits.add(sense))) {
        form.reset();
        form.elements.short_form.focus();
      }
    });
  }

  async open() {
    byId("inventory-problem").hidden = true;
    this.#dialog.showModal();
    await this.#search();
  }

  show(edits) {
    this.#edits = edits;
    byId("edits-title").hidden = edits.size === 0;
    byId("edits").replaceChildren(
      ...edits.list.map((edit) =>
        element(
          "li",
          {},
          element("span", { class: "short" }, edit.sense.short_form),
          element("span", { class: "change" }, `${edit.kind === "add" ? "added" : "removed"}: ${edit.sense.long_form}`),
          button("quiet small", () => this.#apply((all) => all.undo(edit)), "Undo"),
        ),
      ),
    );
  }

  async #apply(edit) {
    const wrong = await this.#change(edit);
    const problem = byId("inventory-problem");
    problem.textContent = wrong ?? "";
    problem.hidden = !wrong;
    if (!wrong) await this.#search();
    return !wrong;
  }

  async #search() {
    const asked = ++this.#asked;
    let found;
    try {
      found = await search(byId("search").value, LIMIT);
    } catch (error) {
      byId("n-found").textContent = error.message;
      return;
    }
    if (asked !== this.#asked) return; // a later search was faster
    const shown = Math.min(LIMIT, found.n_found);
    byId("n-found").textContent =
      `${shown.toLocaleString("en")} of ${found.n_found.toLocaleString("en")} short forms` +
      (byId("search").value.trim() ? " found" : ` with ${found.n_senses.toLocaleString("en")} senses`);
    byId("entries").replaceChildren(...found.entries.map((entry) => this.#entry(entry)));
  }

  #entry({ short_form, senses }) {
    const rows = senses.map(({ long_form }) => {
      const sense = { short_form, long_form };
      const isRemoved = this.#edits.isRemoved(sense);
      const words = isRemoved ? "Put back" : "Remove";
      const change = () => this.#apply((edits) => (isRemoved ? edits.add(sense) : edits.remove(sense)));
      const named = { "aria-label": `${words} ${long_form}` };
      return element("li", {}, element("span", { class: isRemoved ? "gone" : "" }, long_form), button("quiet small", change, words, named));
    });
    return element("li", {}, element("span", { class: "short" }, short_form), element("ul", { class: "long-forms" }, ...rows));
  }
}
