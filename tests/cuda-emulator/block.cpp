// Runs a kernel: blocks one after the other, the threads of a block as fibers that take turns at barriers and warp operations.
#include "emulator.h"
#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <random>
#include <sys/mman.h>
#include <vector>

extern "C" {  // there only when a sanitizer is preloaded: it must know of fibers and barriers
__attribute__((weak)) void __sanitizer_start_switch_fiber(void**, const void*, size_t);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void*, const void**, size_t*);
__attribute__((weak)) void* __tsan_get_current_fiber();
__attribute__((weak)) void* __tsan_create_fiber(unsigned);
__attribute__((weak)) void __tsan_switch_to_fiber(void*, unsigned);
__attribute__((weak)) void __tsan_acquire(void*);
__attribute__((weak)) void __tsan_release(void*);
__attribute__((weak)) void __asan_unpoison_memory_region(void const volatile*, size_t);
// Saves where this stack is, goes on where the other was.
void emulator_switch(void** save, void* to);
}
#if !defined(__x86_64__)
#error "the emulator switches stacks on x86-64 only"
#endif
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch,@function
emulator_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size emulator_switch,.-emulator_switch
)");

namespace emulator {
namespace {

constexpr uintptr_t STACK = 128 * 1024;
enum class State : uint8_t { Ready, AtBarrier, InWarp, Done };

struct Fiber {
  Thread thread{};
  char* stack = nullptr;
  void* top = nullptr;  // where it goes on
  State state = State::Ready;
  unsigned mask = 0;  // of the warp operation that it waits in
  WarpOp op{};
  uint64_t value = 0;
  int source = 0, line = 0;
  void *tsan = nullptr, *fake = nullptr;
};

// All that runs: a lock of the driver lets one launch in at a time.
std::vector<Fiber> fibers;
const Launch* launch;
Fiber* running;
unsigned alive, waiting;  // threads of the block that did not return; of those, at the barrier
Failure failure;
void *scheduler_top, *scheduler_tsan, *scheduler_fake;
const void* scheduler_stack;
size_t scheduler_size;
sigjmp_buf fault;
volatile bool in_kernel;
// What a sanitizer takes as the place of each barrier, by turns.
char began, ended, barriers[2], warps[32][2];
unsigned barrier_turn, warp_turn[32];

bool strict() { return number("EMULATOR_STRICT", 1); }
void acquire(void* place) { if (__tsan_acquire) __tsan_acquire(place); }
void release(void* place) { if (__tsan_release) __tsan_release(place); }

void fail(int code, const std::string& what) {
  if (failure.code) return;
  const Thread& t = running->thread;
  char where[256];
  snprintf(where, sizeof where, "kernel %s, block (%u, %u, %u), thread %u: ", launch->kernel->name, t.block.x, t.block.y, t.block.z,
           t.number);
  failure = {code, where + what};
}

void to_scheduler(Fiber* from, bool for_ever = false) {
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &from->fake, scheduler_stack, scheduler_size);
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(scheduler_tsan, 1);
  emulator_switch(&from->top, scheduler_top);
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(from->fake, &scheduler_stack, &scheduler_size);
}
void to_fiber(Fiber* to) {
  running = to;
  *launch->image->current = &to->thread;
  if (__sanitizer_start_switch_fiber) __sanitizer_start_switch_fiber(&scheduler_fake, to->stack, STACK);
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(to->tsan, 1);
  emulator_switch(&scheduler_top, to->top);
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(scheduler_fake, nullptr, nullptr);
}

void barrier(int line) {
  Fiber* self = running;
  const unsigned turn = barrier_turn % 2;
  release(&barriers[turn]);
  self->line = line;
  self->state = State::AtBarrier;
  waiting++;
  to_scheduler(self);
  acquire(&barriers[turn]);
}
// All that live are at the barrier: they go on.
void open_barrier() {
  for (Fiber& fiber : fibers) {
    if (fiber.state != State::AtBarrier) continue;
    if (fiber.line != running->line) {
      running = &fiber;
      fail(LaunchFailed, "waits at the barrier of line " + std::to_string(fiber.line) + ", others at another");
    }
    fiber.state = State::Ready;
  }
  if (alive != fibers.size() && strict()) fail(LaunchFailed, "waits at a barrier that threads which returned never reach");
  waiting = 0;
  barrier_turn++;
}

// Lets the lanes of a warp go on if all of the mask are there.
bool complete_warp(unsigned warp, unsigned mask) {
  uint64_t values[32];
  memset(values, 0xff, sizeof values);  // absent lanes read as NaN
  unsigned there = 0, ballot = 0;
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(mask >> lane & 1)) continue;
    const unsigned number = warp * 32 + lane;
    if (number >= fibers.size() || fibers[number].state == State::Done) {
      if (strict()) fail(LaunchFailed, "a warp operation names lane " + std::to_string(lane) + ", which is not there");
      continue;
    }
    const Fiber& other = fibers[number];
    if (other.state != State::InWarp || other.mask != mask) return false;
    if (other.op != running->op) fail(LaunchFailed, "different warp operations meet");
    there |= 1u << lane;
    values[lane] = other.value;
    if (other.value) ballot |= 1u << lane;
  }
  warp_turn[warp]++;
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(there >> lane & 1)) continue;
    Fiber& other = fibers[warp * 32 + lane];
    other.state = State::Ready;
    other.value = other.op == WarpOp::Ballot ? ballot : values[other.source & 31];
  }
  return true;
}
uint64_t warp(WarpOp op, unsigned mask, uint64_t value, int source, int line) {
  Fiber* self = running;
  const unsigned warp = self->thread.number / 32, lane = self->thread.number % 32;
  if (!(mask >> lane & 1)) fail(LaunchFailed, "a warp operation whose mask lacks the lane that calls");
  self->op = op, self->mask = mask, self->value = value, self->source = source, self->line = line;
  self->state = State::InWarp;
  const unsigned turn = warp_turn[warp] % 2;
  if (op == WarpOp::Sync) release(&warps[warp][turn]);  // shuffles move values and order no memory
  complete_warp(warp, mask);
  to_scheduler(self);
  if (op == WarpOp::Sync) acquire(&warps[warp][turn]);
  return self->value;
}
[[noreturn]] void trap(const char* what, const char* file, int line) {
  fail(LaunchFailed, std::string(what) + " at " + file + ":" + std::to_string(line));
  for (;;) to_scheduler(running);
}

