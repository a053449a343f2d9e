// A chart: its numbers are read from the figure's CSV link, how they are drawn from the JSON beside it.
const NAME = 16; // letters of a name below an axis
const LAW_DASHES = [[], [6, 1.6], [3, 1.4], [1, 1.3], [6, 1.6, 1, 1.6]];
// The curves of a law at one of its fits: points of each r at the parameters that count, a line for each D.
function lawCurves(law, columns, index) {
  const [once, rec, r, data, loss] = columns, fit = law.fits[index];
  const size = once.map((n, i) => n + r[i] ** fit.phi * rec[i]);
  const curves = [...new Set(data)].sort((a, b) => a - b).map((d, i) => {
    const xs = size.filter((_, j) => data[j] === d), low = Math.log(Math.min(...xs)), high = Math.log(Math.max(...xs));
    const line = Array.from({ length: 25 }, (_, j) => Math.exp(low + ((high - low) * j) / 24));
    const mean = line.map((n) => fit.E + fit.A * n ** -fit.alpha + fit.B * d ** -fit.beta);
    return { label: `law at D = ${numberText(d)}`, colour: "#7A7A7A", dash: LAW_DASHES[i % LAW_DASHES.length], model: true, xs: line, mean };
  });
  for (const [shape, value] of [...new Set(r)].sort((a, b) => a - b).entries()) {
    const rows = r.map((each, i) => (each === value ? i : -1)).filter((i) => i >= 0);
    const colour = law.colours[String(value)] || "#0072B2";
    curves.push({ label: `r = ${value}`, colour, dash: [], model: true, points: true, shape, xs: rows.map((i) => size[i]), mean: rows.map((i) => loss[i]) });
  }
  return curves;
}

class Chart {
  constructor(figure) {
    this.figure = figure;
    this.plot = figure.querySelector(".plot");
    this.spec = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    this.columns = columnsOf(figure.querySelector("a.csv").getAttribute("href"));
    this.hidden = new Set();
    this.log = { x: this.spec.logX, y: this.spec.logY };
    this.cursor = null; // an x
    const { law, curves } = this.spec;
    this.at = law ? law.fits.map((fit) => fit.phi) : [...new Set(curves.filter((c) => "at" in c).map((c) => c.at))].sort((a, b) => a - b);
    this.index = law ? law.start : Math.max(this.at.indexOf(this.spec.start), 0);
    this.all = law ? this.at.map((_, i) => lawCurves(law, this.columns, i)).flat() : curves.map((c) => this.withNumbers(c));
    this.build();
    this.draw();
    new ResizeObserver(() => { if (this.width !== this.canvas.clientWidth) this.draw(); }).observe(this.canvas);
  }
  withNumbers(curve) {
    const column = (i) => (i === undefined ? null : this.columns[i] || []);
    const shape = this.spec.curves.indexOf(curve);
    return { ...curve, shape, points: curve.points ?? this.spec.names?.length > 0, xs: column(curve.x), mean: column(curve.mean), low: column(curve.low), high: column(curve.high) };
  }
  now() { // the curves at the slider's place, hidden ones as well
    if (this.spec.law) return lawCurves(this.spec.law, this.columns, this.index);
    return this.all.filter((c) => !("at" in c) || c.at === this.at[this.index]);
  }
  shown() { return this.now().filter((c) => !this.hidden.has(c.label)); }

