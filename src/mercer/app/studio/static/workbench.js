// The workbench: bring a table, look at its columns, say what to learn, watch the fits, compare them, take the results.
import { ask, byId, h, say, short } from "./api.js";
import { bars, climb, scatter } from "./charts.js";

const TASKS = { regression: "A number", classification: "A class", series: "A time series" };
const KERNELS = [
  ["", "Smooth functions; each column has its own length-scale (the default)"],
  ["auto", "Let the evidence choose the roughness"],
  ["search", "Search for the structure: trends, seasons, changes, interactions"],
  ["formula", "A formula of mine …"],
];
const NOISE = {
  regression: [["", "Ordinary: Gaussian noise"], ["student-t", "A few outliers: Student-t noise"], ["auto", "Compare Gaussian, Student-t, Laplace and mixture noise"], ["heteroscedastic", "Noise that differs from place to place"], ["poisson", "The target is a count: Poisson"], ["negative-binomial", "A count that varies more: negative binomial"], ["gamma", "The target is positive: gamma"], ["beta", "The target is a share between 0 and 1: beta"]],
  classification: [["", "Classes; nothing more to say"]],
  series: [["", "Ordinary: Gaussian noise"], ["student-t", "A few outliers: Student-t noise"], ["poisson", "The values are counts: Poisson"]],
};
const SOLVERS = [["", "What suits: exact up to 10,000 rows, chosen by trial beyond"], ["dense", "Exact, whatever it takes"], ["vfe", "Inducing inputs (VFE): fast, with a bound on what is lost"], ["vecchia", "Nearest neighbours (Vecchia): fast for few columns"]];
const WORDS = { queued: "waiting", running: "running", done: "done", failed: "failed", cancelled: "cancelled" };

let tables = new Map(), runs = new Map(), table = null, chosen = null, limit = 0;
let order = { task: "regression", target: null, features: new Set(), time: null };
let root;

export async function openWorkbench(section) {
  root = section;
  root.append(dataCard(), columnsCard(), orderCard(), runsCard(), runCard());
  try {
    const told = await ask("/api/tables");
    limit = told.limit;
    byId("limit").textContent = `up to ${Math.round(limit / 2 ** 20)} MB`;
    told.tables.forEach((t) => tables.set(t.id, t));
  } catch (error) {
    complain("data-error", error.message);
  }
  showTables();
  choose([...tables.values()].at(-1) ?? null);
  listen();
}

function listen() {
  const stream = new EventSource("/api/events");
  stream.addEventListener("run", (event) => {
    const run = JSON.parse(event.data), before = runs.get(run.id);
    run.heard = performance.now();
    runs.set(run.id, run);
    if (before && before.status !== run.status) say(`${run.name}: ${WORDS[run.status]}`);
    showRuns();
    if (chosen === run.id) showRun(before?.status !== run.status);
  });
  setInterval(() => {
    for (const run of runs.values()) {
      if (run.status !== "running") continue;
      for (const clock of root.querySelectorAll(`[data-clock="${run.id}"]`)) clock.textContent = duration(elapsed(run));
    }
  }, 500);
  stream.addEventListener("gone", (event) => {
    runs.delete(JSON.parse(event.data));
    if (!runs.has(chosen)) chosen = null;
    showRuns();
    showRun(true);
  });
  stream.addEventListener("error", () => complain("runs-error", "the studio does not answer: is `mercer studio` still running?"));
  stream.addEventListener("open", () => complain("runs-error", ""));
}

function complain(id, text) {
  byId(id).textContent = text;
  byId(id).hidden = !text;
}

// ---------------------------------------------------------------------------------------------------- tables

