// The picture of the playground: bands, draws and points that can be moved by mouse, finger and keyboard.
import { short, svg, ticks } from "./api.js";

const LEFT = 44, RIGHT = 12, TOP = 10, BOTTOM = 26;

export class Plot {
  // `points` are read through `on.points()`; `on` is told of what a person does: add(x, y), move(i, x, y), remove(i)
  constructor(holder, on) {
    this.on = on;
    this.view = [-5, 5];
    this.height = [-3, 3];
    this.classes = false;
    this.answer = null;
    this.chosen = 0;
    this.root = svg("svg", { role: "group", "aria-label": "Picture of the points and of what was learned", tabindex: "-1" });
    this.back = svg("g", { "aria-hidden": "true" });
    this.curves = svg("g", { "aria-hidden": "true" });
    this.dots = svg("g");
    this.root.append(this.back, this.curves, this.dots);
    holder.append(this.root);
    this.root.addEventListener("pointerdown", (event) => this.press(event));
    this.root.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(holder);
  }

  get size() {
    const box = this.root.getBoundingClientRect();
    return [Math.max(box.width, 100), Math.max(box.height, 100)];
  }

  ends() {
    return this.classes ? [-0.15, 1.15] : this.height;
  }

  x(value) {
    const [low, high] = this.view;
    return LEFT + ((value - low) / (high - low)) * (this.size[0] - LEFT - RIGHT);
  }

  y(value) {
    const [low, high] = this.ends();
    return TOP + ((high - value) / (high - low)) * (this.size[1] - TOP - BOTTOM);
  }

  // the data under a place on the screen
  at(event) {
    const box = this.root.getBoundingClientRect(), [w, h] = this.size, [x0, x1] = this.view, [y0, y1] = this.ends();
    const x = x0 + ((event.clientX - box.left - LEFT) / (w - LEFT - RIGHT)) * (x1 - x0);
    const y = y1 - ((event.clientY - box.top - TOP) / (h - TOP - BOTTOM)) * (y1 - y0);
    return [this.inside(x, this.view), this.inside(this.classes ? (y > 0.5 ? 1 : -1) : y, this.height)];
  }

  inside(value, [low, high]) {
    return Number(Math.min(Math.max(value, low), high).toFixed(3));
  }

  press(event) {
    if (event.button !== 0) return;
    const dot = event.target.closest?.(".point");
    if (!dot) {
      const [startX, startY] = [event.clientX, event.clientY];
      const lift = (up) => {
        if (up.pointerId !== event.pointerId) return;
        stop();
        if (up.type === "pointerup" && Math.hypot(up.clientX - startX, up.clientY - startY) < 6) this.on.add(...this.at(up));
      };
      const stop = () => ["pointerup", "pointercancel"].forEach((name) => window.removeEventListener(name, lift));
      ["pointerup", "pointercancel"].forEach((name) => window.addEventListener(name, lift));
      return;
    }
    event.preventDefault();
    const i = Number(dot.dataset.index);
    this.choose(i, true);
    dot.classList.add("held");
    dot.setPointerCapture(event.pointerId);
    const move = (to) => this.on.move(i, ...this.at(to));
    dot.addEventListener("pointermove", move);
    const end = () => {
      dot.removeEventListener("pointermove", move);
      dot.classList.remove("held");
    };
    dot.addEventListener("pointerup", end, { once: true });
    dot.addEventListener("pointercancel", end, { once: true });
  }

  key(event) {
    const points = this.on.points();
    if (event.key === "Enter" && !event.ctrlKey) {
      const near = points[this.chosen] ?? [0, 0];
      const step = (this.view[1] - this.view[0]) / 20;
      this.on.add(this.inside(near[0] + (near[0] + step > this.view[1] ? -step : step), this.view), near[1] || (this.classes ? 1 : 0));
      this.choose(this.on.points().length - 1, true);
      event.preventDefault();
      return;
    }
    if (!points.length) return;
    const i = Math.min(this.chosen, points.length - 1), [x, y] = points[i], far = event.shiftKey ? 10 : 1;
    const stepX = (far * (this.view[1] - this.view[0])) / 200, stepY = (far * (this.height[1] - this.height[0])) / 200;
    const moves = { ArrowLeft: [-stepX, 0], ArrowRight: [stepX, 0], ArrowUp: [0, stepY], ArrowDown: [0, -stepY] };
    if (event.key in moves) {
      const [dx, dy] = moves[event.key];
      const newY = this.classes && dy ? Math.sign(dy) : y + dy;
      this.on.move(i, this.inside(x + dx, this.view), this.inside(newY, this.height));
    } else if (event.key === "Delete" || event.key === "Backspace") {
      this.on.remove(i);
      this.choose(Math.max(0, i - 1), true);
    } else if (event.key === "PageDown" || event.key === "PageUp") {
      const order = points.map((_, j) => j).sort((a, b) => points[a][0] - points[b][0]);
      const place = order.indexOf(i) + (event.key === "PageDown" ? 1 : -1);
      this.choose(order[(place + order.length) % order.length], true);
    } else return;
    event.preventDefault();
  }

