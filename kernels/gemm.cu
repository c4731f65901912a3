// Block matrix product: c = a * b, or c + a * b.
//
// Shapes: a: (m, k), b: (k, n), c: (m, n), each with rows `lda`, `ldb`, `ldc` apart, so that blocks of larger matrices can be taken; f32 and f64.
// Launch: blocks of 128 threads: (n/128, m/(8*TM)); TM = 8 for f32 (4 for up to 32 rows, _narrow), 4 for f64.
// Cost: 2*m*n*k FLOP; 2/(1/rows + 1/columns) FLOP for each number read, rows and columns of a tile.
#include "tile.cuh"

struct Geometry {
  int m, n, k, lda, ldb, ldc;
  int add;  // whether c is added to
};

template <class T>
struct Left {
  const Geometry& g;
  const T* a;
  __device__ T at(int row, int k) const { return row < g.m && k < g.k ? a[(u64)row * g.lda + k] : T(0); }
};

template <class T>
struct Right {
  const Geometry& g;
  const T* b;
  int column, k;
  __device__ void next(T (&values)[DEPTH]) {
#pragma unroll
    for (int i = 0; i < DEPTH; i++) values[i] = k + i < g.k && column < g.n ? b[(u64)(k + i) * g.ldb + column] : T(0);
    k += DEPTH;
  }
};

template <class T, int TM>
__device__ __forceinline__ void gemm(Tiles<T, TM>& tiles, const Geometry& g, const T* a, const T* b, T* c) {
  const int row = blockIdx.y * 8 * TM, column = blockIdx.x * COLUMNS;
  Right<T> right{g, b, column + (int)threadIdx.x, 0};
  T sum[TM][ACROSS];
  product<false>(tiles, Left<T>{g, a}, right, row, 0, g.k, sum);
  each_sum(row, column, g.m, g.n, sum, [&](int i, int j, T value) {
    T& place = c[(u64)i * g.ldc + j];
    place = g.add ? place + value : value;
  });
}

extern "C" __global__ void __launch_bounds__(128) gemm_f32(Geometry g, const float* a, const float* b, float* c) {
  __shared__ Tiles<float, 8> tiles;
  gemm(tiles, g, a, b, c);
}
extern "C" __global__ void __launch_bounds__(128) gemm_f32_narrow(Geometry g, const float* a, const float* b, float* c) {
  __shared__ Tiles<float, 4> tiles;
  gemm(tiles, g, a, b, c);
}
extern "C" __global__ void __launch_bounds__(128) gemm_f64(Geometry g, const double* a, const double* b, double* c) {
  __shared__ Tiles<double, 4> tiles;
  gemm(tiles, g, a, b, c);
}
