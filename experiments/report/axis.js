"use strict";
// What charts are made of: elements, the numbers of a CSV link, axes and their ticks.
const SVG = "http://www.w3.org/2000/svg";

function add(parent, name, attributes = {}, text = "") {
  const made = parent.namespaceURI === SVG || name === "svg" ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  parent.append(made);
  return made;
}

function columnsOf(link) {
  const text = decodeURIComponent(link.slice(link.indexOf(",") + 1));
  const rows = text.split("\n").slice(1).filter((row) => row).map((row) => row.split(","));
  const number = (cell) => (cell === "" || cell === undefined ? NaN : Number(cell));
  return (rows[0] || []).map((_, i) => rows.map((row) => number(row[i])));
}

const SUPERSCRIPTS = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
function numberText(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size === 0 || (size >= 1e-3 && size < 1e6)) return String(Number(value.toPrecision(3))).replace(/\B(?=(\d{3})+$)/g, size >= 1e4 ? "," : "");
  const [digits, power] = value.toExponential(2).split("e");
  const exponent = [...String(Number(power))].map((c) => SUPERSCRIPTS[c]).join("");
  return Number(digits) === 1 ? `10${exponent}` : `${Number(digits)}×10${exponent}`;
}

// An axis from `low` to `high`: place(value) is 0 to 1; its ticks are numbers that a reader can say.
function axisOf(low, high, log, count) {
  if (log) {
    const a = Math.log10(low), span = Math.max(Math.log10(high) - a, 1e-6);
    return { log, low, high, place: (v) => (v > 0 ? (Math.log10(v) - a) / span : NaN), ticks: logTicks(low, high, count) };
  }
  const span = high - low || 1;
  return { log, low, high, place: (v) => (v - low) / span, ticks: linearTicks(low, high, count) };
}
function linearTicks(low, high, count) {
  const rough = (high - low || 1) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}
function logTicks(low, high, count) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), inside = (v) => v >= low * 0.999 && v <= high * 1.001;
  for (const steps of [[1], [1, 3], [1, 2, 5]]) {
    const all = [];
    for (let p = first; p <= last; p++) for (const m of steps) all.push(Number((m * 10 ** p).toPrecision(6)));
    const ticks = all.filter(inside);
    if (ticks.length > count) return ticks.filter((_, i) => i % Math.ceil(ticks.length / count) === 0);
    if (ticks.length >= 3) return ticks;
  }
  return linearTicks(low, high, count).filter((v) => v > 0);
}

const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
const dashText = (curve) => curve.dash.map((part) => part * 1.8).join(" ") || "none";
const looks = (curve, kind) => ({ class: curve.colour === "#000000" ? `${kind} black` : kind, style: `--c: ${curve.colour}` });
function runsOf(xs, ys) { // stretches of places that have numbers
  const runs = [[]];
  xs.forEach((x, i) => { if (Number.isFinite(x) && Number.isFinite(ys[i])) runs[runs.length - 1].push(i); else if (runs[runs.length - 1].length) runs.push([]); });
  return runs.filter((run) => run.length);
}

// A point of one of four shapes, so that groups of points differ in grey as well.
function point(parent, shape, x, y, curve, kind) {
  const r = 3.8, d = [
    `M${x - r},${y}a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0`,
    `M${x - r},${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
    `M${x},${y - r * 1.3}l${r * 1.2},${r * 2.2}h${-r * 2.4}z`,
    `M${x},${y - r * 1.3}l${r * 1.3},${r * 1.3}l${-r * 1.3},${r * 1.3}l${-r * 1.3},${-r * 1.3}z`,
  ][shape % 4];
  add(parent, "path", { d, ...looks(curve, kind) });
}
