// SPDX-License-Identifier: Apache-2.0
// The emulated device's threads: fibers of a block, barriers, warp-wide exchanges (cuda_runtime.h).
#include "cuda_runtime.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
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

constexpr size_t stack_bytes = 256 << 10;
constexpr unsigned most_threads = 1024;

enum class state { ready, barrier, warp, done };

struct fiber {
    void       *saved = nullptr; // stack pointer (x86-64)
#if !defined(__x86_64__)
    ucontext_t  context;
#endif
    std::unique_ptr<unsigned char[]> stack;
    void       *sanitizer = nullptr;
    uint3       index;
    state       at = state::ready;
    int         predicate = 0;
    unsigned    mask = 0;
    uint64_t    value = 0;
};

std::mutex            device_mutex;
std::vector<fiber>    fibers;
fiber                *running;
#if !defined(__x86_64__)
ucontext_t            scheduler_context;
#endif
void                 *scheduler_saved;
void                 *scheduler_sanitizer;
const void           *scheduler_bottom;
size_t                scheduler_size;
nf_emulated_body      current_body;
void                 *current_arg;
int                   barrier_result;
int                   barrier_kind;
struct warp_exchange {
    uint64_t values[32];
    unsigned arrived;
};
std::vector<warp_exchange> exchanges;
std::vector<unsigned char> dynamic_shared;

[[noreturn]] void stop(const char *what)
{
    std::fprintf(stderr, "emulated device: %s (block %u,%u thread %u)\n", what, blockIdx.x, blockIdx.y,
                 running != nullptr ? running->index.x : 0);
    std::abort();
}

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

void to_scheduler(bool leaving)
{
    fiber *self = running;
    FIBER_START(leaving ? nullptr : &self->sanitizer, scheduler_bottom, scheduler_size);
#if defined(__x86_64__)
    nf_fiber_switch(&self->saved, scheduler_saved);
#else
    swapcontext(&self->context, &scheduler_context);
#endif
    FIBER_FINISH(self->sanitizer);
}

void fiber_main()
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_bottom, &scheduler_size);
#endif
    current_body(current_arg);
    running->at = state::done;
    to_scheduler(true);
    std::abort();
}

void prepare(fiber &f)
{
    if (f.stack == nullptr) f.stack.reset(new unsigned char[stack_bytes]);
    f.at = state::ready;
    f.sanitizer = nullptr;
#if defined(__x86_64__)
    uintptr_t top = reinterpret_cast<uintptr_t>(f.stack.get() + stack_bytes) & ~uintptr_t{63};
    void    **frame = reinterpret_cast<void **>(top);
    *--frame = nullptr;                                // where fiber_main would return to
    *--frame = reinterpret_cast<void *>(&fiber_main);  // taken by ret
    for (int i = 0; i < 6; i++) *--frame = nullptr;
    f.saved = frame;
#else
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = stack_bytes;
    f.context.uc_link = nullptr;
    makecontext(&f.context, fiber_main, 0);
#endif
}

void resume(fiber &f)
{
    running = &f;
    threadIdx = f.index;
    FIBER_START(&scheduler_sanitizer, f.stack.get(), stack_bytes);
#if defined(__x86_64__)
    nf_fiber_switch(&scheduler_saved, f.saved);
#else
    swapcontext(&scheduler_context, &f.context);
#endif
    FIBER_FINISH(scheduler_sanitizer);
}

// Lets the lanes of a warp go on when all lanes that one of them waits for have come.
bool release_warp(unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (fibers[first + i].at != state::warp) continue;
        const unsigned mask = fibers[first + i].mask;
        unsigned       there = 0;
        for (unsigned j = 0; j < count; j++) {
            if (fibers[first + j].at == state::warp && fibers[first + j].mask == mask) there |= 1u << j;
        }
        const unsigned full = count == 32 ? 0xffffffffu : (1u << count) - 1u;
        if ((there & mask) != (mask & full)) continue;
        warp_exchange &exchange = exchanges[first / 32];
        exchange.arrived = mask & full;
        for (unsigned j = 0; j < count; j++) {
            if ((there >> j & 1u) == 0) continue;
            exchange.values[j] = fibers[first + j].value;
            fibers[first + j].at = state::ready;
        }
        return true;
    }
    return false;
}

