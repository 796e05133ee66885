"use strict";
// The panel: inputs are read, the function is evaluated, and the prediction is written and drawn.
function panel(root, data) {
  const gp = gaussianProcess();
  const { columns } = data;
  const form = root.querySelector("form");
  const state = { function: 0, values: columns.map((c) => c.start), along: 0 };
  const functions = data.functions.map((f) => {
    const rows = gp.encodeTable(columns, f.cells);
    return {
      ...f, rows,
      latents: f.latents.map((one) => ({
        ...one, rows, alpha: gp.floats(one.alpha),
        precision: one.precision === null ? null : gp.floats(one.precision),
        lowRank: one.lowRank === null ? null : gp.floats(one.lowRank),
        pivots: one.lowRank === null ? null : one.pivots.map((i) => rows[i]),
        known: null,
      })),
    };
  });

  // ---- variances: factored in a worker, so that the page stays alive ------------------------------------

  function factored(f, known) { f.known = known; root.dataset.band = "ready"; show(); }

  function start(f) {
    const job = { kernel: f.kernel, rows: f.rows, precision: f.precision, jitter: f.jitter };
    const here = () => { try { factored(f, gp.factor(job)); } catch (error) { root.dataset.band = "none"; } };
    try {
      const text = `${gaussianProcess.toString()}; const gp = gaussianProcess();
        onmessage = (event) => { try { postMessage(gp.factor(event.data)); } catch (error) { postMessage(null); } };`;
      const worker = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
      worker.onmessage = (event) => {
        worker.terminate();
        if (event.data === null) root.dataset.band = "none"; else factored(f, event.data);
      };
      worker.onerror = () => { worker.terminate(); here(); };
      worker.postMessage(job);
    } catch (error) { here(); }
  }

  root.dataset.band = "none";
  for (const f of functions) {
    for (const one of f.latents) {
      if (one.precision !== null) { root.dataset.band = "waiting"; start(one); }
      else if (one.lowRank !== null) root.dataset.band = "ready";
    }
  }

  // ---- predictions --------------------------------------------------------------------------------------

  function variance(one, x, k) {
    if (one.known !== null) return gp.varianceByFactor(one, one.known, x, k);
    return one.lowRank !== null ? gp.varianceLowRank(one, x) : null;
  }

  // of one number: mean, lower, upper; of classes: probabilities
  function predict(values) {
    const f = functions[state.function], x = gp.encodeRow(columns, values);
    const moments = f.latents.map((one) => {
      const k = gp.against(one.kernel, x, one.rows);
      return { mean: gp.mean(one, x, k), variance: variance(one, x, k) };
    });
    if (f.answer.kind === "probit-classes") return { classes: gp.probit(moments.map((m) => m.mean)) };
    if (f.answer.kind === "softmax") return { classes: gp.softmax(moments.map((m) => m.mean)) };
    const said = gp.answer(f.answer, moments[0].mean, moments[0].variance);
    if (!f.answer.labels) return said;
    return { classes: said.mean === null ? null : [1 - said.mean, said.mean] };
  }

  // ---- words ------------------------------------------------------------------------------------------------

  function written(value) {
    if (!Number.isFinite(value)) return String(value);
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(3);
    return value.toLocaleString("en-GB", { maximumSignificantDigits: size >= 1e4 ? 6 : 5 });
  }

  const asDate = (c, days) => new Date(Date.parse(c.origin) + days * gp.MS).toISOString().slice(0, 10);
  const within = (c, value) => Math.min(Math.max(value, c.low), c.high);

  function said(prediction) {
    const f = functions[state.function], out = { what: f.name, mean: "…", interval: "" };
    if (prediction.classes !== undefined) {
      if (prediction.classes !== null) {
        const best = prediction.classes.indexOf(Math.max(...prediction.classes));
        out.mean = f.answer.labels[best];
        out.interval = f.answer.labels.map((label, c) => `${label} ${(100 * prediction.classes[c]).toFixed(1)} %`).join(", ");
      }
    } else {
      if (prediction.mean !== null) out.mean = written(prediction.mean);
      if (prediction.lower !== null) out.interval = `${data.level} %: ${written(prediction.lower)} to ${written(prediction.upper)}`;
    }
    return out;
  }

  // ---- the curve along the column that was touched last ------------------------------------------------

  const svgNS = "http://www.w3.org/2000/svg";
  const make = (name, attributes, text) => {
    const node = document.createElementNS(svgNS, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };

  function ticks(low, high, count) {
    const rough = (high - low) / count, size = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((f) => f * size).find((s) => s >= rough * 0.999), out = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) out.push(k * step + 0);
    return out;
  }

  function draw() {
    const box = root.querySelector(".curve"), c = columns[state.along];
    const f = functions[state.function];
    const at = c.type === "category" ? c.labels.map((_, i) => i)
      : Array.from({ length: 49 }, (_, i) => c.low + (c.high - c.low) * i / 48);
    const found = at.map((value) => predict(state.values.map((v, j) => (j === state.along ? value : v))));
    const classes = found[0].classes !== undefined;
    box.replaceChildren();
    if (classes ? found[0].classes === null : found[0].mean === null) return;
    const curves = classes
      ? f.answer.labels.map((_, k) => found.map((one) => one.classes[k])).slice(f.answer.labels.length === 2 ? 1 : 0)
      : [found.map((one) => one.mean)];
    const banded = !classes && found[0].lower !== null;
    const all = banded ? found.flatMap((one) => [one.lower, one.upper]) : curves.flat();
    let low = classes ? 0 : Math.min(...all), high = classes ? 1 : Math.max(...all);
    if (!(high > low)) { low -= 1; high += 1; }
    const pad = classes ? 0.02 : 0.05 * (high - low);
    low -= pad; high += pad;
    const W = Math.min(Math.max(box.clientWidth, 300), 560), H = W < 420 ? 230 : 280, yTicks = ticks(low, high, 5), widest = Math.max(...yTicks.map((t) => written(t).length));
    const left = 26 + 6.6 * widest, right = W - 14, top = 10, bottom = H - 44;
    const first = c.type === "category" ? -0.5 : c.low, last = c.type === "category" ? at.length - 0.5 : c.high;
    const px = (v) => left + (v - first) / ((last - first) || 1) * (right - left);
    const py = (v) => bottom - (v - low) / (high - low) * (bottom - top);
    const what = classes && f.answer.labels.length === 2 ? `probability of ${f.answer.labels[1]}` : f.name;
    const svg = make("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${what} along ${c.name}, the other inputs as set` });
    for (const t of yTicks) {
      svg.append(make("path", { class: "grid", d: `M${left} ${py(t)}H${right}` }));
      svg.append(make("text", { class: "end", x: left - 6, y: py(t) + 4 }, written(t)));
    }
    const xTicks = c.type === "category" ? at.filter((i) => i % Math.ceil(at.length / 8) === 0) : ticks(c.low, c.high, (c.type === "date" ? 3 : 5) + (W > 420 ? 1 : 0) - (c.type === "date" && W < 420 ? 1 : 0));
    for (const t of xTicks) {
      const text = c.type === "category" ? String(c.labels[t]).slice(0, 12) : c.type === "date" ? asDate(c, t) : written(t);
      svg.append(make("text", { class: "mid", x: px(t), y: bottom + 17 }, text));
    }
    svg.append(make("path", { class: "axis", d: `M${left} ${bottom}H${right}` }));
    svg.append(make("text", { class: "label mid", x: (left + right) / 2, y: H - 6 }, c.name.slice(0, 48)));
    svg.append(make("text", { class: "label mid", transform: `translate(12 ${(top + bottom) / 2}) rotate(-90)` }, what.slice(0, 32)));
    if (c.type === "category") {
      if (banded) svg.append(make("path", { class: "whisker c1", d: found.map((one, i) => `M${px(i)} ${py(one.lower)}V${py(one.upper)}`).join("") }));
      curves.forEach((curve, k) => svg.append(make("path", { class: `solid c${1 + k % 8}`, "stroke-width": 8, d: curve.map((v, i) => `M${px(i)} ${py(v)}h0`).join("") })));
    } else {
      if (banded) {
        const forth = found.map((one, i) => `${px(at[i])} ${py(one.upper)}`).join("L");
        const back = found.map((one, i) => `${px(at[i])} ${py(one.lower)}`).reverse().join("L");
        svg.append(make("path", { class: "band c1", d: `M${forth}L${back}Z` }));
      }
      curves.forEach((curve, k) => svg.append(make("path", { class: `line c${1 + k % 8}`, d: "M" + curve.map((v, i) => `${px(at[i])} ${py(v)}`).join("L") })));
    }
    const here = state.values[state.along];
    if (!Number.isNaN(here)) {
      svg.append(make("path", { class: "rule", d: `M${px(here)} ${top}V${bottom}` }));
      const now = predict(state.values);
      if (!classes) svg.append(make("path", { class: "solid c2", "stroke-width": 10, d: `M${px(here)} ${py(now.mean)}h0` }));
    }
    box.append(svg);
    if (classes && f.answer.labels.length > 2) {
      const legend = document.createElement("p");
      f.answer.labels.forEach((label, k) => {
        const key = document.createElement("span");
        key.className = `key c${1 + k % 8}`;
        legend.append(key, `${label}  `);
      });
      box.append(legend);
    }
  }

  let waiting = false;
  function show() {
    const prediction = predict(state.values), words = said(prediction);
    root.querySelector(".what").textContent = words.what;
    root.querySelector(".mean").textContent = words.mean;
    root.querySelector(".interval").textContent = words.interval;
    root.dataset.prediction = JSON.stringify(prediction);
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  }

  // ---- inputs ---------------------------------------------------------------------------------------------

  const boxes = columns.map((c, j) => {
    const control = root.querySelector(`[data-column="${j}"]`);
    return {
      value: control.querySelector("[data-value]"), slide: control.querySelector("[data-slide]"),
      empty: control.querySelector("[data-empty]"),
    };
  });

  function fill(j) {
    const c = columns[j], box = boxes[j], value = state.values[j];
    if (c.type === "category") { box.value.value = String(value); return; }
    if (Number.isNaN(value)) return;
    box.value.value = c.type === "date" ? asDate(c, value) : String(value);
    box.slide.value = String(within(c, value));
  }

  function set(j, value) {
    if (Number.isNaN(value) && columns[j].fill === null) return;
    state.values[j] = value;
    state.along = j;
    show();
  }

  columns.forEach((c, j) => {
    const box = boxes[j];
    box.value.addEventListener("input", () => {
      const text = box.value.value;
      const value = c.type === "date" ? (Date.parse(text) - Date.parse(c.origin)) / gp.MS : Number(text);
      if (text === "" || !Number.isFinite(value)) return;
      if (box.empty) box.empty.checked = false;
      if (box.slide) box.slide.value = String(within(c, value));
      set(j, value);
    });
    if (box.slide) {
      box.slide.addEventListener("input", () => {
        if (box.empty) box.empty.checked = false;
        state.values[j] = Number(box.slide.value);
        fill(j);
        set(j, state.values[j]);
      });
    }
    if (box.empty) {
      box.empty.addEventListener("change", () => {
        set(j, box.empty.checked ? NaN : Number(box.slide.value));
      });
    }
    fill(j);
  });

  const select = root.querySelector("[data-function]");
  if (select) select.addEventListener("change", () => { state.function = Number(select.value); show(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => {
    columns.forEach((c, j) => { state.values[j] = c.start; fill(j); });
    state.function = 0;
    show();
  }));
  state.along = data.along;
  let seen = 0;
  new ResizeObserver((boxes) => {
    const now = boxes[0].contentRect.width;
    if (seen && Math.abs(now - seen) > 1) requestAnimationFrame(draw);
    seen = now;
  }).observe(root.querySelector(".curve"));
  show();
}
