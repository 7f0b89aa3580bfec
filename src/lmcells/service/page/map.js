// Points on a plane with their names where there is room; one stop for Tab, arrows go to the next point that way.

import { svg } from "./dom.js";

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

  // The nearest point in the direction of an arrow; points off that line count as farther away.
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

// Places names beside points so that no name covers another name or a point; earlier points come first.

const HEIGHT = 14;
const meets = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

const candidates = ({ x, y, radius, width }) => {
  const gap = radius + 4;
  const box = (left, top) => ({ left, top, right: left + width, bottom: top + HEIGHT });
  return [
    box(x + gap, y - HEIGHT / 2),
    box(x - gap - width, y - HEIGHT / 2),
    box(x - width / 2, y - gap - HEIGHT),
    box(x - width / 2, y + gap),
    box(x + gap * 0.7, y - gap * 0.7 - HEIGHT),
    box(x + gap * 0.7, y + gap * 0.7),
    box(x - gap * 0.7 - width, y - gap * 0.7 - HEIGHT),
    box(x - gap * 0.7 - width, y + gap * 0.7),
  ];
};

// Points have `x`, `y`, `radius` and the `width` of their name; -> a box or null for each. Those that `must` be named
// are, at the first place inside, whatever they cover.
function placeLabels(points, bounds, must = new Set()) {
  const discs = points.map(({ x, y, radius }) => ({ left: x - radius, right: x + radius, top: y - radius, bottom: y + radius }));
  const placed = [];
  const isInside = (box) => box.left >= 0 && box.top >= 0 && box.right <= bounds.width && box.bottom <= bounds.height;
  const order = points.map((_, index) => index).sort((one, other) => must.has(other) - must.has(one));
  const found = points.map(() => null);
  for (const index of order) {
    const inside = candidates(points[index]).filter(isInside);
    const isFree = (box) => !placed.some((other) => meets(box, other));
    const isClear = (box) => isFree(box) && !discs.some((disc, other) => other !== index && meets(box, disc));
    const box = inside.find(isClear) ?? (must.has(index) ? (inside.find(isFree) ?? null) : null);
    if (!box) continue;
    placed.push(box);
    found[index] = box;
  }
  return found;
}

// Twelve markers that can be told apart without colour, as paths around the origin.

const polygon = (n, { turn = 0, inner = 1 } = {}) =>
  Array.from({ length: inner === 1 ? n : 2 * n }, (_, index) => {
    const angle = (2 * Math.PI * index) / (inner === 1 ? n : 2 * n) + turn - Math.PI / 2;
    const length = inner !== 1 && index % 2 ? inner : 1;
    return [length * Math.cos(angle), length * Math.sin(angle)];
  });

const cross = (turn) =>
  [[-0.35, -1], [0.35, -1], [0.35, -0.35], [1, -0.35], [1, 0.35], [0.35, 0.35], [0.35, 1], [-0.35, 1], [-0.35, 0.35], [-1, 0.35], [-1, -0.35], [-0.35, -0.35]].map(
    ([x, y]) => [x * Math.cos(turn) - y * Math.sin(turn), x * Math.sin(turn) + y * Math.cos(turn)],
  );

const SHAPES = [
  null, // a circle
  polygon(4, { turn: Math.PI / 4 }),
  polygon(4),
  polygon(3),
  polygon(3, { turn: Math.PI }),
  cross(0),
  cross(Math.PI / 4),
  polygon(5, { inner: 0.45 }),
  polygon(3, { turn: Math.PI / 2 }),
  polygon(3, { turn: -Math.PI / 2 }),
  polygon(6),
  polygon(4, { inner: 0.4 }),
];
const LARGER = [1, 1.15, 1.2, 1.25, 1.25, 1.1, 1.15, 1.4, 1.25, 1.25, 1.05, 1.5]; // so that all look equally large

export const N_COLOURS = 6;

// How far a marker goes from its middle.
const reach = (number, radius) => radius * LARGER[number % SHAPES.length];

// The path of a marker.
export function marker(number, radius) {
  const shape = SHAPES[number % SHAPES.length];
  const r = reach(number, radius);
  if (!shape) return `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
  return `M${shape.map(([x, y]) => `${(r * x).toFixed(2)} ${(r * y).toFixed(2)}`).join("L")}Z`;
}

// A marker in a line of text.
export const swatch = (number) =>
  svg("svg", { class: "marker", width: 16, height: 16, viewBox: "-8 -8 16 16", "aria-hidden": "true" }, svg("path", { d: marker(number, 5.5) }));
