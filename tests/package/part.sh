#!/usr/bin/env bash
# As part of an embedder's build: part.sh SOURCE COMPILER_PREFIX
#
# The block of docs/embedding.md that fetches the project must configure. Its libraries get their flags, and the
# embedder's own source gets none of them; of the library only wire and hal are compiled here.
set -eu -o pipefail
source=$(cd "$1" && pwd) prefix=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
unset CMAKE_CXX_COMPILER_LAUNCHER CMAKE_C_COMPILER_LAUNCHER
fail() {
  echo "FAILED: $*"
  exit 1
}
cp -r "$source/hal/template" port
printf '#include <qm/cache.hpp>\nint main() { return qm::Cache::kBulkChunk == 16 ? 0 : 1; }\n' >main.cpp
{
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(firmware LANGUAGES C CXX ASM)\nadd_library(firmware OBJECT main.cpp)\n'
  awk '/^## /{ on = $0 == "## As part of your build" } on && /^```/ { inside = !inside; next } on && inside' "$source/docs/embedding.md"
} >CMakeLists.txt
grep -q FetchContent_MakeAvailable CMakeLists.txt || fail "the document has no such block"
cmake -G Ninja -B build -D CMAKE_SYSTEM_NAME=Generic -D CMAKE_SYSTEM_PROCESSOR=riscv64 -D CMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY \
  -D "CMAKE_C_COMPILER=${prefix}gcc" -D "CMAKE_CXX_COMPILER=${prefix}g++" -D "CMAKE_ASM_COMPILER=${prefix}gcc" \
  -D CMAKE_EXPORT_COMPILE_COMMANDS=ON -D CMAKE_BUILD_TYPE=MinSizeRel -D "FETCHCONTENT_SOURCE_DIR_QUARTERMASTER=$source" >log 2>&1 || { cat log; fail "configure"; }
command_of() { grep "\"command\".*$1" build/compile_commands.json | head -n 1; }
own=$(command_of '/main\.cpp')
library=$(command_of 'alloc/src/cache/cache\.cpp')
[ -n "$own" ] && [ -n "$library" ] || fail "no commands"
for flag in -ffreestanding -fno-exceptions; do
  case $library in *" $flag "*) ;; *) fail "the library is compiled without $flag" ;; esac
done
case $library in *' -Werror '*) fail "the library's warnings are the embedder's errors" ;; esac
for flag in -ffreestanding -fno-exceptions -fno-rtti -W -O2 -O3 -march -fno-pie -mcmodel; do
  case $own in *" $flag"*) fail "the embedder's source is compiled with $flag" ;; esac
done
for target in test demo smoke qm_replay lint coverage install; do
  if ninja -C build -t query "$target" >/dev/null 2>&1; then
    case $target in test | install) ;; *) fail "the embedder's build has a target $target" ;; esac
  fi
done
cmake --build build --target firmware qm_wire qm_hal >log 2>&1 || { cat log; fail "build"; }
# A port for one hart, like the template: the compiler must not warn about code for ports with more harts.
ninja -C build "$source/conformance/src/checks.cpp^" >log 2>&1 && ! grep 'warning:' log || { cat log; fail "the conformance test for one hart"; }
echo "the library has its flags, the embedder hers"
