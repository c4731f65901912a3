// How a kernel that was compiled for the CPU meets the emulated driver.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulator {

struct Place {
  unsigned x, y, z;
};

enum class WarpOp { Sync, Shuffle, Ballot };

struct Thread;

// What a kernel asks of the driver while it runs.
struct Services {
  void (*barrier)(int line);
  uint64_t (*warp)(WarpOp op, unsigned mask, uint64_t value, int source, int line);
  [[noreturn]] void (*trap)(const char* what, const char* file, int line);
};

// The CUDA thread that runs now.
struct Thread {
  Place thread, block, threads, blocks;
  unsigned number;  // in its block
};

struct Kernel {
  const char* name;
  unsigned parameters;
  const uint32_t* sizes;
  void (*run)(void** parameters);
};

// What every image has under the name `emulator_image`.
struct Image {
  const Kernel* kernels;      // the last has no name
  Thread** current;           // set before a thread runs
  const Services** services;  // set when the image is loaded
  char* shared_begin;         // __shared__ of all its kernels
  char* shared_end;
};

}  // namespace emulator
