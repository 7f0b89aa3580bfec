// Names beside points so that no name covers another or a point; the first points are served first.

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
export function placeLabels(points, bounds, must = new Set()) {
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
