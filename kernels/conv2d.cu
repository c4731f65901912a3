// Two-dimensional convolution as products of matrices whose second factor is never stored (implicit GEMM):
//
//   forward       y[o][s,i,j] = b[o] + sum over (c,p,q) of w[o][c,p,q] * x[s,c][i*stride+p-pad, j*stride+q-pad]
//   grad_input    dx[c][s,i,j] = sum over (o,p,q) of w[o,p,q][c] * dy[s,o][(i+pad-p)/stride, (j+pad-q)/stride], where these are whole
//   grad_params   dw[o][c,p,q] = sum over (s,i,j) of dy[o][s,i,j] * x[s,c][i*stride+p-pad, j*stride+q-pad], and db[o] as one more
//                 column of ones; cut into parts of the sum (blockIdx.z), which conv2d_collect adds up in their order
//
// Shapes: x: (n, ci, h, w), w: (co, ci, kh, kw), b: (co), y: (n, co, oh, ow); any size, stride and padding.
// Launch: blocks of 128 threads: (columns/128, rows/(8*TM), parts of the sum); TM = 4 for up to 32 rows (_narrow), else 8.
// Cost of each: 2*n*co*oh*ow*ci*kh*kw FLOP (grad_input: times stride^2, what is skipped counts as zeros); x is read about
// kh*kw times, from the caches.
#include "tile.cuh"

struct Geometry {
  int n, ci, h, w, co, kh, kw, stride, pad, oh, ow;
};

// Walks over (outer, p, q) in the order of filters.
struct Taps {
  int outer, p, q;
  __device__ Taps(const Geometry& g, int k) : outer(k / (g.kh * g.kw)), p(k / g.kw % g.kh), q(k % g.kw) {}
  __device__ void step(const Geometry& g) {
    if (++q < g.kw) return;
    q = 0;
    if (++p < g.kh) return;
    p = 0;
    outer++;
  }
};

// Rows of a matrix without gaps.
struct Filters {
  const float* w;
  int rows, columns;
  __device__ float at(int row, int k) const { return row < rows && k < columns ? w[(u64)row * columns + k] : 0.0f; }
};

// What filters see: a column is an output cell, k a tap.
struct Patches {
  const Geometry& g;
  const float* x;
  int top, left;
  Taps taps;
  __device__ Patches(const Geometry& g, const float* all, int column, int k) : g(g), x(nullptr), top(0), left(0), taps(g, k) {
    const int cells = g.oh * g.ow, s = column / cells, cell = column % cells;
    if (s >= g.n) return;
    x = all + (u64)s * g.ci * g.h * g.w;
    top = cell / g.ow * g.stride - g.pad;
    left = cell % g.ow * g.stride - g.pad;
  }
  __device__ void next(float (&values)[DEPTH]) {
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
      const int y = top + taps.p, z = left + taps.q;
      const bool inside = x && taps.outer < g.ci && (u32)y < (u32)g.h && (u32)z < (u32)g.w;
      values[i] = inside ? x[(taps.outer * g.h + y) * g.w + z] : 0.0f;
      taps.step(g);
    }
  }
};

template <int TM>
__device__ __forceinline__ void forward(Tiles<float, TM>& tiles, const Geometry& g, const float* x, const float* w, const float* b,
                                        float* y) {
  const int row = blockIdx.y * 8 * TM, column = blockIdx.x * COLUMNS, k = g.ci * g.kh * g.kw;
  const int cells = g.oh * g.ow;
  const Filters filters{w, g.co, k};
  Patches patches(g, x, column + threadIdx.x, 0);
  float sum[TM][ACROSS];
  product<false>(tiles, filters, patches, row, 0, k, sum);
  each_sum(row, column, g.co, g.n * cells, sum, [&](int o, int c, float value) {
    y[((u64)(c / cells) * g.co + o) * cells + c % cells] = value + b[o];
  });
}
extern "C" __global__ void __launch_bounds__(128)
conv2d_forward(Geometry g, const float* x, const float* w, const float* b, float* y) {
  __shared__ Tiles<float, 8> tiles;
  forward(tiles, g, x, w, b, y);
}
extern "C" __global__ void __launch_bounds__(128)
conv2d_forward_narrow(Geometry g, const float* x, const float* w, const float* b, float* y) {
  __shared__ Tiles<float, 4> tiles;
  forward(tiles, g, x, w, b, y);
}

