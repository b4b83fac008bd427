# SPDX-License-Identifier: Apache-2.0
# Install rules. Everything that is installed finds its parts relative to itself, so that a prefix can be moved.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/nearfield")

install(TARGETS nearfield nearfield_static EXPORT nearfieldTargets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET nearfield_cuda)
    install(TARGETS nearfield_cuda LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
install(DIRECTORY include/nearfield DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
install(EXPORT nearfieldTargets NAMESPACE nearfield:: DESTINATION "${package_dir}")

configure_package_config_file(cmake/nearfieldConfig.cmake.in "${PROJECT_BINARY_DIR}/nearfieldConfig.cmake"
    INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/nearfieldConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/nearfieldConfig.cmake" "${PROJECT_BINARY_DIR}/nearfieldConfigVersion.cmake"
    DESTINATION "${package_dir}")

# pkg-config knows the folder of its file as ${pcfiledir}; the prefix is written relative to it.
cmake_path(SET pkgconfig_dir NORMALIZE "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${pkgconfig_dir}" OUTPUT_VARIABLE NEARFIELD_PC_PREFIX)
configure_file(cmake/nearfield.pc.in "${PROJECT_BINARY_DIR}/nearfield.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/nearfield.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

if(TARGET nearfield_cli)
    cmake_path(SET bin_dir NORMALIZE "/${CMAKE_INSTALL_BINDIR}")
    cmake_path(SET lib_dir NORMALIZE "/${CMAKE_INSTALL_LIBDIR}")
    cmake_path(RELATIVE_PATH lib_dir BASE_DIRECTORY "${bin_dir}" OUTPUT_VARIABLE bin_to_lib)
    set_target_properties(nearfield_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
    install(TARGETS nearfield_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

# The command prints its own man page, from the same table as its help.
if(TARGET nearfield_cli AND NOT CMAKE_CROSSCOMPILING)
    set(man_page "${PROJECT_BINARY_DIR}/nearfield.1")
    add_custom_command(OUTPUT "${man_page}"
        COMMAND nearfield_cli help --man > "${man_page}"
        DEPENDS nearfield_cli
        COMMENT "Man page" VERBATIM)
    add_custom_target(nearfield_man ALL DEPENDS "${man_page}")
    install(FILES "${man_page}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
endif()
