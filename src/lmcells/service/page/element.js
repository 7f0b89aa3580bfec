// Elements with text in them: strings become text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

export const element = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

function filled(made, attributes, children) {
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
  const part = element("span");
  part.style.width = `${100 * share}%`;
  return element("div", { class: "track", role: "img", "aria-label": label }, part);
}

export function percent(share) {
  const hundredths = 100 * share;
  if (hundredths > 0 && hundredths < 1) return "<1 %";
  if (hundredths > 99 && hundredths < 100) return ">99 %";
  return `${Math.round(hundredths)} %`;
}
