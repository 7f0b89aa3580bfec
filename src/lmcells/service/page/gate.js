// The gate: what a short form means as the weight of its section goes from 0 to 1.

import { bar, byId, element, percent, svg } from "./dom.js";
import { marker, N_COLOURS } from "./map.js";
import { explore } from "./service.js";
import { Picture, Suggest } from "./suggest.js";

const STEPS = 101; // one per position of the slider, so that dragging needs no request
const MOST_LINES = 6; // the others are added up

export class Gate extends Picture {
  #remember;
  #answer = null;
  #lines = [];
  #slider = byId("gate-weight");
  #chart = new LineChart(byId("gate-chart"), (weight) => this.#moveTo(weight));
  #shortForm = new Suggest(byId("gate-short-form"), { kind: "short_form", onChoose: (short_form) => this.ask({ short_form }) });
  #section = new Suggest(byId("gate-section"), { kind: "section", onChoose: (section) => this.ask({ section }) });

  constructor(first, remember) {
    super("gate");
    this.#remember = remember;
    this.state = { short_form: first.short_form, section: first.section, weight: null };
    this.#slider.addEventListener("input", () => this.#moveTo(this.#slider.value / 100));
    byId("gate-learnt").addEventListener("click", () => this.#moveTo(this.#answer.learnt_weight));
  }

  show(asked) {
    const given = Object.fromEntries(asked ?? []);
    const weight = given.weight >= 0 && given.weight <= 100 ? given.weight / 100 : null;
    const isSame = this.#answer && ["short_form", "section"].every((name) => (given[name] ?? this.state[name]) === this.state[name]);
    if (isSame) this.#moveTo(weight ?? this.state.weight);
    else this.ask({ ...given, weight });
  }

  fetch = ({ short_form, section }) => explore("interpolation", { short_form, section, steps: STEPS });

  names(wanted) {
    return ["short_form", "section"].map((kind) => ({ kind, text: wanted[kind], choose: (name) => this.ask({ ...wanted, [kind]: name }) }));
  }

  draw(answer, { weight }) {
    const { short_form, section, long_forms, learnt_weight } = answer;
    this.#answer = answer;
    this.state = { short_form, section, weight: weight ?? learnt_weight };
    this.#shortForm.value = short_form;
    this.#section.value = section;
    byId("gate-title").replaceChildren(element("b", {}, short_form), " in ", element("b", {}, section));
    const named = long_forms.slice(0, long_forms.length > MOST_LINES + 1 ? MOST_LINES : undefined);
    const others = long_forms.slice(named.length);
    const atFirst = ({ probabilities }) => valueAt(probabilities, this.state.weight);
    named.sort((one, other) => atFirst(other) - atFirst(one)); // and so they stay while one drags
    this.#lines = named.map(({ long_form, probabilities }, series) => ({ name: long_form, values: probabilities, series }));
    if (others.length > 0) {
      const together = others[0].probabilities.map((_, step) => others.reduce((sum, { probabilities }) => sum + probabilities[step], 0));
      this.#lines.push({ name: `${others.length} others`, values: together, series: null });
    }
    byId("gate-learnt").textContent = `The model’s own: ${percent(learnt_weight)}`;
    this.#chart.show(this.#lines, learnt_weight, `Probability of ${this.#lines.length} long forms of ${short_form} by the weight of ${section}`);
    this.#moveTo(this.state.weight);
  }

  #moveTo(weight) {
    if (!this.#answer) return;
    weight = Math.round(100 * weight) / 100; // as the slider has it
    this.state.weight = weight;
    const shares = this.#lines.map(({ values }) => valueAt(values, weight));
    const best = shares.indexOf(Math.max(...shares));
    this.#slider.value = String(Math.round(100 * weight));
    this.#slider.setAttribute("aria-valuetext", `${percent(weight)} section: ${this.#lines[best].name}, ${percent(shares[best])}`);
    byId("gate-shown").value = percent(weight);
    this.#chart.moveTo(weight);
    this.#showBars(shares, best);
    const { short_form, section } = this.state;
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

// Probabilities as lines over the weight of the section, with a cursor to drag.

const MARGIN = { left: 44, right: 14, top: 26, bottom: 26 }; // aligned with the slider below
const TICKS = [0, 0.25, 0.5, 0.75, 1];

class LineChart {
  #box;
  #onMove;
  #lines = [];
  #learnt = null;
  #weight = 0;
  #cursor = null;
  #size = { width: 0, height: 0 };

  constructor(box, onMove) {
    this.#box = box;
    this.#onMove = onMove;
    new ResizeObserver(() => this.#draw()).observe(box);
  }

  // Lines have a `name` and `values`, evenly spaced from weight 0 to 1; `series` says how each looks.
  show(lines, learnt, label) {
    this.#lines = lines;
    this.#learnt = learnt;
    this.#box.setAttribute("aria-label", label);
    this.#draw();
  }

  moveTo(weight) {
    this.#weight = weight;
    if (!this.#cursor) return;
    const x = this.#x(weight);
    this.#cursor.line.setAttribute("d", `M${x} ${MARGIN.top - 6}V${this.#size.height - MARGIN.bottom}`);
    this.#lines.forEach(({ values }, index) => {
      const y = this.#y(valueAt(values, weight));
      this.#cursor.dots[index].setAttribute("transform", `translate(${x} ${y})`);
    });
  }

  #x = (weight) => MARGIN.left + weight * (this.#size.width - MARGIN.left - MARGIN.right);
  #y = (share) => MARGIN.top + (1 - share) * (this.#size.height - MARGIN.top - MARGIN.bottom);

  #draw() {
    const width = this.#box.clientWidth;
    if (!width || this.#lines.length === 0) return;
    const height = width < 480 ? 240 : 330;
    this.#size = { width, height };
    const right = width - MARGIN.right;
    const grid = TICKS.flatMap((tick) => [
      svg("path", { class: "grid", d: `M${MARGIN.left} ${this.#y(tick)}H${right}` }),
      svg("text", { class: "tick", x: MARGIN.left - 8, y: this.#y(tick) + 4, "text-anchor": "end" }, percent(tick)),
      svg("path", { class: "grid small-tick", d: `M${this.#x(tick)} ${height - MARGIN.bottom}v5` }),
    ]);
    const named = TICKS.filter((tick) => width >= 480 || tick % 0.5 === 0).map((tick) =>
      svg("text", { class: "tick", x: this.#x(tick), y: height - 6, "text-anchor": { 0: "start", 1: "end" }[tick] ?? "middle" }, percent(tick)),
    );
    const at = this.#x(this.#learnt);
    const learnt = [
      svg("path", { class: "learnt", d: `M${at} ${MARGIN.top - 4}V${height - MARGIN.bottom}` }),
      svg("text", { class: "tick", x: Math.min(at, right), y: MARGIN.top - 11, "text-anchor": at > width - 110 ? "end" : at < 110 ? "start" : "middle" }, `the model’s own ${percent(this.#learnt)}`),
    ];
    const lines = this.#lines.map(({ values, series }) => {
      const path = values.map((value, step) => `${step ? "L" : "M"}${this.#x(step / (values.length - 1)).toFixed(1)} ${this.#y(value).toFixed(1)}`);
      return svg("path", { class: `line ${lookOf(series)}`, d: path.join("") });
    });
    this.#cursor = {
      line: svg("path", { class: "cursor" }),
      dots: this.#lines.map(({ series }) => svg("path", { class: `dot ${lookOf(series)}`, d: marker(series ?? 0, 5.5) })),
    };
    const picture = svg(
      "svg",
      { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
      ...grid, ...named, ...learnt, ...lines, this.#cursor.line, ...this.#cursor.dots,
    );
    const drag = (event) => this.#onMove(Math.min(1, Math.max(0, (event.offsetX - MARGIN.left) / (right - MARGIN.left))));
    picture.addEventListener("pointerdown", (event) => {
      picture.setPointerCapture(event.pointerId);
      drag(event);
    });
    picture.addEventListener("pointermove", (event) => {
      if (picture.hasPointerCapture(event.pointerId)) drag(event);
    });
    this.#box.replaceChildren(picture);
    this.moveTo(this.#weight);
  }
}

const lookOf = (series) => (series === null ? "others" : `series-${series % N_COLOURS} dash-${series % 4}`);

const valueAt = (values, weight) => values[Math.round(weight * (values.length - 1))];

// The legend's sample of a line with its marker.
const key = (series) =>
  element(
    "span",
    { class: "key", "aria-hidden": "true" },
    svg(
      "svg",
      { width: 30, height: 14, viewBox: "0 0 30 14" },
      svg("path", { class: `line ${lookOf(series)}`, d: "M1 7H29" }),
      svg("path", { class: `dot ${lookOf(series)}`, d: marker(series ?? 0, 4.5), transform: "translate(15 7)" }),
    ),
  );
