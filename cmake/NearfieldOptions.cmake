# SPDX-License-Identifier: Apache-2.0
# What a user may choose at configure time.

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

option(NEARFIELD_WERROR "Warnings are errors" ${PROJECT_IS_TOP_LEVEL})
set(NEARFIELD_TESTS AUTO CACHE STRING "Build tests: ON, OFF, AUTO (as top project, with cmocka there)")
set(NEARFIELD_SANITIZE "" CACHE STRING "address, undefined, thread, or a comma-separated list")
set(NEARFIELD_CUDA AUTO CACHE STRING "Build the CUDA engine, a module: ON, OFF, AUTO (where nvcc is found)")
set(NEARFIELD_CUDA_ARCHITECTURES "" CACHE STRING
    "Compute capabilities, as CMAKE_CUDA_ARCHITECTURES: empty for all that nvcc knows from 7.5 on, native, or a list")
option(NEARFIELD_FUZZ "Build fuzz targets (clang): library and targets with coverage, address and undefined" OFF)

# cmocka is a dependency of the tests alone; with AUTO its absence leaves them out, with ON it is an error.
set(NEARFIELD_BUILD_TESTS OFF)
if(NEARFIELD_TESTS STREQUAL "AUTO")
    if(PROJECT_IS_TOP_LEVEL)
        find_package(PkgConfig)
        if(PkgConfig_FOUND)
            pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
        endif()
        set(NEARFIELD_BUILD_TESTS ${CMOCKA_FOUND})
    endif()
elseif(NEARFIELD_TESTS)
    find_package(PkgConfig REQUIRED)
    pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
    set(NEARFIELD_BUILD_TESTS ON)
endif()

if(NEARFIELD_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
        message(FATAL_ERROR "NEARFIELD_FUZZ needs clang, the compiler is ${CMAKE_C_COMPILER_ID}")
    endif()
    if(NOT NEARFIELD_SANITIZE)
        set(NEARFIELD_SANITIZE address,undefined)
    endif()
    string(APPEND NEARFIELD_SANITIZE ",fuzzer-no-link")
endif()
