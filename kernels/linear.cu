// Fully connected layer, in tiles:
//
//   forward       y = x * w^T + b        grad_input   dx = dy * w
//   grad_params   dw = dy^T * x, and db, the sums of dy, as one more column of ones
//
// Shapes: x: (n, ci), w: (co, ci), b: (co), y: (n, co).
// Launch: blocks of 128 threads: (columns/128, rows/(8*TM), parts of the sum); TM = 4 for up to 32 rows (_narrow), else 8. Sums are
// cut into parts (blockIdx.z) where there are few tiles; linear_collect adds them up in their order, and b to y.
// Cost of each: 2*n*ci*co FLOP; 4*(n*ci + n*co + ci*co) bytes at least.
#include "tile.cuh"

struct Geometry {
  int n, ci, co;
};

// Rows of a matrix without gaps; k runs along them.
struct Rows {
  const float* x;
  int rows, columns;
  __device__ float at(int row, int k) const { return row < rows && k < columns ? x[(u64)row * columns + k] : 0.0f; }
};
// Columns of a matrix without gaps; k runs along them.
struct Columns {
  const float* x;
  int rows, columns;
  __device__ float at(int column, int k) const { return k < rows && column < columns ? x[(u64)k * columns + column] : 0.0f; }
};

// One row of a matrix; k runs along it, four at a time where they are aligned.
struct AlongRow {
  const float* x;
  int k, length;
  bool aligned;
  __device__ AlongRow(const float* all, int rows, int length, int row, int k)
      : x(row < rows ? all + (u64)row * length : nullptr), k(k), length(length), aligned(aligned16(all) && length % 4 == 0) {}
  __device__ void next(float (&values)[DEPTH]) {
    if (x && aligned && k + DEPTH <= length) {
      four(x + k, values), four(x + k + 4, values + 4);
    } else {
#pragma unroll
      for (int i = 0; i < DEPTH; i++) values[i] = x && k + i < length ? x[k + i] : 0.0f;
    }
    k += DEPTH;
  }
};

// One column of a matrix, k running along it; or ones, behind the last if there are any.
struct AlongColumn {
  const float* x;
  int k, rows, columns, column;
  bool ones;
  __device__ AlongColumn(const float* x, int rows, int columns, int column, int k, bool with_ones)
      : x(x), k(k), rows(rows), columns(columns), column(column), ones(with_ones && column == columns) {}
  __device__ void next(float (&values)[DEPTH]) {
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
      const bool inside = k + i < rows;
      values[i] = inside && column < columns ? x[(u64)(k + i) * columns + column] : inside && ones ? 1.0f : 0.0f;
    }
    k += DEPTH;
  }
};

struct Sums {
  int begin, end;
  float* own;  // this part's place
  __device__ Sums(float* parts, int part, int k, int rows, int columns)
      : begin(blockIdx.z * part), end(min(begin + part, k)), own(parts + (u64)blockIdx.z * rows * columns) {}
};

template <int TM>
__device__ __forceinline__ void forward(Tiles<float, TM>& tiles, Geometry g, const float* x, const float* w, float* parts, int part) {
  const int row = blockIdx.y * 8 * TM, column = blockIdx.x * COLUMNS;
  const Sums sums(parts, part, g.ci, g.n, g.co);
  AlongRow b(w, g.co, g.ci, column + threadIdx.x, sums.begin);
  float sum[TM][ACROSS];
  product<false>(tiles, Rows{x, g.n, g.ci}, b, row, sums.begin, sums.end, sum);
  each_sum(row, column, g.n, g.co, sum, [&](int s, int o, float value) { sums.own[(u64)s * g.co + o] = value; });
}
extern "C" __global__ void __launch_bounds__(128)
linear_forward(Geometry g, const float* x, const float* w, float* parts, int part) {
  __shared__ Tiles<float, 8> tiles;
  forward(tiles, g, x, w, parts, part);
}
extern "C" __global__ void __launch_bounds__(128)
linear_forward_narrow(Geometry g, const float* x, const float* w, float* parts, int part) {
  __shared__ Tiles<float, 4> tiles;
  forward(tiles, g, x, w, parts, part);
}

