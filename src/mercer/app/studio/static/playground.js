// The playground. The formula of the kernel carries its values; sliders send what has changed since, and the answer
// brings the next formula. One request is under way at a time: the next has the latest state.
import { ask, byId, h, later, say, short } from "./api.js";
import { Plot } from "./plot.js";

const EXAMPLES = {
  "A wave with a gap": { task: "regression", kernel: "SE(l=1)", points: wave([-4.6, -4.1, -3.7, -3.1, -2.7, -2.2, -1.6, 1.3, 1.7, 2.2, 2.6, 3.2, 3.9, 4.4]) },
  "Trend and season": { task: "regression", kernel: "Linear() + SE(l=5) * Periodic(period=2, l=1)", points: season() },
  "Outliers": { task: "robust", kernel: "SE(l=1.5)", points: spoiled() },
  "Two classes": { task: "classification", kernel: "4 * SE(l=1)", points: [[-4.2, -1], [-3.6, -1], [-3.1, -1], [-2.3, 1], [-1.9, -1], [-1.2, 1], [-0.4, 1], [0.3, 1], [0.9, 1], [1.6, -1], [2.1, 1], [2.7, -1], [3.3, -1], [4.2, -1]] },
  "A change of character": { task: "regression", kernel: "ChangePoint(SE(l=0.3), SE(l=2), location=0, steepness=4)", points: changed() },
  "Nothing yet": { task: "regression", kernel: "SE(l=1)", points: [], draws: 5 },
};

function wave(xs) {
  return xs.map((x, i) => [x, round(1.4 * Math.sin(1.1 * x) + 0.18 * Math.sin(37 * i + 1))]);
}
function season() {
  return Array.from({ length: 24 }, (_, i) => -4.8 + 0.31 * i).map((x, i) => [round(x), round(0.28 * x + 0.8 * Math.sin(Math.PI * x) + 0.12 * Math.sin(53 * i))]);
}
function spoiled() {
  return Array.from({ length: 22 }, (_, i) => -4.7 + 0.44 * i).map((x, i) => [round(x), round([4, 11, 16].includes(i) ? (i === 11 ? -2.4 : 2.5) : Math.cos(0.9 * x) + 0.1 * Math.sin(41 * i))]);
}
function changed() {
  return Array.from({ length: 34 }, (_, i) => -4.9 + 0.295 * i).map((x, i) => [round(x), round(x < 0 ? 0.9 * Math.sin(5 * x) : 0.5 * x - 1 + 0.06 * Math.sin(31 * i))]);
}
function round(v) {
  return Number(v.toFixed(3));
}

const START = { task: "regression", points: [], kernel: "SE(l=1)", likelihood: {}, view: [-5, 5], draws: 0, of: "posterior", seed: 0 };
let state = structuredClone(START);
let changed_ = {}; // hyperparameters that a slider has moved since the last answer
let version = 0; // of the kernel: an answer to an older one is not taken
let busy = false, again = false, wantsToLearn = false;
let families = [], last = null, shape = "", before = null;
let plot;

export async function openPlayground() {
  plot = new Plot(byId("plot"), { points: () => state.points, add, move, remove, chosen: markRow });
  wire();
  const shared = read(location.hash);
  if (shared) state = shared;
  else load("A wave with a gap");
  window.addEventListener("hashchange", () => {
    const other = read(location.hash);
    if (other && JSON.stringify(other) !== JSON.stringify(state)) take(other);
  });
  try {
    families = await ask("/api/playground/families");
  } catch (error) {
    fail(error);
    return;
  }
  for (const f of families) byId("add-term").append(h("option", { value: f.formula }, `${f.name} · ${f.words}`));
  refresh();
}

// ---------------------------------------------------------------------------------------------------- the state

function take(next) {
  state = { ...structuredClone(START), ...next };
  changed_ = {};
  before = null;
  version += 1;
  refresh();
}

function load(name) {
  take({ ...structuredClone(EXAMPLES[name]), likelihood: {} });
}

