// The page: points that are drawn by hand, and what each model predicts of them, loop by loop.
//
// `state` is all there is to know, and is kept in the address; `change` alters it, asks the models,
// which answer from workers, and draws.

(() => {
  "use strict";

  const { task, models } = JSON.parse(document.getElementById("facts").textContent);
  const [first] = models;
  const byId = (id) => document.getElementById(id);

  const QUERIES = 101; // over the axis
  const DRAWN = 12; // points of a function
  const MARGIN = 0.12; // of the interval, on each side of it
  const FAR = 3; // times as wide as in training
  const NOISIER = 5;
  const MOST_TRACES = 12;
  const MILLISECONDS = 450; // of a loop, when played
  const NEAR = 9; // pixels around a point that are the point; more for a finger
  const NEAR_FINGER = 20;
  const SLACK = 4; // pixels that a click may move
  const STEP = 0.02; // of the plot, by an arrow key

  const state = { points: [], seed: 0, loop: 0, far: false, noisy: false };

  // ------------------------------------ the address

  function readAddress() {
    const given = new URLSearchParams(location.hash.slice(1));
    if (!given.has("points")) {
      return false;
    }
    const pairs = given
      .get("points")
      .split(";")
      .map((pair) => pair.split(",").map(Number));
    state.points = pairs
      .filter((pair) => pair.length === 2 && pair.every(Number.isFinite))
      .slice(0, task.points)
      .map(([x, y]) => ({ x, y }));
    state.seed = Math.trunc(Number(given.get("seed"))) || 0;
    state.loop = Math.min(Math.max(Math.trunc(Number(given.get("loop"))) || 0, 0), first.most);
    state.far = given.has("far");
    state.noisy = given.has("noisy");
    return true;
  }

  function writeAddress() {
    const points = state.points.map(({ x, y }) => `${x.toFixed(3)},${y.toFixed(3)}`).join(";");
    const flags = (state.far ? "&far" : "") + (state.noisy ? "&noisy" : "");
    try {
      history.replaceState(
        null,
        "",
        `#loop=${state.loop}&seed=${state.seed}${flags}&points=${points}`,
      );
    } catch {
      // In a notebook's frame there is no address to keep it in.
    }
  }

  // ------------------------------------ points and functions

  /** The numbers that the axis shows. */
  function range() {
    const middle = (task.low + task.high) / 2;
    const half = ((task.high - task.low) / 2) * (state.far ? FAR : 1) * (1 + MARGIN);
    return [middle - half, middle + half];
  }

  function axis() {
    const [low, high] = range();
    return Float64Array.from(
      { length: QUERIES },
      (_, i) => low + ((high - low) * i) / (QUERIES - 1),
    );
  }

  /** Points of the function of the seed, as training draws them or noisier or further apart. */
  function drawPoints() {
    const { uniform, normal } = Engine.normals(state.seed + 0x5eed);
    const middle = (task.low + task.high) / 2;
    const width = (task.high - task.low) * (state.far ? FAR : 1);
    const xs = Float64Array.from(
      { length: Math.min(DRAWN, task.points) },
      () => middle + width * (uniform() - 0.5),
    );
    const noise = task.noise * (state.noisy ? NOISIER : 1);
    const ys = Engine.drawn(task, state.seed)(xs);
    state.points = [...xs].map((x, i) => ({ x, y: ys[i] + noise * normal() }));
  }

  /** Whether training had no such points: beyond its interval, or beyond three deviations. */
  function isOutside({ x, y }) {
    return x < task.low || x > task.high || Math.abs(y) > 3 * task.deviation;
  }

  // ------------------------------------ models in workers

  const source = `${byId("engine").textContent}\nEngine.serve();`;
  const place = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));

  // ------------------------------------ drawing

  function element(name, attributes, parent, text = "") {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) {
      made.setAttribute(key, value);
    }
    made.textContent = text;
    parent.append(made);
    return made;
  }

  function label(number, x, y, parent, more = {}) {
    const text = `${number}`.replace("-", "−");
    element("text", { class: "tick", x, y, ...more }, parent, text);
  }

  /** A path through points of the plot; what is no number, or far out, is cut. */
  function line(xs, ys, toX, toY) {
    const cut = (y) => Math.min(Math.max(Number.isNaN(y) ? 0 : y, -4000), 4000);
    return [...xs]
      .map((x, i) => `${i ? "L" : "M"}${toX(x).toFixed(1)} ${cut(toY(ys[i])).toFixed(1)}`)
      .join("");
  }

  /** The plot of one model; the first has points that keys can move. */
  class Panel {
    constructor(facts, isFirst) {
      this.facts = facts;
      this.isFirst = isFirst;
      this.answer = null;
      this.question = null;
      const figure = byId("panel").content.firstElementChild.cloneNode(true);
      figure.style.setProperty("--own", facts.colour);
      figure.querySelector(".name").textContent = facts.label;
      this.said = figure.querySelector(".said");
      this.svg = figure.querySelector("svg");
      this.svg.setAttribute("aria-label", `${facts.label}: plot of points and predictions`);
      if (isFirst) {
        this.svg.setAttribute("tabindex", "0");
        this.svg.addEventListener("keydown", (event) => addByKey(event, this));
      }
      this.back = element("g", {}, this.svg);
      this.front = element("g", {}, this.svg);
      byId("panels").append(figure);
      listen(this);
      new ResizeObserver(() => this.draw()).observe(this.svg);
      this.thinker = new Engine.Thinker(place, facts, (question, predictions) => {
        if (predictions.error) {
          this.failure = `this browser cannot run the model: ${predictions.error}`;
          draw();
          return;
        }
        if (isFirst) {
          panels.slice(1).forEach((other) => other.thinker.ask(question));
        }
        this.question = question;
        this.answer = predictions;
        this.draw();
        drawErrors();
        sayLoop();
        this.svg.dataset.took = (performance.now() - question.at).toFixed(1); // for tests
      });
    }

    /** The loop or layer that the slider's number means here. */
    step() {
      const { family, n_layer } = this.facts;
      return family === "standard" ? Math.min(state.loop, n_layer) : state.loop;
    }

    scales() {
      const { clientWidth: width, clientHeight: height } = this.svg;
      const [low, high] = range();
      const sizes = state.points.map(({ y }) => Math.abs(y));
      const top = Math.max(3.3 * task.deviation, ...sizes);
      return {
        width,
        height,
        top,
        toX: (x) => ((x - low) / (high - low)) * width,
        toY: (y) => (0.5 - y / (2 * top)) * height,
        fromX: (px) => low + (px / width) * (high - low),
        fromY: (py) => (0.5 - py / height) * 2 * top,
      };
    }

    draw() {
      const { width, height, toX, toY } = this.scales();
      const { back } = this;
      back.replaceChildren();
      const within = { x: toX(task.low), width: toX(task.high) - toX(task.low), y: 0, height };
      element("rect", { class: "within", ...within }, back);
      element("path", { class: "axis", d: `M0 ${toY(0)}H${width}` }, back);
      for (const x of [task.low, (task.low + task.high) / 2, task.high]) {
        label(x, toX(x) + 4, height - 6, back);
      }
      for (const y of [-2 * task.deviation, 2 * task.deviation]) {
        label(y, 4, toY(y) + 4, back);
      }
      const draw = (kind, xs, ys, opacity = 1) =>
        element("path", { class: kind, d: line(xs, ys, toX, toY), opacity }, back);
      const xs = axis();
      if (state.seed) {
        draw("truth", xs, Engine.drawn(task, state.seed)(xs), 0.25);
      }
      if (this.answer) {
        const asked = this.question.axis;
        const last = Math.min(this.step(), this.answer.length - 1);
        for (let t = Math.max(1, last - MOST_TRACES); t < last; t++) {
          const share = (t - last + MOST_TRACES) / MOST_TRACES;
          draw("trace", asked, this.answer[t], 0.1 + 0.45 * share);
        }
        draw("curve", asked, this.answer[last]);
      }
      draw("bayes", xs, posterior(xs));
      this.drawPoints(toX, toY);
      this.said.textContent = this.saying();
    }

    saying() {
      if (this.failure) {
        return this.failure;
      }
      const { family, n_layer, b } = this.facts;
      const step = this.step();
      if (step === 0) {
        return "before the first loop";
      }
      if (family === "standard") {
        return `layer ${step} of ${n_layer}`;
      }
      return step > b ? `loop ${step}` : `loop ${step} of ${b}`;
    }

    /** The points' elements stay, so that one that is dragged or focused is not lost. */
    drawPoints(toX, toY) {
      const { front, isFirst } = this;
      while (front.childElementCount > state.points.length) {
        front.lastChild.remove();
      }
      while (front.childElementCount < state.points.length) {
        const focus = isFirst ? { tabindex: 0, role: "button" } : {};
        const made = element("g", { class: "point", ...focus }, front);
        element("circle", { class: "touch", r: NEAR_FINGER }, made);
        element("circle", { class: "dot", r: 5.5 }, made);
        element("circle", { class: "ring", r: 9.5 }, made);
      }
      state.points.forEach((point, i) => {
        const group = front.children[i];
        group.setAttribute("transform", `translate(${toX(point.x)} ${toY(point.y)})`);
        group.lastChild.style.display = isOutside(point) ? "" : "none";
        if (isFirst) {
          const where = `x ${point.x.toFixed(2)}, y ${point.y.toFixed(2)}`;
          group.setAttribute(
            "aria-label",
            `point ${i + 1}: ${where}; arrows move it, Delete removes it`,
          );
        }
      });
    }
  }

  function column(name) {
    return Float64Array.from(state.points, (point) => point[name]);
  }

  function posterior(xs) {
    const noise = state.noisy ? task.noise * NOISIER : task.noise;
    return Engine.bayes({ ...task, noise }, column("x"), column("y"), xs);
  }

  /** A function of predictions at xs: their mean squared error over the interval of training, of
   * y's variance. */
  function errorOver(xs) {
    const truth = Engine.drawn(task, state.seed)(xs);
    const within = [...xs.keys()].filter((i) => xs[i] >= task.low && xs[i] <= task.high);
    const scale = within.length * task.deviation ** 2;
    return (ys) => within.reduce((sum, i) => sum + (ys[i] - truth[i]) ** 2, 0) / scale;
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
        errors: answer.map(errorOver(question.axis)).map((e) => Math.min(Math.max(e, 1e-9), 1e9)),
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

  function sayLoop() {
    const isMissing = panels[0].answer === null || panels[0].answer.length <= state.loop;
    const beyond = isMissing ? ", computing …" : `, beyond the ${first.b} of training`;
    const unit = first.family === "standard" ? "layer" : "loop";
    const of = state.loop > first.b ? beyond : ` of ${first.b}`;
    byId("reading").textContent = `${unit} ${state.loop}${of}`;
    byId("loop").value = state.loop;
  }

  function draw() {
    panels.forEach((panel) => panel.draw());
    drawErrors();
    sayLoop();
    byId("noise").setAttribute("aria-pressed", state.noisy);
    byId("far").setAttribute("aria-pressed", state.far);
  }

  /** Ask all models about the points as they are now: b loops, or 4 b once one of these is shown. */
  function ask() {
    const xs = axis();
    const question = {
      xs: Engine.features(task, column("x")),
      ys: column("y"),
      queries: Engine.features(task, xs),
      axis: xs,
      loops: state.loop > first.b ? first.most : first.b,
      seed: state.seed,
      at: performance.now(),
    };
    panels[0].thinker.ask(question); // the others follow, so that this one is quick
  }

  function changed() {
    ask();
    draw();
    writeAddress();
  }

  // ------------------------------------ mouse, touch and keys

  function add(point) {
    if (state.points.length < task.points) {
      state.points.push(point);
      changed();
    }
  }

  function remove(index) {
    state.points.splice(index, 1);
    changed();
  }

  function within(value, [low, high]) {
    return Math.min(Math.max(value, low), high);
  }

  /** A click adds a point, or removes the one below it; a drag moves it. */
  function listen(panel) {
    const { svg } = panel;
    let held = null; // where the pointer went down, and on which point, if any

    function place(event) {
      const box = svg.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    }

    function nearest([px, py], reach) {
      const { toX, toY } = panel.scales();
      const distances = state.points.map(({ x, y }) => Math.hypot(toX(x) - px, toY(y) - py));
      const least = Math.min(...distances);
      return least <= reach ? distances.indexOf(least) : -1;
    }

    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) {
        return;
      }
      const start = place(event);
      const reach = event.pointerType === "mouse" ? NEAR : NEAR_FINGER;
      held = { start, index: nearest(start, reach), moved: false, scales: panel.scales() };
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (held === null) {
        return;
      }
      const [px, py] = place(event);
      held.moved ||= Math.hypot(px - held.start[0], py - held.start[1]) > SLACK;
      if (held.moved && held.index >= 0) {
        const { fromX, fromY, width, height } = held.scales;
        state.points[held.index] = {
          x: fromX(within(px, [4, width - 4])),
          y: fromY(within(py, [4, height - 4])),
        };
        changed();
      }
    });
    svg.addEventListener("pointerup", (event) => {
      if (held !== null && !held.moved) {
        const [px, py] = place(event);
        if (held.index >= 0) {
          remove(held.index);
        } else {
          add({ x: held.scales.fromX(px), y: held.scales.fromY(py) });
        }
      }
      held = null;
    });
    svg.addEventListener("pointercancel", () => {
      held = null;
    });
  }

  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

  /** On the plot Enter adds a point in the middle; on a point arrows move it, Delete removes it. */
  function addByKey(event, panel) {
    const index = [...panel.front.children].indexOf(event.target);
    const [low, high] = range();
    if (index < 0) {
      if (event.key === "Enter") {
        add({ x: (low + high) / 2, y: 0 });
        panel.front.lastChild?.focus();
      }
      return;
    }
    const { top } = panel.scales();
    if (event.key in ARROWS) {
      const [across, up] = ARROWS[event.key];
      const { x, y } = state.points[index];
      state.points[index] = {
        x: within(x + across * STEP * (high - low), [low, high]),
        y: within(y + up * STEP * 2 * top, [-top, top]),
      };
      changed();
    } else if (event.key === "Delete" || event.key === "Backspace") {
      remove(index);
      (panel.front.children[Math.max(index - 1, 0)] ?? panel.svg).focus();
    } else {
      return;
    }
    event.preventDefault();
  }

  // ------------------------------------ slider and buttons

  let timer = null;

  function stop() {
    clearInterval(timer);
    timer = null;
    byId("play").textContent = "▶ play";
  }

  /** To b, from the beginning where it is there; from beyond b on to 4 b. */
  function play() {
    if (timer !== null) {
      stop();
      return;
    }
    if (state.loop === first.b || state.loop === first.most) {
      state.loop = 0;
    }
    const end = state.loop > first.b ? first.most : first.b;
    byId("play").textContent = "❚❚ pause";
    draw();
    timer = setInterval(() => {
      show(state.loop + 1);
      if (state.loop >= end) {
        stop();
      }
    }, MILLISECONDS);
  }

  function show(loop) {
    const before = state.loop;
    state.loop = loop;
    if (loop > first.b !== before > first.b) {
      ask();
    }
    draw();
    writeAddress();
  }

  function another() {
    state.seed = 1 + Math.floor(Math.random() * 99999);
    drawPoints();
    changed();
  }

  /** More noise, or further points: of the function that is there, or else of another. */
  function toggle(name) {
    state[name] = !state[name];
    if (state.seed) {
      drawPoints();
      changed();
    } else {
      another();
    }
  }

  byId("loop").max = first.most;
  byId("trained").append(new Option("", first.b));
  byId("panels").classList.toggle("several", models.length > 1);
  const hadState = readAddress();
  const panels = [];
  models.forEach((facts, i) => panels.push(new Panel(facts, i === 0)));
  new ResizeObserver(drawErrors).observe(byId("errors").querySelector("svg"));
  byId("play").addEventListener("click", play);
  byId("loop").addEventListener("input", (event) => {
    stop();
    show(Number(event.target.value));
  });
  byId("another").addEventListener("click", another);
  byId("noise").addEventListener("click", () => toggle("noisy"));
  byId("far").addEventListener("click", () => toggle("far"));
  byId("order").addEventListener("click", () => {
    const keyed = state.points.map((point) => [Math.random(), point]);
    state.points = keyed.sort(([a], [b]) => a - b).map(([, point]) => point);
    changed();
  });
  byId("clear").addEventListener("click", () => {
    state.points = [];
    state.seed = 0;
    changed();
  });
  window.addEventListener("hashchange", () => {
    stop();
    if (readAddress()) {
      ask();
      draw();
    }
  });
  if (hadState) {
    changed();
  } else {
    another();
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
      play();
    }
  }
})();
