// Devices: how many, what they can, and names of errors.
#include "emulator.h"
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

using namespace emulator;

std::recursive_mutex emulator::everything;
static std::vector<std::unique_ptr<Context>> contexts;

bool emulator::initialized() { return !contexts.empty(); }
int emulator::devices() { return (int)contexts.size(); }
Context* emulator::context_of(int device) {
  return device >= 0 && device < devices() ? contexts[device].get() : nullptr;
}

API cuInit(unsigned) {
  std::lock_guard<std::recursive_mutex> guard(everything);
  const long wanted = number("EMULATOR_DEVICES", 1);
  if (wanted <= 0) return NoDevice;
  if (number("EMULATOR_FAIL_INIT", 0)) return NotInitialized;
  if (!initialized() && number("EMULATOR_LEAKS", 0)) atexit(report_leaks);
  while (devices() < wanted) {
    contexts.emplace_back(new Context);
    contexts.back()->device = devices() - 1;
  }
  return Success;
}
API cuDriverGetVersion(int* version) {
  *version = (int)number("EMULATOR_DRIVER", 12090);
  return Success;
}
API cuDeviceGetCount(int* count) {
  *count = devices();
  return Success;
}
API cuDeviceGet(int* device, int index) {
  *device = index;
  return context_of(index) ? Success : InvalidDevice;
}
API cuDeviceGetName(char* name, int length, int) {
  snprintf(name, length, "phalanx emulator (no GPU)");
  return Success;
}
API cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = (size_t)number("EMULATOR_MEMORY_MB", 16384) << 20;
  return Success;
}
API cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (!context_of(device)) return InvalidDevice;
  const int sm = (int)number("EMULATOR_SM", 70);
  switch (attribute) {
    case 13: *value = 1000000; break;  // clock, kHz
    case 16: *value = 4; break;        // multiprocessors
    case 36: *value = 1000000; break;  // clock of memory, kHz
    case 37: *value = 64; break;       // bits of its bus
    case 75: *value = sm / 10; break;
    case 76: *value = sm % 10; break;
    default: *value = 0;
  }
  return Success;
}
API cuDevicePrimaryCtxRetain(void** context, int device) {
  std::lock_guard<std::recursive_mutex> guard(everything);
  Context* found = context_of(device);
  if (!found) return InvalidDevice;
  found->users++;
  *context = found;
  return Success;
}
API cuDevicePrimaryCtxRelease_v2(int device) {
  std::lock_guard<std::recursive_mutex> guard(everything);
  Context* found = context_of(device);
  if (!found || found->users == 0) return InvalidDevice;
  if (--found->users == 0) {
    finish_all(found);
    found->error = Success;
    found->life++;
  }
  return Success;
}

static const struct { int code; const char *name, *text; } errors[] = {
  {Success, "CUDA_SUCCESS", "no error"},
  {InvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
  {OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
  {NotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
  {NoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
  {InvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
  {InvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
  {InvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
  {InvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
  {NotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
  {NotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
  {IllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
  {ContextDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
  {LaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
  {NotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};
API cuGetErrorName(int code, const char** text) {
  for (auto& error : errors)
    if (error.code == code) return *text = error.name, Success;
  return *text = nullptr, InvalidValue;
}
API cuGetErrorString(int code, const char** text) {
  for (auto& error : errors)
    if (error.code == code) return *text = error.text, Success;
  return *text = nullptr, InvalidValue;
}

// The real NVRTC looks into libcuda for a table of its own, and does not survive its absence.
API cuGetExportTable(const void** table, const void*) {
  static const size_t empty[8] = {8};
  *table = empty;
  return NotSupported;
}
