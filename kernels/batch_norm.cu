// Batch normalisation: each channel of x brought to mean 0 and variance 1, then scaled and shifted.
//
//   sums            of each channel: sum of x, sum of x^2            backward_sums   sum of dy, sum of dy * normal x
//   collect         adds up what blocks have, in their order; behind sums of x comes the number of elements of a channel
//   of_batch        mean, inv_std = 1/sqrt(variance + eps)           of_run          the same from running estimates
//   running         (1 - momentum) * estimate + momentum * batch, unless the batch has < 2 elements or is not finite
//   forward         y = (x - mean) * (inv_std * gamma) + beta
//   backward        dx = gamma * inv_std * (dy - sum(dy)/count - normal x * sum(dy * normal x)/count), with share = 1/count
//   grads           dbeta, dgamma = what backward_sums gave
//
// Shapes: x, y, dy, dx: (n, c, plane); sums: (2c + 1) or (2c), in doubles; parts: (blocks of a channel, 2c); all others (c).
// Launch: sums: (c, blocks of a channel) blocks of 256 threads; forward, backward: blocks of 256, a thread an element; the others: a thread a channel.
// Cost: 4 + 8 bytes an element forward, 8 + 12 backward; bound by memory.
#include "common.cuh"

// parts[blockIdx.y][...] = sums of a, and of a * (b - offset) * factor, over this block's share of a channel.
__device__ __forceinline__ void channel_sums(u32 c, Divisor plane, u32 of_channel, const float* a, const float* b, double offset,
                                             double factor, double* parts, double (&warps)[2][32]) {
  const u32 channel = blockIdx.x;
  double sum = 0.0, products = 0.0;
  for (u32 i = blockIdx.y * blockDim.x + threadIdx.x; i < of_channel; i += gridDim.y * blockDim.x) {
    const u32 at = (plane.of(i) * c + channel) * plane.by + plane.rest(i);
    sum += (double)a[at];
    products += (double)a[at] * ((double)b[at] - offset);
  }
  sum = block_sum(sum, warps[0]);
  products = block_sum(products, warps[1]);
  if (threadIdx.x == 0) {
    double* own = parts + (u64)blockIdx.y * 2 * c;
    own[channel] = sum;
    own[c + channel] = products * factor;
  }
}

extern "C" __global__ void __launch_bounds__(256) batch_norm_sums(u32 c, Divisor plane, u32 of_channel, const float* x, double* parts) {
  __shared__ double warps[2][32];
  channel_sums(c, plane, of_channel, x, x, 0.0, 1.0, parts, warps);
}

extern "C" __global__ void __launch_bounds__(256)
batch_norm_backward_sums(u32 c, Divisor plane, u32 of_channel, const float* x, const float* dy, const float* mean, const float* inv_std, double* parts) {
  __shared__ double warps[2][32];
  channel_sums(c, plane, of_channel, dy, x, (double)mean[blockIdx.x], (double)inv_std[blockIdx.x], parts, warps);
}

// `count` is written behind the sums if it is not negative.
extern "C" __global__ void __launch_bounds__(256) batch_norm_collect(const double* parts, int blocks, int sums, double count, double* out) {
  for (u64 i = first_element(); i < sums; i += all_threads()) {
    double sum = 0.0;
    for (int block = 0; block < blocks; block++) sum += parts[(u64)block * sums + i];
    out[i] = sum;
  }
  if (first_element() == 0 && count >= 0.0) out[sums] = count;
}

__device__ __forceinline__ void moments(const double* sums, int c, u64 i, double& mean, double& variance) {
  const double count = sums[2 * c];
  mean = sums[i] / count;
  variance = sums[c + i] / count - mean * mean;
  if (variance < 0.0) variance = 0.0;  // by rounding; a NaN stays
}

extern "C" __global__ void __launch_bounds__(256) batch_norm_of_batch(int c, const double* sums, float eps, float* mean, float* inv_std) {
  for (u64 i = first_element(); i < c; i += all_threads()) {
    double m, variance;
    moments(sums, c, i, m, variance);
    mean[i] = (float)m;
    inv_std[i] = (float)(1.0 / sqrt(variance + (double)eps));
  }
}

extern "C" __global__ void __launch_bounds__(256)
batch_norm_of_run(int c, const float* running_mean, const float* running_var, float eps, float* mean, float* inv_std) {
  for (u64 i = first_element(); i < c; i += all_threads()) {
    mean[i] = running_mean[i];
    inv_std[i] = 1.0f / sqrtf(running_var[i] + eps);
  }
}

// One block: all of it sees whether every sum is finite before anything changes.
extern "C" __global__ void __launch_bounds__(256) batch_norm_running(int c, const double* sums, float momentum, float* mean, float* var) {
  __shared__ int warps[32];
  int odd = 0;
  for (int i = threadIdx.x; i < 2 * c; i += blockDim.x) odd += !(fabs(sums[i]) <= 1.7976931348623157e308);
  odd = block_sum(odd, warps);
  if (threadIdx.x == 0) warps[0] = odd;
  __syncthreads();
  const double count = sums[2 * c], share = (double)momentum;
  if (warps[0] != 0 || !(count >= 2.0)) return;
  for (int i = threadIdx.x; i < c; i += blockDim.x) {
    double m, variance;
    moments(sums, c, i, m, variance);
    mean[i] = (float)((1.0 - share) * (double)mean[i] + share * m);
    var[i] = (float)((1.0 - share) * (double)var[i] + share * (variance * count / (count - 1.0)));
  }
}

extern "C" __global__ void __launch_bounds__(256)
batch_norm_forward(Divisor c, Divisor plane, const float* x, const float* mean, const float* inv_std, const float* gamma, const float* beta, float* y, u32 n) {
  for (u32 at = first_element(); at < n; at += all_threads()) {
    const u32 i = c.rest(plane.of(at));
    y[at] = (x[at] - mean[i]) * (inv_std[i] * gamma[i]) + beta[i];
  }
}

extern "C" __global__ void __launch_bounds__(256)
batch_norm_backward(Divisor c, Divisor plane, const float* x, const float* dy, const float* mean, const float* inv_std, const float* gamma,
                    const double* sums, double share, float* dx, u32 n) {
  for (u32 at = first_element(); at < n; at += all_threads()) {
    const u32 i = c.rest(plane.of(at));
    const float constant = (float)(sums[i] * share), slope = (float)(sums[c.by + i] * share) * inv_std[i];
    dx[at] = gamma[i] * inv_std[i] * (dy[at] - constant - (x[at] - mean[i]) * slope);
  }
}

extern "C" __global__ void __launch_bounds__(256) batch_norm_grads(int c, const double* sums, float* dgamma, float* dbeta) {
  for (u64 i = first_element(); i < c; i += all_threads()) {
    dbeta[i] = (float)sums[i];
    dgamma[i] = (float)sums[c + i];
  }
}
