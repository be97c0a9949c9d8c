#!/usr/bin/env bash
# The package of a host build: host.sh BUILD SANITIZERS. The tool and its programs run; a project in an empty folder finds the package and runs on
# the host port and the client library.
set -eu -o pipefail
build=$1 sanitize=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset CMAKE_CXX_COMPILER_LAUNCHER CMAKE_C_COMPILER_LAUNCHER
cmake --install "$build" --prefix "$scratch/prefix" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
golden=$(dirname "$(readlink -f "$0")")/../golden
"$scratch/prefix/bin/qm" replay "$golden/complete.qm" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
mkdir "$scratch/project"
cd "$scratch/project"
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(tool LANGUAGES C CXX)
find_package(quartermaster 0.7 REQUIRED COMPONENTS alloc trace wire host)
add_executable(tool main.cpp)
target_link_libraries(tool PRIVATE quartermaster::host quartermaster::trace quartermaster::alloc)
END
cat >main.cpp <<'END'
#include <cstdio>
#include <vector>

#include <qm/host/transport.hpp>
#include <qm/qm.h>
#include <qm/trace/trace.h>
#include <qm/version.h>
#include <qm/wire/crc32.hpp>

int main() {
  alignas(4096) static unsigned char ram[1 << 20];
  if (qm_init(ram, sizeof ram) != QM_OK) return 1;
  void* block = qm_malloc(100);
  std::printf("%d %zu\n", QM_VERSION, qm_usable_size(block));
  qm_free(block);
  return block == nullptr;
}
END
cmake -G Ninja -B build -D CMAKE_PREFIX_PATH="$scratch/prefix" ${sanitize:+-D "CMAKE_CXX_FLAGS=-fsanitize=$sanitize"} >log 2>&1 || { cat log; exit 1; }
cmake --build build >log 2>&1 || { cat log; exit 1; }
./build/tool | grep -q '^[0-9]* 1[0-9][0-9]$' || { echo "FAILED: it prints"; ./build/tool; exit 1; }
found=$(grep -rlIF -- "$build" "$scratch/prefix" || true)
[ -z "$found" ] || { echo "FAILED: $build is named by $found"; exit 1; }
# A project that is compiled for another machine is told what is wrong.
if cmake -G Ninja -B cross -D CMAKE_PREFIX_PATH="$scratch/prefix" -D CMAKE_SYSTEM_NAME=Generic >log 2>&1; then
  echo "FAILED: a package for the host is found for another machine"
  exit 1
fi
grep -q 'this package is for the host' log || { cat log; exit 1; }
echo "found, built and run"
