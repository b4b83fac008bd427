# SPDX-License-Identifier: Apache-2.0
# Says what this build holds and what is left out.

if(PROJECT_IS_TOP_LEVEL)
    set(left_out ${NEARFIELD_ISAS_LEFT_OUT}
        "CUDA engine: not in this version" )
    if(NOT NEARFIELD_BUILD_TESTS)
        list(APPEND left_out "tests: NEARFIELD_TESTS is ${NEARFIELD_TESTS}, cmocka ${CMOCKA_VERSION}")
    endif()
    if(NOT Python3_Interpreter_FOUND)
        list(APPEND left_out "check of the include arrows: no python3")
    endif()
    list(JOIN NEARFIELD_ISAS " " isas)
    set(compiler "${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}")
    message(STATUS "nearfield ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, ${compiler}")
    message(STATUS "  CPU kernels: ${isas}")
    if(NEARFIELD_SANITIZE)
        message(STATUS "  sanitizers:  ${NEARFIELD_SANITIZE}")
    endif()
    foreach(part IN LISTS left_out)
        message(STATUS "  left out:    ${part}")
    endforeach()
endif()