function dataCard() {
  const input = h("input", { type: "file", id: "file", accept: ".csv,.tsv,.parquet", class: "visually-hidden", onchange: (event) => {
    bring(event.target.files);
    event.target.value = "";
  } });
  const zone = h("label", { class: "drop", for: "file" },
    h("b", {}, "Drop a table here"), h("span", {}, "or choose a file: .csv, .tsv or .parquet, ", h("span", { id: "limit" })));
  for (const name of ["dragover", "dragleave", "drop"]) {
    zone.addEventListener(name, (event) => {
      event.preventDefault();
      zone.classList.toggle("over", name === "dragover");
      if (name === "drop") bring(event.dataTransfer.files);
    });
  }
  return h("div", { class: "card", id: "data-card" }, h("h2", {}, "1 · Data"), input, zone,
    h("p", { id: "data-error", class: "error", role: "alert", hidden: true }), h("ul", { id: "tables", class: "chips" }));
}

async function bring(files) {
  complain("data-error", "");
  for (const file of files) {
    if (file.size > limit) {
      complain("data-error", `${file.name} has ${Math.ceil(file.size / 2 ** 20)} MB, more than the ${Math.round(limit / 2 ** 20)} MB that are taken: mercer studio --upload-limit sets another limit.`);
      continue;
    }
    const waiting = h("li", { class: "chip busy" }, `reading ${file.name} …`);
    byId("tables").append(waiting);
    try {
      const told = await ask("/api/tables", { method: "POST", body: file, headers: { "X-File-Name": encodeURIComponent(file.name), "Content-Type": "application/octet-stream" } });
      tables.set(told.id, told);
      choose(told);
      say(`${told.name}: ${told.rows} rows`);
    } catch (error) {
      complain("data-error", error.message);
    } finally {
      waiting.remove();
      showTables();
    }
  }
}

function showTables() {
  const waiting = [...byId("tables").querySelectorAll(".busy")];
  byId("tables").replaceChildren(...[...tables.values()].map((t) => h("li", {},
    h("button", { class: "chip", "aria-pressed": String(t === table), onclick: () => choose(t) }, t.name, h("span", {}, `${t.rows.toLocaleString("en")} × ${t.columns.length}`)),
    h("button", { class: "quiet small", "aria-label": `Remove ${t.name}`, onclick: () => dropTable(t) }, "×"))), ...waiting);
}

async function dropTable(t) {
  try {
    await ask(`/api/tables/${t.id}`, { method: "DELETE" });
    tables.delete(t.id);
    choose(t === table ? ([...tables.values()].at(-1) ?? null) : table);
  } catch (error) {
    complain("data-error", error.message);
  }
  showTables();
}

function choose(t) {
  table = t;
  byId("columns-card").hidden = byId("order-card").hidden = !t;
  if (t) {
    const last = t.columns.at(-1), time = t.columns.find((c) => c.kind === "date");
    order.target = last.name;
    order.features = new Set(t.columns.filter((c) => c !== last).map((c) => c.name));
    order.time = (time ?? t.columns[0]).name;
    order.task = suggested(last);
    showColumns();
    showOrder();
  }
  showTables();
  showRun(true);
}

function suggested(column) {
  return column.kind === "text" ? "classification" : "regression";
}

// ---------------------------------------------------------------------------------------------------- columns

function columnsCard() {
  return h("div", { class: "card", id: "columns-card", hidden: true }, h("h2", {}, "2 · Columns"),
    h("div", { class: "scroll tall" }, h("table", { id: "columns" })),
    h("details", { class: "rows" }, h("summary", {}, "First rows"), h("div", { class: "scroll" }, h("table", { id: "rows" }))));
}