function read(hash) {
  if (!hash.startsWith("#p=")) return null;
  try {
    const bytes = Uint8Array.from(atob(hash.slice(3).replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const told = JSON.parse(new TextDecoder().decode(bytes));
    const number = Number.isFinite;
    const points = told.points.filter((p) => p.length === 2 && p.every(number)).slice(0, 200);
    const likelihood = Object.fromEntries(Object.entries(told.likelihood ?? {}).filter(([, v]) => number(v)));
    const task = ["regression", "robust", "classification"].includes(told.task) ? told.task : "regression";
    const view = told.view?.length === 2 && told.view.every(number) && told.view[1] > told.view[0] ? told.view : START.view;
    return { task, points, kernel: String(told.kernel), likelihood, view, draws: clamp(told.draws, 0, 20), of: told.of === "prior" ? "prior" : "posterior", seed: clamp(told.seed, 0, 1e6) };
  } catch {
    say("the link could not be read");
    return null;
  }
}

function clamp(value, low, high) {
  return Math.min(Math.max(Math.trunc(Number(value) || 0), low), high);
}

function fragment() {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  const text = btoa(String.fromCharCode(...bytes));
  return `#p=${text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

const keep = later(() => history.replaceState(null, "", fragment()), 300);

function add(x, y) {
  if (state.points.length >= 200) return say("200 points are the most");
  state.points.push([x, y]);
  plot.choose(state.points.length - 1);
  refresh();
}

function move(i, x, y) {
  if (!state.points[i]) return;
  state.points[i] = [x, y];
  refresh();
}

function remove(i) {
  state.points.splice(i, 1);
  refresh();
}

function setKernel(formula) {
  state.kernel = formula;
  changed_ = {};
  version += 1;
  refresh();
}

// ------------------------------------------------------------------------------------------------- asking

function widen() {
  const xs = state.points.map((p) => p[0]);
  if (!xs.length) return;
  const [low, high] = state.view;
  if (Math.min(...xs) < low || Math.max(...xs) > high) {
    const [a, b] = [Math.min(low, ...xs), Math.max(high, ...xs)], room = 0.05 * (b - a);
    state.view = [round(a < low ? a - room : a), round(b > high ? b + room : b)];
  }
}

function refresh() {
  widen();
  const ys = state.points.map((p) => p[1]), top = Math.max(3, ...ys), low = Math.min(-3, ...ys);
  plot.view = state.view;
  plot.height = top > 3 || low < -3 ? [low - 0.08 * (top - low), top + 0.08 * (top - low)] : [-3, 3];
  plot.classes = state.task === "classification";
  showControls();
  plot.drawBack();
  plot.drawPoints();
  keep();
  send();
}

async function send() {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  const asked = { ...state, points: [...state.points], values: changed_ }, mine = version;
  const learn = wantsToLearn;
  wantsToLearn = false;
  changed_ = {};
  const began = performance.now();
  try {
    if (learn) byId("learn").textContent = "Learning …";
    const answer = await ask(`/api/playground/${learn ? "learn" : "answer"}`, { method: "POST", json: asked });
    if (mine === version) {
      state.kernel = answer.kernel;
      state.likelihood = answer.likelihood;
      last = answer;
      show(answer, performance.now() - began);
      if (learn) say(`learned: ${answer.kernel}, log evidence ${short(answer.evidence?.total)}`);
    }
  } catch (error) {
    if (mine === version) fail(error);
  } finally {
    busy = false;
    byId("learn").textContent = "Learn";
    byId("learn").disabled = state.points.length < 2;
    if (again || wantsToLearn || mine !== version) {
      again = false;
      send();
    } else {
      document.body.dataset.settled = String(Number(document.body.dataset.settled ?? 0) + 1);
      keep();
      explain();
    }
  }
}

const explain = later(async () => {
  if (busy || !last) return;
  const mine = version;
  try {
    const words = await ask("/api/playground/words", { method: "POST", json: { ...state, values: {}, points: [] } });
    if (mine === version) byId("words").replaceChildren(...words.map((w) => h("li", {}, w)));
  } catch {
    byId("words").replaceChildren();
  }
}, 500);

function fail(error) {
  const line = byId("formula-error");
  line.textContent = error.message;
  line.hidden = false;
  byId("formula").setAttribute("aria-invalid", "true");
}

// ------------------------------------------------------------------------------------------------- showing

function showControls() {
  for (const button of document.querySelectorAll("[data-task]")) {
    const on = button.dataset.task === state.task;
    button.setAttribute("aria-checked", String(on));
    button.tabIndex = on ? 0 : -1;
  }
  const classes = state.task === "classification";
  byId("legend-mean").textContent = classes ? "probability of class 1" : "mean";
  byId("legend-f").textContent = classes ? "95 % of the latent probability" : "95 % of f";
  byId("legend-y").hidden = classes;
  byId("legend-draws").hidden = !state.draws;
  byId("draws").value = state.draws;
  byId("of").value = state.of;
  byId("y-head").textContent = classes ? "class" : "y";
  byId("learn").disabled = state.points.length < 2;
  byId("count").textContent = state.points.length;
  showTable();
}

function show(answer, took) {
  plot.answer = answer;
  plot.drawCurves();
  plot.drawPoints();
  byId("formula-error").hidden = true;
  byId("formula").removeAttribute("aria-invalid");
  if (document.activeElement !== byId("formula")) byId("formula").value = answer.kernel;
  showEvidence(answer.evidence);
  byId("took").textContent = `${Math.round(took)} ms`;
  byId("notes").replaceChildren(...answer.notes.map((n) => h("li", {}, n)));
  const now = JSON.stringify([answer.terms.map((t) => t.map((f) => [f.name, f.sliders.map((s) => s.name)])), answer.noise.map((s) => s.name)]);
  if (now !== shape) {
    shape = now;
    byId("terms").replaceChildren(...answer.terms.flatMap(term));
    byId("noise").replaceChildren(...answer.noise.map(slider));
    byId("noise-card").hidden = !answer.noise.length;
  } else {
    for (const s of [...answer.terms.flat().flatMap((f) => f.sliders), ...answer.noise]) setSlider(s);
    answer.terms.flat().forEach((f, i) => (byId("terms").querySelectorAll(".factor-head b")[i].textContent = f.name));
  }
}

function showEvidence(evidence) {
  const total = evidence?.total;
  byId("evidence").textContent = total == null ? "–" : fixed(total);
  byId("evidence-name").textContent = !evidence || "data_fit" in evidence ? "log evidence" : "log evidence (approximate)";
  const change = byId("evidence-change");
  const moved = total != null && before != null ? total - before : 0;
  change.textContent = Math.abs(moved) >= 0.005 ? `${moved > 0 ? "▲ +" : "▼ −"}${Math.abs(moved).toFixed(2)}` : "";
  change.className = `change ${moved > 0 ? "up" : "down"}`;
  before = total;
  const figure = (name, value) => h("div", { class: "figure" }, h("span", { class: "name" }, name), h("output", {}, fixed(value)));
  const sign = (text) => h("span", { class: "sign", "aria-hidden": "true" }, text);
  const parts = !evidence
    ? []
    : "data_fit" in evidence
      ? [sign("="), figure("data fit", evidence.data_fit), sign("+"), figure("complexity", evidence.complexity), sign("+"), figure("constant", evidence.constant)]
      : "divergence" in evidence
        ? [figure("posterior from prior, KL in nats", evidence.divergence)]
        : [];
  byId("evidence-parts").replaceChildren(...parts);
}

function fixed(value) {
  return value.toFixed(2).replace("-", "−");
}

function term(factors, i, all) {
  const multiply = h("select", { "aria-label": `Multiply term ${i + 1} by`, onchange: (event) => {
    const parts = last.terms.map((t) => t.map((f) => f.formula));
    parts[i].push(event.target.value);
    setKernel(joined(parts));
  } }, h("option", { value: "" }, "× multiply by …"), families.map((f) => h("option", { value: f.formula }, f.name)));
  const box = h("div", { class: "term" }, factors.map((f, j) => h("div", { class: "factor" },
    h("div", { class: "factor-head" }, h("b", {}, f.name),
      h("button", { class: "quiet small", "aria-label": `Remove ${f.name}`, disabled: all.length === 1 && factors.length === 1, onclick: () => {
        const parts = last.terms.map((t) => t.map((g) => g.formula));
        parts[i].splice(j, 1);
        setKernel(joined(parts.filter((t) => t.length)));
      } }, "remove")),
    f.sliders.map(slider))), multiply);
  return i ? [h("div", { class: "plus", "aria-hidden": "true" }, "+"), box] : [box];
}

function joined(parts) {
  return parts.map((t) => t.join(" * ")).join(" + ");
}

const STEPS = 400;

function slider(s) {
  const id = `s-${s.name}`;
  const range = h("input", { type: "range", id, min: 0, max: STEPS, step: 1, "data-name": s.name });
  const exact = h("input", { type: "number", step: "any", "aria-label": `${s.label}, exactly`, "data-exact": s.name });
  range.addEventListener("input", () => {
    const { low, high, log } = range.ends, t = Number(range.value) / STEPS;
    const value = Number((log ? low * (high / low) ** t : low + t * (high - low)).toPrecision(4));
    exact.value = value;
    range.setAttribute("aria-valuetext", short(value));
    setValue(s.name, value);
  });
  exact.addEventListener("change", () => {
    const value = Number(exact.value);
    if (exact.value !== "" && Number.isFinite(value)) setValue(s.name, value);
  });
  const box = h("div", { class: "slider" }, h("label", { for: id }, s.label), range, exact);
  setSlider(s, range, exact);
  return box;
}

function setSlider(s, range = document.querySelector(`[data-name="${CSS.escape(s.name)}"]`), exact = document.querySelector(`[data-exact="${CSS.escape(s.name)}"]`)) {
  range.ends = { low: s.low, high: s.high, log: s.log };
  if (s.name in changed_) return; // it has moved on
  const t = s.log ? Math.log(s.value / s.low) / Math.log(s.high / s.low) : (s.value - s.low) / (s.high - s.low);
  range.value = Math.round(STEPS * t);
  range.setAttribute("aria-valuetext", short(s.value));
  if (document.activeElement !== exact) exact.value = s.value;
}

function setValue(name, value) {
  changed_[name] = value;
  send();
}

// ------------------------------------------------------------------------------------------------- the table

function showTable() {
  const body = byId("points").tBodies[0];
  while (body.rows.length > state.points.length) body.deleteRow(-1);
  while (body.rows.length < state.points.length) body.append(tableRow(body.rows.length));
  state.points.forEach(([x, y], i) => {
    const [a, b] = body.rows[i].querySelectorAll("input");
    if (document.activeElement !== a) a.value = x;
    if (document.activeElement !== b) b.value = y;
  });
}

function tableRow(i) {
  const cell = (k, name) => h("td", {}, h("input", { type: "number", step: "any", "aria-label": `${name} of point ${i + 1}`, onchange: (event) => {
    const value = Number(event.target.value);
    if (event.target.value === "" || !Number.isFinite(value)) return;
    const point = [...state.points[i]];
    point[k] = value;
    move(i, ...point);
  } }));
  return h("tr", {}, h("td", {}, String(i + 1)), cell(0, "x"), cell(1, "y"),
    h("td", {}, h("button", { class: "quiet small", "aria-label": `Remove point ${i + 1}`, onclick: () => remove(i) }, "remove")));
}

function markRow(i) {
  [...byId("points").tBodies[0].rows].forEach((row, j) => row.classList.toggle("chosen", i === j));
}

// ------------------------------------------------------------------------------------------------- controls

function wire() {
  const tasks = [...document.querySelectorAll("[data-task]")];
  const setTask = (task) => {
    state.task = task;
    state.likelihood = {};
    before = null;
    version += 1;
    changed_ = {};
    refresh();
  };
  tasks.forEach((button, i) => {
    button.addEventListener("click", () => setTask(button.dataset.task));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      const next = tasks[(i + step + tasks.length) % tasks.length];
      setTask(next.dataset.task);
      next.focus();
      event.preventDefault();
    });
  });
  for (const name of Object.keys(EXAMPLES)) byId("examples").append(h("option", { value: name }, name));
  byId("examples").addEventListener("change", (event) => {
    if (event.target.value) load(event.target.value);
    event.target.value = "";
  });
  byId("clear").addEventListener("click", () => {
    state.points = [];
    before = null;
    refresh();
  });
  byId("learn").addEventListener("click", () => {
    wantsToLearn = true;
    send();
  });
  byId("draws").addEventListener("change", (event) => {
    state.draws = clamp(event.target.value, 0, 20);
    refresh();
  });
  byId("of").addEventListener("change", (event) => {
    state.of = event.target.value;
    if (!state.draws) state.draws = 5;
    refresh();
  });
  byId("again").addEventListener("click", () => {
    state.seed = (state.seed + 1) % 1e6;
    if (!state.draws) state.draws = 5;
    refresh();
  });
  const typed = later(() => setKernel(byId("formula").value.trim().replace(/\s+/g, " ")), 250);
  byId("formula").addEventListener("input", typed);
  byId("formula").addEventListener("blur", () => {
    if (last && byId("formula-error").hidden) byId("formula").value = state.kernel;
  });
  byId("add-term").addEventListener("change", (event) => {
    if (event.target.value) setKernel(`${state.kernel} + ${event.target.value}`);
    event.target.value = "";
  });
  byId("add-point").addEventListener("submit", (event) => {
    event.preventDefault();
    const { x, y } = event.target.elements;
    add(Number(x.value), Number(y.value));
    event.target.reset();
    x.focus();
  });
  byId("share").addEventListener("click", async () => {
    history.replaceState(null, "", fragment());
    try {
      await navigator.clipboard.writeText(location.href);
      byId("share").textContent = "Copied";
    } catch {
      byId("share").textContent = "It is in the address bar";
    }
    setTimeout(() => (byId("share").textContent = "Copy link"), 2000);
  });
}
