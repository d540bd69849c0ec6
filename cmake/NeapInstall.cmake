# NeapInstall.cmake - what an installed Neap is: headers, libraries, neap.pc, the CMake package, the
# command with its manual page and completions, documents and examples. Everything is relative to its
# own place, so that an installed tree can be moved and `cmake --install --prefix` works.
include(CMakePackageConfigHelpers)
option(NEAP_INSTALL_STRIP "install without what only a debugger reads" ON)

# neap_describe_build(SOURCE): what `neap --version` tells. The commit is of the last configure, and
# a commit configures again.
function(neap_describe_build source)
  set(commit "")
  find_program(NEAP_GIT git)
  mark_as_advanced(NEAP_GIT)
  if(NEAP_GIT)
    execute_process(COMMAND ${NEAP_GIT} -C ${PROJECT_SOURCE_DIR} rev-parse --short HEAD
      OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND ${NEAP_GIT} -C ${PROJECT_SOURCE_DIR} rev-parse --git-path logs/HEAD
      OUTPUT_VARIABLE log ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    get_filename_component(log "${log}" ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
    if(commit AND EXISTS "${log}")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${log}")
    endif()
  endif()
  set(build ${CMAKE_BUILD_TYPE})
  if(commit)
    string(PREPEND build "${commit}, ")
  endif()
  string(TOLOWER ${CMAKE_C_COMPILER_ID} compiler)
  string(REPLACE ";" " " kernels "${NEAP_KERNEL_SETS}")
  set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS "NEAP_BUILD=\"${build}\""
    "NEAP_COMPILER=\"${compiler} ${CMAKE_C_COMPILER_VERSION}\"" "NEAP_KERNEL_SETS=\"${kernels}\"")
endfunction()

# The target `neap`, and the pages that it writes itself.
function(neap_install_command)
  install(TARGETS neap)
  if(CMAKE_CROSSCOMPILING)
    return()
  endif()
  set(pages ${PROJECT_BINARY_DIR}/pages)
  set(write ${PROJECT_SOURCE_DIR}/cmake/WritePage.cmake)
  add_custom_command(OUTPUT ${pages}/neap.1 ${pages}/neap DEPENDS neap VERBATIM
    COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}
    COMMAND ${CMAKE_COMMAND} -DOUT=${pages}/neap.1 -P ${write} -- $<TARGET_FILE:neap> help --man
    COMMAND ${CMAKE_COMMAND} -DOUT=${pages}/neap -P ${write} -- $<TARGET_FILE:neap> help
      --completion bash)
  add_custom_target(neap_pages ALL DEPENDS ${pages}/neap.1 ${pages}/neap)
  install(FILES ${pages}/neap.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${pages}/neap DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endfunction()

# neap.pc, and the CMake package: shared and static apart, as only the static library needs what it is
# linked with to be there.
function(neap_install_packages)
  set(NEAP_PC_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH NEAP_PC_UP ${CMAKE_INSTALL_PREFIX}/${NEAP_PC_DIR} ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" NEAP_PC_UP "${NEAP_PC_UP}")
  configure_file(cmake/neap.pc.in neap.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/neap.pc DESTINATION ${NEAP_PC_DIR})

  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/neap)
  foreach(kind shared static)
    install(EXPORT neap_${kind} NAMESPACE neap:: FILE neap-${kind}.cmake DESTINATION ${package})
  endforeach()
  configure_package_config_file(cmake/neapConfig.cmake.in neapConfig.cmake
    INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(neapConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/neapConfig.cmake
    ${PROJECT_BINARY_DIR}/neapConfigVersion.cmake DESTINATION ${package})
endfunction()

function(neap_install)
  install(TARGETS neap_shared EXPORT neap_shared)
  install(TARGETS neap_static EXPORT neap_static)
  install(DIRECTORY include/neap TYPE INCLUDE FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
  install(FILES LICENSE README.md CHANGELOG.md TYPE DOC)
  install(DIRECTORY docs examples TYPE DOC)
  neap_install_packages()
  if(NEAP_INSTALL_STRIP AND CMAKE_STRIP)
    # Not `--install --strip`: that leaves archives as they are.
    install(CODE "set(root \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
      foreach(file ${CMAKE_INSTALL_BINDIR}/neap ${CMAKE_INSTALL_LIBDIR}/libneap.so ${CMAKE_INSTALL_LIBDIR}/libneap.a)
        if(EXISTS \"\${root}/\${file}\")
          execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-unneeded \"\${root}/\${file}\")
        endif()
      endforeach()")
  endif()
endfunction()
