// Requests to the studio's own server, and small tools for the page. Text from data only ever becomes text nodes.

export class Refused extends Error {
  constructor(message, kind, status) {
    super(message);
    this.kind = kind;
    this.status = status;
  }
}

export async function ask(path, { method = "GET", json, body, headers = {}, signal } = {}) {
  let response;
  const told = json === undefined ? { body } : { body: JSON.stringify(json) };
  if (json !== undefined) headers = { "Content-Type": "application/json", ...headers };
  try {
    response = await fetch(path, { method, headers, signal, ...told });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("the studio does not answer: is `mercer studio` still running?", "gone", 0);
  }
  const text = await response.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    throw new Refused("the studio answered with something else than JSON.", "odd", response.status);
  }
  if (response.ok) return value;
  const { message, hint, type } = value?.error ?? { message: `refused (${response.status})` };
  throw new Refused(hint ? `${message} (${hint})` : message, type, response.status);
}

// an element with attributes, listeners (on...) and children; strings become text
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const byId = (id) => document.getElementById(id);

export function say(text) {
  byId("said").textContent = text;
}

// a number as people read it: four digits
export function short(value, digits = 4) {
  if (value == null || !Number.isFinite(value)) return "–";
  const text = Number(value.toPrecision(digits));
  const size = Math.abs(text);
  return (size !== 0 && (size < 1e-4 || size >= 1e7) ? text.toExponential() : String(text)).replace("-", "−");
}

// about `count` round numbers between two ends
export function ticks(low, high, count = 6) {
  const raw = (high - low) / count;
  if (!(raw > 0) || !Number.isFinite(raw)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((m) => m * power >= raw) * power;
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) out.push(Number((k * step).toPrecision(12)));
  return out;
}

export function later(call, wait) {
  let timer = 0;
  return (...told) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...told), wait);
  };
}
