// Memory: of devices and pinned. It is the host's, but only what the driver was asked for can be copied from and to.
#include "emulator.h"
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace emulator;

extern "C" {  // there only when a sanitizer is preloaded, which has guards of its own
__attribute__((weak)) void __asan_init();
__attribute__((weak)) void __tsan_init();
}

struct Block {
  size_t bytes;
  char* map;  // with its guard pages; none where a sanitizer watches
  size_t mapped;
  Context* context;  // none: pinned memory of the host
};
static std::map<uintptr_t, Block> blocks;
static constexpr size_t PAGE = 4096;

// The last byte stands before a page that faults, as near as alignment to 16 bytes allows. Fresh memory reads as NaN.
static void* allocate(size_t bytes, Context* context) {
  Block block{bytes, nullptr, 0, context};
  char* begin;
  if (__asan_init || __tsan_init) {
    begin = (char*)aligned_alloc(16, (bytes + 15) / 16 * 16);
  } else {
    const size_t room = (bytes + PAGE - 1) / PAGE * PAGE;
    block.mapped = room + 2 * PAGE;
    void* map = mmap(nullptr, block.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return nullptr;
    block.map = (char*)map;
    mprotect(block.map + PAGE, room, PROT_READ | PROT_WRITE);
    begin = block.map + PAGE + ((room - bytes) & ~size_t(15));
  }
  if (!begin) return nullptr;
  memset(begin, 0xff, bytes);
  if (context) context->used += bytes;
  blocks[(uintptr_t)begin] = block;
  return begin;
}
static int release(void* begin, bool pinned) {
  auto found = blocks.find((uintptr_t)begin);
  if (found == blocks.end() || pinned != !found->second.context) return InvalidValue;
  const Block block = found->second;
  blocks.erase(found);
  if (block.context) block.context->used -= block.bytes;
  if (block.map) munmap(block.map, block.mapped);
  else free(begin);
  return Success;
}

// The block that holds these bytes.
static const Block* find(uintptr_t begin, size_t bytes) {
  auto behind = blocks.upper_bound(begin);
  if (behind == blocks.begin()) return nullptr;
  const auto& [start, block] = *--behind;
  return begin + bytes <= start + block.bytes ? &block : nullptr;
}
static bool on_device(Address begin, size_t bytes) {
  const Block* block = find(begin, bytes);
  return block && block->context;
}

void emulator::report_leaks() {
  size_t count = 0, bytes = 0;
  for (auto& [begin, block] : blocks)
    if (block.context) count++, bytes += block.bytes;
  if (count == 0) return;
  fprintf(stderr, "emulator: %zu buffers of %zu bytes together were never freed\n", count, bytes);
  _exit(97);
}

API cuMemGetInfo_v2(size_t* free, size_t* total);
API cuMemAlloc_v2(Address* begin, size_t bytes) {
  ENTER;
  static long calls = 0;
  if (++calls == number("EMULATOR_FAIL_ALLOC", 0)) return OutOfMemory;
  size_t free, total;
  cuMemGetInfo_v2(&free, &total);
  if (bytes == 0) return InvalidValue;
  void* memory = bytes <= free ? allocate(bytes, current()) : nullptr;
  *begin = (Address)memory;
  return memory ? Success : OutOfMemory;
}
API cuMemFree_v2(Address begin) {
  ENTER;
  finish_all(current());
  return release((void*)begin, false);
}
API cuMemGetInfo_v2(size_t* free, size_t* total) {
  ENTER;
  *total = (size_t)number("EMULATOR_MEMORY_MB", 16384) << 20;
  *free = *total > current()->used ? *total - current()->used : 0;
  return Success;
}
API cuMemHostAlloc(void** begin, size_t bytes, unsigned) {
  ENTER;
  *begin = allocate(bytes, nullptr);
  return *begin ? Success : OutOfMemory;
}
API cuMemFreeHost(void* begin) {
  std::lock_guard<std::recursive_mutex> guard(everything);
  if (current()) finish_all(current());
  return release(begin, true);
}

static void tell_copy(const char* way, const void* host, size_t bytes, void* stream) {
  const char* kind = find((uintptr_t)host, bytes) ? "pinned" : "pageable";
  note("copy %s, %zu bytes %s, on stream %u", way, bytes, kind, stream_of(stream)->number);
}

// Pinned memory is read when the copy is done; other memory is read now, into a copy of its own.
API cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
  ENTER;
  if (!on_device(to, bytes)) return InvalidValue;
  tell_copy("to device", from, bytes, stream);
  if (find((uintptr_t)from, bytes)) return ask(stream_of(stream), [=] { memcpy((void*)to, from, bytes); });
  auto copy = std::make_shared<std::vector<char>>((const char*)from, (const char*)from + bytes);
  return ask(stream_of(stream), [=] { memcpy((void*)to, copy->data(), bytes); });
}
API cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
  ENTER;
  if (!on_device(from, bytes)) return InvalidValue;
  tell_copy("to host", to, bytes, stream);
  if (int error = ask(stream_of(stream), [=] { memcpy(to, (void*)from, bytes); })) return error;
  if (!find((uintptr_t)to, bytes)) finish(stream_of(stream));
  return current()->error;
}
API cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  ENTER;
  if (!on_device(to, bytes) || !on_device(from, bytes)) return InvalidValue;
  return ask(stream_of(stream), [=] { memmove((void*)to, (void*)from, bytes); });
}
API cuMemsetD8Async(Address begin, unsigned char value, size_t bytes, void* stream) {
  ENTER;
  if (!on_device(begin, bytes)) return InvalidValue;
  return ask(stream_of(stream), [=] { memset((void*)begin, value, bytes); });
}
