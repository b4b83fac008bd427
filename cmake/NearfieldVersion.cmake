# SPDX-License-Identifier: Apache-2.0
# The version has one home, include/nearfield/version.h. The ABI number (soname) has its own, cmake/SOVERSION, because
# it changes at other times.

set(version_header "${CMAKE_CURRENT_LIST_DIR}/../include/nearfield/version.h")
file(STRINGS "${version_header}" version_line REGEX "^#define NF_VERSION \"[0-9]+\\.[0-9]+\\.[0-9]+\"$")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" NEARFIELD_VERSION "${version_line}")
foreach(part MAJOR MINOR PATCH)
    file(STRINGS "${version_header}" part_line REGEX "^#define NF_VERSION_${part} [0-9]+$")
    string(REGEX MATCH "[0-9]+$" part_value "${part_line}")
    list(APPEND version_parts "${part_value}")
endforeach()
list(JOIN version_parts "." joined_parts)
if(NOT NEARFIELD_VERSION OR NOT joined_parts STREQUAL NEARFIELD_VERSION)
    message(FATAL_ERROR "${version_header}: NF_VERSION is \"${NEARFIELD_VERSION}\", its parts say \"${joined_parts}\"")
endif()

file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/SOVERSION" NEARFIELD_SOVERSION REGEX "^[0-9]+$")
set_property(DIRECTORY APPEND PROPERTY
    CMAKE_CONFIGURE_DEPENDS "${version_header}" "${CMAKE_CURRENT_LIST_DIR}/SOVERSION")
