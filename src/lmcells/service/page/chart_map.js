// Points on a plane with their names where there is room; one stop for Tab, arrows go to the next point that way.

import { svg } from "./element.js";
import { placeLabels } from "./label_places.js";
import { marker, N_COLOURS, reach } from "./markers.js";

const MARGIN = 18;
const FONT = "600 11px system-ui, sans-serif"; // of a name that is marked, the widest
const ruler = document.createElement("canvas").getContext("2d");

export class PointMap {
  #box;
  #height;
  #onChoose;
  #points = [];
  #chosen = null;
  #near = new Set();
  #dimmed = null;
  #marks = [];
  #tip = null;
  #places = [];
  #size = { width: 0, height: 0 };

  constructor(box, { height, onChoose }) {
    this.#box = box;
    this.#height = height; // of a width
    this.#onChoose = onChoose;
    new ResizeObserver(() => {
      if (box.clientWidth !== this.#size.width) this.#draw();
    }).observe(box);
  }

  // Points have a `name`, the `title` that is written, `x`, `y`, a `radius`, the number of their `group` (null: plain), the
  // number of their `shape` where it is not the group's, and the words of their `label`.
  show(points) {
    this.#points = points;
    this.#draw();
  }

  // Ring one point and those near to it; their names are always shown.
  choose(name, near = []) {
    this.#chosen = name;
    this.#near = new Set(near);
    this.#draw();
  }

  // Let all but one group fade.
  dimOthers(group) {
    this.#dimmed = group;
    this.#draw();
  }

  #draw() {
    const width = this.#box.clientWidth;
    if (!width || this.#points.length === 0) return;
    const height = this.#height(width);
    this.#size = { width, height };
    const focused = this.#marks.indexOf(document.activeElement);
    const scale = (values, length) => {
      const [low, high] = [Math.min(...values), Math.max(...values)];
      return (value) => (high > low ? MARGIN + ((value - low) / (high - low)) * (length - 2 * MARGIN) : length / 2);
    };
    const [toX, toY] = [scale(this.#points.map(({ x }) => x), width), scale(this.#points.map(({ y }) => -y), height)];
    ruler.font = FONT;
    const shrink = width < 480 ? 0.75 : 1;
    this.#places = this.#points.map((point) => ({
      x: toX(point.x),
      y: toY(-point.y),
      radius: shrink * point.radius,
      width: ruler.measureText(shown(point)).width + 6,
    }));
    const isMarked = (point) => point.name === this.#chosen || this.#near.has(point.name);
    const must = new Set(this.#points.flatMap((point, index) => (isMarked(point) ? [index] : [])));
    const discs = this.#places.map((place, index) => ({ ...place, radius: reach(shapeOf(this.#points[index]), place.radius) }));
    const boxes = placeLabels(discs, this.#size, must);
    this.#marks = this.#points.map((point, index) => this.#mark(point, this.#places[index], isMarked(point)));
    const names = boxes.flatMap((box, index) =>
      box ? [svg("text", { class: `name${must.has(index) ? " marked" : ""}${this.#isDim(this.#points[index]) ? " dim" : ""}`, x: box.left + 3, y: box.bottom - 3 }, shown(this.#points[index]))] : [],
    );
    this.#tip = svg("g", { class: "tip", "aria-hidden": "true", visibility: "hidden" }, svg("rect", { rx: 5, height: 22 }), svg("text", { y: 15, x: 8 }));
    const picture = svg(
      "svg",
      { width, height, viewBox: `0 0 ${width} ${height}` },
      ...this.#marks, // the largest come first, so that small ones lie on top
      svg("g", { class: "names", "aria-hidden": "true" }, ...names),
      this.#tip,
    );
    picture.addEventListener("keydown", (event) => this.#onKey(event));
    this.#box.replaceChildren(picture);
    const first = this.#points.findIndex(({ name }) => name === this.#chosen);
    this.#rove(Math.max(0, focused >= 0 ? focused : first));
    if (focused >= 0) this.#marks[focused]?.focus({ preventScroll: true });
  }

  #isDim = (point) => this.#dimmed !== null && point.group !== this.#dimmed;

  #mark(point, place, isMarked) {
    const isChosen = point.name === this.#chosen;
    const look = point.group === null ? "plain" : `series-${point.group % N_COLOURS}`;
    const mark = svg(
      "g",
      {
        class: `point ${look}${isMarked ? " marked" : ""}${isChosen ? " chosen" : ""}${this.#isDim(point) ? " dim" : ""}`,
        transform: `translate(${place.x.toFixed(1)} ${place.y.toFixed(1)})`,
        role: "button",
        tabindex: -1,
        "aria-label": point.label,
        "aria-pressed": String(isChosen),
      },
      svg("circle", { class: "reach", r: Math.max(11, place.radius + 3) }),
      ...(isMarked ? [svg("circle", { class: "ring", r: place.radius + 4 })] : []),
      svg("path", { d: marker(shapeOf(point), place.radius) }),
    );
    const showTip = () => this.#showTip(point, place);
    mark.addEventListener("pointerenter", showTip);
    mark.addEventListener("focus", showTip);
    mark.addEventListener("pointerleave", () => this.#hideTip());
    mark.addEventListener("blur", () => this.#hideTip());
    mark.addEventListener("click", () => this.#onChoose(point));
    return mark;
  }

  #showTip(point, place) {
    const [back, text] = this.#tip.children;
    text.textContent = point.label;
    this.#tip.setAttribute("visibility", "visible");
    const width = text.getComputedTextLength() + 16;
    back.setAttribute("width", width);
    const left = Math.max(2, Math.min(this.#size.width - width - 2, place.x - width / 2));
    const top = place.y - place.radius - 30 < 0 ? place.y + place.radius + 8 : place.y - place.radius - 30;
    this.#tip.setAttribute("transform", `translate(${left} ${top})`);
  }

  #hideTip = () => this.#tip.setAttribute("visibility", "hidden");

  #rove(index) {
    for (const mark of this.#marks) mark.setAttribute("tabindex", "-1");
    this.#marks[index]?.setAttribute("tabindex", "0");
  }

  #onKey(event) {
    const here = this.#marks.indexOf(event.target);
    if (here < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#onChoose(this.#points[here]);
      return;
    }
    const next = { Home: 0, End: this.#points.length - 1 }[event.key] ?? this.#next(here, event.key);
    if (next === null) return;
    event.preventDefault();
    this.#rove(next);
    this.#marks[next].focus();
  }

  // The nearest point in the direction of an arrow; what lies askew counts as farther away.
  #next(here, key) {
    const direction = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key];
    if (!direction) return null;
    const [dx, dy] = direction;
    let [best, least] = [here, Infinity];
    this.#places.forEach(({ x, y }, index) => {
      const [right, down] = [x - this.#places[here].x, y - this.#places[here].y];
      const [along, aside] = [right * dx + down * dy, Math.abs(right * dy) + Math.abs(down * dx)];
      if (along > 0.5 && along + 2 * aside < least) [best, least] = [index, along + 2 * aside];
    });
    return best;
  }
}

const shown = ({ title }) => (title.length > 30 ? `${title.slice(0, 28)}…` : title);
const shapeOf = ({ shape, group }) => shape ?? group ?? 0;