// Filters the other way round: a row is an input channel, k = (o, p, q).
struct Turned {
  const Geometry& g;
  const float* w;
  __device__ float at(int c, int k) const {
    const int taps = g.kh * g.kw, o = k / taps;
    return c < g.ci && o < g.co ? w[((u64)o * g.ci + c) * taps + k % taps] : 0.0f;
  }
};

// What an input cell gave to: a column is an input cell, k = (o, p, q). With i + pad = whole*stride + rest and p likewise, the output
// row is the difference of the wholes, and there is one only if the rests are equal: no division in the loop.
struct Outputs {
  const Geometry& g;
  const float* dy;
  int row, row_rest, column, column_rest;
  Taps taps;
  int p_whole, p_rest, q_whole, q_rest;
  __device__ Outputs(const Geometry& g, const float* all, int cell, int k) : g(g), dy(nullptr), row(0), row_rest(0), column(0),
      column_rest(0), taps(g, k) {
    const int cells = g.h * g.w, s = cell / cells;
    split();
    if (s >= g.n) return;
    dy = all + (u64)s * g.co * g.oh * g.ow;
    const int i = cell % cells / g.w + g.pad, j = cell % g.w + g.pad;
    row = i / g.stride, row_rest = i % g.stride;
    column = j / g.stride, column_rest = j % g.stride;
  }
  __device__ void split() {
    p_whole = taps.p / g.stride, p_rest = taps.p % g.stride;
    q_whole = taps.q / g.stride, q_rest = taps.q % g.stride;
  }
  __device__ void step() {
    const int p = taps.p, o = taps.outer;
    taps.step(g);
    if (++q_rest == g.stride) q_rest = 0, q_whole++;
    if (taps.q != 0) return;
    q_whole = q_rest = 0;
    if (taps.outer != o) {
      p_whole = p_rest = 0;
    } else if (taps.p != p && ++p_rest == g.stride) {
      p_rest = 0, p_whole++;
    }
  }
  __device__ void next(float (&values)[DEPTH]) {
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
      const int y = row - p_whole, z = column - q_whole;
      const bool met = row_rest == p_rest && column_rest == q_rest;
      const bool inside = dy && met && taps.outer < g.co && (u32)y < (u32)g.oh && (u32)z < (u32)g.ow;
      values[i] = inside ? dy[(taps.outer * g.oh + y) * g.ow + z] : 0.0f;
      step();
    }
  }
};

template <int TM>
__device__ __forceinline__ void grad_input(Tiles<float, TM>& tiles, const Geometry& g, const float* dy, const float* w, float* dx) {
  const int row = blockIdx.y * 8 * TM, column = blockIdx.x * COLUMNS, k = g.co * g.kh * g.kw;
  const int cells = g.h * g.w;
  const Turned filters{g, w};
  Outputs outputs(g, dy, column + threadIdx.x, 0);
  float sum[TM][ACROSS];
  product<false>(tiles, filters, outputs, row, 0, k, sum);
  each_sum(row, column, g.ci, g.n * cells, sum, [&](int c, int cell, float value) {
    dx[((u64)(cell / cells) * g.ci + c) * cells + cell % cells] = value;
  });
}
extern "C" __global__ void __launch_bounds__(128)
conv2d_grad_input(Geometry g, const float* dy, const float* w, float* dx) {
  __shared__ Tiles<float, 8> tiles;
  grad_input(tiles, g, dy, w, dx);
}
extern "C" __global__ void __launch_bounds__(128)
conv2d_grad_input_narrow(Geometry g, const float* dy, const float* w, float* dx) {
  __shared__ Tiles<float, 4> tiles;
  grad_input(tiles, g, dy, w, dx);
}

