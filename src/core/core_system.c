/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What machine this is. Compiled with the baseline instruction set only, so that the question itself runs everywhere.
 *
 * An instruction set counts only when three things hold: the build has kernels for it, CPUID names every extension that
 * they use, and XCR0 says that the operating system saves the registers (Intel SDM volume 1, chapter 14: OSXSAVE before
 * XGETBV; YMM bits for AVX2; opmask and both ZMM bits too for AVX-512). On AArch64 there is nothing to ask:
 * NEON is part of it.
 */
#include "core_system.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

uint32_t nf_system_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        const int count = CPU_COUNT(&set);
        if (count > 0) return count < NF_MAX_THREADS ? (uint32_t)count : NF_MAX_THREADS;
    }
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online < NF_MAX_THREADS ? (uint32_t)online : 1;
}

/* A number from a one-line file; 0 when there is none ("max" in cgroup v2). */
static uint64_t number_in_file(const char *path)
{
    char  line[64];
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    const bool got = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    return got ? strtoull(line, NULL, 10) : 0;
}

/* This process's own cgroup v2 folder and its parents may hold limits too; the namespace's root is what containers set. */
static uint64_t cgroup_limit(void)
{
    const uint64_t v2 = number_in_file("/sys/fs/cgroup/memory.max");
    return v2 != 0 ? v2 : number_in_file("/sys/fs/cgroup/memory/memory.limit_in_bytes");
}

uint64_t nf_system_memory(void)
{
    const long     pages = sysconf(_SC_PHYS_PAGES);
    const long     page = sysconf(_SC_PAGE_SIZE);
    uint64_t       bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : (uint64_t)4 << 30;
    const uint64_t limit = cgroup_limit();
    if (limit != 0 && limit < bytes) bytes = limit;
    return bytes;
}

const char *nf_isa_name(nf_isa isa)
{
    switch (isa) {
    case NF_ISA_AUTO: return "auto";
    case NF_ISA_SCALAR: return "scalar";
    case NF_ISA_AVX2: return "avx2";
    case NF_ISA_AVX512: return "avx512";
    case NF_ISA_NEON: return "neon";
    }
    return "unknown";
}

#if defined(__x86_64__)

#define XCR0_YMM 0x6u
#define XCR0_ZMM 0xe6u

static uint64_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* The best instruction set that CPU and operating system give, whatever the build holds. */
static nf_isa machine_isa(void)
{
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return NF_ISA_SCALAR;
    const uint32_t leaf1 = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C | bit_POPCNT;
    if ((c & leaf1) != leaf1) return NF_ISA_SCALAR;
    const uint64_t xcr0 = read_xcr0();
    if ((xcr0 & XCR0_YMM) != XCR0_YMM) return NF_ISA_SCALAR;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return NF_ISA_SCALAR;
    const uint32_t avx2 = bit_AVX2 | bit_BMI | bit_BMI2;
    if ((b & avx2) != avx2) return NF_ISA_SCALAR;
    const uint32_t avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
    if ((xcr0 & XCR0_ZMM) != XCR0_ZMM || (b & avx512) != avx512 || !(c & bit_AVX512VNNI)) return NF_ISA_AVX2;
    return NF_ISA_AVX512;
}

#elif defined(__aarch64__)

/* Advanced SIMD belongs to every AArch64 processor that Linux runs on. */
static nf_isa machine_isa(void)
{
    return NF_ISA_NEON;
}

#else

static nf_isa machine_isa(void)
{
    return NF_ISA_SCALAR;
}

#endif

static bool built(nf_isa isa)
{
    switch (isa) {
    case NF_ISA_SCALAR: return true;
#if defined(NF_HAVE_AVX2)
    case NF_ISA_AVX2: return true;
#endif
#if defined(NF_HAVE_AVX512)
    case NF_ISA_AVX512: return true;
#endif
#if defined(NF_HAVE_NEON)
    case NF_ISA_NEON: return true;
#endif
    default: return false;
    }
}

/* A build holds the instruction sets of one architecture, which contain each other as they are numbered. */
bool nf_system_has_isa(nf_isa isa)
{
    return built(isa) && isa <= machine_isa();
}

nf_isa nf_system_best_isa(void)
{
    nf_isa isa = machine_isa();
    while (isa > NF_ISA_SCALAR && !built(isa)) isa = (nf_isa)(isa - 1);
    return isa;
}

const char *nf_system_isa_reason(nf_isa isa)
{
    if (!built(isa)) return "not part of this build";
    return nf_system_has_isa(isa) ? "available" : "this CPU or operating system lacks it";
}
