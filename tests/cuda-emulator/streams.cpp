// Contexts, streams and events. With EMULATOR_DEFER=1 work is done as late as a device may do it: when somebody waits.
#include "emulator.h"
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <unistd.h>

using namespace emulator;

struct Event {
  Context* context;
  Stream* stream = nullptr;  // where it was recorded, and behind how much work
  uint64_t place = 0;
  double milliseconds = 0;
};

static thread_local Context* chosen;
Context* emulator::current() { return chosen; }
Stream* emulator::stream_of(void* handle) { return handle ? (Stream*)handle : &chosen->standard; }

static void finish_until(Stream* stream, uint64_t place) {
  while (stream->done < place && !stream->queue.empty()) {
    auto work = std::move(stream->queue.front());
    stream->queue.pop_front();
    work();
    stream->done++;
  }
}
void emulator::finish(Stream* stream) { finish_until(stream, stream->asked); }
void emulator::finish_all(Context* context) {
  finish(&context->standard);
  for (Stream* stream : context->streams) finish(stream);
}
int emulator::ask(Stream* stream, std::function<void()> work) {
  if (stream->context != current()) return InvalidHandle;
  stream->queue.push_back(std::move(work));
  stream->asked++;
  if (!number("EMULATOR_DEFER", 0)) finish(stream);
  return Success;  // as on a device: what goes wrong shows when somebody waits
}

// A file for each process, by its number.
void emulator::note(const char* format, ...) {
  static const std::string path = setting("EMULATOR_TRACE", "");
  if (path.empty()) return;
  static FILE* file = fopen((path + "." + std::to_string(getpid())).c_str(), "w");
  if (!file) return;
  va_list values;
  va_start(values, format);
  vfprintf(file, format, values);
  va_end(values);
  fputc('\n', file);
  fflush(file);
}

API cuCtxGetCurrent(void** context) {
  *context = chosen;
  return Success;
}
API cuCtxSetCurrent(void* context) {
  chosen = (Context*)context;
  return Success;
}
API cuCtxSynchronize() {
  ENTER;
  note("wait for all streams");
  finish_all(current());
  return current()->error;
}

API cuStreamCreate(void** handle, unsigned) {
  ENTER;
  static unsigned made = 0;
  auto* stream = new Stream{current(), ++made};
  current()->streams.insert(stream);
  *handle = stream;
  return Success;
}
// The memory stays: events may still name the stream.
API cuStreamDestroy_v2(void* handle) {
  std::lock_guard<std::recursive_mutex> guard(everything);
  auto* stream = (Stream*)handle;
  finish(stream);
  stream->context->streams.erase(stream);
  return Success;
}
API cuStreamSynchronize(void* handle) {
  ENTER;
  if (stream_of(handle)->context != current()) return InvalidHandle;
  note("wait for stream %u", stream_of(handle)->number);
  finish(stream_of(handle));
  return current()->error;
}
API cuStreamWaitEvent(void* handle, void* event, unsigned) {
  ENTER;
  Stream* other = ((Event*)event)->stream;
  const uint64_t place = ((Event*)event)->place;
  if (!other) return Success;
  return ask(stream_of(handle), [=] { finish_until(other, place); });
}

static double now() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}
API cuEventCreate(void** event, unsigned) {
  ENTER;
  *event = new Event{current()};
  return Success;
}
API cuEventDestroy_v2(void* handle) {
  std::lock_guard<std::recursive_mutex> guard(everything);
  auto* event = (Event*)handle;
  if (event->stream) finish_until(event->stream, event->place);
  delete event;
  return Success;
}
API cuEventRecord(void* handle, void* stream) {
  ENTER;
  auto* event = (Event*)handle;
  if (event->context != current()) return InvalidHandle;
  // Recorded anew, what was recorded before is still written to: it must be done by then.
  if (event->stream && event->stream != stream_of(stream)) finish_until(event->stream, event->place);
  event->stream = stream_of(stream);
  event->place = event->stream->asked + 1;
  return ask(event->stream, [event] { event->milliseconds = now(); });
}
API cuEventSynchronize(void* handle) {
  ENTER;
  auto* event = (Event*)handle;
  if (event->stream) {
    note("wait for stream %u", event->stream->number);
    finish_until(event->stream, event->place);
  }
  return current()->error;
}
API cuEventElapsedTime(float* milliseconds, void* from, void* to) {
  ENTER;
  auto *first = (Event*)from, *last = (Event*)to;
  if (!first->stream || !last->stream) return InvalidHandle;
  if (first->stream->done < first->place || last->stream->done < last->place) return NotReady;
  *milliseconds = (float)(last->milliseconds - first->milliseconds);
  return Success;
}
API cuEventElapsedTime_v2(float* milliseconds, void* from, void* to) { return cuEventElapsedTime(milliseconds, from, to); }
