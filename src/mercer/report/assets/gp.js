"use strict";
// A Gaussian process in the page: the columns of a table in numbers, covariances, and a posterior at new rows.
// It is a function that needs nothing around it, so that a worker can be made of its text.
function gaussianProcess() {
  const MS = 86400000;

  // ---- columns: what stands in a cell, in numbers ----------------------------------------------------------

  function width(c) {
    if (c.type === "category") return c.width;
    const seasons = c.type === "date" ? 2 * c.periods.length : 0;
    return 1 + seasons + (c.fill === null ? 0 : 1);
  }

  // value: a number (a category: the position of its level); NaN for an empty cell
  function encodeCell(c, value, out, at) {
    if (c.type === "category") {
      for (let j = 0; j < c.width; j++) out[at + j] = 0;
      out[at + value] = Math.SQRT1_2;
      return;
    }
    const w = width(c), empty = Number.isNaN(value);
    for (let j = 0; j < w; j++) out[at + j] = 0;
    out[at] = empty ? c.fill : value;
    if (c.fill !== null) out[at + w - 1] = empty ? 1 : 0;
    if (c.type === "date" && !empty) {
      c.periods.forEach((period, i) => {
        const angle = 2 * Math.PI * value / period;
        out[at + 1 + 2 * i] = Math.sin(angle);
        out[at + 2 + 2 * i] = Math.cos(angle);
      });
    }
  }

  function encodeRow(columns, values) {
    const d = columns.reduce((sum, c) => sum + width(c), 0), out = new Float64Array(d);
    let at = 0;
    columns.forEach((c, j) => { encodeCell(c, values[j], out, at); at += width(c); });
    return out;
  }

  function floats(text) {
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return new Float64Array(bytes.buffer);
  }

  // the rows of a table that is given by columns, encoded: an array of rows
  function encodeTable(columns, cells) {
    const parts = cells.map(floats), n = parts.length ? parts[0].length : 0, rows = [];
    for (let i = 0; i < n; i++) rows.push(encodeRow(columns, parts.map((part) => part[i])));
    return rows;
  }

  // ---- covariances -----------------------------------------------------------------------------------------

  function profile(k, r2) {
    if (k.form === "se") return Math.exp(-0.5 * r2);
    if (k.form === "rq") return Math.exp(-k.alpha * Math.log1p(r2 / (2 * k.alpha)));
    if (k.form === "gamma") return Math.exp(-Math.pow(r2, 0.5 * k.gamma));
    const z = Math.sqrt(2 * k.nu * r2);
    let poly = 0;
    for (let j = k.poly.length - 1; j >= 0; j--) poly = poly * z + k.poly[j];
    return poly * Math.exp(-z);
  }

  const one = (values, j) => (values.length > 1 ? values[j] : values[0]);

  function covariance(k, a, b) {
    switch (k.kind) {
      case "sum": return k.parts.reduce((sum, part) => sum + covariance(part, a, b), 0);
      case "product": return k.parts.reduce((value, part) => value * covariance(part, a, b), 1);
      case "scale": return k.variance * covariance(k.part, a, b);
      case "on": return covariance(k.part, k.columns.map((j) => a[j]), k.columns.map((j) => b[j]));
      case "constant": return k.variance;
      case "linear": {
        let sum = 0;
        for (let j = 0; j < a.length; j++) sum += one(k.variance, j) * (a[j] - one(k.centre, j)) * (b[j] - one(k.centre, j));
        return sum;
      }
      case "polynomial": {
        let sum = k.offset;
        for (let j = 0; j < a.length; j++) sum += a[j] * b[j];
        return k.variance * Math.pow(sum, k.degree);
      }
      case "periodic": {
        let sum = 0;
        for (let j = 0; j < a.length; j++) {
          const s = Math.sin(Math.PI * (a[j] - b[j]) / one(k.period, j)) / one(k.lengthscale, j);
          sum += 2 * s * s;
        }
        return k.variance * Math.exp(-sum);
      }
      case "stationary": {
        let r2 = 0;
        for (let j = 0; j < a.length; j++) {
          const t = (a[j] - b[j]) / one(k.lengthscale, j);
          r2 += t * t;
        }
        return k.variance * profile(k, r2);
      }
      default: throw new Error("no such kernel: " + k.kind);
    }
  }

  function against(k, x, rows) {
    const out = new Float64Array(rows.length);
    for (let i = 0; i < rows.length; i++) out[i] = covariance(k, x, rows[i]);
    return out;
  }

  // ---- the posterior ---------------------------------------------------------------------------------------

  function dot(a, b) {
    let sum = 0;
    for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
    return sum;
  }

  function mean(f, x, k) {
    let at = f.mean.constant;
    f.mean.weights.forEach((w, j) => { at += w * x[j]; });
    return at + dot(k, f.alpha);
  }

  // L of I + S K S = L L', S^2 = W, by rows: R = S (L L')^-1 S
  function factor(f) {
    const n = f.rows.length, L = new Float64Array(n * n), s = f.precision.map(Math.sqrt);
    for (let i = 0; i < n; i++) {
      for (let j = 0; j <= i; j++) {
        let sum = covariance(f.kernel, f.rows[i], f.rows[j]) * s[i] * s[j];
        if (i === j) sum += 1 + f.jitter * s[i] * s[i];
        const a = i * n, b = j * n;
        for (let m = 0; m < j; m++) sum -= L[a + m] * L[b + m];
        if (i === j) {
          if (!(sum > 0)) throw new Error("the covariance matrix is not positive definite");
          L[a + j] = Math.sqrt(sum);
        } else L[a + j] = sum / L[b + j];
      }
    }
    return { L, s };
  }

  function varianceByFactor(f, known, x, k) {
    const n = k.length, L = known.L, v = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      let sum = k[i] * known.s[i];
      for (let j = 0; j < i; j++) sum -= L[i * n + j] * v[j];
      v[i] = sum / L[i * n + i];
    }
    return Math.max(covariance(f.kernel, x, x) - dot(v, v), 0);
  }

  // k(x, x) - k_Z' A k_Z, A the stored lower triangle
  function varianceLowRank(f, x) {
    const z = against(f.kernel, x, f.pivots), A = f.lowRank;
    let sum = 0, at = 0;
    for (let i = 0; i < z.length; i++) {
      for (let j = 0; j < i; j++) sum += 2 * A[at++] * z[i] * z[j];
      sum += A[at++] * z[i] * z[i];
    }
    return Math.max(covariance(f.kernel, x, x) - sum, 0);
  }

  // ---- from the function to what is predicted --------------------------------------------------------------

  // the normal distribution function by its continued fraction (tails) or its series (middle)
  function phi(z) {
    const a = Math.abs(z), density = Math.exp(-0.5 * z * z) / Math.sqrt(2 * Math.PI);
    if (a < 5) {
      let term = a, sum = a;
      for (let k = 3; Math.abs(term) > 1e-17 * Math.abs(sum); k += 2) { term *= a * a / k; sum += term; }
      return z < 0 ? 0.5 - density * sum : 0.5 + density * sum;
    }
    let tail = a;
    for (let k = 60; k >= 1; k--) tail = a + k / tail;
    return z < 0 ? density / tail : 1 - density / tail;
  }

  function expectation(g, m, v) {
    const s = Math.sqrt(v), steps = 480, reach = 9;
    let sum = 0, total = 0;
    for (let i = 0; i <= steps; i++) {
      const u = -reach + 2 * reach * i / steps, w = Math.exp(-0.5 * u * u);
      sum += w * g(m + s * u);
      total += w;
    }
    return sum / total;
  }

  function unpowered(power, z) {
    return power === 0 ? z : Math.log1p(Math.max(power * z, -1)) / power;
  }

  function unwarp(w, z) {
    switch (w.kind) {
      case "log": return w.lower + Math.exp(z);
      case "logit": return w.lower + (w.upper - w.lower) / (1 + Math.exp(-z));
      case "box-cox": return w.lower + w.unit * Math.exp(unpowered(w.power, z / w.unit));
      case "yeo-johnson": {
        const size = Math.abs(z) / w.unit;
        const t = z >= 0 ? Math.expm1(unpowered(w.power, size)) : -Math.expm1(unpowered(2 - w.power, size));
        return w.centre + w.unit * t;
      }
      case "tanh": {
        const goal = z / w.unit, reach = w.height.reduce((a, b) => a + b, 0);
        let low = goal - reach, high = goal + reach;
        for (let i = 0; i < 200 && high - low > 1e-15 * (1 + Math.abs(goal) + reach); i++) {
          const t = 0.5 * (low + high);
          let at = t;
          w.height.forEach((h, j) => { at += h * Math.tanh(w.steepness[j] * (t - w.place[j])); });
          if (at < goal) low = t; else high = t;
        }
        return w.centre + w.unit * 0.5 * (low + high);
      }
      default: throw new Error("no such warp: " + w.kind);
    }
  }

  // the largest of several functions, noise added to each: P(class c), by integration over that of c
  function probit(means) {
    const steps = 400, reach = 9, out = means.map(() => 0);
    for (let i = 0; i <= steps; i++) {
      const u = -reach + 2 * reach * i / steps, w = Math.exp(-0.5 * u * u);
      means.forEach((m, c) => {
        let p = w;
        means.forEach((other, j) => { if (j !== c) p *= phi(u + m - other); });
        out[c] += p;
      });
    }
    const total = out.reduce((a, b) => a + b, 0);
    return out.map((p) => p / total);
  }

  const softmax = (means) => {
    const top = Math.max(...means), e = means.map((m) => Math.exp(m - top)), sum = e.reduce((a, b) => a + b, 0);
    return e.map((value) => value / sum);
  };

  // what is said of y where f ~ N(m, v); v is null where it is not known (yet)
  function answer(a, m, v) {
    const z = a.z;
    if (a.kind === "probit") return { mean: v === null ? null : phi(m / Math.sqrt(1 + v)), lower: null, upper: null };
    if (a.kind === "logit") {
      const p = v === null ? null : expectation((f) => 1 / (1 + Math.exp(-f)), m, v);
      return { mean: p, lower: null, upper: null };
    }
    if (a.kind === "poisson") return { mean: v === null ? null : Math.exp(m + 0.5 * v), lower: null, upper: null };
    if (a.kind === "warped") {
      if (v === null) return { mean: null, lower: null, upper: null };
      const total = v + a.noise, s = Math.sqrt(total);
      const centre = a.warp.kind === "log"
        ? a.warp.lower + Math.exp(m + 0.5 * total)
        : a.nodes.reduce((sum, u, i) => sum + a.shares[i] * unwarp(a.warp, m + s * u), 0);
      return { mean: centre, lower: unwarp(a.warp, m - z * s), upper: unwarp(a.warp, m + z * s) };
    }
    if (v === null) return { mean: m, lower: null, upper: null };
    const s = Math.sqrt(v + a.noise);
    return { mean: m, lower: m - z * s, upper: m + z * s };
  }

  return {
    MS, width, encodeRow, encodeTable, floats, covariance, against, mean, factor, varianceByFactor,
    varianceLowRank, answer, probit, softmax, phi,
  };
}
