// The service counts code points, JavaScript counts UTF-16 units: they differ after the first emoji.

export function unitOffsets(text) {
  if (!/[\ud800-\udfff]/.test(text)) return (offset) => offset;
  const units = [0];
  for (const character of text) units.push(units[units.length - 1] + character.length);
  return (offset) => units[offset];
}
