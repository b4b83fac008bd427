# SPDX-License-Identifier: Apache-2.0
# Which instruction sets are compiled. Each has its folder in src/cpu/kernels, and only files in it get its flags; the
# engine asks the processor at run time. NEARFIELD_ISAS lists what is in, NEARFIELD_ISAS_LEFT_OUT what is not and why.

set(NEARFIELD_ISA_FLAGS_AVX2 -mavx2 -mfma -mf16c -mbmi -mbmi2 -mpopcnt)
set(NEARFIELD_ISA_FLAGS_AVX512 ${NEARFIELD_ISA_FLAGS_AVX2}
    -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni)
# NEON is part of AArch64. Files *_dot_neon.c alone get more, and are called where the processor has it.
set(NEARFIELD_ISA_FLAGS_NEON "")
set(NEARFIELD_ISA_FLAGS_NEON_DOT -march=armv8.2-a+dotprod)
set(NEARFIELD_ISAS scalar)
set(NEARFIELD_ISAS_LEFT_OUT "")

# Sets NEARFIELD_ISA_SOURCES_<ISA> to the files of an instruction set that can be compiled here.
function(nearfield_find_isa isa processors)
    string(TOUPPER ${isa} ISA)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cpu/kernels/${isa}/*.c")
    list(JOIN NEARFIELD_ISA_FLAGS_${ISA} " " flags)
    if(NOT flags)
        set(NEARFIELD_COMPILER_HAS_${ISA} ON)
    else()
        check_c_compiler_flag("${flags}" NEARFIELD_COMPILER_HAS_${ISA})
    endif()
    if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(${processors})$")
        set(why "not this processor")
    elseif(NOT NEARFIELD_COMPILER_HAS_${ISA})
        set(why "the compiler lacks it")
    elseif(NOT sources)
        set(why "no kernels")
    endif()
    if(why)
        set(NEARFIELD_ISAS_LEFT_OUT ${NEARFIELD_ISAS_LEFT_OUT} "${isa}: ${why}" PARENT_SCOPE)
        return()
    endif()
    set(NEARFIELD_ISAS ${NEARFIELD_ISAS} ${isa} PARENT_SCOPE)
    set(NEARFIELD_ISA_SOURCES_${ISA} ${sources} PARENT_SCOPE)
endfunction()

nearfield_find_isa(avx2 "x86_64|AMD64|amd64")
nearfield_find_isa(avx512 "x86_64|AMD64|amd64")
nearfield_find_isa(neon "aarch64|arm64")
