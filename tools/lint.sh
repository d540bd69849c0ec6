#!/usr/bin/env bash
# clang-tidy (rules in .clang-tidy) and cppcheck over the sources; build/release must be configured.
# The kernels are left out: macros over intrinsics, of which both tools say only noise.
set -euo pipefail
cd "$(dirname "$0")/.."
status=0
if command -v clang-tidy >/dev/null; then
    find src -name '*.c' ! -name 'kernels_*.c' -print0 |
        xargs -0 -P "$(nproc)" -n 4 clang-tidy --quiet -p build/release || status=1
else
    echo "lint: no clang-tidy"
fi
if command -v cppcheck >/dev/null; then
    cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
        --suppress=missingIncludeSystem --error-exitcode=1 -D_GNU_SOURCE -D__x86_64__ \
        -Iinclude -Isrc $(printf -- '-i %s ' src/cpu/kernels_*.c) src || status=1
else
    echo "lint: no cppcheck"
fi
exit $status
