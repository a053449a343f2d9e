// Functions of one number: points are pairs, a prediction is a curve, thin curves are earlier loops.

(() => {
  "use strict";

  const { state, task, first, panels, byId, element, label } = Page;

  const QUERIES = 101; // over the axis
  const DRAWN = 12; // points of a function
  const MARGIN = 0.12; // of the interval, on each side of it
  const FAR = 3; // times as wide as in training
  const NOISIER = 5;
  const HIGHER = 8;
  const MOST_TRACES = 12;
  const MOST_Y = 1000; // in an address

  const middle = (task.low + task.high) / 2;

  // ------------------------------------ points and functions

  function xRange() {
    const half = ((task.high - task.low) / 2) * (state.far ? FAR : 1) * (1 + MARGIN);
    return [middle - half, middle + half];
  }

  /** What the plot shows; a point that is higher stretches it. */
  function range() {
    const top = Math.max(3.3 * task.deviation, ...state.points.map(({ y }) => Math.abs(y)));
    return { x: xRange(), y: [-top, top] };
  }

  function axis() {
    const [low, high] = xRange();
    return Float64Array.from(
      { length: QUERIES },
      (_, i) => low + ((high - low) * i) / (QUERIES - 1),
    );
  }

  /** The function of the seed; 0 everywhere where there is none. */
  function truth(xs) {
    return state.seed ? Engine.drawn(task, state.seed)(xs) : new Float64Array(xs.length);
  }

  /** Points of the function of the seed, as training draws them; by the switches that are on noisier
   * or further apart. */
  function drawn() {
    const { uniform } = Engine.normals(state.seed + 0x5eed);
    const xs = Float64Array.from(
      { length: Math.min(DRAWN, task.points) },
      () => task.low + (task.high - task.low) * uniform(),
    );
    const ys = truth(xs);
    const points = [...xs].map((x, i) => ({ x, y: ys[i] }));
    return louder(spread(points, state.far ? FAR : 1), state.noisy ? NOISIER : 1);
  }

  /** The points, so many times as far from the middle, and as far from the function as they were. */
  function spread(points, times) {
    const from = Float64Array.from(points, ({ x }) => x);
    const to = from.map((x) => middle + times * (x - middle));
    const [before, after] = [truth(from), truth(to)];
    return points.map(({ y }, i) => ({ x: to[i], y: y + after[i] - before[i] }));
  }

  /** The points with so many times the noise of training, the same for each place in their order. */
  function louder(points, times) {
    const { normal } = Engine.normals(state.seed + 0xad0);
    return points.map(({ x, y }) => ({ x, y: y + times * task.noise * normal() }));
  }

  /** Further points or more noise, of all that are there, drawn by hand or not; and back. How high
   * they are changes for the model alone, and is written at the axis. */
  function toggle(flag) {
    state[flag] = !state[flag];
    if (flag === "far") {
      state.points = spread(state.points, state.far ? FAR : 1 / FAR);
    } else if (flag === "noisy") {
      state.points = louder(state.points, state.noisy ? NOISIER - 1 : 1 - NOISIER);
    }
  }

  /** A point of an address; null for what is none. */
  function parsed(numbers) {
    const [x, y] = numbers;
    const [low, high] = xRange();
    const isPoint = numbers.length === 2 && x >= low && x <= high && Math.abs(y) <= MOST_Y;
    return isPoint ? { x, y } : null;
  }

  function column(name) {
    return Float64Array.from(state.points, (point) => point[name]);
  }

  /** What the model reads as 1, in the plot; normalised, that of evaluation.normalise=scale. Features
   * of x have one scale everywhere, and keep it. */
  function yUnit() {
    const ys = column("y");
    const meanSquare = ys.reduce((sum, y) => sum + y * y, 0) / ys.length;
    if (state.scaled && meanSquare > 0) {
      return Math.sqrt(meanSquare) / task.deviation;
    }
    return state.high ? 1 / HIGHER : 1;
  }

  /** Whether training had no such points: beyond its interval, or beyond three deviations. */
  function isOutside({ x, y }) {
    return x < task.low || x > task.high || Math.abs(y) > 3 * task.deviation * yUnit();
  }

  function question() {
    const xs = axis();
    const unit = yUnit();
    return {
      xs: Engine.features(task, column("x")),
      contexts: [column("y").map((y) => y / unit)],
      queries: Engine.features(task, xs),
      axis: xs,
      unit,
    };
  }

  /** Predictions in the units of the plot. */
  function answer({ unit }, [predictions]) {
    return predictions.map((ys) => ys.map((y) => y * unit));
  }

  function posterior(xs) {
    const noise = state.noisy ? task.noise * NOISIER : task.noise;
    return Engine.bayes({ ...task, noise }, column("x"), column("y"), xs);
  }

  // ------------------------------------ drawing

  /** A path through points of the plot; what is no number, or far out, is cut. */
  function line(xs, ys, toX, toY) {
    const cut = (y) => Page.within(y || 0, [-4000, 4000]);
    return [...xs]
      .map((x, i) => `${i ? "L" : "M"}${toX(x).toFixed(1)} ${cut(toY(ys[i])).toFixed(1)}`)
      .join("");
  }

  function draw(panel, { width, height, toX, toY }) {
    const { back, answer } = panel;
    const within = { x: toX(task.low), width: toX(task.high) - toX(task.low), y: 0, height };
    element("rect", { class: "within", ...within }, back);
    element("path", { class: "axis", d: `M0 ${toY(0)}H${width}` }, back);
    for (const x of [task.low, middle, task.high]) {
      label(x, toX(x) + 4, height - 6, back);
    }
    for (const y of [-2 * task.deviation, 2 * task.deviation]) {
      label(state.high ? y * HIGHER : y, 4, toY(y) + 4, back);
    }
    const curve = (kind, xs, ys, opacity = 1) =>
      element("path", { class: kind, d: line(xs, ys, toX, toY), opacity }, back);
    const xs = axis();
    if (state.seed) {
      curve("truth", xs, truth(xs), 0.25);
    }
    if (answer) {
      const asked = panel.question.axis;
      const last = panel.shown();
      for (let t = Math.max(1, last - MOST_TRACES); t < last; t++) {
        const share = (t - last + MOST_TRACES) / MOST_TRACES;
        curve("trace", asked, answer[t], 0.1 + 0.45 * share);
      }
      curve("curve", asked, answer[last]);
    }
    curve("bayes", xs, posterior(xs));
  }

  /** A function of predictions at xs: their mean squared error over the interval of training, of
   * y's variance. */
  function errorOver(xs) {
    const values = truth(xs);
    const within = [...xs.keys()].filter((i) => xs[i] >= task.low && xs[i] <= task.high);
    const scale = within.length * task.deviation ** 2;
    return (ys) => within.reduce((sum, i) => sum + (ys[i] - values[i]) ** 2, 0) / scale;
  }

  /** Errors by loop of all models, where the function is known. */
  function drawErrors() {
    const figure = byId("errors");
    figure.hidden = !state.seed;
    if (!state.seed) {
      return;
    }
    const svg = figure.querySelector("svg");
    const { clientWidth: width, clientHeight: height } = svg;
    svg.replaceChildren();
    const best = errorOver(axis())(posterior(axis()));
    const curves = panels
      .filter(({ question }) => question?.seed === state.seed)
      .map(({ facts, answer, question }) => ({
        facts,
        errors: answer.map(errorOver(question.axis)).map((e) => Page.within(e, [1e-9, 1e9])),
      }));
    const all = [best, ...curves.flatMap(({ errors }) => errors)];
    const low = Math.max(Math.floor(Math.log10(Math.min(...all))), -6);
    const high = Math.max(Math.min(Math.ceil(Math.log10(Math.max(...all))), 3), low + 1);
    const loops = state.loop > first.b ? first.most : first.b;
    const left = 44;
    const toX = (t) => left + (t / loops) * (width - left - 14);
    const toY = (e) => 14 + ((high - Math.log10(e)) / (high - low)) * (height - 40);
    for (let power = low; power <= high; power++) {
      element("path", { class: "axis", d: `M${left} ${toY(10 ** power)}H${width - 14}` }, svg);
      label(10 ** power, 6, toY(10 ** power) + 4, svg);
    }
    const every = Math.max(1, Math.round(loops / 12));
    for (let t = 0; t <= loops; t += every) {
      label(t, toX(t), height - 6, svg, { "text-anchor": "middle" });
    }
    const upright = (kind, t) =>
      element("path", { class: kind, d: `M${toX(t)} 8V${height - 22}` }, svg);
    if (loops > first.b) {
      upright("end", first.b);
    }
    upright("now", state.loop);
    element("path", { class: "bayes", d: `M${toX(0)} ${toY(best)}H${toX(loops)}` }, svg);
    for (const { facts, errors } of curves) {
      const group = element("g", { class: "own", style: `--own: ${facts.colour}` }, svg);
      const shown = errors.slice(0, loops + 1);
      element("path", { class: "curve", d: line(shown.keys(), shown, toX, toY) }, group);
    }
    const now = curves.map(({ facts, errors }) => {
      const t = Math.min(state.loop, errors.length - 1);
      return `${facts.label} ${errors[t].toPrecision(2)}`;
    });
    figure.querySelector(".said").textContent = [...now, `best ${best.toPrecision(2)}`].join(" · ");
  }

  Page.start({
    flags: ["noisy", "far", "high", "scaled"],
    contexts: 1,
    range,
    drawn,
    toggle,
    parsed,
    made: (x, y) => ({ x, y }),
    isOutside,
    named: () => "",
    question,
    answer,
    draw,
    drawMore: drawErrors,
  });
  new ResizeObserver(drawErrors).observe(byId("errors").querySelector("svg"));
})();
