// Dropout: each value is dropped with a probability, and what is kept is multiplied by 1 / (1 - rate). Forward and backward alike.
//
//   values[row][i] *= bits(key(seed, layer, step, sample), i) >= threshold ? scale : 0
//
// Bits are those of the CPU: a pure function of seed, layer, step, sample and i, so that any number of devices drops the same.
// Shapes: samples: (rows), values: (rows, length).
// Launch: (rows, length/1024) blocks of 256 threads, each of which takes 4 values.
// Cost: 8 bytes and 12 integer operations a value; bound by memory.
#include "common.cuh"

__device__ __forceinline__ u64 mix(u64 x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// 32 random bits: half of the key goes in before the first round, half between the rounds.
__device__ __forceinline__ u32 bits(u64 key, u32 i) {
  u32 x = i ^ (u32)key;
  x = (x ^ (x >> 16)) * 0x21f0aaadu;
  x = (x ^ (x >> 15)) + (u32)(key >> 32);
  x = (x ^ (x >> 16)) * 0x735a2d97u;
  return x ^ (x >> 15);
}

extern "C" __global__ void __launch_bounds__(256)
dropout_apply(u64 seed, u64 layer, u64 step, u32 threshold, float scale, const u64* samples, int length, float* values) {
  const u64 parts[3] = {layer, step, samples[blockIdx.x]};
  u64 key = mix(seed);
#pragma unroll
  for (int i = 0; i < 3; i++) key = mix((key + 0x9e3779b97f4a7c15ull) ^ mix(parts[i]));
  values += (u64)blockIdx.x * length;
  const int end = min((int)(blockIdx.y + 1) * 1024, length);
  // Multiplied, not replaced: a NaN must not hide behind the mask.
  for (int i = blockIdx.y * 1024 + threadIdx.x; i < end; i += blockDim.x) values[i] *= bits(key, i) >= threshold ? scale : 0.0f;
}
