// SPDX-License-Identifier: Apache-2.0
// The emulated device's threads: fibers of a block, barriers, warp-wide exchanges (cuda_runtime.h).
//
// Threads that never wait need no fiber of their own: a fiber runs thread after thread, block after block, until one waits;
// the next thread then gets a fiber of its own. A thread that waits passes control to the next one that can run, of its warp
// first, so that few exchanges are open at once; control comes back to the launch when the grid is done.
#include "cuda_runtime.h"
#include "emulator_faults.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define FIBER_START(save, bottom, size) __sanitizer_start_switch_fiber((save), (bottom), (size))
#define FIBER_FINISH(save) __sanitizer_finish_switch_fiber((save), nullptr, nullptr)
#else
#define FIBER_START(save, bottom, size) ((void)(save), (void)(bottom), (void)(size))
#define FIBER_FINISH(save) ((void)(save))
#endif

uint3 threadIdx, blockIdx;
dim3  blockDim, gridDim;

namespace {

constexpr size_t   stack_bytes = 256 << 10;
constexpr unsigned stack_steps = 61, step_bytes = 192; // tops of stacks at different places, or they share a cache's sets
constexpr unsigned most_threads = 1024;
constexpr unsigned nobody = ~0u;

// A stack and where it stopped. The launching thread has one too, without a stack of ours.
struct fiber {
    void *saved = nullptr; // stack pointer (x86-64)
#if !defined(__x86_64__)
    ucontext_t context;
#endif
    std::unique_ptr<unsigned char[]> stack;
    const void *bottom = nullptr; // for the sanitizer
    size_t      size = 0;
    void       *sanitizer = nullptr;
};

struct thread {
    uint3    index;
    fiber   *on;   // null: not begun
    unsigned mask; // of the exchange it waits for
};

// Lanes by what they do: each is in one of the four sets.
struct warp {
    unsigned all, ready, exchanging, at_barrier, done;
    unsigned mask;  // of the exchange that is waited for,
    bool     mixed; // unless lanes wait for different ones
    uint64_t brought[32]; // what lanes came with,
    uint64_t values[32];  // and what those see that were let go on
    unsigned arrived;
};

struct barrier_state {
    unsigned waiting, done, count;
    int      kind, result;
};

std::mutex                 device_mutex;
std::vector<thread>        threads;
std::vector<warp>          warps;
std::vector<std::unique_ptr<fiber>> fibers;
std::vector<fiber *>       idle_fibers;
fiber                      launcher;
unsigned                   thread_count;
unsigned                   running = nobody;
barrier_state              barrier;
nf_emulated_body           current_body;
void                      *current_arg;
size_t                     shared_size;
std::vector<unsigned char> dynamic_shared;

[[noreturn]] void stop(const char *what)
{
    std::fprintf(stderr, "emulated device: %s (block %u,%u thread %u)\n", what, blockIdx.x, blockIdx.y,
                 running != nobody ? threads[running].index.x : 0);
    std::abort();
}

// ---- fibers ----

#if defined(__x86_64__)
// Saves what the calling convention keeps, and exchanges stacks.
extern "C" void nf_fiber_switch(void **save, void *load);
asm(R"(
.text
.globl nf_fiber_switch
.hidden nf_fiber_switch
.type nf_fiber_switch,@function
nf_fiber_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size nf_fiber_switch,.-nf_fiber_switch
)");
#endif

// leaving: nothing of from is needed again.
void change_fiber(fiber *from, fiber *to, bool leaving)
{
    FIBER_START(leaving ? nullptr : &from->sanitizer, to->bottom, to->size);
#if defined(__x86_64__)
    nf_fiber_switch(&from->saved, to->saved);
#else
    swapcontext(&from->context, &to->context);
#endif
    FIBER_FINISH(from->sanitizer);
}

void fiber_main();

fiber *fresh_fiber()
{
    if (idle_fibers.empty()) {
        const size_t shift = fibers.size() % stack_steps * step_bytes;
        fibers.emplace_back(new fiber);
        fibers.back()->stack.reset(new unsigned char[stack_bytes]);
        fibers.back()->bottom = fibers.back()->stack.get();
        fibers.back()->size = stack_bytes - stack_steps * step_bytes + shift;
        idle_fibers.push_back(fibers.back().get());
    }
    fiber *f = idle_fibers.back();
    idle_fibers.pop_back();
    f->sanitizer = nullptr;
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(f->stack.get() + f->size - 4096, 4096); // fiber_main's last frame was never left
#endif
#if defined(__x86_64__)
    uintptr_t top = reinterpret_cast<uintptr_t>(f->stack.get() + f->size) & ~uintptr_t{63};
    void    **frame = reinterpret_cast<void **>(top);
    *--frame = nullptr;                               // where fiber_main would return to
    *--frame = reinterpret_cast<void *>(&fiber_main); // taken by ret
    for (int i = 0; i < 6; i++) *--frame = nullptr;
    f->saved = frame;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack.get();
    f->context.uc_stack.ss_size = f->size;
    f->context.uc_link = nullptr;
    makecontext(&f->context, fiber_main, 0);
#endif
    return f;
}

// ---- who runs next ----

void release_lanes(warp &w, unsigned lanes)
{
    for (unsigned lane = 0; lane < 32; lane++) w.values[lane] = w.brought[lane];
    w.arrived = lanes;
    w.exchanging &= ~lanes;
    w.ready |= lanes;
}

// Lets the lanes of a warp go on when all lanes that one of them waits for have come.
void release_warp(warp &w, unsigned first)
{
    if (!w.mixed) {
        if (w.exchanging != 0 && w.exchanging == (w.mask & w.all)) release_lanes(w, w.exchanging);
        return;
    }
    for (unsigned left = w.exchanging; left != 0; left &= left - 1) {
        const unsigned mask = threads[first + (unsigned)__builtin_ctz(left)].mask;
        unsigned       there = 0;
        for (unsigned others = w.exchanging; others != 0; others &= others - 1) {
            const unsigned lane = (unsigned)__builtin_ctz(others);
            if (threads[first + lane].mask == mask) there |= 1u << lane;
        }
        if (there != (mask & w.all)) continue;
        release_lanes(w, there);
        return;
    }
}

bool release_barrier()
{
    if (barrier.waiting == 0 || barrier.waiting + barrier.done != thread_count) return false;
    barrier.result = barrier.kind == 1   ? barrier.count > 0
                     : barrier.kind == 2 ? barrier.count == barrier.waiting
                                         : (int)barrier.count;
    for (warp &w : warps) {
        w.ready = w.at_barrier;
        w.at_barrier = 0;
    }
    barrier.waiting = barrier.count = 0;
    return true;
}

void begin_block()
{
    dynamic_shared.assign(shared_size + 128, 0xab);
    barrier = barrier_state{};
    for (unsigned i = 0; i < warps.size(); i++) {
        const unsigned count = thread_count - 32 * i < 32 ? thread_count - 32 * i : 32;
        warp          &w = warps[i];
        w.all = w.ready = count == 32 ? 0xffffffffu : (1u << count) - 1u;
        w.exchanging = w.at_barrier = w.done = 0;
        w.mixed = false;
    }
    for (unsigned i = 0; i < thread_count; i++) threads[i].on = nullptr;
}

bool next_block()
{
    if (++blockIdx.x == gridDim.x) {
        blockIdx.x = 0;
        if (++blockIdx.y == gridDim.y) {
            blockIdx.y = 0;
            if (++blockIdx.z == gridDim.z) return false;
        }
    }
    begin_block();
    return true;
}

// The next thread that can run, from the given one's warp on; nobody at the end of the grid.
unsigned next_thread(unsigned from)
{
    for (;;) {
        const unsigned count = (unsigned)warps.size();
        for (unsigned i = 0, at = from / 32; i < count; i++, at = at + 1 == count ? 0 : at + 1) {
            warp &w = warps[at];
            if (w.ready == 0) release_warp(w, at * 32);
            if (w.ready != 0) return at * 32 + (unsigned)__builtin_ctz(w.ready);
        }
        from = 0;
        if (barrier.done == thread_count) {
            if (!next_block()) return nobody;
        } else if (!release_barrier()) {
            stop("threads wait for others that do not come");
        }
    }
}

void run_as(unsigned next)
{
    running = next;
    threadIdx = threads[next].index;
}

// The running thread waits: another goes on. Comes back when it can run again.
void wait()
{
    const unsigned self = running, ready = warps[self / 32].ready;
    const unsigned next = ready != 0 ? self / 32 * 32 + (unsigned)__builtin_ctz(ready) : next_thread(self);
    if (next == self) return;
    if (next == nobody) stop("a grid ended before its threads");
    if (threads[next].on == nullptr) threads[next].on = fresh_fiber();
    run_as(next);
    change_fiber(threads[self].on, threads[next].on, false);
}

// Runs threads that have not begun, one after another, until one is next that waits on a fiber of its own.
void fiber_main()
{
#if defined(__SANITIZE_ADDRESS__)
    const void *bottom;
    size_t      size;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
    if (launcher.bottom == nullptr) {
        launcher.bottom = bottom;
        launcher.size = size;
    }
#endif
    fiber *const self = threads[running].on;
    for (;;) {
        current_body(current_arg);
        warp &w = warps[running / 32];
        w.ready &= ~(1u << running % 32);
        w.done |= 1u << running % 32;
        barrier.done++;
        const unsigned next = next_thread(running);
        fiber         *to = next == nobody ? &launcher : threads[next].on;
        if (to == nullptr) {
            run_as(next);
            threads[next].on = self;
            continue;
        }
        if (next != nobody) run_as(next);
        idle_fibers.push_back(self);
        change_fiber(self, to, true);
        std::abort();
    }
}

} // namespace