// Gradients of the outputs: a row is an output channel, k an output cell of any sample.
struct Gradients {
  const Geometry& g;
  const float* dy;
  __device__ float at(int o, int k) const {
    const int cells = g.oh * g.ow, s = k / cells;
    return o < g.co && s < g.n ? dy[((u64)s * g.co + o) * cells + k % cells] : 0.0f;
  }
};

// What a tap sees: a column is a tap, or the ones that sum up db behind the last; k is an output cell of any sample.
struct Seen {
  const Geometry& g;
  const float* x;  // in the plane of the tap's channel; none: ones, or outside
  bool ones;
  int p, q, s, i, j;
  __device__ Seen(const Geometry& g, const float* all, int tap, int k) : g(g), x(nullptr), ones(tap == g.ci * g.kh * g.kw), p(0), q(0) {
    const int c = tap / (g.kh * g.kw);
    if (c < g.ci) x = all + (u64)c * g.h * g.w;
    p = tap / g.kw % g.kh - g.pad, q = tap % g.kw - g.pad;
    s = k / (g.oh * g.ow), i = k / g.ow % g.oh, j = k % g.ow;
  }
  __device__ void next(float (&values)[DEPTH]) {
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
      const int y = i * g.stride + p, z = j * g.stride + q;
      const bool inside = x && s < g.n && (u32)y < (u32)g.h && (u32)z < (u32)g.w;
      values[d] = inside ? x[(u64)s * g.ci * g.h * g.w + y * g.w + z] : ones && s < g.n ? 1.0f : 0.0f;
      if (++j < g.ow) continue;
      j = 0;
      if (++i < g.oh) continue;
      i = 0;
      s++;
    }
  }
};

template <int TM>
__device__ __forceinline__ void grad_params(Tiles<float, TM>& tiles, const Geometry& g, const float* x, const float* dy, float* parts,
                                            int part) {
  const int row = blockIdx.y * 8 * TM, column = blockIdx.x * COLUMNS, columns = g.ci * g.kh * g.kw + 1;
  const int begin = blockIdx.z * part, end = min(begin + part, g.n * g.oh * g.ow);
  const Gradients gradients{g, dy};
  Seen seen(g, x, column + threadIdx.x, begin);
  float sum[TM][ACROSS];
  product<false>(tiles, gradients, seen, row, begin, end, sum);
  float* own = parts + (u64)blockIdx.z * g.co * columns;
  each_sum(row, column, g.co, columns, sum, [&](int o, int tap, float value) { own[(u64)o * columns + tap] = value; });
}
extern "C" __global__ void __launch_bounds__(128)
conv2d_grad_params(Geometry g, const float* x, const float* dy, float* parts, int part) {
  __shared__ Tiles<float, 8> tiles;
  grad_params(tiles, g, x, dy, parts, part);
}
extern "C" __global__ void __launch_bounds__(128)
conv2d_grad_params_narrow(Geometry g, const float* x, const float* dy, float* parts, int part) {
  __shared__ Tiles<float, 4> tiles;
  grad_params(tiles, g, x, dy, parts, part);
}

// Adds up parts: (count, co, taps + 1) in their order. Launch: a thread an element, blocks of 256.
extern "C" __global__ void __launch_bounds__(256)
conv2d_collect(const float* parts, int count, int co, int taps, float* dw, float* db) {
  const u64 all = (u64)co * (taps + 1);
  for (u64 at = first_element(); at < all; at += all_threads()) {
    float sum = 0.0f;
    for (int part = 0; part < count; part++) sum += parts[part * all + at];
    const u64 o = at / (taps + 1), tap = at % (taps + 1);
    if (tap < (u64)taps) dw[o * taps + tap] = sum;
    else db[o] = sum;
  }
}
