// Pixels into inputs: out = pixel * factor + shift, with one factor and shift for all or one of each a channel.
//
// Shapes: pixels, out: (n) or (samples, channels, plane); factors, shifts: (channels).
// Launch: blocks of 256 threads, each thread takes 4 pixels (scale_bytes) or 1 (scale_channels), or more.
// Cost: 5 bytes a pixel; bound by memory.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(256)
scale_bytes(const u8* pixels, float factor, float shift, float* out, u64 n) {
  const bool aligned = aligned16(out) && ((u64)pixels & 3) == 0;
  const u64 fours = aligned ? n / 4 : 0;
  for (u64 i = first_element(); i < fours; i += all_threads()) {
    const uchar4 p = reinterpret_cast<const uchar4*>(pixels)[i];
    reinterpret_cast<float4*>(out)[i] = make_float4((float)p.x * factor + shift, (float)p.y * factor + shift,
                                                    (float)p.z * factor + shift, (float)p.w * factor + shift);
  }
  for (u64 i = 4 * fours + first_element(); i < n; i += all_threads()) out[i] = (float)pixels[i] * factor + shift;
}

extern "C" __global__ void __launch_bounds__(256)
scale_channels(Divisor plane, Divisor channels, const u8* pixels, const float* factors, const float* shifts, float* out, u32 n) {
  for (u32 i = first_element(); i < n; i += all_threads()) {
    const u32 channel = channels.rest(plane.of(i));
    out[i] = (float)pixels[i] * factors[channel] + shifts[channel];
  }
}
