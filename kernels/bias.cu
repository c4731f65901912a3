// Biases by themselves, for products that others computed:
//
//   bias_add    y[s][o][cell] += b[o]          bias_grad   db[o] = sum of dy[s][o][cell] over samples and cells
//
// Shapes: y, dy: (n, co, plane), b, db: (co). Launch: bias_add: blocks of 256, a thread an element; bias_grad: a block of 256 an o.
// Cost: 8 and 4 bytes an element; bound by memory.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(256) bias_add(Divisor co, Divisor plane, const float* b, float* y, u32 n) {
  for (u32 i = first_element(); i < n; i += all_threads()) y[i] += b[co.rest(plane.of(i))];
}

extern "C" __global__ void __launch_bounds__(256) bias_grad(u32 co, Divisor plane, const float* dy, float* db, u32 of_channel) {
  __shared__ float warps[32];
  const u32 o = blockIdx.x;
  float sum = 0.0f;
  for (u32 i = threadIdx.x; i < of_channel; i += blockDim.x) sum += dy[(plane.of(i) * co + o) * plane.by + plane.rest(i)];
  sum = block_sum(sum, warps);
  if (threadIdx.x == 0) db[o] = sum;
}
