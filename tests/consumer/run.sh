#!/usr/bin/env bash
# tests/consumer/run.sh CMAKE BUILD: installs the build, moves what was installed to another place,
# and builds programs that find it there: by pkg-config and by find_package, shared and static.
set -euo pipefail

cmake=$1
build=$2
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/cairn-consumer.XXXXXX")
trap 'rm -rf -- "$work"' EXIT

fail() {
	echo "$1" >&2
	exit 1
}

# run PROGRAM: with a store of its own.
run() {
	local place
	place=$(mktemp -d "$work/store.XXXXXX")
	LD_LIBRARY_PATH=$libraries "$1" "$place/store" || fail "$1 failed"
}

"$cmake" --install "$build" --prefix "$work/installed" >"$work/install.log"
prefix=$work/moved
mv "$work/installed" "$prefix"
pc=$(find "$prefix" -name cairn.pc)
libraries=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH=${pc%/*}

# Its texts name neither the place where it was built or installed first, nor (except below its own
# prefix) a library's.
texts=(-rn --include=*.cmake --include=*.pc --include=*.h)
if grep "${texts[@]}" -F -e "$root" -e "$build" -e "$work/installed" "$prefix"; then
	fail "the package names directories of the build"
fi
if grep "${texts[@]}" -E '(^|[^}])/lib(64)?/' "$prefix"; then
	fail "the package names libraries of this machine"
fi

unset CFLAGS LDFLAGS
cc=${CC:-cc}
strict=(-std=c99 -Wall -Wextra -Wpedantic -Werror)
$cc "${strict[@]}" "$here/consumer.c" $(pkg-config --cflags --libs cairn) -o "$work/shared"
run "$work/shared"
static=$(pkg-config --static --cflags --libs cairn)
$cc "${strict[@]}" "$here/consumer.c" ${static/-lcairn/-l:libcairn.a} -o "$work/static"
run "$work/static"

# The compiler's command line shows what the package asks its users to compile with.
"$cmake" -S "$here" -B "$work/build" -D CMAKE_PREFIX_PATH="$prefix" -D CMAKE_C_COMPILER="$cc" \
	-D CMAKE_EXPORT_COMPILE_COMMANDS=ON >"$work/configure.log"
"$cmake" --build "$work/build" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
if grep -nE -e '-W|-f[a-z]|-std|-D' "$work/build/compile_commands.json"; then
	fail "the package passes on how cairn itself is compiled"
fi
run "$work/build/shared"
run "$work/build/static"

[ "$("$prefix/bin/cairn" version)" ] || fail "the installed tool does not run"
[ -f "$prefix/share/man/man1/cairn.1" ] || fail "the manual page is not installed"
