// The gate: what a short form means as its section is given more weight, from none to all of it.

import { key, LineChart, valueAt } from "./chart_lines.js";
import { bar, byId, element, percent } from "./element.js";
import { explore } from "./service.js";
import { Suggest } from "./suggest.js";
import { clearProblem, showProblem } from "./unknown_name.js";

const STEPS = 101; // one for each place of the slider: dragging asks nothing
const MOST_LINES = 6; // the others are summed up

export class Gate {
  #remember;
  #state;
  #answer = null;
  #lines = [];
  #asked = 0;
  #slider = byId("gate-weight");
  #chart = new LineChart(byId("gate-chart"), (weight) => this.#moveTo(weight));
  #shortForm = new Suggest(byId("gate-short-form"), { kind: "short_form", onChoose: (short_form) => this.#ask({ short_form }) });
  #section = new Suggest(byId("gate-section"), { kind: "section", onChoose: (section) => this.#ask({ section }) });

  constructor(first, remember) {
    this.#remember = remember;
    this.#state = { short_form: first.short_form, section: first.section, weight: null };
    this.#slider.addEventListener("input", () => this.#moveTo(this.#slider.value / 100));
    byId("gate-learnt").addEventListener("click", () => this.#moveTo(this.#answer.learnt_weight));
  }

  show(asked) {
    const given = Object.fromEntries(asked ?? []);
    const weight = Number(given.weight ?? NaN);
    const isSame = this.#answer && ["short_form", "section"].every((name) => (given[name] ?? this.#state[name]) === this.#state[name]);
    if (isSame) return this.#moveTo(weight >= 0 && weight <= 100 ? weight / 100 : this.#state.weight);
    this.#ask({ ...given, weight: weight >= 0 && weight <= 100 ? weight / 100 : null });
  }

  async #ask(change) {
    const asked = ++this.#asked;
    const wanted = { ...this.#state, ...change };
    const box = byId("gate-problem");
    byId("view-gate").setAttribute("aria-busy", "true");
    try {
      const answer = await explore("interpolation", { short_form: wanted.short_form, section: wanted.section, steps: STEPS });
      if (asked !== this.#asked) return;
      clearProblem(box);
      this.#answer = answer;
      this.#state = { short_form: answer.short_form, section: answer.section, weight: wanted.weight ?? answer.learnt_weight };
      this.#draw();
    } catch (error) {
      if (asked === this.#asked) {
        showProblem(box, error, [
          { kind: "short_form", text: wanted.short_form, choose: (short_form) => this.#ask({ ...wanted, short_form }) },
          { kind: "section", text: wanted.section, choose: (section) => this.#ask({ ...wanted, section }) },
        ]);
      }
    } finally {
      byId("view-gate").removeAttribute("aria-busy");
    }
  }

  #draw() {
    const { short_form, section, long_forms, learnt_weight } = this.#answer;
    byId("view-gate").classList.remove("empty-picture");
    this.#shortForm.value = short_form;
    this.#section.value = section;
    byId("gate-title").replaceChildren(element("b", {}, short_form), " in ", element("b", {}, section));
    const named = long_forms.length > MOST_LINES + 1 ? long_forms.slice(0, MOST_LINES) : long_forms;
    const others = long_forms.slice(named.length);
    this.#lines = named.map(({ long_form, probabilities }, series) => ({ name: long_form, values: probabilities, series }));
    if (others.length > 0) {
      const together = others[0].probabilities.map((_, step) => others.reduce((sum, { probabilities }) => sum + probabilities[step], 0));
      this.#lines.push({ name: `${others.length} others`, values: together, series: null });
    }
    byId("gate-learnt").textContent = `The model’s own: ${percent(learnt_weight)}`;
    this.#chart.show(this.#lines, learnt_weight, `Probability of ${this.#lines.length} long forms of ${short_form} by the weight of ${section}`);
    this.#moveTo(this.#state.weight);
  }

  #moveTo(weight) {
    if (!this.#answer) return;
    weight = Math.round(100 * weight) / 100; // as the slider has it
    this.#state.weight = weight;
    const shares = this.#lines.map(({ values }) => valueAt(values, weight));
    const best = shares.indexOf(Math.max(...shares));
    this.#slider.value = String(Math.round(100 * weight));
    this.#slider.setAttribute("aria-valuetext", `${percent(weight)} section: ${this.#lines[best].name}, ${percent(shares[best])}`);
    byId("gate-shown").value = percent(weight);
    this.#chart.moveTo(weight);
    this.#showBars(shares, best);
    const { short_form, section } = this.#state;
    this.#remember({ short_form, section, weight: Math.round(100 * weight) });
  }

  // Bars are changed in place while one drags, so that they glide.
  #showBars(shares, best) {
    const list = byId("gate-bars");
    if (list.dataset.of !== JSON.stringify(this.#lines.map(({ name }) => name))) {
      list.dataset.of = JSON.stringify(this.#lines.map(({ name }) => name));
      list.replaceChildren(
        ...this.#lines.map(({ name, series }, index) =>
          element("li", {}, key(series), element("span", { class: "name" }, name), element("span", { class: "percent" }), coloured(bar(shares[index], ""), series)),
        ),
      );
    }
    [...list.children].forEach((item, index) => {
      item.classList.toggle("best", index === best);
      item.querySelector(".percent").textContent = percent(shares[index]);
      const track = item.querySelector(".track");
      track.setAttribute("aria-label", percent(shares[index]));
      track.firstChild.style.width = `${100 * shares[index]}%`;
    });
  }
}

function coloured(track, series) {
  track.classList.add(series === null ? "others" : `series-${series}`);
  return track;
}
