// Elements with text in them: strings become text nodes, never markup.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export const byId = (id) => document.getElementById(id);

export function bar(share, label) {
  const filled = element("span");
  filled.style.width = `${100 * share}%`;
  return element("div", { class: "track", role: "img", "aria-label": label }, filled);
}

export function percent(share) {
  const hundredths = 100 * share;
  if (hundredths > 0 && hundredths < 1) return "<1 %";
  if (hundredths > 99 && hundredths < 100) return ">99 %";
  return `${Math.round(hundredths)} %`;
}
