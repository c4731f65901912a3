// Images and launches. An image is the shared library that compiler.cpp made.
#include "emulator.h"
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <map>
#include <memory>
#include <unistd.h>
#include <vector>

using namespace emulator;

extern "C" __attribute__((weak)) void __sanitizer_print_stack_trace();  // there only when a sanitizer is preloaded

struct Module;
struct Function {
  const Kernel* kernel;
  const Image* image;
  const Module* module;
};
// In the life of a context that it was loaded in; none once it is unloaded.
struct Module {
  Context* context;
  unsigned life;
  std::map<std::string, Function> functions{};
  bool usable() const { return context && context == current() && life == context->life; }
};

// The library's bytes end behind its table of sections.
static size_t length(const Elf64_Ehdr* header) { return header->e_shoff + (size_t)header->e_shnum * header->e_shentsize; }

// Files that are removed at the end.
static struct Kept {
  std::vector<std::string> paths;
  ~Kept() { for (auto& path : paths) unlink(path.c_str()); }
} kept;

static void* open_library(const void* bytes) {
  std::string path = std::string(setting("TMPDIR", "/tmp")) + "/emulator-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) return nullptr;
  const size_t size = length((const Elf64_Ehdr*)bytes);
  const bool written = write(file, bytes, size) == (ssize_t)size;
  close(file);
  void* library = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!library) fprintf(stderr, "emulator: %s\n", dlerror());
  // Sanitizers read line numbers from it until the end.
  if (__sanitizer_print_stack_trace) kept.paths.push_back(path);
  else unlink(path.c_str());
  return library;
}

API cuModuleLoadData(void** handle, const void* bytes) {
  ENTER;
  if (memcmp(bytes, ELFMAG, SELFMAG) != 0) return InvalidImage;
  void* library = open_library(bytes);
  auto* image = library ? (const Image*)dlsym(library, "emulator_image") : nullptr;
  if (!image) return InvalidImage;
  *image->services = &services;
  auto* module = new Module{current(), current()->life};
  for (auto* kernel = image->kernels; kernel->name; kernel++) module->functions[kernel->name] = {kernel, image, module};
  *handle = module;
  return Success;
}
// The memory stays: who launches one of its functions must be told.
API cuModuleUnload(void* handle) {
  ENTER;
  finish_all(current());
  ((Module*)handle)->context = nullptr;
  return Success;
}
API cuModuleGetFunction(void** function, void* module, const char* name) {
  ENTER;
  if (!((Module*)module)->usable()) return InvalidHandle;
  auto found = ((Module*)module)->functions.find(name);
  if (found == ((Module*)module)->functions.end()) return NotFound;
  *function = &found->second;
  return Success;
}

API cuLaunchKernel(void* handle, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz, unsigned dynamic,
                   void* stream, void** parameters, void**) {
  ENTER;
  const auto [kernel, image, module] = *(Function*)handle;
  if (!module->usable()) return InvalidHandle;
  const uint64_t threads = (uint64_t)tx * ty * tz;
  if (!bx || !by || !bz || threads == 0 || threads > 1024 || by > 65535 || bz > 65535 || bx > 0x7fffffffu || dynamic != 0)
    return InvalidValue;
  // Arguments are copied now: the caller's may be gone when the kernel runs.
  auto values = std::make_shared<std::vector<std::vector<char>>>();
  for (unsigned i = 0; i < kernel->parameters; i++)
    values->emplace_back((char*)parameters[i], (char*)parameters[i] + kernel->sizes[i]);
  static long launches = 0;
  const bool fails = ++launches == number("EMULATOR_FAIL_LAUNCH", 0);
  Context* context = current();
  note("launch %s on stream %u", kernel->name, stream_of(stream)->number);
  return ask(stream_of(stream), [=, kernel = kernel, image = image] {
    if (context->error) return;
    std::vector<void*> places;
    for (auto& value : *values) places.push_back(value.data());
    Failure failure = run({kernel, image, {bx, by, bz}, {tx, ty, tz}, places.data()});
    if (fails) failure = {LaunchFailed, std::string("kernel ") + kernel->name + ": fails as it was told to"};
    if (failure.code == Success) return;
    context->error = failure.code;
    fprintf(stderr, "emulator: %s\n", failure.message.c_str());
  });
}
