"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

  const theme = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme || "auto") + 1) % 3];
    document.documentElement.dataset.theme = next;
    theme.textContent = `Theme: ${next}`;
  });

  for (const bar of document.querySelectorAll(".filters")) {
    const cards = [...document.getElementById(bar.dataset.for).querySelectorAll(".card")];
    const kinds = new Map();
    for (const card of cards) kinds.set(card.dataset.kind, (kinds.get(card.dataset.kind) || 0) + 1);
    if (kinds.size < 2) continue;
    const show = (kind) => {
      for (const card of cards) card.hidden = kind !== "" && card.dataset.kind !== kind;
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

  const zoom = document.getElementById("zoom");
  for (const page of document.querySelectorAll(".page")) {
    page.addEventListener("click", () => {
      const small = page.querySelector("img");
      const large = zoom.querySelector("img");
      large.src = small.src;
      large.alt = small.alt;
      large.className = small.className;
      zoom.showModal();
    });
  }
  zoom.addEventListener("click", () => zoom.close());

  for (const figure of document.querySelectorAll("figure.curve, figure.histogram")) {
    const spec = data.figures[figure.id];
    const svg = figure.querySelector("svg");
    if (!spec || !svg.dataset.box) continue;
    const [left, right, low, high] = svg.dataset.box.split(" ").map(Number);
    const readout = figure.querySelector(".readout");
    svg.addEventListener("pointermove", (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      if (at.x < left || at.x > right) return;
      const x = low + ((at.x - left) / (right - left)) * (high - low);
      const parts = spec.series.map((one) => {
        const index = one.x.filter((value) => value <= x).length - 1;
        const y = one.y[index];
        const value = spec.kind === "curve" ? `${short.format(100 * (y || 0))} %` : short.format(y || 0);
        return spec.series.length > 1 ? `${one.name} ${value}` : value;
      });
      readout.textContent = `${spec.kind === "curve" ? "within" : "at"} ${short.format(x)} ${spec.unit}: ${parts.join(" · ")}`;
    });
    svg.addEventListener("pointerleave", () => { readout.textContent = ""; });
  }

  addEventListener("beforeprint", () => {
    for (const table of document.querySelectorAll("details.table")) table.open = true;
  });

  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id).setAttribute("aria-current", "true");
    }
  }, { rootMargin: "0px 0px -75% 0px" });
  for (const section of document.querySelectorAll("main section")) seen.observe(section);
})();