function showColumns() {
  const series = order.task === "series";
  const head = h("tr", {}, ["target", series ? "time" : "use", "column", "kind", "missing", "values", ""].map((t, i) => h("th", { scope: "col", class: i > 3 ? "wide" : "" }, t)));
  const rows = table.columns.map((c, i) => {
    const target = h("input", { type: "radio", name: "target", "aria-label": `Predict ${c.name}`, onchange: () => {
      order.features.add(order.target);
      order.target = c.name;
      order.features.delete(c.name);
      if (order.task !== "series") order.task = suggested(c);
      showColumns();
      showOrder();
      root.querySelectorAll("#columns input[name=target]")[i].focus();
    } });
    target.checked = c.name === order.target;
    const use = series
      ? h("input", { type: "radio", name: "time", "aria-label": `${c.name} is the time`, onchange: () => (order.time = c.name) })
      : h("input", { type: "checkbox", "aria-label": `Predict from ${c.name}`, disabled: c.name === order.target, onchange: (event) => order.features[event.target.checked ? "add" : "delete"](c.name) });
    use.checked = series ? order.time === c.name : order.features.has(c.name) && c.name !== order.target;
    const share = c.missing / table.rows;
    return h("tr", { class: c.name === order.target ? "chosen" : "" },
      h("td", {}, target), h("td", {}, use), h("th", { scope: "row", class: "name" }, c.name),
      h("td", {}, h("span", { class: `kind ${c.kind}` }, c.kind)),
      h("td", { class: "wide" }, c.missing ? `${c.missing} (${share < 0.01 ? "< 1" : Math.round(100 * share)} %)` : "–"),
      h("td", { class: "wide values" }, values(c)),
      h("td", { class: "wide" }, c.counts ? bars(c.counts, `Histogram of ${c.name}`) : ""));
  });
  byId("columns").replaceChildren(h("thead", {}, head), h("tbody", {}, rows));
  const names = Object.keys(table.first), cell = (v) => (typeof v === "number" ? h("td", { class: "number" }, short(v, 6)) : h("td", {}, v ?? "–"));
  byId("rows").replaceChildren(h("thead", {}, h("tr", {}, names.map((n) => h("th", { scope: "col" }, n)))),
    h("tbody", {}, table.first[names[0]].map((_, i) => h("tr", {}, names.map((n) => cell(table.first[n][i]))))));
}

function values(c) {
  if (c.kind === "text") return c.top.map(([name, count]) => `${name} (${count})`).join(", ") + (c.distinct > c.top.length ? ", …" : "");
  if (c.low === undefined) return "no values";
  return c.kind === "date" ? `${c.low.slice(0, 10)} to ${c.high.slice(0, 10)}` : `${short(c.low)} to ${short(c.high)}, mean ${short(c.mean)}`;
}

// ---------------------------------------------------------------------------------------------------- the order

function orderCard() {
  const select = (id, label, options, change) => h("label", { class: "field" }, h("span", {}, label), h("select", { id, onchange: change }, options.map(([v, t]) => h("option", { value: v }, t))));
  return h("form", { class: "card", id: "order-card", hidden: true, autocomplete: "off", onsubmit: (event) => {
    event.preventDefault();
    start();
  } }, h("h2", {}, "3 · Model"),
  h("div", { class: "segmented", role: "radiogroup", "aria-label": "What the target is", id: "tasks" }, Object.entries(TASKS).map(([task, text]) =>
    h("button", { type: "button", role: "radio", "data-want": task, onclick: () => setTask(task), onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], all = Object.keys(TASKS);
      if (!step) return;
      setTask(all[(all.indexOf(task) + step + all.length) % all.length]);
      root.querySelector("[data-want][aria-checked=true]").focus();
    } }, text))),
  h("div", { class: "fields" },
    select("noise-kind", "Noise", [], null),
    select("kernel-kind", "Kernel", KERNELS, showOrder),
    h("label", { class: "field", id: "kernel-formula-field" }, h("span", {}, "Formula, in the units of the data"), h("input", { id: "kernel-formula", type: "text", spellcheck: "false", placeholder: "SE(l=2) + Periodic(period=1)" })),
    select("budget", "How long to search", [["20s", "20 seconds"], ["60s", "A minute"], ["5min", "5 minutes"]], null),
    select("solver", "Computation", SOLVERS, null),
    h("label", { class: "field", id: "restarts-field" }, h("span", {}, "Further random starts"), h("input", { id: "restarts", type: "number", min: 0, max: 20, value: 0 })),
    h("label", { class: "field", id: "seasonal-field" }, h("span", {}, "Seasons: auto, none, week,year or periods"), h("input", { id: "seasonal", type: "text", value: "auto" })),
    h("label", { class: "field", id: "horizon-field" }, h("span", {}, "Steps to forecast"), h("input", { id: "horizon", type: "number", min: 1, max: 10000, value: 24 })),
    h("label", { class: "field" }, h("span", {}, "Name of the run"), h("input", { id: "run-name", type: "text", maxlength: 100, placeholder: "optional" }))),
  h("p", { id: "order-error", class: "error", role: "alert", hidden: true }),
  h("div", { class: "bar" }, h("span", { id: "order-words", class: "hint" }), h("span", { class: "spacer" }), h("button", { class: "primary", id: "fit" }, "Fit")));
}

