#!/usr/bin/env bash
# Installs a build into a new prefix, moves it, and builds against it what lies outside the library:
# every public header alone, tests/install/consumer.c and examples/*.c, by pkg-config (shared and
# static) and by find_package (shared and static). check_install.sh BUILD
set -euo pipefail
build=$(cd "$1" && pwd)
sources=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${CC:-cc}
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

say "each public header compiles alone"
for header in "$prefix"/include/neap/*.h; do
    echo "#include <neap/$(basename "$header")>" |
        $cc -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" -x c -
done

say "pkg-config $(pkg-config --modversion neap): $(pkg-config --cflags --libs neap)"
mkdir "$work/bin"
for source in "$sources"/tests/install/consumer.c "$sources"/examples/*.c; do
    [ -f "$source" ] || continue
    name=$(basename "$source" .c)
    # shellcheck disable=SC2046  # the flags are words
    $cc -std=c11 -Wall -Wextra -Werror "$source" -o "$work/bin/$name" $(pkg-config --cflags --libs neap) -lm
done
static=$(pkg-config --static --libs neap)
# shellcheck disable=SC2046,SC2086
$cc -std=c11 "$sources/tests/install/consumer.c" -o "$work/bin/consumer_static" \
    $(pkg-config --cflags neap) ${static/-lneap/$libdir/libneap.a}
"$work/bin/consumer"
env -u LD_LIBRARY_PATH "$work/bin/consumer_static"

say "find_package(neap)"
cmake -S "$sources/tests/install/package" -B "$work/package" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
    -DSOURCES="$sources" >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/package" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/package/consumer_shared"
env -u LD_LIBRARY_PATH "$work/package/consumer_static"
echo "installed library: ok"
