"use strict";

const inflate = (id) => {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};

// A link to a folded part unfolds it.
const unfold = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (const fold of [...target.querySelectorAll(":scope > details"), target.closest("details")]) {
    for (let at = fold; at; at = at.parentElement.closest("details")) at.open = true;
  }
  target.scrollIntoView({ behavior: "instant" });
};

// Pages by their content hashes: those in the file, and those that the API stores if it serves this page.
const pictures = new Map(Object.entries(JSON.parse(document.getElementById("pictures").textContent)));
for (const page of document.querySelectorAll(".page")) {
  const picture = page.querySelector("img");
  if ("again" in picture.dataset) picture.src = pictures.get(page.dataset.image);
  else pictures.set(page.dataset.image, picture.src);
}
const served = /^https?:$/.test(location.protocol) && /^\/reports\/[0-9a-f-]{36}$/.test(location.pathname);
const stored = (image) => `${location.pathname}/images/${image}`;

const enlarge = (() => {
  const zoom = document.getElementById("zoom");
  const large = zoom.querySelector("img");
  const scale = zoom.querySelector(".scale");
  const show = (isFull) => {
    scale.setAttribute("aria-pressed", String(isFull));
    zoom.classList.toggle("is-full", isFull);
  };
  const toggle = () => show(scale.getAttribute("aria-pressed") !== "true");
  scale.addEventListener("click", toggle);
  large.addEventListener("click", toggle);
  zoom.querySelector(".close").addEventListener("click", () => zoom.close());
  zoom.addEventListener("click", (event) => { if (event.target === zoom) zoom.close(); });
  return (image, src, alt) => {
    const link = zoom.querySelector(".full");
    large.src = src;
    large.alt = alt;
    zoom.querySelector(".what").textContent = alt;
    link.hidden = !served;
    if (served) link.href = stored(image);
    show(false);
    zoom.showModal();
  };
})();
for (const page of document.querySelectorAll(".page")) {
  const picture = page.querySelector("img");
  page.addEventListener("click", () => enlarge(page.dataset.image, picture.src, picture.alt));
}

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

  const theme = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme || "auto") + 1) % 3];
    document.documentElement.dataset.theme = next;
    theme.setAttribute("aria-label", `Theme: ${next}`);
    theme.querySelector("span").textContent = next;
  });

  const isDark = () => {
    const chosen = document.documentElement.dataset.theme || "auto";
    return chosen === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : chosen === "dark";
  };

  for (const bar of document.querySelectorAll(".filters")) {
    const cards = [...document.getElementById(bar.dataset.for).querySelectorAll(".card")];
    const kinds = new Map();
    for (const card of cards) kinds.set(card.dataset.kind, (kinds.get(card.dataset.kind) || 0) + 1);
    if (kinds.size < 2) continue;
    const show = (kind) => {
      for (const card of cards) card.hidden = kind !== "" && card.dataset.kind !== kind;
      const more = document.getElementById(bar.dataset.for).querySelector("details.more");
      if (more && kind !== "") more.open = true;
      for (const button of bar.children) button.setAttribute("aria-pressed", String(button.value === kind));
    };
    for (const [kind, count] of [["", cards.length], ...kinds]) {
      const button = document.createElement("button");
      button.type = "button";
      button.value = kind;
      button.textContent = `${kind || "all"} ${count}`;
      button.addEventListener("click", () => show(kind));
      bar.append(button);
    }
    bar.hidden = false;
    show("");
  }

  const entities = { "&lt;": "<", "&gt;": ">", "&amp;": "&" };
  const plain = (text) => text.replace(/&(lt|gt|amp);/g, (entity) => entities[entity]);

  for (const figure of document.querySelectorAll("figure.curve, figure.histogram, figure.timeline")) {
    const spec = data.figures[figure.id];
    const svg = figure.querySelector("svg");
    if (!spec || !svg.dataset.box) continue;
    const { kind, unit } = spec.layout.meta;
    const [left, right, low, high] = svg.dataset.box.split(" ").map(Number);
    const readout = figure.querySelector(".readout");
    svg.addEventListener("pointermove", (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      if (at.x < left || at.x > right) return;
      const share = (at.x - left) / (right - left);
      const x = spec.layout.xaxis.type === "log" ? low * (high / low) ** share : low + share * (high - low);
      const lines = spec.data.filter((line) => line.mode !== "markers");
      const parts = lines.map((line) => {
        const starts = line.width ? line.x.map((middle, i) => middle - line.width[i] / 2) : line.x;
        const y = line.y[starts.filter((value) => value <= x).length - 1] || 0;
        const value = kind === "curve" ? `${short.format(100 * y)} %` : short.format(y);
        return lines.length > 1 ? `${plain(line.name)} ${value}` : value;
      });
      readout.textContent = `${kind === "curve" ? "within" : "at"} ${short.format(x)} ${unit}: ${parts.join(" · ")}`;
    });
    svg.addEventListener("pointerleave", () => { readout.textContent = ""; });
  }

  const explorer = document.getElementById("explorer");
  const stage = explorer.querySelector(".stage");
  const note = document.getElementById("explorer-note");
  let library = null;

  // The policy allows exactly this script, by its hash; it is loaded only when a figure is explored.
  const load = async () => {
    const script = document.createElement("script");
    script.textContent = await inflate("library");
    document.head.append(script);
    return window.Plotly;
  };

  // The data of figures has the colours of the light theme.
  const themed = (value, isColour = false) => {
    if (Array.isArray(value)) return value.map((item) => themed(item, isColour));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, themed(item, /color/.test(key))]));
    }
    if (!isColour || typeof value !== "string") return value;
    return data.dark[value] || value.replace(/\d+,\d+,\d+/, (channels) => data.dark[channels] || channels);
  };

  const explore = async (spec) => {
    document.getElementById("explorer-title").textContent = plain(spec.layout.title.text);
    note.textContent = "Drawing…";
    explorer.showModal();
    try {
      const plotly = await (library ??= load());
      const { data: traces, layout, config } = isDark() ? themed(spec) : structuredClone(spec);
      delete layout.title;
      layout.margin.t = 40;
      await plotly.newPlot(stage, traces, layout, config);
      note.textContent = `${spec.layout.meta.note} Drag to zoom, double-click to reset; a click on a name in the legend hides its series.`.trim();
    } catch {
      note.textContent = "This browser cannot draw the figure; the report has its picture and its numbers.";
    }
  };

  for (const figure of document.querySelectorAll("figure.plot")) {
    const spec = data.figures[figure.id];
    if (!spec?.data.length || typeof DecompressionStream === "undefined") continue;
    const button = figure.querySelector(".explore");
    button.hidden = false;
    button.addEventListener("click", () => explore(spec));
  }
  explorer.querySelector(".close").addEventListener("click", () => explorer.close());
  explorer.addEventListener("close", () => {
    if (window.Plotly) window.Plotly.purge(stage);
    stage.replaceChildren();
  });

  // Folded parts are printed too, except the numbers of figures.
  addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("main details:not([open])")) {
      if (fold.parentElement.matches("figure")) continue;
      fold.open = true;
      fold.dataset.printed = "";
    }
  });
  addEventListener("afterprint", () => {
    for (const fold of document.querySelectorAll("details[data-printed]")) {
      fold.open = false;
      delete fold.dataset.printed;
    }
  });
  addEventListener("hashchange", unfold);
  unfold();

  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      const link = links.get(entry.target.id);
      link.setAttribute("aria-current", "true");
      const list = link.closest("ol");
      list.scrollTo({ left: link.offsetLeft - list.offsetLeft - 16 });
    }
  }, { rootMargin: "0px 0px -75% 0px" });
  for (const section of document.querySelectorAll("main section")) seen.observe(section);
})();