void fiber_main() {
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_size);
  Fiber* self = running;
  acquire(&began);
  launch->kernel->run(launch->parameters);
  release(&ended);
  self->state = State::Done;
  alive--;
  for (;;) to_scheduler(self, true);
}
// A fresh stack that begins in fiber_main; tops differ a little, or all would fall into the same lines of the cache.
void arm(Fiber& fiber, unsigned number) {
  if (!fiber.stack) {
    char* map = (char*)mmap(nullptr, STACK + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mprotect(map, 4096, PROT_NONE);
    fiber.stack = map + 4096;
  }
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(fiber.stack, STACK);
  if (__tsan_create_fiber && !fiber.tsan) fiber.tsan = __tsan_create_fiber(0);
  void** top = (void**)(fiber.stack + STACK - 64 - number * 64 % 16384);
  *--top = nullptr;
  *--top = (void*)fiber_main;
  for (int saved = 0; saved < 6; saved++) *--top = nullptr;
  fiber.top = top;
  fiber.state = State::Ready;
}

struct sigaction handler_before;
void on_fault(int signal, siginfo_t* info, void*) {
  if (!in_kernel) {
    sigaction(signal, &handler_before, nullptr);  // not ours: it faults again, into who was there before
    return;
  }
  char what[64];
  snprintf(what, sizeof what, "illegal access to memory at %p", info->si_addr);
  fail(IllegalAddress, what);
  siglongjmp(fault, 1);
}
void watch_faults() {
  static bool watched = false;
  if (watched || __sanitizer_start_switch_fiber || __tsan_create_fiber) return;
  watched = true;
  static char stack[65536];
  stack_t now{};
  sigaltstack(nullptr, &now);
  stack_t own{};
  own.ss_sp = stack, own.ss_size = sizeof stack;
  if (now.ss_flags & SS_DISABLE) sigaltstack(&own, nullptr);
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, &handler_before);
}

