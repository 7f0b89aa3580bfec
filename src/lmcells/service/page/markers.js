// Twelve shapes that are told apart without colour, as paths around the origin.

import { svg } from "./element.js";

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
const LARGER = [1, 1.15, 1.2, 1.25, 1.25, 1.1, 1.15, 1.4, 1.25, 1.25, 1.05, 1.5]; // so that all have about as much ink

export const N_COLOURS = 6;

// How far a marker goes from its middle.
export const reach = (number, radius) => radius * LARGER[number % SHAPES.length];

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
