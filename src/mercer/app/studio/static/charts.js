// Small pictures of the workbench: histograms, the climb of the evidence, predictions beside what was observed.
import { short, svg, ticks } from "./api.js";

export function bars(counts, label) {
  const w = 132, hgt = 30, top = Math.max(...counts, 1), step = w / counts.length;
  return svg("svg", { class: "bars", viewBox: `0 0 ${w} ${hgt}`, width: w, height: hgt, role: "img", "aria-label": label },
    ...counts.map((c, i) => svg("rect", { x: (i * step).toFixed(2), width: Math.max(step - 1, 0.8).toFixed(2), y: (hgt - (c / top) * hgt).toFixed(2), height: ((c / top) * hgt).toFixed(2) })));
}

function frame(x, y, w, hgt, [left, right, top, bottom], xLabel, yLabel) {
  const parts = [];
  const px = (v) => left + ((v - x[0]) / (x[1] - x[0] || 1)) * (w - left - right);
  const py = (v) => top + ((y[1] - v) / (y[1] - y[0] || 1)) * (hgt - top - bottom);
  for (const v of ticks(...x, 5)) parts.push(svg("line", { class: "gridline", x1: px(v), x2: px(v), y1: top, y2: hgt - bottom }), svg("text", { x: px(v), y: hgt - bottom + 16, "text-anchor": "middle" }, short(v)));
  for (const v of ticks(...y, 4)) parts.push(svg("line", { class: "gridline", x1: left, x2: w - right, y1: py(v), y2: py(v) }), svg("text", { x: left - 6, y: py(v) + 4, "text-anchor": "end" }, short(v)));
  parts.push(svg("text", { x: (left + w - right) / 2, y: hgt - 4, "text-anchor": "middle", class: "label" }, xLabel));
  parts.push(svg("text", { x: 4, y: top - 8, class: "label" }, yLabel));
  return { parts, px, py };
}

// the log evidence along the evaluations, and the best so far
export function climb(values) {
  const w = 520, hgt = 220;
  let best = -Infinity;
  const bests = values.map((v) => (best = Math.max(best, v)));
  const sorted = [...values].sort((a, b) => a - b), low = sorted[Math.floor(0.15 * sorted.length)];
  const room = 0.06 * (best - low || 1), y = [low - room, best + room];
  const { parts, px, py } = frame([1, Math.max(values.length, 2)], y, w, hgt, [64, 12, 26, 40], "evaluation", "objective: log evidence and priors");
  const line = (vs) => vs.map((v, i) => `${i ? "L" : "M"}${px(i + 1).toFixed(1)} ${Math.min(py(v), hgt - 38).toFixed(1)}`).join("");
  parts.push(svg("path", { class: "draw", d: line(values) }), svg("path", { class: "mean", d: line(bests) }));
  return svg("svg", { class: "chart", viewBox: `0 0 ${w} ${hgt}`, role: "img", "aria-label": `The objective after ${values.length} evaluations: ${short(best, 6)}` }, ...parts);
}

// each row predicted from the others, against what was observed
export function scatter(dots, target) {
  const w = 420, hgt = 340, all = dots.flat();
  let [low, high] = [Math.min(...all), Math.max(...all)];
  const room = 0.05 * (high - low || 1);
  [low, high] = [low - room, high + room];
  const { parts, px, py } = frame([low, high], [low, high], w, hgt, [64, 14, 28, 42], `${target}, predicted from the other rows`, `${target}, observed`);
  parts.push(svg("line", { class: "axis diagonal", x1: px(low), y1: py(low), x2: px(high), y2: py(high) }));
  for (const [x, y] of dots) parts.push(svg("circle", { class: "dot", cx: px(x).toFixed(1), cy: py(y).toFixed(1), r: 3.2 }));
  return svg("svg", { class: "chart square", viewBox: `0 0 ${w} ${hgt}`, role: "img", "aria-label": `Observed ${target} against its prediction from the other rows` }, ...parts);
}
