// Probabilities as lines along the weight of the section, with a cursor that is dragged.

import { element, percent, svg } from "./element.js";
import { marker, N_COLOURS } from "./markers.js";

export const MARGIN = { left: 44, right: 14, top: 26, bottom: 26 }; // the slider below stands under the plot
const TICKS = [0, 0.25, 0.5, 0.75, 1];

export class LineChart {
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

export const lookOf = (series) => (series === null ? "others" : `series-${series % N_COLOURS} dash-${series % 4}`);

export const valueAt = (values, weight) => values[Math.round(weight * (values.length - 1))];

// A short line with its marker: what a name of the legend looks like in the chart.
export const key = (series) =>
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
