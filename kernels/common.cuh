// What kernels share: numbers of any length, places of threads, sums over a warp and a block.
//
// Compiled with --fmad=false: a product and a sum are fused only by fmaf, so that everything else rounds as on the CPU.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 ALL_LANES = 0xffffffffu;

// The number of this thread among all, and how many there are: a loop from one in steps of the other meets each element once.
__device__ __forceinline__ u64 first_element() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 all_threads() { return (u64)gridDim.x * blockDim.x; }

// Division of numbers below 2^31 by what the launch knows: a product and a shift instead of some twenty instructions. The host makes it.
struct Divisor {
  u32 by, times, shift;
  __device__ u32 of(u32 n) const { return (__umulhi(n, times) + n) >> shift; }
  __device__ u32 rest(u32 n) const { return n - of(n) * by; }
};

// Whether an address takes loads of 16 bytes.
__device__ __forceinline__ bool aligned16(const void* p) { return ((u64)p & 15) == 0; }

// Calls f(float&) for each of n values, four at a time where they are aligned.
template <class F>
__device__ __forceinline__ void each(float* x, u64 n, F f) {
  const u64 fours = aligned16(x) ? n / 4 : 0;
  for (u64 i = first_element(); i < fours; i += all_threads()) {
    float4 v = reinterpret_cast<float4*>(x)[i];
    f(v.x), f(v.y), f(v.z), f(v.w);
    reinterpret_cast<float4*>(x)[i] = v;
  }
  for (u64 i = 4 * fours + first_element(); i < n; i += all_threads()) f(x[i]);
}

// Calls f(float a, float& b) for each pair of n, four at a time where both are aligned.
template <class F>
__device__ __forceinline__ void each(const float* a, float* b, u64 n, F f) {
  const u64 fours = aligned16(a) && aligned16(b) ? n / 4 : 0;
  for (u64 i = first_element(); i < fours; i += all_threads()) {
    const float4 u = reinterpret_cast<const float4*>(a)[i];
    float4 v = reinterpret_cast<float4*>(b)[i];
    f(u.x, v.x), f(u.y, v.y), f(u.z, v.z), f(u.w, v.w);
    reinterpret_cast<float4*>(b)[i] = v;
  }
  for (u64 i = 4 * fours + first_element(); i < n; i += all_threads()) f(a[i], b[i]);
}

// The sum over a warp, in every lane: a tree that is always the same.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(ALL_LANES, value, distance);
  return value;
}

// The sum over a block of whole warps, in its first thread; `parts` has room for a value a warp. Who calls it twice with the same
// parts needs a barrier between.
template <class T>
__device__ __forceinline__ T block_sum(T value, T* parts) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  value = warp_sum(value);
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  if (warp == 0) value = warp_sum(lane < warps ? parts[lane] : T(0));
  return value;
}