  choose(i, focus = false) {
    this.chosen = i;
    this.drawPoints();
    if (focus) (this.dots.children[i] ?? this.root).focus({ preventScroll: true });
  }

  draw() {
    this.drawBack();
    this.drawCurves();
    this.drawPoints();
  }

  drawBack() {
    const [w, h] = this.size, parts = [];
    this.root.setAttribute("viewBox", `0 0 ${w} ${h}`);
    for (const v of ticks(...this.view, w < 500 ? 5 : 10)) {
      parts.push(svg("line", { class: "gridline", x1: this.x(v), x2: this.x(v), y1: TOP, y2: h - BOTTOM }));
      parts.push(svg("text", { x: this.x(v), y: h - 8, "text-anchor": "middle" }, short(v)));
    }
    const marks = this.classes ? [0, 0.25, 0.5, 0.75, 1] : ticks(...this.height, 6);
    for (const v of marks) {
      parts.push(svg("line", { class: v === 0 ? "axis" : "gridline", x1: LEFT, x2: w - RIGHT, y1: this.y(v), y2: this.y(v) }));
      parts.push(svg("text", { x: LEFT - 8, y: this.y(v) + 4, "text-anchor": "end" }, short(v)));
    }
    this.back.replaceChildren(...parts);
  }

  line(values) {
    const xs = this.answer.x;
    return values.map((v, i) => `${i ? "L" : "M"}${this.x(xs[i]).toFixed(1)} ${this.clip(v)}`).join("");
  }

  clip(v) {
    const far = this.size[1];
    return Math.min(Math.max(this.y(v), -far), 2 * far).toFixed(1);
  }

  band(lower, upper) {
    const xs = this.answer.x;
    const back = lower.map((v, i) => `L${this.x(xs[i]).toFixed(1)} ${this.clip(v)}`).reverse().join("");
    return `${this.line(upper)}${back}Z`;
  }

  drawCurves() {
    const a = this.answer, parts = [];
    if (a) {
      if (a.y_lower) parts.push(svg("path", { class: "band-y", d: this.band(a.y_lower, a.y_upper) }));
      parts.push(svg("path", { class: "band-f", d: this.band(a.lower, a.upper) }));
      for (const f of a.draws ?? []) parts.push(svg("path", { class: "draw", d: this.line(f) }));
      parts.push(svg("path", { class: "mean", d: this.line(a.mean) }));
    }
    this.curves.replaceChildren(...parts);
  }

  drawPoints() {
    const points = this.on.points(), outliers = this.answer?.outliers ?? [];
    while (this.dots.children.length > points.length) this.dots.lastChild.remove();
    while (this.dots.children.length < points.length) {
      const dot = svg("circle", { r: 7, role: "button", "aria-roledescription": "point" });
      dot.dataset.index = this.dots.children.length;
      dot.addEventListener("dblclick", () => this.on.remove(Number(dot.dataset.index)));
      dot.addEventListener("focus", () => {
        this.chosen = Number(dot.dataset.index);
        this.on.chosen?.(this.chosen);
      });
      this.dots.append(dot);
    }
    this.chosen = Math.min(this.chosen, Math.max(points.length - 1, 0));
    this.root.tabIndex = points.length ? -1 : 0;
    points.forEach(([x, y], i) => {
      const dot = this.dots.children[i], shown = this.classes ? (y > 0 ? 1 : 0) : y;
      dot.setAttribute("cx", this.x(x));
      dot.setAttribute("cy", this.y(shown));
      dot.setAttribute("tabindex", i === this.chosen ? 0 : -1);
      const kind = this.classes ? (y > 0 ? " class1" : " class0") : outliers[i] > 0.8 ? " outlier" : "";
      dot.setAttribute("class", `point${dot.classList.contains("held") ? " held" : ""}${kind}`);
      const what = this.classes ? `class ${y > 0 ? 1 : 0}` : `y ${short(y, 3)}`;
      dot.setAttribute("aria-label", `point ${i + 1} of ${points.length}: x ${short(x, 3)}, ${what}${kind === " outlier" ? ", an outlier" : ""}`);
    });
  }
}
