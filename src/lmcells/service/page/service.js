// Talking to the service. The token is kept in memory, and asked for when it is missing.

import { byId } from "./dom.js";

let token = "";
let running = null;

class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, credentials: "omit", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The service cannot be reached. Is it still running?");
  }
  if (answer.ok) return answer.json();
  if (answer.status === 401 && (await askForToken())) return ask(path, options);
  const said = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, said.detail ?? `The service answered ${answer.status}.`);
}

function askForToken() {
  const dialog = byId("token");
  const field = byId("token-value");
  field.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        token = dialog.returnValue === "given" ? field.value : "";
        field.value = "";
        resolve(token !== "");
      },
      { once: true },
    );
  });
}

export function startTokenDialog() {
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    byId("token").close("given");
  });
}

const post = (path, body, signal) =>
  ask(path, { method: "POST", signal, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

export function giveUp() {
  running?.abort();
}

// A new request takes the place of one that is still running.
export async function expand(text, inventory) {
  giveUp();
  running = new AbortController();
  return post("expand", { text, inventory, expanded_text: "replace" }, running.signal);
}

// What one expansion of a note is based on; null where the model was not asked.
export async function explain(text, inventory, expansions, index) {
  if (expansions[index].source !== "model") return null;
  return (await post("expand", { text, inventory, explain: [expansions[index].start] })).explanations[index];
}

export const search = (words, limit) => ask(`inventory?${new URLSearchParams({ search: words, limit })}`);

// What the model has learnt; a list is sent as so many values of one name, and what is null is left out.
export function explore(what, asked = {}) {
  const named = Object.entries(asked).flatMap(([name, value]) => [value].flat().map((each) => [name, each]));
  return ask(`explore/${what}?${new URLSearchParams(named.filter(([, value]) => value !== null))}`);
}
