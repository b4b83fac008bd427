# SPDX-License-Identifier: Apache-2.0
# One interface target holds the language level, floating-point rules and warnings of every C file in the project.
#
# Floating point: exact answers rest on each operation being rounded once, as written. -ffp-contract=off keeps a*b+c
# from becoming one fused operation behind our back (fused ones are written as fma). -fno-math-errno lets sqrt be one
# instruction; it changes no value. Nothing of -ffast-math, and no link-time optimisation, which could carry vector
# instructions into code that runs before the processor was asked.

include(CheckCCompilerFlag)

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

add_library(nearfield_compile INTERFACE)
target_compile_definitions(nearfield_compile INTERFACE _GNU_SOURCE)
target_compile_options(nearfield_compile INTERFACE
    -ffp-contract=off -fno-math-errno -fvisibility=hidden
    -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wundef -Wpointer-arith -Wcast-qual -Wwrite-strings -Wformat=2
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
    $<$<BOOL:${NEARFIELD_WERROR}>:-Werror>)

if(NEARFIELD_SANITIZE)
    set(sanitize_flags -fsanitize=${NEARFIELD_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_compile_options(nearfield_compile INTERFACE ${sanitize_flags})
    target_link_options(nearfield_compile INTERFACE ${sanitize_flags})
endif()
