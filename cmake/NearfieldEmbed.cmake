# SPDX-License-Identifier: Apache-2.0
# The ray tracing programs as bytes in a C file: nvcc makes PTX, this file, run as a script, makes C of it.
#
# PTX rather than OptiX-IR: IR is tied to the compiler's release, PTX is text with a version line. nvcc writes the newest
# version it knows, which a driver that is older than the toolkit refuses. The programs use nothing that version 7.0 lacks,
# so that is what the line is set to: compute_75 and 7.0 are known to every driver with the binary interface used (535 on).
# Were something newer used after all, the driver would refuse the module with a message when it is loaded.

set(NEARFIELD_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")

# Sets out_var to a C file with the programs of source (a .cu file): nf_rt_programs, nf_rt_programs_size.
function(nearfield_embed_optix out_var source)
    cmake_path(GET source STEM name)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    cmake_path(GET source PARENT_PATH source_dir)
    set(ptx "${CMAKE_CURRENT_BINARY_DIR}/${name}.ptx")
    set(c_file "${CMAKE_CURRENT_BINARY_DIR}/${name}_ptx.c")
    if(CMAKE_CUDA_HOST_COMPILER)
        set(host_compiler -ccbin "${CMAKE_CUDA_HOST_COMPILER}")
    endif()
    add_custom_command(OUTPUT "${ptx}"
        COMMAND "${CMAKE_CUDA_COMPILER}" ${host_compiler} -ptx -arch=compute_75 -std=c++17 -O3 -rdc=true
            -I "${PROJECT_SOURCE_DIR}/src" -o "${ptx}" "${source}"
        DEPENDS "${source}" "${source_dir}/rt_map.h" "${source_dir}/rt_params.h"
        COMMENT "Ray tracing programs" VERBATIM)
    add_custom_command(OUTPUT "${c_file}"
        COMMAND "${CMAKE_COMMAND}" "-DNEARFIELD_EMBED_INPUT=${ptx}" "-DNEARFIELD_EMBED_OUTPUT=${c_file}"
            -P "${NEARFIELD_EMBED_SCRIPT}"
        DEPENDS "${ptx}" "${NEARFIELD_EMBED_SCRIPT}"
        COMMENT "Ray tracing programs as C" VERBATIM)
    set(${out_var} "${c_file}" PARENT_SCOPE)
endfunction()

# As a script: cmake -DNEARFIELD_EMBED_INPUT=x.ptx -DNEARFIELD_EMBED_OUTPUT=x.c -P NearfieldEmbed.cmake
if(CMAKE_SCRIPT_MODE_FILE AND CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
    file(READ "${NEARFIELD_EMBED_INPUT}" text)
    if(NOT text MATCHES "\n\\.version [0-9]+\\.[0-9]+\n")
        message(FATAL_ERROR "${NEARFIELD_EMBED_INPUT} has no version line")
    endif()
    string(REGEX REPLACE "\n\\.version [0-9]+\\.[0-9]+\n" "\n.version 7.0\n" text "${text}")
    string(REGEX REPLACE "//[^\n]*\n" "\n" text "${text}") # comments name the compiler's build
    string(STRIP "${text}" text)
    file(WRITE "${NEARFIELD_EMBED_OUTPUT}.ptx" "${text}")
    file(READ "${NEARFIELD_EMBED_OUTPUT}.ptx" bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "    \\1\n"
        bytes "${bytes}")
    file(WRITE "${NEARFIELD_EMBED_OUTPUT}" "/* Made by cmake/NearfieldEmbed.cmake. */
#include \"cuda/rt/rt_programs.h\"

const unsigned char nf_rt_programs[] = {
${bytes}0x00};
const size_t nf_rt_programs_size = sizeof nf_rt_programs - 1;
")
endif()