function setTask(task) {
  order.task = task;
  showColumns();
  showOrder();
}

function showOrder() {
  for (const button of root.querySelectorAll("[data-want]")) {
    button.setAttribute("aria-checked", String(button.dataset.want === order.task));
    button.tabIndex = button.dataset.want === order.task ? 0 : -1;
  }
  const series = order.task === "series", noise = byId("noise-kind"), was = noise.value, kinds = NOISE[order.task];
  noise.replaceChildren(...kinds.map(([v, t]) => h("option", { value: v }, t)));
  noise.value = kinds.some(([v]) => v === was) ? was : "";
  noise.closest("label").hidden = kinds.length < 2;
  const kernel = byId("kernel-kind").value;
  for (const [id, on] of [["kernel-kind", !series], ["solver", !series], ["budget", !series && kernel === "search"]]) byId(id).closest("label").hidden = !on;
  byId("kernel-formula-field").hidden = series || kernel !== "formula";
  byId("restarts-field").hidden = series;
  byId("seasonal-field").hidden = byId("horizon-field").hidden = !series;
  byId("order-words").textContent = series ? `${order.target} along ${order.time}` : `${order.target} from ${order.features.size} column${order.features.size === 1 ? "" : "s"}`;
}

async function start() {
  complain("order-error", "");
  const series = order.task === "series", kernel = byId("kernel-kind").value, all = table.columns.map((c) => c.name).filter((n) => n !== order.target);
  const features = all.filter((n) => order.features.has(n));
  const json = { table: table.id, name: byId("run-name").value.trim(), task: order.task, target: order.target, noise: byId("noise-kind").value || null };
  if (series) Object.assign(json, { time: order.time, seasonal: byId("seasonal").value.trim() || "auto", horizon: Number(byId("horizon").value) || 24 });
  else Object.assign(json, {
    features: features.length === all.length ? null : features,
    kernel: kernel === "formula" ? byId("kernel-formula").value.trim() || null : kernel || null,
    budget: kernel === "search" ? byId("budget").value : null,
    solver: byId("solver").value || null,
    restarts: Number(byId("restarts").value) || 0,
  });
  try {
    const run = await ask("/api/runs", { method: "POST", json });
    byId("run-name").value = "";
    if (!runs.has(run.id)) runs.set(run.id, run);
    chosen = run.id;
    showRuns();
    showRun(true);
    byId("run-card").scrollIntoView({ block: "nearest" });
  } catch (error) {
    complain("order-error", error.message);
  }
}

// ---------------------------------------------------------------------------------------------------- runs

function runsCard() {
  return h("div", { class: "card", id: "runs-card", hidden: true }, h("h2", {}, "4 · Runs, side by side"),
    h("p", { id: "runs-error", class: "error", role: "alert", hidden: true }),
    h("div", { class: "scroll tall" }, h("table", { id: "runs" })),
    h("p", { class: "hint" }, "NLPD and RMSE of each row predicted from the others (left out one at a time); lower is better. Only runs with the same target and rows can be compared; the best of those is marked."));
}

