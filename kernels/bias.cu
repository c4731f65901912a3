// Biases by themselves, for products that others computed:
//
//   bias_add    y[s][o][cell] += b[o]          bias_grad   db[o] = sum of dy[s][o][cell] over samples and cells
//
// Shapes: y, dy: (n, co, plane), b, db: (co). Launch: bias_add: blocks of 256, a thread an element; bias_grad: a block of 256 an o.
// Cost: 8 and 4 bytes an element; bound by memory.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(256) bias_add(int co, int plane, const float* b, float* y, u64 n) {
  for (u64 i = first_element(); i < n; i += all_threads()) y[i] += b[i / plane % co];
}

extern "C" __global__ void __launch_bounds__(256) bias_grad(int co, int plane, const float* dy, float* db, u64 of_channel) {
  __shared__ float warps[32];
  const int o = blockIdx.x;
  float sum = 0.0f;
  for (u64 i = threadIdx.x; i < of_channel; i += blockDim.x) sum += dy[(i / plane * co + o) * plane + i % plane];
  sum = block_sum(sum, warps);
  if (threadIdx.x == 0) db[o] = sum;
}
