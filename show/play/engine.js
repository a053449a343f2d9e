// The forward pass of a small looped transformer, and the solvers beside it.
//
//   const model = await Engine.read(json);              // what write.py put into the page
//   for (const y of model.unroll(xs, ys, queries)) ...  // predictions: read-in, loop 1, loop 2, …
//
// It runs in a page, in a worker made of this text, and in node. All arrays are flat Float64Array,
// row by row, although weights are float16: a float64 is loaded without conversion. A comment gives
// the shape: n points of d features, m queries, S = 2n + m tokens, C = n_embd.

const Engine = (() => {
  "use strict";

  const NORM_EPSILON = 1e-5; // PyTorch's LayerNorm
  const GELU_SCALE = 2 * Math.sqrt(2 / Math.PI);
  const GELU_CUBIC = 0.044715;

  // ------------------------------------ weights

  /** The finite number that 16 bits hold (IEEE 754 binary16). */
  function fromHalf(bits) {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 0x1f;
    const fraction = bits & 0x3ff;
    if (exponent === 0) {
      return sign * fraction * 2 ** -24;
    }
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }

  /** Numbers of 16 bits from base64 of gzip. Unpacked, the high bytes of all come first, then the low
   * ones: signs and exponents alone pack well. */
  async function unpack(base64) {
    const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const count = bytes.length / 2;
    const numbers = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      numbers[i] = fromHalf((bytes[i] << 8) | bytes[count + i]);
    }
    return numbers;
  }

  /** A model that is ready to run. `json` has its shape, and its weights in the order of `shapes`:
   * `data`, and what rounding left out of that in a second of these, if there is one. */
  async function read(json) {
    const [numbers, rest] = await Promise.all(json.data.map(unpack));
    if (rest) {
      add(numbers, rest);
    }
    const weights = {};
    let start = 0;
    for (const [name, length] of json.shapes) {
      weights[name] = numbers.subarray(start, start + length);
      start += length;
    }
    return new Model(json, weights);
  }

  // ------------------------------------ numbers

  function logistic(z) {
    return 1 / (1 + Math.exp(-z));
  }

  /** The solution [n] of A x = b for a positive definite A [n, n], which Cholesky's factor replaces;
   * x is written into b. */
  function solve(A, b) {
    const n = b.length;
    for (let i = 0; i < n; i++) {
      for (let j = 0; j <= i; j++) {
        let sum = A[i * n + j];
        for (let k = 0; k < j; k++) {
          sum -= A[i * n + k] * A[j * n + k];
        }
        A[i * n + j] = i === j ? Math.sqrt(sum) : sum / A[j * n + j];
      }
    }
    for (let i = 0; i < n; i++) {
      for (let k = 0; k < i; k++) {
        b[i] -= A[i * n + k] * b[k];
      }
      b[i] /= A[i * n + i];
    }
    for (let i = n - 1; i >= 0; i--) {
      for (let k = i + 1; k < n; k++) {
        b[i] -= A[k * n + i] * b[k];
      }
      b[i] /= A[i * n + i];
    }
    return b;
  }

  // ------------------------------------ layers

  /** out [rows, outputs] = x [rows, inputs] · weightᵀ + bias, with weight [outputs, inputs]. */
  function linear(x, rows, weight, bias, out) {
    const outputs = bias.length;
    const inputs = weight.length / outputs;
    const even = rows & ~1;
    let o = 0;
    // Two rows by four outputs at a time: six loads serve eight products.
    for (; o + 4 <= outputs; o += 4) {
      const w0 = o * inputs;
      const w1 = w0 + inputs;
      const w2 = w1 + inputs;
      const w3 = w2 + inputs;
      for (let r = 0; r < even; r += 2) {
        const x0 = r * inputs;
        const x1 = x0 + inputs;
        let a0 = bias[o],
          a1 = bias[o + 1],
          a2 = bias[o + 2],
          a3 = bias[o + 3];
        let b0 = a0,
          b1 = a1,
          b2 = a2,
          b3 = a3;
        for (let i = 0; i < inputs; i++) {
          const a = x[x0 + i];
          const b = x[x1 + i];
          const u = weight[w0 + i],
            v = weight[w1 + i],
            w = weight[w2 + i],
            z = weight[w3 + i];
          a0 += a * u;
          a1 += a * v;
          a2 += a * w;
          a3 += a * z;
          b0 += b * u;
          b1 += b * v;
          b2 += b * w;
          b3 += b * z;
        }
        const p = r * outputs + o;
        const q = p + outputs;
        out[p] = a0;
        out[p + 1] = a1;
        out[p + 2] = a2;
        out[p + 3] = a3;
        out[q] = b0;
        out[q + 1] = b1;
        out[q + 2] = b2;
        out[q + 3] = b3;
      }
    }
    // What is left: the last outputs of all rows, and all outputs of an odd last row.
    for (let r = 0; r < rows; r++) {
      for (let k = r < even ? o : 0; k < outputs; k++) {
        let sum = bias[k];
        for (let i = 0; i < inputs; i++) {
          sum += x[r * inputs + i] * weight[k * inputs + i];
        }
        out[r * outputs + k] = sum;
      }
    }
  }

  /** out [rows, C]: each row of x without its mean, over its standard deviation, times a gain, plus
   * a bias; out may be x. */
  function layerNorm(x, rows, gain, bias, out) {
    const width = gain.length;
    for (let r = 0; r < rows; r++) {
      const start = r * width;
      let mean = 0;
      for (let i = 0; i < width; i++) {
        mean += x[start + i];
      }
      mean /= width;
      let variance = 0;
      for (let i = 0; i < width; i++) {
        variance += (x[start + i] - mean) ** 2;
      }
      const scale = 1 / Math.sqrt(variance / width + NORM_EPSILON);
      for (let i = 0; i < width; i++) {
        out[start + i] = (x[start + i] - mean) * scale * gain[i] + bias[i];
      }
    }
  }

  /** GELU in its tanh form, in place: ½ (1 + tanh u) is the logistic function of 2u. */
  function gelu(x) {
    for (let i = 0; i < x.length; i++) {
      const z = x[i];
      x[i] = z / (1 + Math.exp(-GELU_SCALE * (z + GELU_CUBIC * z * z * z)));
    }
  }

  /** out [S, C]: what each token reads from others by causal attention, for queries, keys and values
   * qkv [S, 3C] of `heads` heads. The first `context` tokens read those before and themselves; a
   * later one, a query, reads all of the context and itself, and no other query. */
  function attend(qkv, tokens, context, heads, out) {
    const row = qkv.length / tokens;
    const width = row / 3;
    const size = width / heads;
    const scale = 1 / Math.sqrt(size);
    const scores = new Float64Array(context + 1);
    for (let s = 0; s < tokens; s++) {
      const before = Math.min(s, context);
      for (let h = 0; h < heads; h++) {
        const query = s * row + h * size;
        let most = -Infinity;
        for (let j = 0; j <= before; j++) {
          const key = (j < before ? j : s) * row + width + h * size; // the last is itself
          let dot = 0;
          for (let i = 0; i < size; i++) {
            dot += qkv[query + i] * qkv[key + i];
          }
          scores[j] = dot * scale;
          most = Math.max(most, scores[j]);
        }
        let total = 0;
        for (let j = 0; j <= before; j++) {
          scores[j] = Math.exp(scores[j] - most);
          total += scores[j];
        }
        const target = s * width + h * size;
        out.fill(0, target, target + size);
        for (let j = 0; j <= before; j++) {
          const value = (j < before ? j : s) * row + 2 * width + h * size;
          const share = scores[j] / total;
          for (let i = 0; i < size; i++) {
            out[target + i] += share * qkv[value + i];
          }
        }
      }
    }
  }

  /** x += scale · branch, in place. */
  function add(x, branch, scale = 1) {
    for (let i = 0; i < x.length; i++) {
      x[i] += scale * branch[i];
    }
  }

  // ------------------------------------ the model

  /** A model of GPT-2 blocks on pairs. `facts` has family, tokens, injection, n_layer, n_embd,
   * n_head, dims, classes and scale, the factor of residual branches; `weights` are by the names
   * that they have in Python. */
  class Model {
    constructor(facts, weights) {
      this.facts = facts;
      this.weights = weights;
    }

    /** Predictions [m] at queries [m, d] after the points xs [n, d], ys [n]: first those of the
     * read-in, then after each loop or layer, for as long as the caller asks. */
    *unroll(xs, ys, queries) {
      const { family, injection, dims, n_embd, n_layer } = this.facts;
      const context = 2 * ys.length;
      const tokens = context + queries.length / dims;
      const e = this.readIn(xs, ys, queries);
      yield this.readOut(e, context, family === "standard");
      const positions = this.positions(context, tokens);
      this.reserve(tokens);
      if (family === "standard") {
        // Positions once, then layer t; the read-out alone norms.
        add(e, positions);
        for (let layer = 0; layer < n_layer; layer++) {
          this.block(e, layer, context);
          yield this.readOut(e, context, true);
        }
        return;
      }
      // Injected, the stream starts from 0 and each loop adds e; else it starts from e. Positions
      // are added at each loop.
      const added = positions;
      if (injection === "add") {
        add(added, e);
      }
      const stream = injection === "add" ? new Float64Array(tokens * n_embd) : e;
      const { "loop.norm.weight": gain, "loop.norm.bias": bias } = this.weights;
      while (true) {
        add(stream, added);
        for (let layer = 0; layer < n_layer; layer++) {
          this.block(stream, layer, context);
        }
        layerNorm(stream, tokens, gain, bias, stream);
        yield this.readOut(stream, context, false);
      }
    }

    /** The tokens, read in: [S, C]. Each point has two, of x and of y; then the queries, like x. */
    readIn(xs, ys, queries) {
      const { dims, tokens, n_embd } = this.facts;
      const pairs = tokens === "pairs"; // (x, 0) and (x, y); else x, and y padded with zeros
      const width = dims + (pairs ? 1 : 0);
      const asked = queries.length / dims;
      const count = 2 * ys.length + asked;
      const rows = new Float64Array(count * width);
      for (let p = 0; p < ys.length; p++) {
        const x = xs.subarray(p * dims, (p + 1) * dims);
        const ofX = 2 * p * width;
        const ofY = ofX + width;
        rows.set(x, ofX);
        if (pairs) {
          rows.set(x, ofY);
          rows[ofY + dims] = ys[p];
        } else {
          rows[ofY] = ys[p];
        }
      }
      for (let q = 0; q < asked; q++) {
        rows.set(queries.subarray(q * dims, (q + 1) * dims), (2 * ys.length + q) * width);
      }
      const e = new Float64Array(count * n_embd);
      linear(rows, count, this.weights["read_in.weight"], this.weights["read_in.bias"], e);
      return e;
    }

    /** Learned positions [S, C]: a query has that of the x that would come next. */
    positions(context, tokens) {
      const width = this.facts.n_embd;
      const table = this.weights["loop.positions"];
      const rows = new Float64Array(tokens * width);
      for (let s = 0; s < tokens; s++) {
        const position = Math.min(s, context);
        rows.set(table.subarray(position * width, (position + 1) * width), s * width);
      }
      return rows;
    }

    /** Predictions [m] from the stream [S, C], normed first where no loop has. Those of a classifier
     * are the probabilities of class 1. */
    readOut(stream, context, norm) {
      const { n_embd: width, classes } = this.facts;
      const { weights } = this;
      let last = stream.subarray(context * width);
      const count = last.length / width;
      if (norm) {
        const normed = new Float64Array(last.length);
        layerNorm(last, count, weights["loop.norm.weight"], weights["loop.norm.bias"], normed);
        last = normed;
      }
      const outputs = new Float64Array(count * (classes || 1));
      linear(last, count, weights["read_out.weight"], weights["read_out.bias"], outputs);
      if (!classes) {
        return outputs;
      }
      const logit = (_, q) => outputs[2 * q + 1] - outputs[2 * q];
      return Float64Array.from({ length: count }, logit).map(logistic);
    }

    /** Room for what a block computes of so many tokens, used again by each. */
    reserve(tokens) {
      const width = this.facts.n_embd;
      this.normed = new Float64Array(tokens * width);
      this.mixed = new Float64Array(tokens * width);
      this.branch = new Float64Array(tokens * width);
      this.qkv = new Float64Array(tokens * 3 * width);
      this.hidden = new Float64Array(tokens * 4 * width);
    }

    /** One block, in place: x [S, C] += attention(norm x), x += MLP(norm x). */
    block(x, layer, context) {
      const { n_embd, n_head, scale } = this.facts;
      const { normed, mixed, branch, qkv, hidden } = this;
      const rows = x.length / n_embd;
      const weight = (name) => this.weights[`loop.blocks.${layer}.${name}.weight`];
      const bias = (name) => this.weights[`loop.blocks.${layer}.${name}.bias`];
      layerNorm(x, rows, weight("norm_1"), bias("norm_1"), normed);
      linear(normed, rows, weight("qkv"), bias("qkv"), qkv);
      attend(qkv, rows, context, n_head, mixed);
      linear(mixed, rows, weight("projection"), bias("projection"), branch);
      add(x, branch, scale);
      layerNorm(x, rows, weight("norm_2"), bias("norm_2"), normed);
      linear(normed, rows, weight("expand"), bias("expand"), hidden);
      gelu(hidden);
      linear(hidden, rows, weight("contract"), bias("contract"), branch);
      add(x, branch, scale);
    }
  }

  // ------------------------------------ the functions

  /** Features [n, d] of numbers xs [n]: each a cosine and a sine of one frequency. */
  function features(task, xs) {
    const width = task.features.length;
    const rows = new Float64Array(xs.length * width);
    xs.forEach((x, i) => {
      task.features.forEach(([frequency, cosine, sine], j) => {
        const angle = frequency * x;
        rows[i * width + j] = cosine * Math.cos(angle) + sine * Math.sin(angle);
      });
    });
    return rows;
  }

  /** k(x, x') = Σ v_j φ_j(x) φ_j(x'), of rows of features. */
  function covariance(task, a, i, b, j) {
    const width = task.variances.length;
    let sum = 0;
    for (let k = 0; k < width; k++) {
      sum += task.variances[k] * a[i * width + k] * b[j * width + k];
    }
    return sum;
  }

  /** The posterior mean [m] at xs `asked`, given points xs and ys, for y = Σ w_j φ_j(x) + noise with
   * w_j ~ N(0, v_j): no predictor has a smaller expected error. It solves (K + σ² I) α = y. */
  function bayes(task, xs, ys, asked) {
    const n = xs.length;
    const known = features(task, xs);
    const queries = features(task, asked);
    // σ² is at least a millionth of the prior's variance, for points on top of each other.
    const least = 1e-6 * task.variances.reduce((sum, v) => sum + v, 0);
    const noise = Math.max(task.noise ** 2, least);
    const moments = new Float64Array(n * n);
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < n; j++) {
        moments[i * n + j] = covariance(task, known, i, known, j) + (i === j ? noise : 0);
      }
    }
    const alpha = solve(moments, Float64Array.from(ys));
    return Float64Array.from(asked, (_, q) => {
      let sum = 0;
      for (let i = 0; i < n; i++) {
        sum += alpha[i] * covariance(task, queries, q, known, i);
      }
      return sum;
    });
  }

  /** A source of standard normal numbers that a whole number starts: mulberry32, Box and Muller. */
  function normals(seed) {
    let state = seed | 0;
    const uniform = () => {
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    };
    const normal = () =>
      Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
    return { uniform, normal };
  }

  /** The function of a seed: values [n] at xs [n]. */
  function drawn(task, seed) {
    const { normal } = normals(seed);
    const weights = task.variances.map((variance) => Math.sqrt(variance) * normal());
    return (xs) => {
      const rows = features(task, xs);
      return Float64Array.from(xs, (_, i) =>
        weights.reduce((sum, w, j) => sum + w * rows[i * weights.length + j], 0),
      );
    };
  }

  // ------------------------------------ in a worker

  /** Answer in a worker: the first message is the model's JSON, each other one has points, queries
   * and a number of loops, and gets the predictions of each loop. */
  function serve() {
    let model = null;
    globalThis.onmessage = async ({ data }) => {
      if (model === null) {
        model = read(data);
        return;
      }
      const { xs, ys, queries, loops } = data;
      try {
        const ready = await model;
        const predictions = [];
        for (const each of ready.unroll(xs, ys, queries)) {
          predictions.push(each);
          if (predictions.length > loops) {
            break;
          }
        }
        globalThis.postMessage(predictions);
      } catch (error) {
        globalThis.postMessage({ error: String(error) }); // such as of an old browser
      }
    };
  }

  /** The other side: a model in workers of its own, whose code is at the address `place`, one for
   * each context of a question. While they compute, only the newest question waits. */
  class Thinker {
    constructor(place, facts, contexts, heard) {
      this.heard = heard;
      this.asked = null;
      this.waiting = null;
      this.workers = Array.from({ length: contexts }, (_, i) => {
        const worker = new Worker(place);
        worker.postMessage(facts);
        worker.onmessage = ({ data }) => this.hear(i, data);
        return worker;
      });
    }

    hear(i, predictions) {
      this.answers[i] = predictions;
      this.missing -= 1;
      if (this.missing > 0) {
        return;
      }
      const { asked, answers } = this;
      this.asked = null;
      if (this.waiting !== null) {
        this.send(this.waiting);
      }
      this.heard(asked, answers);
    }

    ask(question) {
      if (this.asked === null) {
        this.send(question);
      } else {
        this.waiting = question;
      }
    }

    send(question) {
      this.waiting = null;
      this.asked = question;
      this.answers = [];
      this.missing = this.workers.length;
      const { xs, queries, loops } = question;
      this.workers.forEach((worker, i) => {
        worker.postMessage({ xs, ys: question.contexts[i], queries, loops });
      });
    }
  }

  return { read, logistic, solve, features, bayes, normals, drawn, serve, Thinker };
})();

if (typeof module !== "undefined") {
  module.exports = Engine;
}
