# NeapInstall.cmake - headers, libraries, neap.pc and the CMake package. Everything is relative to
# its own place, so that an installed tree can be moved and `cmake --install --prefix` works.
include(CMakePackageConfigHelpers)

install(TARGETS neap_shared neap_static EXPORT neap)
install(DIRECTORY include/neap TYPE INCLUDE FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(FILES LICENSE TYPE DOC)

# pkg-config
set(NEAP_PC_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH NEAP_PC_UP ${CMAKE_INSTALL_PREFIX}/${NEAP_PC_DIR} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" NEAP_PC_UP "${NEAP_PC_UP}")
configure_file(cmake/neap.pc.in neap.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/neap.pc DESTINATION ${NEAP_PC_DIR})

# find_package
set(NEAP_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/neap)
install(EXPORT neap NAMESPACE neap:: FILE neapTargets.cmake DESTINATION ${NEAP_CMAKE_DIR})
configure_package_config_file(cmake/neapConfig.cmake.in neapConfig.cmake
  INSTALL_DESTINATION ${NEAP_CMAKE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(neapConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/neapConfig.cmake ${PROJECT_BINARY_DIR}/neapConfigVersion.cmake
  DESTINATION ${NEAP_CMAKE_DIR})