bool release_barrier(unsigned threads)
{
    int      any = 0, all = 1, count = 0;
    unsigned waiting = 0;
    for (unsigned i = 0; i < threads; i++) {
        if (fibers[i].at == state::done) continue;
        if (fibers[i].at != state::barrier) return false;
        waiting++;
        any |= fibers[i].predicate != 0;
        all &= fibers[i].predicate != 0;
        count += fibers[i].predicate != 0;
    }
    if (waiting == 0) return false;
    barrier_result = barrier_kind == 1 ? any : barrier_kind == 2 ? all : count;
    for (unsigned i = 0; i < threads; i++) {
        if (fibers[i].at == state::barrier) fibers[i].at = state::ready;
    }
    return true;
}

void run_block(unsigned threads)
{
    for (;;) {
        bool progress = false, finished = true;
        for (unsigned first = 0; first < threads; first += 32) {
            const unsigned count = threads - first < 32 ? threads - first : 32;
            bool           again = true;
            while (again) { // a warp runs as far as it can, so that few exchanges are open at once
                for (unsigned i = 0; i < count; i++) {
                    if (fibers[first + i].at == state::ready) {
                        resume(fibers[first + i]);
                        progress = true;
                    }
                }
                again = release_warp(first, count);
                progress = progress || again;
            }
        }
        for (unsigned i = 0; i < threads; i++) finished = finished && fibers[i].at == state::done;
        if (finished) return;
        if (release_barrier(threads)) continue;
        if (!progress) stop("threads wait for others that do not come");
    }
}

} // namespace

int nf_emulated_barrier(int kind, int predicate)
{
    running->predicate = predicate;
    running->at = state::barrier;
    barrier_kind = kind;
    to_scheduler(false);
    return barrier_result;
}

const uint64_t *nf_emulated_exchange(unsigned mask, uint64_t value, unsigned *arrived)
{
    const unsigned thread = (unsigned)(running - fibers.data());
    if ((mask >> (thread % 32) & 1u) == 0) stop("a lane takes part in an exchange whose mask leaves it out");
    running->mask = mask;
    running->value = value;
    running->at = state::warp;
    to_scheduler(false);
    if (arrived != nullptr) *arrived = exchanges[thread / 32].arrived;
    return exchanges[thread / 32].values;
}

unsigned nf_emulated_lane()
{
    return (unsigned)(running - fibers.data()) % 32;
}

unsigned char *nf_emulated_shared()
{
    const uintptr_t at = reinterpret_cast<uintptr_t>(dynamic_shared.data());
    return dynamic_shared.data() + ((128 - at % 128) % 128);
}

void nf_emulated_run(dim3 grid, dim3 block, size_t shared_bytes, nf_emulated_body body, void *arg)
{
    std::lock_guard<std::mutex> lock(device_mutex);
    const unsigned              threads = block.x * block.y * block.z;
    if (threads == 0 || threads > most_threads || grid.x == 0 || grid.y == 0 || grid.y > 65535 || grid.z == 0 ||
        grid.z > 65535 || grid.x > 0x7fffffffu || shared_bytes > (227u << 10)) {
        stop("a launch with a configuration that no device takes");
    }
    if (fibers.size() < threads) fibers.resize(threads);
    exchanges.resize((threads + 31) / 32);
    current_body = body;
    current_arg = arg;
    blockDim = block;
    gridDim = grid;
    for (unsigned z = 0; z < grid.z; z++) {
        for (unsigned y = 0; y < grid.y; y++) {
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = {x, y, z};
                dynamic_shared.assign(shared_bytes + 128, 0xab);
                for (unsigned i = 0; i < threads; i++) {
                    fibers[i].index = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
                    prepare(fibers[i]);
                }
                run_block(threads);
            }
        }
    }
    running = nullptr;
}
