// Talking to the service. The token is kept in memory, and asked for when it is missing.

import { byId } from "./dom.js";

const SENDABLE = /^[ -~]*$/; // what the service allows in a token; fetch throws for a header with other characters

let token = "";
let asked = null; // the dialog's answer, while it is open
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
    const isSendable = SENDABLE.test(token);
    answer = isSendable ? await fetch(`v1/${path}`, { ...options, headers, credentials: "omit", cache: "no-store" }) : new Response(null, { status: 401 });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The service cannot be reached. Is it still running?");
  }
  if (answer.ok) return answer.status === 204 ? null : answer.headers.get("Content-Type").startsWith("text/") ? answer.text() : answer.json();
  if (answer.status === 401) {
    if (await askForToken()) return ask(path, options);
    throw new Refused(401, "This service needs a token. Try again, or reload the page, to enter it.");
  }
  const said = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, inWordsOfThePage(said.detail ?? `The service answered ${answer.status}.`));
}

// The service names the fields of a request; the page has one note.
const inWordsOfThePage = (detail) => detail.replace(/^text: found (.*) Send it/, "The note has $1 Expand it");

// Requests that are refused while the dialog is open wait for its answer, too.
function askForToken() {
  asked ??= openTokenDialog().finally(() => (asked = null));
  return asked;
}

function openTokenDialog() {
  const dialog = byId("token");
  const field = byId("token-value");
  byId("token-problem").hidden = token === "";
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

// A link may carry the token, which is removed from the address.
export function startTokenDialog() {
  const given = /^#token=(.+)$/.exec(location.hash);
  if (given) {
    try {
      token = decodeURIComponent(given[1]);
    } catch {
      token = given[1]; // not percent-encoded
    }
    history.replaceState(null, "", location.pathname);
  }
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

// A new request replaces one that is still running.
export async function expand(text, inventory) {
  giveUp();
  running = new AbortController();
  return post("expand", { text, inventory, expanded_text: "replace" }, running.signal);
}

// What one expansion of a note is based on; null where the model was not asked.
export async function explain(text, inventory, { start }, category = null) {
  const metadata = category ? { category } : undefined;
  const answer = await post("expand", { text, metadata, inventory, explain: [start] });
  const index = answer.expansions.findIndex((expansion) => expansion.start === start);
  return answer.explanations[index] ?? null;
}

export const search = (words, limit) => ask(`inventory?${new URLSearchParams({ search: words, limit })}`);

// What the model has learnt; a list is sent as a repeated parameter, and null is left out.
export function explore(what, asked = {}) {
  const named = Object.entries(asked).flatMap(([name, value]) => [value].flat().map((each) => [name, each]));
  return ask(`explore/${what}?${new URLSearchParams(named.filter(([, value]) => value !== null))}`);
}

// Reviews

const by = (reviewer) => `?${new URLSearchParams({ reviewer })}`;

export const reviews = (reviewer) => ask(`reviews${by(reviewer)}`);
export const reviewedNote = (id, reviewer) => ask(`reviews/notes/${id}${by(reviewer)}`);
export const addReviewedNote = (name, text, reviewer) => post(`reviews/notes${by(reviewer)}`, { name, text });
export const decide = (id, choice) => post(`reviews/notes/${id}/decisions`, choice);
export const undo = (reviewer) => post("reviews/undo", { reviewer });
export const deleteReviewedNote = (id) => ask(`reviews/notes/${id}`, { method: "DELETE" });
export const exportReviews = (name) => ask(`reviews/export/${name}`);
