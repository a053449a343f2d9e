// Tables of two columns and two classes: rows { x, y, label } as a model reads them, what its answers
// mean, and logistic regression.
//
//   const queries = Table.inputs(task, points, asked);   // [m, d]
//
// Python has the same in openml_eval/estimators.py. A comment gives the shape: m rows that are asked
// about, d inputs of a model.

const Table = (() => {
  "use strict";

  const NEWTON_STEPS = 12;
  const WIDE = 4.6; // where centres of clouds are, and the clouds' deviation
  const CLOUD = 0.7;

  /** How a number of a column is standardised: mean 0 and variance 1, a constant column 0. Divided by
   * the largest first, equal numbers are exactly 1, and so is their mean. */
  function standardising(column) {
    const unit = Math.max(...column.map(Math.abs)) || 1;
    const mean = column.reduce((sum, v) => sum + v / unit, 0) / column.length;
    const variance = column.reduce((sum, v) => sum + (v / unit - mean) ** 2, 0) / column.length;
    return (value) => (variance > 0 ? (value / unit - mean) / Math.sqrt(variance) : 0);
  }

  /** A model's inputs [m, d] of rows { x, y }: standardised by the points' columns and cut at ± clip;
   * other columns are 0. */
  function inputs({ dims, clip }, points, asked) {
    const rows = new Float64Array(asked.length * dims);
    ["x", "y"].forEach((name, j) => {
      const standard = standardising(points.map((point) => point[name]));
      asked.forEach((row, i) => {
        rows[i * dims + j] = Math.min(Math.max(standard(row[name]), -clip), clip);
      });
    });
    return rows;
  }

  /** The points' classes as two contexts have them: class 1 against the rest, and class 0. */
  function contexts(task, points) {
    const [other, one] = task.labels;
    return [1, 0].map((own) =>
      Float64Array.from(points, ({ label }) => (label === own ? one : other)),
    );
  }

  /** Probabilities of class 1 from those that both contexts give to their own class. */
  function ofBoth([one, zero]) {
    return one.map((of, t) => of.map((p, q) => (p + 1 - zero[t][q]) / 2));
  }

  /** Probabilities [m] of class 1 at `asked` by logistic regression on the points' standardised
   * columns, C = 1: Newton's steps on ½ |w|² + Σ log loss, the intercept not penalised. */
  function logisticRegression(points, asked) {
    const standardised = (rows) => {
      const columns = inputs({ dims: 2, clip: Infinity }, points, rows);
      return rows.map((_, i) => [1, columns[2 * i], columns[2 * i + 1]]);
    };
    const known = standardised(points);
    let w = [0, 0, 0];
    const at = (row) => Engine.logistic(row.reduce((sum, value, j) => sum + w[j] * value, 0));
    for (let step = 0; step < NEWTON_STEPS; step++) {
      const hessian = Float64Array.of(0, 0, 0, 0, 1, 0, 0, 0, 1);
      const gradient = Float64Array.of(0, w[1], w[2]);
      known.forEach((row, i) => {
        const p = at(row);
        for (let j = 0; j < 3; j++) {
          gradient[j] += (p - points[i].label) * row[j];
          for (let k = 0; k < 3; k++) {
            hessian[3 * j + k] += p * (1 - p) * row[j] * row[k];
          }
        }
      });
      const change = Engine.solve(hessian, gradient);
      w = w.map((value, j) => value - change[j]);
    }
    return Float64Array.from(standardised(asked), at);
  }

  /** A table of a seed: points { x, y, label } in three clouds, of which two have one class. */
  function drawn(seed, count) {
    const { uniform, normal } = Engine.normals(seed);
    const centre = () => WIDE * (uniform() - 0.5);
    const clouds = [0, 1, 1].map((label) => ({ label, x: centre(), y: centre() }));
    return Array.from({ length: count }, (_, i) => {
      const { label, x, y } = clouds[i % clouds.length];
      return { x: x + CLOUD * normal(), y: y + CLOUD * normal(), label };
    });
  }

  return { inputs, contexts, ofBoth, logisticRegression, drawn };
})();

if (typeof module !== "undefined") {
  module.exports = Table;
}
