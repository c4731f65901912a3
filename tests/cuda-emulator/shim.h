// The language of kernels in C++: included in front of a .cu file that the compiler of the CPU gets.
#pragma once
#include "abi.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

static emulator::Thread* emulator_thread;
static const emulator::Services* emulator_services;

#define __CUDACC__ 1
#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
// Where they stand together they can be filled with NaN before each block. AddressSanitizer watches them only as plain ones.
#ifdef __SANITIZE_ADDRESS__
#define __shared__ static
#else
#define __shared__ static __attribute__((section("emulated_shared")))
#endif

#define threadIdx (emulator_thread->thread)
#define blockIdx (emulator_thread->block)
#define blockDim (emulator_thread->threads)
#define gridDim (emulator_thread->blocks)

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct alignas(4) uchar4 { unsigned char x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline double2 make_double2(double x, double y) { return {x, y}; }

// Barriers and warps. Lines are told so that a barrier that meets another one is noticed.
#define __syncthreads() emulator_services->barrier(__LINE__)
#define __syncwarp() emulator_services->warp(emulator::WarpOp::Sync, ~0u, 0, 0, __LINE__)

template <class T>
static inline T emulator_shuffle(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= 8, "a value that is shuffled has at most 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = emulator_services->warp(emulator::WarpOp::Shuffle, mask, bits, source, 0);
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int distance) {
  return emulator_shuffle(mask, value, (int)(emulator_thread->number % 32) ^ distance);
}
template <class T>
static inline T __shfl_sync(unsigned mask, T value, int source) {
  return emulator_shuffle(mask, value, source & 31);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, int distance) {
  const int lane = emulator_thread->number % 32;
  return emulator_shuffle(mask, value, lane + distance > 31 ? lane : lane + distance);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return (unsigned)emulator_services->warp(emulator::WarpOp::Ballot, mask, predicate != 0, 0, 0);
}
static inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }

// Atomic for the sanitizer's sake: one thread of the CPU runs all of a device.
template <class T, class F>
static inline T emulator_change(T* place, F change) {
  T old, changed;
  __atomic_load(place, &old, __ATOMIC_RELAXED);
  do changed = change(old);
  while (!__atomic_compare_exchange(place, &old, &changed, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
template <class T>
static inline T atomicAdd(T* place, std::common_type_t<T> value) {
  return emulator_change(place, [=](T old) { return (T)(old + value); });
}
template <class T>
static inline T atomicMax(T* place, std::common_type_t<T> value) {
  return emulator_change(place, [=](T old) { return std::max(old, value); });
}

template <class T>
static inline T __ldg(const T* place) { return *place; }
static inline unsigned __float_as_uint(float value) { unsigned bits; memcpy(&bits, &value, 4); return bits; }
static inline float __uint_as_float(unsigned bits) { float value; memcpy(&value, &bits, 4); return value; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
using std::max;
using std::min;
#undef assert
#define assert(e) ((e) ? (void)0 : emulator_services->trap("assert(" #e ")", __FILE__, __LINE__))
#define __trap() emulator_services->trap("__trap()", __FILE__, __LINE__)

// A kernel's parameters, from its type.
template <auto F>
struct EmulatorKernel;
template <class... A, void (*F)(A...)>
struct EmulatorKernel<F> {
  static constexpr uint32_t sizes[] = {(uint32_t)sizeof(A)..., 0};
  template <size_t... I>
  static void call(void** parameters, std::index_sequence<I...>) { F(*(std::remove_const_t<A>*)parameters[I]...); }
  static void run(void** parameters) { call(parameters, std::index_sequence_for<A...>{}); }
  static constexpr emulator::Kernel named(const char* name) { return {name, sizeof...(A), sizes, run}; }
};
