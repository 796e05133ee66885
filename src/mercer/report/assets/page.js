"use strict";
// Light or dark, where the reader is, and the panels.
(() => {
  const root = document.documentElement, button = document.getElementById("theme");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  if (button) {
    const name = () => { button.textContent = dark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Show the page ${dark() ? "light" : "dark"}`); };
    button.hidden = false;
    name();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
    button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; name(); });
  }
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  if (links.size && "IntersectionObserver" in window) {
    const watch = new IntersectionObserver((seen) => {
      for (const one of seen) {
        if (!one.isIntersecting) continue;
        for (const a of links.values()) a.removeAttribute("aria-current");
        const link = links.get(one.target.id);
        if (link) link.setAttribute("aria-current", "true");
      }
    }, { rootMargin: "0px 0px -75% 0px" });
    document.querySelectorAll("main section").forEach((section) => watch.observe(section));
  }
  const data = document.getElementById("report-data");
  if (data) {
    const all = JSON.parse(data.textContent);
    for (const node of document.querySelectorAll("[data-panel]")) panel(node, all[node.dataset.panel]);
  }
})();
