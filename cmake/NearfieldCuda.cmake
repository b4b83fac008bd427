# SPDX-License-Identifier: Apache-2.0
# Whether the CUDA engine is built, and for which devices. Sets NEARFIELD_HAVE_CUDA and enables the language, or
# NEARFIELD_CUDA_LEFT_OUT to the reason. The engine is a module (src/cuda); nothing else needs CUDA.
#
# -fmad=false: as on the CPU, a*b+c is two roundings unless it is written as fma, because exact answers rest on it.

set(NEARFIELD_HAVE_CUDA OFF)
set(NEARFIELD_CUDA_LEFT_OUT "")
set(cuda_oldest 12.4)

# What the module shares with the library: functions without state, which it holds a second time.
set(NEARFIELD_CUDA_SHARED_SOURCES
    matrix/matrix_convert.c matrix/matrix_distance.c matrix/matrix_dtype.c matrix/matrix_exact.c engine/engine_rule.c
    engine/engine_dims.c engine/engine_ivf_rows.c matrix/matrix_metric.c)
list(TRANSFORM NEARFIELD_CUDA_SHARED_SOURCES PREPEND "${PROJECT_SOURCE_DIR}/src/")

# cmake 3.25 looks for nvcc in PATH and CUDACXX alone, NVIDIA's packages put it into /usr/local/cuda.
function(nearfield_find_nvcc)
    include(CheckLanguage)
    if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
        find_program(NEARFIELD_NVCC nvcc PATHS /usr/local/cuda/bin /opt/cuda/bin)
        mark_as_advanced(NEARFIELD_NVCC)
        if(NEARFIELD_NVCC)
            set(ENV{CUDACXX} "${NEARFIELD_NVCC}")
        endif()
    endif()
    check_language(CUDA)
endfunction()

# All architectures from 7.5 (Turing) on that the release notes of this nvcc name, the newest also as PTX, which later
# devices compile for themselves.
function(nearfield_cuda_architectures out)
    set(all 75 80 86 89 90)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
        list(APPEND all 100 120)
    endif()
    list(GET all -1 newest)
    list(TRANSFORM all APPEND "-real")
    set(${out} ${all} ${newest}-virtual PARENT_SCOPE)
endfunction()

if(NEARFIELD_CUDA STREQUAL "AUTO" AND NEARFIELD_SANITIZE)
    set(NEARFIELD_CUDA_LEFT_OUT "sanitizers do not reach into it, tests use the emulated device")
elseif(NOT NEARFIELD_CUDA)
    set(NEARFIELD_CUDA_LEFT_OUT "NEARFIELD_CUDA is ${NEARFIELD_CUDA}")
else()
    nearfield_find_nvcc()
    if(NOT CMAKE_CUDA_COMPILER)
        set(NEARFIELD_CUDA_LEFT_OUT "no nvcc that works")
    else()
        set(CMAKE_CUDA_STANDARD 17)
        set(CMAKE_CUDA_STANDARD_REQUIRED ON)
        set(CMAKE_CUDA_EXTENSIONS OFF)
        set(CMAKE_CUDA_ARCHITECTURES OFF) # none by default: a list that this nvcc lacks would fail its first test
        enable_language(CUDA)
        set(NEARFIELD_HAVE_CUDA ON)
    endif()
endif()

if(NEARFIELD_HAVE_CUDA AND CMAKE_CUDA_COMPILER_VERSION VERSION_LESS cuda_oldest)
    set(NEARFIELD_HAVE_CUDA OFF)
    set(NEARFIELD_CUDA_LEFT_OUT "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is older than ${cuda_oldest}")
endif()
if(NOT NEARFIELD_HAVE_CUDA AND NEARFIELD_CUDA STREQUAL "ON")
    message(FATAL_ERROR "NEARFIELD_CUDA is ON, but: ${NEARFIELD_CUDA_LEFT_OUT}")
endif()

if(NEARFIELD_HAVE_CUDA)
    if(NEARFIELD_CUDA_ARCHITECTURES)
        set(CMAKE_CUDA_ARCHITECTURES ${NEARFIELD_CUDA_ARCHITECTURES})
    else()
        nearfield_cuda_architectures(CMAKE_CUDA_ARCHITECTURES)
    endif()
    find_package(CUDAToolkit REQUIRED)
    include(NearfieldEmbed)

    # One interface target for every .cu file, as nearfield_compile is for C.
    set(host_flags -Wall -Wextra -Wshadow -ffp-contract=off -fno-math-errno)
    list(JOIN host_flags "," host_flags)
    add_library(nearfield_compile_cuda INTERFACE)
    target_compile_options(nearfield_compile_cuda INTERFACE
        -fmad=false -lineinfo "-Xcompiler=${host_flags}"
        $<$<BOOL:${NEARFIELD_WERROR}>:--Werror=all-warnings>)
endif()