  build() {
    this.plot.classList.add("drawn");
    this.canvas = add(this.plot, "div", { class: "canvas", tabindex: 0, role: "group", "aria-label": `${this.figure.querySelector("h4").textContent}: arrow keys read the values` });
    this.tip = add(this.plot, "div", { class: "tip", hidden: "", "aria-hidden": "true" });
    if (this.at.length > 1) this.slider(this.spec.slider, this.at, this.index, (i) => { this.index = i; this.draw(); this.say(); }, "at");
    if (this.spec.read && this.columns[0].length > 1) {
      const xs = this.columns[0], b = this.spec.curves.map((c) => c.b).find((each) => xs.includes(each));
      this.cursor = b ?? xs[xs.length - 1];
      this.reads = this.slider(`read at ${this.spec.read}`, xs, xs.indexOf(this.cursor), (i) => this.moveTo(xs[i]), "read");
    }
    this.values = add(this.plot, "div", { class: "values", "aria-live": "polite" });
    const legend = add(this.plot, "ul", { class: "legend", "aria-label": "Curves" });
    for (const curve of this.now()) this.key(legend, curve);
    const axes = add(this.plot, "div", { class: "axes" });
    for (const axis of ["x", "y"]) if (this.canLog(axis)) this.toggle(axes, axis);
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerdown", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; if (!this.reads) { this.cursor = null; this.draw(); } });
    this.canvas.addEventListener("keydown", (event) => this.keydown(event));
    this.say();
  }
  key(legend, curve) {
    const button = add(add(legend, "li"), "button", { type: "button", "aria-pressed": "true" });
    const swatch = add(button, "svg", { width: 26, height: 10, "aria-hidden": "true" });
    if (curve.points) point(swatch, curve.shape ?? 0, 13, 5, curve, "open");
    else add(swatch, "line", { x1: 1, x2: 25, y1: 5, y2: 5, "stroke-dasharray": dashText(curve), ...looks(curve, "swatch") });
    add(button, "span", {}, curve.label);
    button.addEventListener("click", () => {
      const hide = !this.hidden.has(curve.label);
      if (hide) this.hidden.add(curve.label); else this.hidden.delete(curve.label);
      button.setAttribute("aria-pressed", String(!hide));
      this.draw(); this.say();
    });
  }
  toggle(parent, axis) {
    const button = add(parent, "button", { type: "button", "aria-pressed": String(this.log[axis]), "data-axis": axis }, `log ${axis}`);
    button.addEventListener("click", () => {
      this.log[axis] = !this.log[axis];
      button.setAttribute("aria-pressed", String(this.log[axis]));
      this.draw();
    });
  }
  slider(name, values, index, moved, kind) {
    const label = add(this.plot, "label", { class: "slide" });
    add(label, "span", {}, name);
    const input = add(label, "input", { type: "range", min: 0, max: values.length - 1, step: 1, value: index, class: kind });
    const shown = add(label, "output");
    const show = () => { shown.textContent = numberText(values[input.value]); input.setAttribute("aria-valuetext", `${name} ${shown.textContent}`); };
    input.addEventListener("input", () => { show(); moved(Number(input.value)); });
    show();
    return { input, show, values };
  }

  canLog(axis) {
    if (axis === "x" && this.spec.names?.length) return false;
    const values = this.all.flatMap((c) => (axis === "x" ? c.xs : c.mean)).filter(Number.isFinite);
    return values.length > 1 && values.every((v) => v > 0);
  }
  domain() { // over all places of the slider, so that moving it moves curves and not axes
    const curves = this.all.filter((c) => !this.hidden.has(c.label)), logY = this.log.y;
    const finite = (parts) => parts.flat().filter((v) => Number.isFinite(v) && (!logY || v > 0));
    const xs = curves.flatMap((c) => c.xs).filter((v) => Number.isFinite(v) && (!this.log.x || v > 0));
    const of = (chosen) => finite(chosen.map((c) => [...c.mean, ...(c.low || []), ...(c.high || [])]));
    const models = curves.filter((c) => c.model), own = of(models), all = own.length ? own : of(curves);
    const levels = Object.values(this.spec.levels);
    if (!xs.length || !all.length) return null;
    let low = least(all), high = most(all);
    if (logY && own.length) { // exact solvers reach rounding error, which would squeeze all other curves
      const means = finite(models.map((c) => c.mean));
      low = Math.max(low, least(means) / 10);
      const solvers = of(curves);
      low = Math.max(Math.min(low, least(solvers)), low / 10);
      high = Math.min(Math.max(high, most(solvers)), 10 * Math.max(high, ...levels));
    } else { const solvers = of(curves); low = Math.min(low, least(solvers)); high = Math.min(Math.max(high, most(solvers)), low + 5 * (high - low || 1)); }
    for (const level of levels) if ((!logY || level > 0) && level < high * 3 && (logY ? level > low / 10 : true)) { low = Math.min(low, level); high = Math.max(high, level); }
    if (logY) { low /= 1.15; high *= 1.15; }
    else { const pad = (high - low || Math.abs(high) || 1) * 0.05; low = low >= 0 && low - pad < 0 ? 0 : low - pad; high += pad; }
    const room = this.spec.names?.length ? 0.5 : 0;
    return { x: [least(xs) - room, most(xs) + room], y: [low, high] };
  }

