// Sums over all of a tensor: of its values, of their squares, and whether all are numbers.
//
//   reduce_sum, reduce_squares   parts[block] = sum of x, or of x^2, over the elements of a block; in doubles
//   reduce_collect               out = sum of parts in their order
//   reduce_greatest              out = the greatest of the bits without sign: 0x7f800000 and above are infinite or NaN
//
// Shapes: x: (n), parts: (blocks), out: (1). Launch: as many blocks of 256 threads as there are parts, which depends on n alone, so that
// results repeat on any device; reduce_collect: one block of 256.
// Cost: 4 bytes a value; bound by memory. The greatest is the same in any order: it alone is found by an atomic operation.
#include "common.cuh"

template <class F>
__device__ __forceinline__ void sum_of(const float* x, u64 n, double* parts, double* warps, F value) {
  double sum = 0.0;
  const u64 fours = aligned16(x) ? n / 4 : 0;
  for (u64 i = first_element(); i < fours; i += all_threads()) {
    const float4 v = reinterpret_cast<const float4*>(x)[i];
    sum += (value(v.x) + value(v.y)) + (value(v.z) + value(v.w));
  }
  for (u64 i = 4 * fours + first_element(); i < n; i += all_threads()) sum += value(x[i]);
  sum = block_sum(sum, warps);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(256) reduce_sum(const float* x, u64 n, double* parts) {
  __shared__ double warps[32];
  sum_of(x, n, parts, warps, [](float x) { return (double)x; });
}

extern "C" __global__ void __launch_bounds__(256) reduce_squares(const float* x, u64 n, double* parts) {
  __shared__ double warps[32];
  sum_of(x, n, parts, warps, [](float x) { return (double)x * (double)x; });
}

extern "C" __global__ void __launch_bounds__(256) reduce_collect(const double* parts, int count, double* out) {
  __shared__ double warps[32];
  double sum = 0.0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += parts[i];
  sum = block_sum(sum, warps);
  if (threadIdx.x == 0) *out = sum;
}

extern "C" __global__ void __launch_bounds__(256) reduce_greatest(const float* x, u64 n, u32* out) {
  u32 greatest = 0;
  for (u64 i = first_element(); i < n; i += all_threads()) greatest = max(greatest, __float_as_uint(x[i]) & 0x7fffffffu);
  for (int distance = 16; distance > 0; distance /= 2) greatest = max(greatest, __shfl_xor_sync(ALL_LANES, greatest, distance));
  if (threadIdx.x % 32 == 0) atomicMax(out, greatest);
}
