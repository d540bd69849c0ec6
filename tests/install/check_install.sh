#!/usr/bin/env bash
# Installs a build into a new prefix, moves it, and builds against it what lies outside the library:
# every public header alone, in C and in C++, tests/install/consumer.c, a program in C++ and
# examples/*.c, by pkg-config (shared and static) and by find_package (shared, static and neap::neap).
# check_install.sh BUILD
set -euo pipefail
build=$(cd "$1" && pwd)
sources=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${CC:-cc}
cxx=${CXX:-c++}
say() { echo "== $*"; }

say "install, then move"
cmake --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/moved"
prefix=$work/moved
libdir=$(dirname "$(find "$prefix" -name libneap.so)")
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir

say "what is installed"
for file in "$prefix"/include/neap/{base,dtype}.h "$prefix"/include/neap/{status,dtypes}.def \
    "$libdir"/libneap.a "$libdir"/libneap.so "$libdir"/cmake/neap/neapConfig.cmake; do
    [ -e "$file" ] || { echo "missing: $file"; exit 1; }
done
if grep -rIl -e "$sources" -e "$build" -e "$work/first" "$prefix"; then
    echo "the files above name the folder they were built or first installed in"
    exit 1
fi

documents=$prefix/share/doc/neap
for file in "$prefix"/share/man/man1/neap.1 "$prefix"/share/bash-completion/completions/neap \
    "$documents"/LICENSE "$documents"/README.md "$documents"/docs/formats.md "$documents"/examples/arrays.c; do
    [ -s "$file" ] || { echo "missing or empty: $file"; exit 1; }
done
"$prefix/bin/neap" help --man | cmp - "$prefix/share/man/man1/neap.1"
"$prefix/bin/neap" help --completion bash | cmp - "$prefix/share/bash-completion/completions/neap"
bytes=$(find "$prefix" -type f -printf '%s\n' | awk '{n += $1} END {print n}')
say "installed: $bytes bytes"
if ! grep -q '^NEAP_SANITIZE:STRING=.' "$build/CMakeCache.txt" && [ "$bytes" -gt $((16 << 20)) ]; then
    echo "more than 16 MiB are installed"
    exit 1
fi

say "each public header compiles alone, in C and in C++"
for header in "$prefix"/include/neap/*.h; do
    for language in "c c11" "c++ c++11" "c++ c++17" "c++ c++20"; do
        # shellcheck disable=SC2086
        set -- $language
        echo "#include <neap/$(basename "$header")>" |
            $cc -std="$2" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" -x "$1" -
    done
done

# A machine that has the shared library and nothing else: no other package is asked for.
say "pkg-config without the other packages: $(PKG_CONFIG_LIBDIR=$libdir/pkgconfig pkg-config --cflags --libs neap)"
[ "$(PKG_CONFIG_LIBDIR=$libdir/pkgconfig pkg-config --cflags neap)" = \
    "$(PKG_CONFIG_LIBDIR=$libdir/pkgconfig pkg-config --cflags-only-I neap)" ] || {
    echo "pkg-config --cflags neap has more than include paths"
    exit 1
}

say "pkg-config $(pkg-config --modversion neap): $(pkg-config --cflags --libs neap)"
mkdir "$work/bin"
for source in "$sources"/tests/install/consumer.c "$sources"/examples/*.c; do
    [ -f "$source" ] || continue
    name=$(basename "$source" .c)
    # shellcheck disable=SC2046  # the flags are words
    $cc -std=c11 -Wall -Wextra -Werror "$source" -o "$work/bin/$name" $(pkg-config --cflags --libs neap) -lm
done
bash "$sources/tests/install/make_consumer_cpp.sh" "$prefix/include" >"$work/consumer.cpp"
for standard in c++11 c++17; do
    # shellcheck disable=SC2046
    $cxx -std=$standard -Wall -Wextra -Wpedantic -Werror "$work/consumer.cpp" -o "$work/bin/consumer_$standard" \
        $(PKG_CONFIG_LIBDIR=$libdir/pkgconfig pkg-config --cflags --libs neap)
    "$work/bin/consumer_$standard"
done
static=$(pkg-config --static --libs neap)
# shellcheck disable=SC2046,SC2086
$cc -std=c11 "$sources/tests/install/consumer.c" -o "$work/bin/consumer_static" \
    $(pkg-config --cflags neap) ${static/-lneap/$libdir/libneap.a}
"$work/bin/consumer"
env -u LD_LIBRARY_PATH "$work/bin/consumer_static"

say "find_package(neap)"
cmake -S "$sources/tests/install/package" -B "$work/package" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
    -DSOURCES="$sources" -DCONSUMER_CPP="$work/consumer.cpp" >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/package" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/package/consumer_shared"
env -u LD_LIBRARY_PATH "$work/package/consumer_static"
"$work/package/consumer_cpp"
say "find_package(neap) without the other packages"
PKG_CONFIG_LIBDIR=$work/nothing cmake -S "$sources/tests/install/package" -B "$work/shared_only" -G Ninja \
    -DCMAKE_PREFIX_PATH="$prefix" -DSOURCES="$sources" -DCONSUMER_CPP="$work/consumer.cpp" \
    >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/shared_only" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/shared_only/consumer_cpp"
[ ! -e "$work/shared_only/consumer_static" ] || { echo "neap::static without what it needs"; exit 1; }
echo "installed library: ok"