// ---- what kernels call ----

int nf_emulated_barrier(int kind, int predicate)
{
    const unsigned bit = 1u << running % 32;
    warp          &w = warps[running / 32];
    if (barrier.waiting > 0 && barrier.kind != kind) stop("threads meet at barriers of different kinds");
    barrier.kind = kind;
    barrier.waiting++;
    barrier.count += predicate != 0;
    w.ready &= ~bit;
    w.at_barrier |= bit;
    wait();
    return barrier.result;
}

const uint64_t *nf_emulated_exchange(unsigned mask, uint64_t value, unsigned *arrived)
{
    const unsigned bit = 1u << running % 32;
    warp          &w = warps[running / 32];
    if ((mask & bit) == 0) stop("a lane takes part in an exchange whose mask leaves it out");
    threads[running].mask = mask;
    w.brought[running % 32] = value;
    if (w.exchanging == 0) {
        w.mask = mask;
        w.mixed = false;
    } else if (w.mask != mask) {
        w.mixed = true;
    }
    w.ready &= ~bit;
    w.exchanging |= bit;
    wait();
    if (arrived != nullptr) *arrived = w.arrived;
    return w.values;
}

unsigned nf_emulated_lane()
{
    return running % 32;
}

unsigned char *nf_emulated_shared()
{
    const uintptr_t at = reinterpret_cast<uintptr_t>(dynamic_shared.data());
    return dynamic_shared.data() + ((128 - at % 128) % 128);
}

void nf_emulated_run(dim3 grid, dim3 block, size_t shared_bytes, nf_emulated_body body, void *arg)
{
    std::lock_guard<std::mutex> lock(device_mutex);
    if (nf_emulated_fault() != cudaSuccess) return; // the next cudaGetLastError tells
    thread_count = block.x * block.y * block.z;
    if (thread_count == 0 || thread_count > most_threads || grid.x == 0 || grid.y == 0 || grid.y > 65535 || grid.z == 0 ||
        grid.z > 65535 || grid.x > 0x7fffffffu || shared_bytes > (227u << 10)) {
        stop("a launch with a configuration that no device takes");
    }
    threads.resize(thread_count);
    warps.resize((thread_count + 31) / 32);
    for (unsigned i = 0; i < thread_count; i++) {
        threads[i].index = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
    }
    current_body = body;
    current_arg = arg;
    shared_size = shared_bytes;
    blockDim = block;
    gridDim = grid;
    blockIdx = {0, 0, 0};
    begin_block();
    launcher.bottom = nullptr; // any thread may launch
    threads[0].on = fresh_fiber();
    run_as(0);
    change_fiber(&launcher, threads[0].on, false);
    running = nobody;
}
