// The two rooms, light and dark.
import { byId } from "./api.js";
import { openPlayground } from "./playground.js";

const rooms = ["playground", "workbench"];
let workbench = null;

function enter(room, focus = false) {
  for (const name of rooms) {
    const tab = byId(`tab-${name}`);
    byId(name).hidden = name !== room;
    tab.setAttribute("aria-selected", String(name === room));
    tab.tabIndex = name === room ? 0 : -1;
    if (focus && name === room) tab.focus();
  }
  byId("share").hidden = room !== "playground";
  if (room === "workbench") workbench ??= import("./workbench.js").then((module) => module.openWorkbench(byId("workbench")));
}

for (const room of rooms) {
  byId(`tab-${room}`).addEventListener("click", () => enter(room));
  byId(`tab-${room}`).addEventListener("keydown", (event) => {
    if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    enter(rooms[(rooms.indexOf(room) + 1) % 2], true);
  });
}

const kept = localStorage.getItem("mercer-theme");
if (kept) document.documentElement.dataset.theme = kept;
byId("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const next = dark === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("mercer-theme", next);
});

openPlayground();
if (location.hash === "#workbench") enter("workbench");