function showRuns() {
  byId("runs-card").hidden = !runs.size;
  const all = [...runs.values()].sort((a, b) => b.number - a.number);
  const group = (r) => JSON.stringify([r.table, r.order.target, r.order.task, r.result?.rows]);
  const best = new Map();
  for (const r of all) if (r.result?.nlpd != null && !(best.get(group(r))?.result.nlpd <= r.result.nlpd)) best.set(group(r), r);
  const counted = (r) => all.filter((o) => o.result && group(o) === group(r)).length;
  const head = [["run"], ["target"], ["state"], ["rows", "number"], ["NLPD", "number"], ["RMSE or error", "number"], ["log evidence", "number"], ["time", "number"], [""]];
  const rows = all.map((r) => {
    const v = r.result ?? {}, marked = best.get(group(r)) === r && counted(r) > 1;
    const quality = v.rmse != null ? short(v.rmse) : v.error != null ? `${(100 * v.error).toFixed(1)} %` : "–";
    return h("tr", { class: `${r.id === chosen ? "chosen" : ""} ${r.status}` },
      h("td", {}, h("button", { class: "link", "aria-pressed": String(r.id === chosen), onclick: () => pick(r.id) }, r.name)),
      h("td", { class: "name" }, r.order.target), h("td", {}, h("span", { class: `state ${r.status}` }, WORDS[r.status])),
      h("td", { class: "number" }, v.rows?.toLocaleString("en") ?? "–"),
      h("td", { class: `number ${marked ? "best" : ""}` }, short(v.nlpd), marked ? h("span", { class: "visually-hidden" }, " (best)") : null),
      h("td", { class: "number" }, quality), h("td", { class: "number" }, v.evidence == null ? "–" : v.evidence.toFixed(2).replace("-", "−")),
      h("td", { class: "number", "data-clock": r.id }, duration(v.seconds ?? elapsed(r))),
      h("td", {}, ["queued", "running"].includes(r.status)
        ? h("button", { class: "small danger", "aria-label": `Cancel ${r.name}`, onclick: () => act(`/api/runs/${r.id}/cancel`, "POST") }, "Cancel")
        : h("button", { class: "quiet small", "aria-label": `Remove ${r.name}`, onclick: () => act(`/api/runs/${r.id}`, "DELETE") }, "remove")));
  });
  const focus = document.activeElement?.closest?.("#runs") ? document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent : null;
  byId("runs").replaceChildren(h("thead", {}, h("tr", {}, head.map(([t, kind]) => h("th", { scope: "col", class: kind }, t)))), h("tbody", {}, rows));
  if (focus) [...byId("runs").querySelectorAll("button")].find((b) => (b.getAttribute("aria-label") ?? b.textContent) === focus)?.focus();
}

function elapsed(run) {
  return run.seconds + (run.status === "running" && run.heard ? (performance.now() - run.heard) / 1000 : 0);
}

