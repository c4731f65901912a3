// Local response normalisation across channels: y = x / d^beta with d = k + alpha/size * sum of x^2 over `size` channels.
//
//   forward           y
//   backward_direct   dx = dy / d^beta, parts = dx * x / d
//   backward_others   dx -= 2*alpha*beta/size * x * sum of parts over the channels that this one divides
//
// The window of channel c is c - size/2 ..= c + (size - 1)/2, cut at the ends; the sum is divided by `size` there too.
// Shapes: x, y, dy, dx, parts: (n, c, plane). Launch: blocks of 256 threads, a thread an element or several.
// Cost: 8 bytes an element forward, 16 + 16 backward, windows from the caches; bound by memory.
#include "common.cuh"

struct Layer {
  Divisor c, plane;
  int size;
  float alpha, beta, k;
};

// The divisor of element `at`.
__device__ __forceinline__ float divisor(const Layer& l, const float* x, u32 at) {
  const int c = l.c.rest(l.plane.of(at)), plane = l.plane.by;
  const int first = max(c - l.size / 2, 0), end = min(c + (l.size + 1) / 2, (int)l.c.by);
  const float* from = x + at + (long long)(first - c) * plane;
  float sum = 0.0f;
  for (int other = first; other < end; other++, from += plane) sum += *from * *from;
  return l.k + l.alpha / (float)l.size * sum;
}

// d^(-beta); of the usual powers by square roots.
__device__ __forceinline__ float power(float d, float beta) {
  if (beta == 0.5f) return 1.0f / sqrtf(d);
  if (beta == 0.75f) return 1.0f / (sqrtf(d) * sqrtf(sqrtf(d)));
  if (beta == 1.0f) return 1.0f / d;
  return powf(d, -beta);
}

extern "C" __global__ void __launch_bounds__(256) local_response_forward(Layer l, const float* x, float* y, u32 n) {
  for (u32 at = first_element(); at < n; at += all_threads()) y[at] = x[at] * power(divisor(l, x, at), l.beta);
}

extern "C" __global__ void __launch_bounds__(256)
local_response_backward_direct(Layer l, const float* x, const float* dy, float* dx, float* parts, u32 n) {
  for (u32 at = first_element(); at < n; at += all_threads()) {
    const float d = divisor(l, x, at), direct = dy[at] * power(d, l.beta);
    dx[at] = direct;
    parts[at] = direct * x[at] / d;
  }
}

extern "C" __global__ void __launch_bounds__(256)
local_response_backward_others(Layer l, const float* x, const float* parts, float* dx, u32 n) {
  const float factor = 2.0f * l.alpha * l.beta / (float)l.size;
  for (u32 at = first_element(); at < n; at += all_threads()) {
    const int c = l.c.rest(l.plane.of(at)), plane = l.plane.by;
    const int first = max(c - (l.size - 1) / 2, 0), end = min(c + l.size / 2 + 1, (int)l.c.by);
    const float* from = parts + at + (long long)(first - c) * plane;
    float sum = 0.0f;
    for (int other = first; other < end; other++, from += plane) sum += *from;
    dx[at] -= factor * x[at] * sum;
  }
}
