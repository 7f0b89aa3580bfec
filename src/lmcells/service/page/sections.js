// A map on which sections that the model treats alike lie together, and the neighbours of one of them.

import { bar, button, byId, element } from "./dom.js";
import { N_COLOURS, PointMap, swatch } from "./map.js";
import { explore } from "./service.js";
import { Picture, Suggest } from "./suggest.js";

const NETWORKS = { variational: "Variational network", prior: "Model network" };
const NEIGHBOURS = 8;

export class Sections extends Picture {
  #remember;
  #map = null;
  #near = null;
  #dimmed = null;
  #section = new Suggest(byId("sections-section"), { kind: "section", onChoose: (section) => this.ask({ section }) });
  #plane = new PointMap(byId("sections-map"), {
    height: (width) => (width < 480 ? 1.25 * width : Math.min(620, 0.72 * width)),
    onChoose: ({ name }) => this.ask({ section: name }),
  });

  constructor(first, remember) {
    super("sections");
    this.#remember = remember;
    this.state = { network: "variational", section: first.sections[0] };
    for (const radio of document.querySelectorAll("[name=network]")) {
      radio.addEventListener("change", () => this.ask({ network: radio.value }));
    }
  }

  show(asked) {
    const given = Object.fromEntries(asked ?? []);
    const wanted = { section: given.section ?? this.state.section, network: Object.hasOwn(NETWORKS, given.network) ? given.network : this.state.network };
    if (this.#near && wanted.section === this.state.section && wanted.network === this.state.network) return this.#remember(this.state);
    this.ask(wanted);
  }

  async fetch({ network, section }) {
    const map = this.#map?.network === network ? this.#map : await explore("sections", { network });
    return { map, near: await explore("nearest-sections", { section, n: NEIGHBOURS }) };
  }

  names(wanted) {
    return [{ kind: "section", text: wanted.section, choose: (section) => this.ask({ ...wanted, section }) }];
  }

  draw({ map, near }, { network }) {
    const isNew = map !== this.#map;
    [this.#map, this.#near] = [map, near];
    this.state = { network, section: near.section };
    if (isNew) this.#drawMap();
    this.#drawNear();
    this.#remember(this.state);
  }

  #drawMap() {
    const { sections, clusters, trustworthiness } = this.#map;
    const most = Math.log1p(Math.max(...sections.map(({ count }) => count)));
    this.#dimmed = null;
    this.#plane.dimOthers(null);
    this.#plane.show(
      sections.map(({ section, count, cluster, x, y }) => ({
        name: section,
        title: section,
        x,
        y,
        radius: 3 + 5 * (Math.log1p(count) / (most || 1)) ** 2,
        group: cluster,
        label: `${section}, ${words(count)}`,
      })),
    );
    byId("sections-legend").replaceChildren(...clusters.map((name, group) => element("li", {}, this.#legendButton(name, group))));
    byId("sections-note").textContent =
      `The ${sections.length} sections with the most words; larger points have more. Only short distances mean anything` +
      (trustworthiness === null ? "." : ` (trustworthiness ${trustworthiness.toFixed(2)}, 1 is best).`);
  }

  #legendButton(name, group) {
    const dim = () => {
      this.#dimmed = this.#dimmed === group ? null : group;
      for (const other of byId("sections-legend").querySelectorAll("button")) {
        other.setAttribute("aria-pressed", String(other === made && this.#dimmed !== null));
      }
      this.#plane.dimOthers(this.#dimmed);
    };
    const made = button(`cluster series-${group % N_COLOURS}`, dim, [swatch(group), element("span", {}, name)], { "aria-pressed": "false" });
    return made;
  }

  #drawNear() {
    const { section, count } = this.#near;
    this.#section.value = section;
    for (const radio of document.querySelectorAll("[name=network]")) radio.checked = radio.value === this.state.network;
    byId("sections-title").replaceChildren(element("b", {}, section), element("small", {}, ` ${words(count)}`));
    byId("sections-near").replaceChildren(
      ...Object.entries(NETWORKS).map(([network, title]) =>
        element(
          "section",
          { class: `near${network === this.state.network ? " shown" : ""}` },
          element("h3", {}, title),
          element("ol", {}, ...this.#near[network].map((near) => this.#neighbour(near))),
        ),
      ),
    );
    this.#plane.choose(section, this.#near[this.state.network].map((near) => near.section));
    const isOnMap = this.#map.sections.some((each) => each.section === section);
    byId("sections-absent").hidden = isOnMap;
  }

  #neighbour({ section, cosine }) {
    return element(
      "li",
      {},
      button("word", () => this.ask({ section }), section),
      element("span"),
      element("span", { class: "percent" }, cosine.toFixed(2)),
      bar(Math.max(0, cosine), `cosine ${cosine.toFixed(2)}`),
    );
  }
}

const words = (count) => (count === 1 ? "1 word" : `${count.toLocaleString("en")} words`);
