// What the parts of the emulated driver know of each other.
#pragma once
#include "abi.h"
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#define API extern "C" __attribute__((visibility("default"))) int

namespace emulator {

// CUresult, as far as it occurs here.
enum : int {
  Success = 0, InvalidValue = 1, OutOfMemory = 2, NotInitialized = 3, NoDevice = 100, InvalidDevice = 101, InvalidImage = 200,
  InvalidContext = 201, InvalidHandle = 400, NotFound = 500, NotReady = 600, IllegalAddress = 700, ContextDestroyed = 709,
  LaunchFailed = 719, NotSupported = 801,
};

typedef unsigned long long Address;

inline const char* setting(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value && *value ? value : otherwise;
}
inline long number(const char* name, long otherwise) {
  const char* value = getenv(name);
  return value && *value ? atol(value) : otherwise;
}

struct Context;

// Work in order. `asked` and `done` count it; what is asked and not done is in the queue.
struct Stream {
  Context* context;
  unsigned number = 0;  // of the process, from 1
  std::deque<std::function<void()>> queue{};
  uint64_t asked = 0, done = 0;
};

// A device's primary context; an error of a kernel stays in it. What was made in it ends with its last user: the next one has another life.
struct Context {
  int device = 0, users = 0, error = Success;
  unsigned life = 0;
  size_t used = 0;
  Stream standard{this};
  std::set<Stream*> streams{};
};

extern std::recursive_mutex everything;  // one call at a time
bool initialized();
int devices();
Context* context_of(int device);
Context* current();
Stream* stream_of(void* handle);
int ask(Stream*, std::function<void()>);  // puts work into a stream of this context, and does it at once unless deferred
void finish(Stream*);
void finish_all(Context*);
void report_leaks();
void note(const char* format, ...) __attribute__((format(printf, 1, 2)));  // a line of the trace, if there is one

// One launch of a kernel.
struct Launch {
  const Kernel* kernel;
  const Image* image;
  Place blocks, threads;
  void** parameters;
};
struct Failure {
  int code = Success;
  std::string message;
};
Failure run(const Launch&);
extern const Services services;

}  // namespace emulator

// Begins every entry point that works in a context.
#define ENTER                                                               \
  std::lock_guard<std::recursive_mutex> guard(emulator::everything);        \
  if (!emulator::initialized()) return emulator::NotInitialized;            \
  if (!emulator::current()) return emulator::InvalidContext;                \
  if (!emulator::current()->users) return emulator::ContextDestroyed;       \
  if (emulator::current()->error) return emulator::current()->error
