// Steps of optimizers: the amount d to add to each parameter p from its gradient g and what is remembered of it.
//
//   update_sgd        d = -lr * (g + decay*p)
//   update_momentum   g' = g + decay*p, v = keep*v + g', d = -lr * (now*g' + then*v); classic: now, then = 0, 1; Nesterov's: 1, keep
//   update_adam       g' = g + coupled*p, m = keep1*m + take1*g', v = keep2*v + take2*g'*g',
//                     d = -fade*p - rate*m / (sqrt(v)*root + epsilon)
//   update_lars       v = keep*v + rate*(g + decay*p), d = -v, with rate = lr * trust*|p| / (|g| + weight_decay*|p|) from squares of norms
//   update_clip       g = g * limit / (|g| + 1e-6) where that is shorter, from the square of the norm
//   update_add        p = p + d
//
// `apply`: whether p = p + d, or g = d for who moves the parameters elsewhere. Shapes: all (n).
// Launch: blocks of 256 threads, a thread an element or several.
// Cost: bytes a parameter: sgd 12, momentum and lars 20, adam 28, clip 8, add 12; bound by memory. Order of operations as on the CPU.
#include "common.cuh"

__device__ __forceinline__ void give(float* p, float* g, u64 i, float d, int apply) {
  if (apply) p[i] += d;
  else g[i] = d;
}

extern "C" __global__ void __launch_bounds__(256) update_sgd(float lr, float decay, float* p, float* g, u64 n, int apply) {
  for (u64 i = first_element(); i < n; i += all_threads()) {
    const float slope = decay == 0.0f ? g[i] : g[i] + decay * p[i];
    give(p, g, i, -lr * slope, apply);
  }
}

extern "C" __global__ void __launch_bounds__(256)
update_momentum(float lr, float keep, float decay, float now, float then, float* p, float* g, float* v, u64 n, int apply) {
  for (u64 i = first_element(); i < n; i += all_threads()) {
    const float slope = g[i] + decay * p[i];
    const float velocity = keep * v[i] + slope;
    v[i] = velocity;
    give(p, g, i, -lr * (now * slope + then * velocity), apply);
  }
}

struct Adam {
  float rate, root, keep1, take1, keep2, take2, coupled, fade, epsilon;
};

extern "C" __global__ void __launch_bounds__(256)
update_adam(Adam a, float* p, float* g, float* first, float* second, u64 n, int apply) {
  for (u64 i = first_element(); i < n; i += all_threads()) {
    const float slope = g[i] + a.coupled * p[i];
    const float m = a.keep1 * first[i] + a.take1 * slope;
    const float v = a.keep2 * second[i] + a.take2 * slope * slope;
    first[i] = m;
    second[i] = v;
    give(p, g, i, -a.fade * p[i] - a.rate * m / (sqrtf(v) * a.root + a.epsilon), apply);
  }
}

// squares: of the whole tensor's parameters and gradients; none: a tensor that has the plain rate.
extern "C" __global__ void __launch_bounds__(256)
update_lars(float lr, double trust, float keep, double weight_decay, const double* squares, float* p, float* g, float* v, u64 n, int apply) {
  double ratio = 1.0;
  if (squares) {
    const double w = sqrt(squares[0]), slope = sqrt(squares[1]);
    if (w != 0.0 && slope != 0.0) ratio = trust * w / (slope + weight_decay * w);
  }
  const float rate = (float)((double)lr * ratio), decay = squares ? (float)weight_decay : 0.0f;
  for (u64 i = first_element(); i < n; i += all_threads()) {
    const float velocity = keep * v[i] + rate * (g[i] + decay * p[i]);
    v[i] = velocity;
    give(p, g, i, -velocity, apply);
  }
}

extern "C" __global__ void __launch_bounds__(256) update_clip(double limit, const double* square, float* g, u64 n) {
  const double factor = limit / (sqrt(*square) + 1e-6);
  if (!(factor < 1.0)) return;
  const float by = (float)factor;
  each(g, n, [=](float& g) { g *= by; });
}

extern "C" __global__ void __launch_bounds__(256) update_add(const float* d, float* p, u64 n) {
  each(d, p, n, [](float d, float& p) { p += d; });
}
