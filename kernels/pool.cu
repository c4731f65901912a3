// Pooling: the largest value of each window and where it was, or the mean; and the mean of whole planes.
//
//   max_forward      y = max over the window, places = where in its plane; of equal values the first; a NaN is above all, of several the last
//   max_backward     dx[i] = sum of dy over the windows whose largest value was at i, in the order of outputs
//   average_*        y = sum / k^2, padding counted as zeros; dx[i] = sum of dy / k^2 over the windows that i is in
//   global_*         y = mean of a plane; dx = dy / plane
//
// Shapes: x: (planes, h, w), y, places: (planes, oh, ow).
// Launch: blocks of 256 threads, a thread an output (forward) or an input (backward); global_forward: a warp a plane.
// Cost: 4 bytes for each value of x, 4 (max: 8) for each of y; bound by memory. Backward, each input asks the few windows over it: no atomics.
#include "common.cuh"

struct Geometry {
  int h, w, k, pad, oh, ow;
  Divisor stride, inputs, columns, outputs, out_columns;  // of: h*w, w, oh*ow, ow
};

// Cells first..end of one direction that output o looks at.
__device__ __forceinline__ void window(const Geometry& g, int o, int size, int& first, int& end) {
  const int start = o * (int)g.stride.by - g.pad;
  first = max(start, 0);
  end = min(start + g.k, size);
}
// Outputs first..end of one direction whose windows lie over cell i.
__device__ __forceinline__ void over(const Geometry& g, int i, int outputs, int& first, int& end) {
  end = min((int)g.stride.of(i + g.pad) + 1, outputs);
  first = min((int)g.stride.of(max(i + g.pad + 1 - g.k, 0) + g.stride.by - 1), end);
}

extern "C" __global__ void __launch_bounds__(256) max_forward(Geometry g, const float* x, float* y, u32* places, u32 n) {
  for (u32 at = first_element(); at < n; at += all_threads()) {
    const u32 plane = g.outputs.of(at), cell = g.outputs.rest(at);
    int top, bottom, left, right;
    window(g, g.out_columns.of(cell), g.h, top, bottom);
    window(g, g.out_columns.rest(cell), g.w, left, right);
    const float* from = x + (u64)plane * g.inputs.by;
    float best = __uint_as_float(0xff800000u);  // -infinity
    u32 place = top * g.w + left;
    for (int i = top; i < bottom; i++)
      for (int j = left; j < right; j++) {
        const float value = from[i * g.w + j];
        if (value > best || value != value) best = value, place = i * g.w + j;
      }
    y[at] = best;
    places[at] = place;
  }
}

extern "C" __global__ void __launch_bounds__(256) max_backward(Geometry g, const u32* places, const float* dy, float* dx, u32 n) {
  for (u32 at = first_element(); at < n; at += all_threads()) {
    const u32 cell = g.inputs.rest(at);
    const u64 outputs = (u64)g.inputs.of(at) * g.outputs.by;
    int top, bottom, left, right;
    over(g, g.columns.of(cell), g.oh, top, bottom);
    over(g, g.columns.rest(cell), g.ow, left, right);
    float sum = 0.0f;
    for (int i = top; i < bottom; i++)
      for (int j = left; j < right; j++) {
        const u64 output = outputs + i * g.ow + j;
        if (places[output] == cell) sum += dy[output];
      }
    dx[at] = sum;
  }
}

extern "C" __global__ void __launch_bounds__(256) average_forward(Geometry g, const float* x, float* y, u32 n) {
  for (u32 at = first_element(); at < n; at += all_threads()) {
    const u32 plane = g.outputs.of(at), cell = g.outputs.rest(at);
    int top, bottom, left, right;
    window(g, g.out_columns.of(cell), g.h, top, bottom);
    window(g, g.out_columns.rest(cell), g.w, left, right);
    const float* from = x + (u64)plane * g.inputs.by;
    float sum = 0.0f;
    for (int i = top; i < bottom; i++)
      for (int j = left; j < right; j++) sum += from[i * g.w + j];
    y[at] = sum / (float)(g.k * g.k);
  }
}

extern "C" __global__ void __launch_bounds__(256) average_backward(Geometry g, const float* dy, float* dx, u32 n) {
  for (u32 at = first_element(); at < n; at += all_threads()) {
    const u32 cell = g.inputs.rest(at);
    int top, bottom, left, right;
    over(g, g.columns.of(cell), g.oh, top, bottom);
    over(g, g.columns.rest(cell), g.ow, left, right);
    const float* from = dy + (u64)g.inputs.of(at) * g.outputs.by;
    float sum = 0.0f;
    for (int i = top; i < bottom; i++)
      for (int j = left; j < right; j++) sum += from[i * g.ow + j];
    dx[at] = sum / (float)(g.k * g.k);
  }
}

// Blocks of 256 threads are 8 warps, each of which takes a plane.
extern "C" __global__ void __launch_bounds__(256) global_forward(int plane, const float* x, float* y, u64 planes) {
  const u64 warps = all_threads() / 32;
  for (u64 at = first_element() / 32; at < planes; at += warps) {
    float sum = 0.0f;
    for (int i = threadIdx.x % 32; i < plane; i += 32) sum += x[at * plane + i];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) y[at] = sum / (float)plane;
  }
}

extern "C" __global__ void __launch_bounds__(256) global_backward(Divisor plane, const float* dy, float* dx, u32 n) {
  for (u32 at = first_element(); at < n; at += all_threads()) dx[at] = dy[plane.of(at)] / (float)plane.by;
}
