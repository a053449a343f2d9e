// What both pages share: points that are drawn by hand, models that answer from workers, loop by
// loop, and an address that keeps the state. curves.js and regions.js draw.
//
//   Page.start({ flags, range, parsed, … });   // a scene: what differs
//
// `state` is all there is to know; `changed` asks the models about it and draws.

const Page = (() => {
  "use strict";

  const { task, models } = JSON.parse(document.getElementById("facts").textContent);
  const [first] = models;
  const byId = (id) => document.getElementById(id);

  const MILLISECONDS = 450; // of a loop, when played
  const NEAR = 9; // pixels around a point that are the point; more for a finger
  const NEAR_FINGER = 20;
  const SLACK = 4; // pixels that a click may move
  const STEP = 0.02; // of the plot, by an arrow key
  const MOST_SEED = 99999;
  const MARKS = [
    "M-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0 -11 0Z",
    "M-5 -5H5V5H-5Z", // of class 1
  ];

  const state = { points: [], seed: 0, loop: 0 };
  const panels = [];
  let scene = null;

  // ------------------------------------ the address

  /** Reads the state from the address as far as it can, and says what it could not; false where
   * there is none. */
  function readAddress() {
    const given = new URLSearchParams(location.hash.slice(1));
    if (!given.has("points")) {
      tell(location.hash.length > 1 ? "The link cannot be read." : "");
      return false;
    }
    let isDamaged = false;
    const whole = (name, most) => {
      const number = Number(given.get(name) ?? 0);
      const read = within(Math.trunc(number) || 0, [0, most]);
      isDamaged ||= read !== number;
      return read;
    };
    state.loop = whole("loop", first.most);
    state.seed = whole("seed", MOST_SEED);
    scene.flags.forEach((flag) => {
      state[flag] = given.has(flag);
    });
    const texts = given.get("points").split(";").filter(Boolean);
    const numbers = texts.map((text) => text.split(",").map((each) => Number(each || NaN)));
    const points = numbers.map(scene.parsed).filter((point) => point !== null);
    state.points = points.slice(0, task.points);
    isDamaged ||= state.points.length < texts.length;
    tell(isDamaged ? "The link is damaged: this is what could be read." : "");
    return true;
  }

  function writeAddress() {
    const texts = state.points.map(({ x, y, label }) => {
      const place = `${x.toFixed(3)},${y.toFixed(3)}`;
      return label === undefined ? place : `${place},${label}`;
    });
    const flags = scene.flags.filter((flag) => state[flag]).map((flag) => `&${flag}`);
    const hash = `#loop=${state.loop}&seed=${state.seed}${flags.join("")}&points=${texts.join(";")}`;
    try {
      history.replaceState(null, "", hash);
    } catch {
      // In a notebook's frame there is no address to keep it in.
    }
  }

  /** A line for what would surprise. */
  function tell(text) {
    byId("note").textContent = text;
  }

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

  const source = `${byId("engine").textContent}\nEngine.serve();`;
  const place = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  let asked = null; // the newest question; null: there is nothing to ask
  let heldRange = null; // while a point is dragged, so that the plot stays below the pointer

  /** The plot of one model; the first has points that keys can move. */
  class Panel {
    constructor(facts, isFirst) {
      this.facts = facts;
      this.isFirst = isFirst;
      this.answer = null; // to `question`: predictions after each loop
      this.question = null;
      const figure = byId("panel").content.firstElementChild.cloneNode(true);
      figure.style.setProperty("--own", facts.colour);
      figure.querySelector(".name").textContent = facts.label;
      this.said = figure.querySelector(".said");
      this.svg = figure.querySelector("svg");
      this.svg.setAttribute("aria-label", `${facts.label}: plot of points and predictions`);
      if (isFirst) {
        this.svg.setAttribute("role", "application"); // a screen reader leaves it its keys
        this.svg.setAttribute("tabindex", "0");
        this.svg.addEventListener("keydown", (event) => onKey(event, this));
      }
      this.back = element("g", {}, this.svg);
      this.front = element("g", {}, this.svg);
      byId("panels").append(figure);
      listen(this);
      new ResizeObserver(() => this.draw()).observe(this.svg);
      this.thinker = new Engine.Thinker(place, facts, scene.contexts, (question, answers) =>
        this.hear(question, answers),
      );
    }

    hear(question, answers) {
      const { error } = answers.find((answer) => answer.error) ?? {};
      if (error) {
        this.failure = `this browser cannot run the model: ${error}`;
        draw();
        return;
      }
      if (asked === null) {
        return;
      }
      if (this.isFirst) {
        panels.slice(1).forEach((other) => other.thinker.ask(question));
      }
      this.question = question;
      this.answer = scene.answer(question, answers);
      this.draw();
      scene.drawMore();
      sayLoop();
      this.svg.dataset.took = (performance.now() - question.at).toFixed(1); // for tests
    }

    /** The loop or layer that the slider's number means here. */
    step() {
      const { family, n_layer } = this.facts;
      return family === "standard" ? Math.min(state.loop, n_layer) : state.loop;
    }

    /** The last that is drawn: that of the slider, once it is computed. */
    shown() {
      return Math.min(this.step(), this.answer.length - 1);
    }

    scales() {
      const { clientWidth: width, clientHeight: height } = this.svg;
      const { x, y } = range();
      return {
        width,
        height,
        toX: (value) => ((value - x[0]) / (x[1] - x[0])) * width,
        toY: (value) => ((y[1] - value) / (y[1] - y[0])) * height,
        fromX: (px) => x[0] + (px / width) * (x[1] - x[0]),
        fromY: (py) => y[1] - (py / height) * (y[1] - y[0]),
      };
    }

    draw() {
      const scales = this.scales();
      this.back.replaceChildren();
      scene.draw(this, scales);
      this.drawPoints(scales);
      this.said.textContent = this.saying();
    }

    saying() {
      if (this.failure) {
        return this.failure;
      }
      const { family, n_layer, b } = this.facts;
      const step = this.step();
      if (asked === null) {
        return scene.missing;
      }
      if (this.answer === null || this.shown() < step) {
        return "computing …";
      }
      if (step === 0) {
        return "before the first loop";
      }
      if (family === "standard") {
        return `layer ${step} of ${n_layer}`;
      }
      return step > b ? `loop ${step}` : `loop ${step} of ${b}`;
    }

    /** The points' elements stay, so that one that is dragged or focused is not lost. */
    drawPoints({ toX, toY }) {
      const { front, isFirst } = this;
      while (front.childElementCount > state.points.length) {
        front.lastChild.remove();
      }
      while (front.childElementCount < state.points.length) {
        const focus = isFirst ? { tabindex: 0, role: "button" } : {};
        const made = element("g", focus, front);
        element("circle", { class: "touch", r: NEAR_FINGER }, made);
        element("path", { class: "dot" }, made);
        element("circle", { class: "ring", r: 9.5 }, made);
      }
      state.points.forEach((point, i) => {
        const group = front.children[i];
        group.setAttribute("class", `point class${point.label ?? ""}`);
        group.setAttribute("transform", `translate(${toX(point.x)} ${toY(point.y)})`);
        group.querySelector(".dot").setAttribute("d", MARKS[point.label ?? 0]);
        group.lastChild.style.display = scene.isOutside(point) ? "" : "none";
        if (isFirst) {
          const name = `point ${i + 1}${scene.named(point)}`;
          const where = `x ${point.x.toFixed(2)}, y ${point.y.toFixed(2)}`;
          group.setAttribute("aria-label", `${name}: ${where}; arrows move it, Enter removes it`);
        }
      });
    }
  }

  function range() {
    return heldRange ?? scene.range();
  }

  function sayLoop() {
    const { answer } = panels[0];
    const isMissing = answer === null || answer.length <= state.loop;
    const beyond = isMissing ? ", computing …" : `, beyond the ${first.b} of training`;
    const of = state.loop > first.b ? beyond : ` of ${first.b}`;
    const text = `loop ${state.loop}${of}`;
    byId("reading").textContent = text;
    byId("loop").value = state.loop;
    byId("loop").setAttribute("aria-valuetext", text);
  }

  function draw() {
    panels.forEach((panel) => panel.draw());
    scene.drawMore();
    sayLoop();
    scene.flags.forEach((flag) => byId(flag).setAttribute("aria-pressed", state[flag]));
  }

  /** Ask all models about the points as they are now: b loops, or 4 b once one of these is shown. */
  function ask() {
    const question = scene.question();
    if (question === null) {
      asked = null;
      panels.forEach((panel) => {
        panel.answer = null;
      });
      return;
    }
    const loops = state.loop > first.b ? first.most : first.b;
    asked = { ...question, loops, seed: state.seed, at: performance.now() };
    panels[0].thinker.ask(asked); // the others follow, so that this one is quick
  }

  function changed() {
    tell("");
    ask();
    draw();
  }

  // ------------------------------------ mouse, touch and keys

  function add(x, y) {
    if (state.points.length < task.points) {
      state.points.push(scene.made(x, y));
      changed();
    } else {
      tell(`${task.points} points are the most: remove one first.`);
    }
  }

  function move(index, x, y) {
    state.points[index] = { ...state.points[index], x, y };
    changed();
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

    function release() {
      held = null;
      heldRange = null;
      draw();
    }

    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) {
        return;
      }
      const start = place(event);
      const reach = event.pointerType === "mouse" ? NEAR : NEAR_FINGER;
      held = { start, index: nearest(start, reach), moved: false };
      heldRange = range();
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (held === null) {
        return;
      }
      const [px, py] = place(event);
      held.moved ||= Math.hypot(px - held.start[0], py - held.start[1]) > SLACK;
      if (held.moved && held.index >= 0) {
        const { fromX, fromY, width, height } = panel.scales();
        const inside = [within(px, [4, width - 4]), within(py, [4, height - 4])];
        move(held.index, fromX(inside[0]), fromY(inside[1]));
      }
    });
    svg.addEventListener("pointerup", (event) => {
      if (held !== null && !held.moved) {
        const [px, py] = place(event);
        const { fromX, fromY } = panel.scales();
        if (held.index >= 0) {
          remove(held.index);
        } else {
          add(fromX(px), fromY(py));
        }
      }
      release();
    });
    svg.addEventListener("pointercancel", release);
  }

  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

  /** Enter adds a point in the middle, and removes the one that has the focus, as Delete does; arrows
   * move it. */
  function onKey(event, { svg, front }) {
    const index = [...front.children].indexOf(event.target);
    const { x, y } = range();
    const isPress = event.key === "Enter" || event.key === " ";
    if (isPress && event.repeat) {
      // Held down, it would add and remove in turn.
    } else if (index < 0 && isPress) {
      add((x[0] + x[1]) / 2, (y[0] + y[1]) / 2);
      front.lastChild?.focus();
    } else if (index < 0) {
      return;
    } else if (event.key in ARROWS) {
      const [across, up] = ARROWS[event.key];
      const point = state.points[index];
      move(
        index,
        within(point.x + across * STEP * (x[1] - x[0]), x),
        within(point.y + up * STEP * (y[1] - y[0]), y),
      );
    } else if (isPress) {
      remove(index);
      svg.focus();
    } else if (event.key === "Delete" || event.key === "Backspace") {
      remove(index);
      (front.children[Math.max(index - 1, 0)] ?? svg).focus();
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
    byId("reading").setAttribute("aria-live", "polite");
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
    byId("reading").setAttribute("aria-live", "off"); // the last loop alone is spoken
    draw();
    timer = setInterval(() => {
      if (state.loop + 1 >= end) {
        stop();
      }
      show(state.loop + 1);
      writeAddress();
    }, MILLISECONDS);
  }

  function show(loop) {
    const before = state.loop;
    state.loop = loop;
    if (loop > first.b !== before > first.b) {
      ask();
    }
    draw();
  }

  function another() {
    state.seed = 1 + Math.floor(Math.random() * MOST_SEED);
    state.points = scene.drawn();
    changed();
  }

  function reorder() {
    const keyed = state.points.map((point) => [Math.random(), point]);
    state.points = keyed.sort(([a], [b]) => a - b).map(([, point]) => point);
    changed();
  }

  function clear() {
    state.points = [];
    state.seed = 0;
    changed();
  }

  /** Begin, with what a scene has of its own. */
  function start(given) {
    scene = given;
    scene.flags.forEach((flag) => {
      state[flag] = false;
      byId(flag).addEventListener("click", () => {
        scene.toggle(flag);
        changed();
      });
    });
    const hadState = readAddress();
    models.forEach((facts, i) => panels.push(new Panel(facts, i === 0)));
    byId("play").addEventListener("click", play);
    byId("loop").addEventListener("input", (event) => {
      stop();
      show(Number(event.target.value));
    });
    byId("another").addEventListener("click", another);
    byId("order").addEventListener("click", reorder);
    byId("clear").addEventListener("click", clear);
    // Not while something moves: browsers refuse an address that changes often.
    for (const end of ["pointerup", "pointercancel", "click", "change", "keyup"]) {
      document.addEventListener(end, writeAddress);
    }
    window.addEventListener("hashchange", () => {
      stop();
      if (readAddress()) {
        ask();
        draw();
      }
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    const note = byId("note").textContent;
    if (hadState) {
      changed();
    } else {
      another();
      if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
        play();
      }
    }
    tell(note);
    writeAddress();
  }

  return { start, state, task, first, panels, byId, element, label, within };
})();
