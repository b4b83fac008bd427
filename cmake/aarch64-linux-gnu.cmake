# SPDX-License-Identifier: Apache-2.0
# Toolchain: builds for AArch64 with Debian's cross compiler; tests run under qemu-user. zlib, xxHash and cmocka for AArch64
# come from the folder NEARFIELD_SYSROOT, which tools/arm64_sysroot.sh fills; beside them, qemu finds the C library of the
# cross compiler. QEMU_CPU in the environment names the processor: max has all extensions, cortex-a53 none.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER CMAKE_CXX_COMPILER-NOTFOUND) # rather than the host's
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

get_filename_component(source "${CMAKE_CURRENT_LIST_DIR}" DIRECTORY)
set(NEARFIELD_SYSROOT "${source}/build/sysroot-aarch64" CACHE PATH "Libraries for AArch64")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES NEARFIELD_SYSROOT)

set(CMAKE_FIND_ROOT_PATH "${NEARFIELD_SYSROOT}" /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} "${NEARFIELD_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig")
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${NEARFIELD_SYSROOT}")

set(libraries "${NEARFIELD_SYSROOT}/usr/lib/aarch64-linux-gnu:${NEARFIELD_SYSROOT}/lib/aarch64-linux-gnu")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${libraries}")

find_program(NEARFIELD_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
mark_as_advanced(NEARFIELD_QEMU)
if(NEARFIELD_QEMU)
    set(CMAKE_CROSSCOMPILING_EMULATOR "${NEARFIELD_QEMU};-L;/usr/aarch64-linux-gnu;-E;LD_LIBRARY_PATH=${libraries}")
endif()