  draw() {
    const width = Math.max(this.canvas.clientWidth || 420, 200), names = this.spec.names || [], longest = Math.min(Math.max(0, ...names.map((name) => name.length)), NAME);
    const height = Math.round(Math.min(Math.max(width * 0.58, 210), 330) + 4.4 * longest);
    this.width = this.canvas.clientWidth;
    this.canvas.querySelector("svg")?.remove();
    const svg = add(this.canvas, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${this.figure.querySelector("h4").textContent}. ${this.figure.querySelector("figcaption p").textContent}` });
    const domain = this.domain();
    if (!domain) { add(svg, "text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "no curve is shown"); this.frame = null; return; }
    const y = axisOf(...domain.y, this.log.y, 6);
    const box = { left: 12 + 6.6 * Math.max(2, ...y.ticks.map((t) => numberText(t).length)), right: 12, top: 26, bottom: 40 + 4.4 * longest };
    if (names.length) box.left = Math.max(box.left, 4.6 * Math.min(names[0].length, NAME));
    const across = width - box.left - box.right, down = height - box.top - box.bottom;
    const x = axisOf(...domain.x, this.log.x, Math.max(3, Math.floor(across / 62)));
    const px = (v) => box.left + across * (x.high > x.low ? x.place(v) : 0.5), py = (v) => box.top + down * (1 - y.place(v));
    this.frame = { px, py, box, width, height, down };
    this.axes(svg, x, y, px, py);
    const id = `clip${Math.random().toString(36).slice(2)}`;
    add(add(svg, "clipPath", { id }), "rect", { x: box.left - 6, y: box.top - 2, width: across + 12, height: down + 4 });
    const inside = add(svg, "g", { "clip-path": `url(#${id})`, class: this.shown().length > 4 ? "many" : "" });
    const side = (curve, i, of) => (names.length && curve.points ? (v) => px(v) + 7 * (i - (of - 1) / 2) : px); // points of one name stand side by side
    this.shown().forEach((curve, i, all) => this.band(inside, curve, side(curve, i, all.length), py));
    this.shown().forEach((curve, i, all) => this.line(inside, curve, side(curve, i, all.length), py));
    this.marks = add(svg, "g");
    this.mark();
  }
  axes(svg, x, y, px, py) {
    const { box, width, height, down } = this.frame, bottom = box.top + down, right = width - box.right;
    for (const tick of y.ticks) {
      add(svg, "line", { class: "grid", x1: box.left, x2: right, y1: py(tick), y2: py(tick) });
      add(svg, "text", { x: box.left - 6, y: py(tick) + 4, "text-anchor": "end", class: "ytick" }, numberText(tick));
    }
    for (const tick of this.spec.names?.length ? this.columns[0] : x.ticks) {
      add(svg, "line", { class: "grid", x1: px(tick), x2: px(tick), y1: bottom, y2: bottom + 4 });
      const turned = this.spec.names?.length ? { "text-anchor": "end", transform: `rotate(-40 ${px(tick)} ${bottom + 14})` } : { "text-anchor": "middle" };
      add(svg, "text", { x: px(tick), y: bottom + 17, class: "xtick", ...turned }, this.xText(tick));
    }
    add(svg, "text", { x: 0, y: 12 }, this.spec.y);
    add(svg, "text", { x: (box.left + right) / 2, y: height - 5, "text-anchor": "middle" }, this.spec.x);
    for (const [name, level] of Object.entries(this.spec.levels)) {
      if (!(level >= y.low && level <= y.high)) continue;
      add(svg, "line", { class: "level", x1: box.left, x2: right, y1: py(level), y2: py(level) });
      add(svg, "text", { x: right, y: py(level) - 4, "text-anchor": "end" }, name);
    }
    const bs = this.shown().map((c) => c.b).filter((b) => b >= x.low && b <= x.high);
    [...new Set(bs)].sort((a, b) => a - b).forEach((b, i) => {
      add(svg, "line", { class: "mark", x1: px(b), x2: px(b), y1: box.top, y2: bottom });
      const near = px(b) > right - 50;
      add(svg, "text", { x: px(b) + (near ? -4 : 4), y: box.top + 10 + 13 * (i % 3), "text-anchor": near ? "end" : "start" }, `b = ${b}`);
    });
  }
  band(parent, curve, px, py) {
    if (!curve.low || !curve.high) return;
    const floor = this.frame.box.top + this.frame.down + 40;
    const at = (v) => (Number.isFinite(py(v)) ? py(v) : floor); // below a log axis
    for (const run of runsOf(curve.xs, curve.low)) {
      const forth = run.map((i) => `${px(curve.xs[i])},${at(curve.high[i])}`), back = run.map((i) => `${px(curve.xs[i])},${at(curve.low[i])}`).reverse();
      if (run.length > 1 && !curve.points) add(parent, "polygon", { points: [...forth, ...back].join(" "), ...looks(curve, "band") });
      else for (const i of run) add(parent, "line", { x1: px(curve.xs[i]), x2: px(curve.xs[i]), y1: at(curve.high[i]), y2: at(curve.low[i]), ...looks(curve, "curve") });
    }
  }
  line(parent, curve, px, py) {
    const ys = curve.mean.map((v) => (Number.isFinite(py(v)) ? v : NaN));
    for (const run of runsOf(curve.xs, ys)) {
      if (curve.points || run.length === 1) for (const i of run) point(parent, curve.shape ?? 0, px(curve.xs[i]), py(ys[i]), curve, curve.points ? "open" : "dot");
      else add(parent, "polyline", { points: run.map((i) => `${px(curve.xs[i])},${py(ys[i])}`).join(" "), "stroke-dasharray": dashText(curve), ...looks(curve, "curve"), "data-label": curve.label });
    }
  }

  xText(x) { // a value of x: a number, or what it stands for
    const name = this.spec.names?.[this.columns[0].indexOf(x)];
    return name === undefined ? numberText(x) : name.length > NAME ? `${name.slice(0, NAME - 1)}…` : name;
  }
  xs() { return [...new Set(this.shown().flatMap((c) => c.xs))].filter(Number.isFinite).sort((a, b) => a - b); }
  hover(event) {
    if (!this.frame) return;
    const bounds = this.canvas.getBoundingClientRect(), scale = this.frame.width / bounds.width;
    const at = (event.clientX - bounds.left) * scale, xs = this.xs();
    if (!xs.length) return;
    const nearest = xs.reduce((best, v) => (Math.abs(this.frame.px(v) - at) < Math.abs(this.frame.px(best) - at) ? v : best));
    this.cursor = nearest;
    this.mark();
    if (this.reads) this.moveTo(nearest);
    const rows = this.read(nearest);
    this.tip.replaceChildren();
    add(this.tip, "strong", {}, `${this.spec.read || this.spec.x} ${this.xText(nearest)}`);
    for (const row of rows) add(this.tip, "div", {}, row);
    this.tip.hidden = !rows.length;
    const left = this.frame.px(nearest) / scale, roomy = left < bounds.width / 2;
    this.tip.style.left = roomy ? `${left + 12}px` : "auto";
    this.tip.style.right = roomy ? "auto" : `${this.plot.clientWidth - left + 12}px`;
    this.tip.style.top = `${this.frame.box.top / scale}px`;
  }
  keydown(event) {
    const xs = this.xs(), i = xs.indexOf(this.cursor);
    const to = { ArrowRight: Math.min(i + 1, xs.length - 1), ArrowLeft: Math.max(i < 0 ? xs.length - 1 : i - 1, 0), Home: 0, End: xs.length - 1 }[event.key];
    if (to === undefined || !xs.length) return;
    event.preventDefault();
    this.moveTo(xs[to]);
  }
  moveTo(x) {
    this.cursor = x;
    if (this.reads && this.reads.values.includes(x)) { this.reads.input.value = this.reads.values.indexOf(x); this.reads.show(); }
    this.mark();
    this.say();
  }
  mark() { // the cursor and the curves' values at it
    if (!this.frame || !this.marks) return;
    this.marks.replaceChildren();
    if (this.cursor === null || this.spec.names?.length) return;
    const { px, py, box, down } = this.frame;
    add(this.marks, "line", { class: "cursor", x1: px(this.cursor), x2: px(this.cursor), y1: box.top, y2: box.top + down });
    for (const curve of this.shown()) {
      const i = curve.xs.indexOf(this.cursor), y = i < 0 ? NaN : py(curve.mean[i]);
      if (y >= box.top && y <= box.top + down) add(this.marks, "circle", { cx: px(this.cursor), cy: y, r: 3.5, ...looks(curve, "dot") });
    }
  }
  read(x) {
    return this.shown().flatMap((curve) => {
      const i = curve.xs.indexOf(x);
      if (i < 0 || !Number.isFinite(curve.mean[i])) return [];
      const interval = curve.low && Number.isFinite(curve.low[i]) ? ` (${numberText(curve.low[i])} to ${numberText(curve.high[i])})` : "";
      return [`${curve.label}: ${numberText(curve.mean[i])}${interval}`];
    });
  }
  say() { // below the picture, and to a screen reader
    const fit = this.spec.law?.fits[this.index];
    const law = fit ? [`φ ${numberText(fit.phi)}: R² ${fit.r2}, Huber ${numberText(fit.huber)}; E ${numberText(fit.E)}, A ${numberText(fit.A)}, B ${numberText(fit.B)}, α ${numberText(fit.alpha)}, β ${numberText(fit.beta)}`] : [];
    const x = this.cursor ?? (this.at.length > 1 && !law.length ? most(this.xs()) : null);
    const read = x === null ? [] : [`${this.spec.read || this.spec.x} ${this.xText(x)}: ${this.read(x).join("; ") || "no values"}`];
    this.values.textContent = [...law, ...read].join(". ");
  }
}
