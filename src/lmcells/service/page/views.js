// Two views, told by the address: #explore... is the model, anything else the note.

import { byId } from "./element.js";

export function startViews(explore) {
  const show = () => {
    const isExplore = location.hash.startsWith("#explore");
    byId("note-view").hidden = isExplore;
    byId("explore-view").hidden = !isExplore;
    byId("open-inventory").hidden = isExplore; // its changes go with notes
    byId("skip").href = isExplore ? "#explore-view" : "#note-panel";
    byId("skip").textContent = isExplore ? "Skip to the pictures" : "Skip to the note";
    for (const [id, isIt] of [["to-note", !isExplore], ["to-explore", isExplore]]) {
      if (isIt) byId(id).setAttribute("aria-current", "page");
      else byId(id).removeAttribute("aria-current");
    }
    if (isExplore) explore.open(location.hash);
  };
  addEventListener("hashchange", show);
  show();
}