// Nobody can go on: a barrier that all have reached, a warp whose other lanes returned, or a deadlock.
void unblock() {
  if (waiting > 0 && waiting == alive) {
    for (Fiber& fiber : fibers)
      if (fiber.state == State::AtBarrier) running = &fiber;
    return open_barrier();
  }
  for (Fiber& fiber : fibers) {
    if (fiber.state != State::InWarp) continue;
    running = &fiber;
    if (complete_warp(fiber.thread.number / 32, fiber.mask)) return;
  }
  fail(LaunchFailed, "deadlock: " + std::to_string(waiting) + " of " + std::to_string(alive) +
                     " threads are at a barrier, the others in warp operations");
}

void run_block(std::vector<unsigned>& order, std::mt19937* shuffled) {
  if (!__sanitizer_start_switch_fiber && !__tsan_create_fiber && sigsetjmp(fault, 0)) {
    in_kernel = false;  // back from on_fault
    return;
  }
  while (alive > 0 && !failure.code) {
    bool moved = false;
    if (shuffled) std::shuffle(order.begin(), order.end(), *shuffled);
    for (unsigned number : order) {
      if (fibers[number].state != State::Ready) continue;
      moved = in_kernel = true;
      to_fiber(&fibers[number]);
      in_kernel = false;
      if (failure.code) return;
    }
    if (!moved) unblock();
  }
}

void begin_block(uint64_t number) {
  const Place all = launch->blocks, size = launch->threads;
  const Place block{(unsigned)(number % all.x), (unsigned)(number / all.x % all.y), (unsigned)(number / all.x / all.y)};
  if (launch->image->shared_begin)
    memset(launch->image->shared_begin, 0xff, launch->image->shared_end - launch->image->shared_begin);
  alive = (unsigned)fibers.size(), waiting = 0;
  for (unsigned i = 0; i < fibers.size(); i++) {
    fibers[i].thread = {{i % size.x, i / size.x % size.y, i / size.x / size.y}, block, size, all, i};
    arm(fibers[i], i);
  }
  release(&began);
}

}  // namespace

const Services services = {barrier, warp, trap};

Failure run(const Launch& wanted) {
  static std::vector<Fiber> spare;  // stacks of larger blocks before
  launch = &wanted;
  failure = {};
  watch_faults();
  const unsigned threads = wanted.threads.x * wanted.threads.y * wanted.threads.z;
  for (; fibers.size() > threads; fibers.pop_back()) spare.push_back(fibers.back());
  for (; fibers.size() < threads && !spare.empty(); spare.pop_back()) fibers.push_back(spare.back());
  fibers.resize(threads);
  if (__tsan_get_current_fiber) scheduler_tsan = __tsan_get_current_fiber();

  const std::string asked = setting("EMULATOR_ORDER", "forward");
  std::vector<unsigned> order(threads);
  for (unsigned i = 0; i < threads; i++) order[i] = asked == "reverse" ? threads - 1 - i : i;
  std::mt19937 random(asked.size() > 7 ? atoi(asked.c_str() + 7) : 1);
  const bool shuffled = asked.compare(0, 6, "random") == 0;

  const uint64_t blocks = (uint64_t)wanted.blocks.x * wanted.blocks.y * wanted.blocks.z;
  for (uint64_t i = 0; i < blocks && !failure.code; i++) {
    begin_block(asked == "reverse" ? blocks - 1 - i : i);
    run_block(order, shuffled ? &random : nullptr);
    acquire(&ended);
  }
  return failure;
}

}  // namespace emulator