function duration(seconds) {
  return seconds < 100 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds / 60)} min`;
}

async function act(path, method) {
  try {
    await ask(path, { method });
  } catch (error) {
    complain("runs-error", error.message);
  }
}

function pick(id) {
  chosen = id;
  showRuns();
  showRun(true);
}

// ---------------------------------------------------------------------------------------------------- one run

function runCard() {
  return h("div", { class: "card", id: "run-card", hidden: true });
}

function showRun(anew) {
  const run = runs.get(chosen), card = byId("run-card");
  card.hidden = !run;
  if (!run) return card.replaceChildren();
  if (run.status === "done") return anew ? card.replaceChildren(...finished(run)) : null;
  const head = h("div", { class: "bar" }, h("h2", { class: "run-name" }, run.name), h("span", { class: "spacer" }),
    ["queued", "running"].includes(run.status) ? h("button", { class: "danger", id: "cancel", onclick: () => act(`/api/runs/${run.id}/cancel`, "POST") }, "Cancel") : null);
  const bar = h("progress", { max: 1, "aria-label": "Progress", hidden: run.status !== "running" });
  if (run.share != null) bar.value = run.share;
  const text = h("p", { class: run.status === "failed" ? "error" : "stage", id: "stage" }, run.status === "queued" ? "Waiting for its turn: one fit runs at a time." : run.text);
  const figures = h("div", { class: "parts" }, figure("evaluations", String(run.count)), figure("best so far", run.curve.length ? short(Math.max(...run.curve), 6) : "–"), h("div", { class: "figure" }, h("span", { class: "name" }, "time"), h("output", { "data-clock": run.id }, duration(elapsed(run)))));
  const focused = document.activeElement?.id === "cancel";
  card.replaceChildren(head, bar, text, figures, ...(run.curve.length > 1 ? [climb(run.curve)] : []));
  if (focused) byId("cancel")?.focus();
}

function figure(name, value, more = "") {
  return h("div", { class: "figure" }, h("span", { class: "name" }, name), h("output", {}, value), more ? h("span", { class: "change" }, more) : null);
}

function finished(run) {
  const v = run.result, file = (what) => `/api/runs/${run.id}/${what}`;
  const link = (text, what) => h("a", { class: "button", href: file(what), download: true, "data-what": text }, text);
  const figures = [
    v.nlpd != null ? figure("NLPD, left out", short(v.nlpd), "nats") : null,
    v.rmse != null ? figure("RMSE, left out", short(v.rmse), v.baseline != null ? `guessing the mean: ${short(v.baseline)}` : "") : null,
    v.error != null ? figure("error, left out", `${(100 * v.error).toFixed(1)} %`, `guessing: ${(100 * v.baseline).toFixed(1)} %`) : null,
    v.coverage != null ? figure("within 95 % intervals", `${(100 * v.coverage).toFixed(1)} %`) : null,
    v.evidence != null ? figure("log evidence", v.evidence.toFixed(2).replace("-", "−")) : null,
    figure("time", duration(v.seconds), `${v.evaluations} evaluations`),
  ];
  const others = [...tables.values()];
  return [
    h("div", { class: "bar" }, h("h2", { class: "run-name" }, run.name), h("span", { class: "spacer" }), link("Model", "model"), link("Predictions", "predictions"), link("Report", "report?download=true"), link("Python code", "code")),
    h("div", { class: "parts wide" }, figures),
    h("ul", { class: "notes" }, v.notes.map((n) => h("li", {}, n))),
    h("div", { class: "pictures" }, v.dots ? scatter(v.dots, run.order.target) : null, run.curve.length > 1 ? climb(run.curve) : null),
    run.order.task === "series" ? null : predictBar(run, others),
    h("details", {}, h("summary", {}, "What was learned, as text"), h("pre", {}, v.summary)),
    h("details", { ontoggle: async (event) => {
      const place = event.target.querySelector("pre");
      if (event.target.open && !place.textContent) place.textContent = await (await fetch(file("code"))).text();
    } }, h("summary", {}, "Python code that does the same"), h("pre", { id: "code" })),
    h("h3", {}, "Report"),
    h("iframe", { class: "report", src: file("report"), sandbox: "allow-scripts allow-downloads", title: `Report of ${run.name}` }),
  ].filter(Boolean);
}

function predictBar(run, others) {
  const select = h("select", { "aria-label": "Table to predict" }, others.map((t) => h("option", { value: t.id }, t.name)));
  const out = h("span", { role: "status", class: "hint" });
  const go = h("button", { id: "predict", onclick: async () => {
    out.textContent = "predicting …";
    try {
      const told = await ask(`/api/runs/${run.id}/predictions/${select.value}`, { method: "POST" });
      out.replaceChildren(`${told.rows} rows: `, h("a", { href: `/api/runs/${run.id}/predictions/${select.value}`, download: true }, "save them"));
    } catch (error) {
      out.textContent = error.message;
    }
  } }, "Predict its rows");
  return h("div", { class: "bar" }, h("label", { class: "inline" }, "Another table ", select), go, out);
}