template <int TM>
__device__ __forceinline__ void grad_input(Tiles<float, TM>& tiles, Geometry g, const float* dy, const float* w, float* parts, int part) {
  const int row = blockIdx.y * 8 * TM, column = blockIdx.x * COLUMNS;
  const Sums sums(parts, part, g.co, g.n, g.ci);
  AlongColumn b(w, g.co, g.ci, column + threadIdx.x, sums.begin, false);
  float sum[TM][ACROSS];
  product<false>(tiles, Rows{dy, g.n, g.co}, b, row, sums.begin, sums.end, sum);
  each_sum(row, column, g.n, g.ci, sum, [&](int s, int i, float value) { sums.own[(u64)s * g.ci + i] = value; });
}
extern "C" __global__ void __launch_bounds__(128)
linear_grad_input(Geometry g, const float* dy, const float* w, float* parts, int part) {
  __shared__ Tiles<float, 8> tiles;
  grad_input(tiles, g, dy, w, parts, part);
}
extern "C" __global__ void __launch_bounds__(128)
linear_grad_input_narrow(Geometry g, const float* dy, const float* w, float* parts, int part) {
  __shared__ Tiles<float, 4> tiles;
  grad_input(tiles, g, dy, w, parts, part);
}

template <int TM>
__device__ __forceinline__ void grad_params(Tiles<float, TM>& tiles, Geometry g, const float* x, const float* dy, float* parts, int part) {
  const int row = blockIdx.y * 8 * TM, column = blockIdx.x * COLUMNS;
  const Sums sums(parts, part, g.n, g.co, g.ci + 1);
  AlongColumn b(x, g.n, g.ci, column + threadIdx.x, sums.begin, true);
  float sum[TM][ACROSS];
  product<true>(tiles, Columns{dy, g.n, g.co}, b, row, sums.begin, sums.end, sum);
  each_sum(row, column, g.co, g.ci + 1, sum, [&](int o, int i, float value) { sums.own[(u64)o * (g.ci + 1) + i] = value; });
}
extern "C" __global__ void __launch_bounds__(128)
linear_grad_params(Geometry g, const float* x, const float* dy, float* parts, int part) {
  __shared__ Tiles<float, 8> tiles;
  grad_params(tiles, g, x, dy, parts, part);
}
extern "C" __global__ void __launch_bounds__(128)
linear_grad_params_narrow(Geometry g, const float* x, const float* dy, float* parts, int part) {
  __shared__ Tiles<float, 4> tiles;
  grad_params(tiles, g, x, dy, parts, part);
}

// y: (rows, columns) = the sum of its parts in their order, plus b of its column if there is one. A thread an element, blocks of 256.
extern "C" __global__ void __launch_bounds__(256)
linear_collect(const float* parts, int count, int rows, int columns, const float* b, float* y) {
  const u32 all = (u32)rows * columns;
  for (u32 at = first_element(); at < all; at += all_threads()) {
    float sum = 0.0f;
    for (int part = 0; part < count; part++) sum += parts[(u64)part * all + at];
    y[at] = b ? sum + b[at % (u32)columns] : sum;
  }
}

// dw: (co, ci) and db: (co) from parts: (count, co, ci + 1) in their order. A thread an element, blocks of 256.
extern "C" __global__ void __launch_bounds__(256)
linear_collect_params(const float* parts, int count, int co, int ci, float* dw, float* db) {
  const u64 all = (u64)co * (ci + 1);
  for (u64 at = first_element(); at < all; at += all_threads()) {
    float sum = 0.0f;
    for (int part = 0; part < count; part++) sum += parts[part * all + at];
    const u64 o = at / (ci + 1), i = at % (ci + 1);
    if (i < (u64)ci) dw[o * ci + i] = sum;
    else db[o] = sum;
  }
}
