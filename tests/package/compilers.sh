#!/usr/bin/env bash
# The compilers that compile the sources: compilers.sh SOURCE BUILD COMPILER_PREFIX COMPILER_FLAGS...
#
# The single-file form must compile without GCC warnings under the flags below, as C++ and as C. Each available Clang
# from 14 on must compile it, every public header of the build, and the sources that the single-file form leaves out.
set -eu -o pipefail
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd) prefix=$3
shift 3
flags=(-Os -ffreestanding -ffunction-sections -mcmodel=medany -fno-pie "$@")
cxxflags=("${flags[@]}" -std=c++20 -fno-exceptions -fno-rtti -fno-threadsafe-statics -ftls-model=local-exec)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
  echo "FAILED: $*"
  exit 1
}
sh "$source/cmake/single-file.sh" "$scratch"
cd "$scratch"

warnings=(-Wall -Wextra -Wshadow -Wconversion -Waddress -Werror)
"${prefix}g++" "${cxxflags[@]}" "${warnings[@]}" -c quartermaster.cpp || fail "the single file with ${prefix}g++"
echo '#include "quartermaster.h"' >c.c
"${prefix}gcc" "${flags[@]}" -std=c99 "${warnings[@]}" -pedantic-errors -c c.c || fail "its header with ${prefix}gcc"
foreign=$("${prefix}nm" -u quartermaster.o | grep -vE ' w | (mem(cpy|move|set|cmp)|strlen|__(start|stop)_qm_commands)$' || true)
[ -z "$foreign" ] || fail "the single file needs $foreign"

# No function of libstdc++ may be called, even with little inlining. Above it was -Os.
for level in -O0 -Os -O2; do
  if [ "$level" = -Os ]; then cp quartermaster.o level.o; else "${prefix}g++" "${cxxflags[@]}" "$level" -c quartermaster.cpp -o level.o; fi
  foreign=$("${prefix}nm" -u level.o | grep -E ' _ZN?K?St| __throw' || true)
  [ -z "$foreign" ] || fail "at $level the single file needs $foreign"
done

# The headers of the C and the C++ library for this target, from GCC's folders; the compiler's own headers are Clang's.
headers=(-nostdlibinc)
while read -r directory; do
  directory=$(realpath "$directory")
  case $directory in */lib/gcc*) ;; *) headers+=(-isystem "$directory") ;; esac
done < <("${prefix}g++" "$@" -std=c++20 -x c++ -E -v - </dev/null 2>&1 | sed -n '/^#include </,/^End of search/s/^ //p')
includes=(-I "$build/include")
for directory in wire hal hal/qemu_virt hal/qemu_virt/supervisor hal/qemu_virt/chips alloc trace console console/trace conformance; do
  includes+=(-I "$source/$directory/include" -I "$source/$directory/src")
done
for directory in wire hal alloc trace console console/trace conformance; do
  (cd "$source/$directory/include" && find qm -name '*.h*' ! -name inline_masked.hpp | LC_ALL=C sort | sed 's/.*/#include <&>/')
done >headers.cpp

# With all warnings on, no public header may cause one; the headers for C must be C99 and C11.
strict=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
printf '#include <%s>\n' qm/qm.h qm/trace/trace.h qm/conformance/port_check.h >headers.c
check_headers() { # NAME OF THE C++ COMPILER, OF THE C COMPILER, OPTIONS OF BOTH...
  local cxx=$1 c=$2 standard
  shift 2
  "$cxx" "$@" "${cxxflags[@]}" "${strict[@]}" -Wno-pragma-once-outside-header -D'QM_MODULE="m"' "${includes[@]}" -fsyntax-only headers.cpp || fail "the public headers with $cxx"
  for standard in c99 c11; do
    "$c" "$@" "${flags[@]}" -std=$standard "${strict[@]}" -pedantic-errors "${includes[@]}" -fsyntax-only headers.c || fail "the headers for C as $standard with $c"
  done
}
check_headers "${prefix}g++" "${prefix}gcc"

tried=0
for clang in clang++-14 clang++-15 clang++-16 clang++-17 clang++-18 clang++-19; do
  command -v "$clang" >/dev/null || continue
  tried=$((tried + 1))
  with=("$clang" --target=riscv64-linux-gnu "${cxxflags[@]}" "${headers[@]}" -Wno-unknown-attributes)
  "${with[@]}" -c quartermaster.cpp -o clang.o || fail "the single file with $clang"
  check_headers "$clang" "${clang/++/}" --target=riscv64-linux-gnu "${headers[@]}" -Wno-unknown-attributes
  [ "$clang" != clang++-19 ] || continue  # integrations.clang.rv64 compiles all sources with it
  for file in alloc/src/fastpath/{rewind,inlined_sections,sections,heap_sections} alloc/src/{configuration,diagnose/call_sites} \
    alloc/src/heap/{heap_charged,operator_new,memory_resource,memory_resource_key,c_library} \
    conformance/src/{board,checks,port_check,rewind_probe,thread_check}; do
    file=$(ls "$source/$file".[cS]*)
    "${with[@]}" -D'QM_MODULE="m"' "${includes[@]}" -c "$file" -o clang.o || fail "$file with $clang"
  done
done
[ "$tried" -gt 0 ] || { echo "no Clang here"; exit 77; }
echo "one GCC and $tried Clangs"
