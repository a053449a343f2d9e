// Tables of two columns and two classes: points have a class, a prediction is a shaded square, and
// thin lines are where earlier loops change from one class to the other.

(() => {
  "use strict";

  const { state, task, element, label } = Page;

  const CELLS = 30; // of the grid, on each side
  const EDGE = 3;
  const DRAWN = 20; // points of a table
  const SHADE = 0.8; // of a certain class
  const NAMES = ["circle", "square"];

  const grid = Array.from({ length: CELLS ** 2 }, (_, q) => ({
    x: EDGE * ((2 * (q % CELLS)) / (CELLS - 1) - 1),
    y: EDGE * ((2 * Math.floor(q / CELLS)) / (CELLS - 1) - 1),
  }));

  /** Points of the table of the seed, within the plot. */
  function drawn() {
    const inside = (value) => Page.within(value, [-EDGE, EDGE]);
    const points = Table.drawn(state.seed, Math.min(DRAWN, task.points));
    return points.map(({ x, y, label }) => ({ x: inside(x), y: inside(y), label }));
  }

  /** A point of an address; null for what is none. */
  function parsed(numbers) {
    const [x, y, label] = numbers;
    const isInside = Math.abs(x) <= EDGE && Math.abs(y) <= EDGE;
    return numbers.length === 3 && isInside && label in NAMES ? { x, y, label } : null;
  }

  function made(x, y) {
    return { x, y, label: Number(document.querySelector("[name=class]:checked").value) };
  }

  function hasBothClasses() {
    return new Set(state.points.map((point) => point.label)).size === 2;
  }

  function question() {
    if (!hasBothClasses()) {
      return null;
    }
    return {
      xs: Table.inputs(task, state.points, state.points),
      contexts: Table.contexts(task, state.points),
      queries: Table.inputs(task, state.points, grid),
    };
  }

  /** The square as an image, a pixel a cell: the colour of the likelier class, nothing at ½. */
  function shaded(probabilities, svg) {
    const canvas = document.createElement("canvas");
    canvas.width = CELLS;
    canvas.height = CELLS;
    const context = canvas.getContext("2d");
    const style = getComputedStyle(svg);
    const colours = NAMES.map((_, i) => style.getPropertyValue(`--class${i}`));
    probabilities.forEach((p, q) => {
      context.fillStyle = colours[p > 0.5 ? 1 : 0];
      context.globalAlpha = SHADE * Math.abs(2 * p - 1);
      context.fillRect(q % CELLS, CELLS - 1 - Math.floor(q / CELLS), 1, 1);
    });
    return canvas.toDataURL();
  }

  /** Places [x, y] where probabilities on the grid cross ½, two for each line: in each square between
   * four of its points, from one edge to another. */
  function crossings(probabilities) {
    const places = [];
    for (let q = 0; q < CELLS * (CELLS - 1); q++) {
      if (q % CELLS === CELLS - 1) {
        continue;
      }
      const corners = [q, q + 1, q + CELLS + 1, q + CELLS];
      corners.forEach((a, i) => {
        const b = corners[(i + 1) % 4];
        const [from, to] = [probabilities[a] - 0.5, probabilities[b] - 0.5];
        if (from > 0 !== to > 0) {
          const share = from / (from - to);
          places.push([
            grid[a].x + share * (grid[b].x - grid[a].x),
            grid[a].y + share * (grid[b].y - grid[a].y),
          ]);
        }
      });
    }
    return places;
  }

  function draw(panel, { width, height, toX, toY }) {
    const { back, answer, svg } = panel;
    const lines = (kind, places, opacity = 1) => {
      const parts = places.map(
        ([x, y], i) => `${i % 2 ? "L" : "M"}${toX(x).toFixed(1)} ${toY(y).toFixed(1)}`,
      );
      element("path", { class: kind, d: parts.join(""), opacity }, back);
    };
    element("rect", { class: "within", x: 0, y: 0, width, height }, back);
    if (answer) {
      const last = panel.shown();
      const [across, down] = [width / (CELLS - 1), height / (CELLS - 1)];
      const place = { x: -across / 2, y: -down / 2, width: width + across, height: height + down };
      const href = shaded(answer[last], svg);
      element("image", { href, ...place, preserveAspectRatio: "none" }, back);
      for (let t = 1; t <= last; t++) {
        const isPast = t < last;
        const opacity = isPast ? 0.15 + (0.5 * t) / last : 1;
        lines(isPast ? "trace" : "curve", crossings(answer[t]), opacity);
      }
    }
    if (hasBothClasses()) {
      const solved = crossings(Table.logisticRegression(state.points, grid));
      const ordered = solved.sort(([a, c], [b, d]) => a - b || c - d);
      lines("bayes", ordered.length ? [ordered[0], ordered.at(-1)] : []); // it is straight
    }
    for (const number of [-2, 0, 2]) {
      label(number, toX(number), height - 6, back, { "text-anchor": "middle" });
      label(number, 6, toY(number) + 4, back);
    }
  }

  Page.start({
    flags: [],
    contexts: 2,
    missing: "add points of both classes",
    range: () => ({ x: [-EDGE, EDGE], y: [-EDGE, EDGE] }),
    drawn,
    parsed,
    made,
    isOutside: () => false,
    named: (point) => `, a ${NAMES[point.label]}`,
    question,
    answer: (_, answers) => Table.ofBoth(answers),
    draw,
    drawMore: () => {},
  });
})();
