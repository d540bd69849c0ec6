# NeapOptions.cmake - what can be chosen at configure, and the flags that every target of ours gets.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug | RelWithDebInfo | Release" FORCE)
endif()
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
# Assertions stay in: they cost little here, and a wrong result costs more.
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")

option(NEAP_BUILD_TESTS "build the tests (needs cmocka, jansson)" ${PROJECT_IS_TOP_LEVEL})
option(NEAP_BUILD_BENCH "build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(NEAP_BUILD_COMMAND "build the command neap (needs popt, jansson)" ON)
option(NEAP_FUZZ "build the fuzz targets with libFuzzer (needs clang)" OFF)
set(NEAP_KERNELS "all" CACHE STRING "all | base: without those for newer processors (quicker to build)")
set(NEAP_SANITIZE "" CACHE STRING "address,undefined | thread | memory")

# neap_with(NAME module use): an optional dependency, found by pkg-config. NEAP_WITH_NAME is AUTO
# (used when found), ON (an error when absent) or OFF; afterwards NEAP_HAVE_NAME tells.
set(NEAP_WITH_LINES "" CACHE INTERNAL "")
function(neap_with name module use)
  set(NEAP_WITH_${name} AUTO CACHE STRING "${use}: AUTO | ON | OFF")
  set_property(CACHE NEAP_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
  set(found OFF)
  if(NEAP_WITH_${name} STREQUAL "AUTO")
    pkg_check_modules(${name} QUIET IMPORTED_TARGET ${module})
    set(found ${${name}_FOUND})
  elseif(NEAP_WITH_${name})
    pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${module})
    set(found ON)
  endif()
  if(found)
    set(NEAP_HAVE_${name} ON PARENT_SCOPE)
    set(answer "yes (${${name}_VERSION})")
  else()
    set(NEAP_HAVE_${name} OFF PARENT_SCOPE)
    set(answer "no")
  endif()
  set(NEAP_WITH_LINES ${NEAP_WITH_LINES}
    "  NEAP_WITH_${name}=${NEAP_WITH_${name}}: ${answer}  - ${use}" CACHE INTERNAL "")
endfunction()

function(neap_print_options)
  message(STATUS "neap ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, ${CMAKE_C_COMPILER_ID} "
    "${CMAKE_C_COMPILER_VERSION}, kernels: ${NEAP_KERNEL_SETS}")
  message(STATUS "  command: ${NEAP_BUILD_COMMAND}, tests: ${NEAP_BUILD_TESTS}, bench: "
    "${NEAP_BUILD_BENCH}, sanitizers: ${NEAP_SANITIZE}, fuzz: ${NEAP_FUZZ}")
  foreach(line ${NEAP_WITH_LINES})
    message(STATUS "${line}")
  endforeach()
endfunction()

# neap_flags: for every target of ours. The floating point flags are part of the promise of equal
# bits: no contraction but where fma is written, no assumption that infinities do not happen.
add_library(neap_flags INTERFACE)
target_compile_options(neap_flags INTERFACE -Wall -Wextra -Wshadow -Wstrict-prototypes
  -Wmissing-prototypes -fno-math-errno -fno-trapping-math -ffp-contract=off)
target_compile_definitions(neap_flags INTERFACE _GNU_SOURCE)
if(NEAP_SANITIZE)
  target_compile_options(neap_flags INTERFACE -fsanitize=${NEAP_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(neap_flags INTERFACE -fsanitize=${NEAP_SANITIZE})
endif()
if(NEAP_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "NEAP_FUZZ needs clang (cmake --preset fuzz)")
  endif()
  target_compile_options(neap_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# neap_internal: for what may see src/, that is the library, its unit tests and the benchmarks.
add_library(neap_internal INTERFACE)
target_link_libraries(neap_internal INTERFACE neap_flags)
target_include_directories(neap_internal INTERFACE ${PROJECT_SOURCE_DIR}/src
  ${PROJECT_SOURCE_DIR}/include)

# Kernels get -O3, unless the build is for a debugger. Under a sanitizer -O1: more takes minutes a set.
set(NEAP_KERNEL_OPTIMISE)
if(NEAP_SANITIZE)
  set(NEAP_KERNEL_OPTIMISE -O1)
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(NEAP_KERNEL_OPTIMISE -O3)
endif()
