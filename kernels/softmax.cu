// Softmax with cross-entropy, and its gradient in place of the logits:
//
//   loss = ln(sum of e^(z - top)) - (z[label] - top)        z = (softmax(z) - onehot) * scale
//
// Shapes: z: (n, classes), labels: (n), losses: (2, n) with 1 for each right answer behind the losses, tally: (2), which is added to.
// A tie goes to the lower class; a logit that is NaN or infinite makes the loss NaN.
// Launch: softmax_cross_entropy: blocks of 128 threads, a warp a row; softmax_tally: one block of 256.
// Cost: 8 bytes a logit, read three times, twice from the cache. What rows have is added up in one order, in doubles.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(128)
softmax_cross_entropy(float* z, const u32* labels, float scale, int n, int classes, double* losses) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= n) return;  // a whole warp
  z += (u64)row * classes;
  const int label = (int)labels[row];

  float top = __uint_as_float(0xff800000u);  // -infinity
  for (int c = lane; c < classes; c += 32)
    if (z[c] > top) top = z[c];
  for (int distance = 16; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(ALL_LANES, top, distance);
    if (other > top) top = other;
  }

  int best = classes;
  float sum = 0.0f, of_label = 0.0f;
  for (int c = lane; c < classes; c += 32) {
    const float value = z[c];
    if (value == top && c < best) best = c;
    const float below = value - top, power = expf(below);
    if (c == label) of_label = below;
    sum += power;
    z[c] = power;
  }
  for (int distance = 16; distance > 0; distance /= 2) best = min(best, __shfl_xor_sync(ALL_LANES, best, distance));
  sum = warp_sum(sum);
  of_label = __shfl_sync(ALL_LANES, of_label, label % 32);

  const float factor = scale / sum;
  for (int c = lane; c < classes; c += 32) z[c] = c == label ? z[c] * factor - scale : z[c] * factor;
  if (lane == 0) {
    losses[row] = (double)logf(sum) - (double)of_label;
    losses[n + row] = best == label ? 1.0 : 0.0;
  }
}

extern "C" __global__ void __launch_bounds__(256) softmax_tally(const double* losses, int n, double* tally) {
  __shared__ double parts[2][32];
  double loss = 0.0, right = 0.0;
  for (int row = threadIdx.x; row < n; row += blockDim.x) {
    loss += losses[row];
    right += losses[n + row];
  }
  loss = block_sum(loss, parts[0]);
  right = block_sum(right, parts[1]);
  if (threadIdx.x == 0) {
    tally[0] += loss;
    tally[1] += right;
  }
}
