// What to say where the model refuses: its one line, and the nearest names that it does know, to be clicked.

import { element } from "./element.js";
import { explore } from "./service.js";

const SHOWN = 5;

export function clearProblem(box) {
  box.hidden = true;
  box.replaceChildren();
}

// `names` are those that were asked for: the `kind` of each, its `text`, and what to do with another one.
export async function showProblem(box, error, names) {
  box.replaceChildren(element("p", {}, sayOf(error)));
  box.hidden = false;
  if (error.status !== 422) return;
  for (const { kind, text, choose } of names) {
    const found = await explore("names", { kind, search: text, limit: SHOWN }).catch(() => null);
    if (!found || found.known !== null) continue;
    const buttons = found.names.map(({ name }) =>
      element("li", {}, element("button", { type: "button", class: "quiet small", onclick: () => choose(name) }, name)),
    );
    box.append(element("ul", { class: "nearest", "aria-label": `Nearest to ${text}` }, ...buttons));
  }
}

// Its own list of names is left to the buttons.
const sayOf = ({ message }) => message[0].toUpperCase() + message.slice(1).replace(/ Nearest: .*$/, " Did you mean:");
