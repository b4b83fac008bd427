# SPDX-License-Identifier: Apache-2.0
# Rules of the source tree, looked at in every build: which folder may include which, file lengths, licence lines.

if(PROJECT_IS_TOP_LEVEL)
    find_package(Python3 COMPONENTS Interpreter)
endif()
if(Python3_Interpreter_FOUND AND EXISTS "${PROJECT_SOURCE_DIR}/tools/check_layers.py")
    add_custom_target(nearfield_layers ALL
        COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/check_layers.py" --quiet "${PROJECT_SOURCE_DIR}"
        COMMENT "Checking include arrows" VERBATIM)
endif()
