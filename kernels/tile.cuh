// A product of matrices in tiles, for everything that is one: c[m][n] = sum over k of a[m][k] * b[k][n].
//
// A block of 128 threads computes a tile of 8*TM rows and 128 columns, each thread TM rows and 8 columns of it in registers. In steps of
// 8, parts of a and b come into shared memory, two by turns: while one is multiplied, the next is already on its way in registers, and
// one barrier a step is enough.
//
// What a and b are is up to who calls: an A has `T at(int row, int k)`, a B belongs to one column, the thread's own, and has
// `void next(T (&values)[8])`, the values of the next eight k. Both give zeros outside. So a thread knows where its column is once and for all,
// and which k comes is the same for all threads.
//
// Per step and thread: 8*TM*8 products for (TM + 8)*8 numbers from shared memory, read as 16 bytes without conflicts of banks.
#pragma once
#include "common.cuh"

constexpr int THREADS = 128, COLUMNS = 128, DEPTH = 8, ACROSS = 8;

// In a row of `a` there are 4 more: threads that write a column of it then meet different banks.
template <class T, int TM>
struct __align__(16) Tiles {
  static constexpr int ROWS = 8 * TM;
  T a[2][DEPTH][ROWS + 4];
  T b[2][DEPTH][COLUMNS];
};

// Four numbers from shared memory at once.
__device__ __forceinline__ void four(const float* from, float* to) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
__device__ __forceinline__ void four(const double* from, double* to) {
  const double2 low = *reinterpret_cast<const double2*>(from), high = *reinterpret_cast<const double2*>(from + 2);
  to[0] = low.x, to[1] = low.y, to[2] = high.x, to[3] = high.y;
}

__device__ __forceinline__ float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }

// Which row and column of the tile element (i, j) of a thread is: in groups of four, so that neighbours read next to each other.
template <int TM>
__device__ __forceinline__ int tile_row(int i) { return i / 4 * 32 + threadIdx.x / 16 * 4 + i % 4; }
__device__ __forceinline__ int tile_column(int j) { return j / 4 * 64 + threadIdx.x % 16 * 4 + j % 4; }

// Sets `sum` to this thread's part of the tile whose first row is `row`, summed over k in begin..end.
// BY_ROWS: whether numbers of `a` with neighbouring rows, not with neighbouring k, are next to each other in memory.
template <bool BY_ROWS, class T, int TM, class A, class B>
__device__ __forceinline__ void product(Tiles<T, TM>& tiles, const A& a, B& b, int row, int begin, int end, T (&sum)[TM][ACROSS]) {
  constexpr int ROWS = 8 * TM, MINE = TM / 2;  // numbers of `a` that a thread brings a step
  T next_a[MINE], next_b[DEPTH];
  auto place = [](int i, int& row, int& k) {
    const int t = threadIdx.x;
    row = BY_ROWS ? t % ROWS : t / DEPTH + i * (THREADS / DEPTH);
    k = BY_ROWS ? t / ROWS + i * (THREADS / ROWS) : t % DEPTH;
  };
  auto fetch = [&](int first) {
#pragma unroll
    for (int i = 0; i < MINE; i++) {
      int r, k;
      place(i, r, k);
      next_a[i] = a.at(row + r, first + k);
    }
    b.next(next_b);
  };
  auto keep = [&](int turn) {
#pragma unroll
    for (int i = 0; i < MINE; i++) {
      int r, k;
      place(i, r, k);
      tiles.a[turn][k][r] = next_a[i];
    }
#pragma unroll
    for (int k = 0; k < DEPTH; k++) tiles.b[turn][k][threadIdx.x] = next_b[k];
  };
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < ACROSS; j++) sum[i][j] = T(0);

  fetch(begin);
  keep(0);
  __syncthreads();
  int turn = 0;
  for (int k = begin; k < end; k += DEPTH) {
    const bool more = k + DEPTH < end;
    if (more) fetch(k + DEPTH);
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
      T x[TM], y[ACROSS];
#pragma unroll
      for (int i = 0; i < TM; i += 4) four(&tiles.a[turn][d][tile_row<TM>(i)], &x[i]);
#pragma unroll
      for (int j = 0; j < ACROSS; j += 4) four(&tiles.b[turn][d][tile_column(j)], &y[j]);
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < ACROSS; j++) sum[i][j] = fused(x[i], y[j], sum[i][j]);
    }
    if (more) {
      turn ^= 1;
      keep(turn);
      __syncthreads();
    }
  }
}

// Calls store(row, column, sum) for each element of this thread's part that is inside of (rows, columns).
template <class T, int TM, class F>
__device__ __forceinline__ void each_sum(int row, int column, int rows, int columns, const T (&sum)[TM][ACROSS], F store) {
#pragma unroll
  for (int j = 0; j < ACROSS; j++) {
    const int c = column + tile_column(j);
    if (c >= columns) continue;
#pragma unroll
    for (int i = 0; i < TM; i++) {
      const int r = row + tile_row<TM>(i);
      if (r < rows) store(r, c, sum[i][j]);
    }
  }
}
