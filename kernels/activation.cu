// Activations in place: ReLU and tanh, each with its gradient from what came out of it.
//
//   relu           x = max(x, 0); NaN stays NaN        relu_backward   d = y <= 0 ? 0 : d
//   tanh_forward   x = tanh(x)                         tanh_backward   d = d * (1 - y * y)
//
// Shapes: x, y, d: (n), any n.   Launch: blocks of 256 threads, each thread takes 4 values or more.
// Cost: 8 bytes an element forward, 12 backward; bound by memory.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(256) relu(float* x, u64 n) {
  // Written as the comparison that is false for NaN, which so goes through.
  each(x, n, [](float& x) { x = x < 0.0f ? 0.0f : x; });
}

extern "C" __global__ void __launch_bounds__(256) relu_backward(const float* y, float* d, u64 n) {
  each(y, d, n, [](float y, float& d) { d = y <= 0.0f ? 0.0f : d; });
}

extern "C" __global__ void __launch_bounds__(256) tanh_forward(float* x, u64 n) {
  each(x, n, [](float& x) { x = tanhf(x); });
}

extern "C" __global__ void __launch_bounds__(256) tanh_backward(const float* y, float* d, u64 n) {
  each(y, d, n, [](float y, float& d) { d *= 1.0f - y * y; });
}
