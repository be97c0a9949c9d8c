#!/usr/bin/env bash
# The package of a host build: host.sh BUILD [SANITIZERS]. The tool and its programs run; a project in an empty folder
# finds the package and runs on the host port and the client library.
set -eu -o pipefail
build=$1 sanitize=${2:-}
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
# With only the headers and no option on the command line, as in a Makefile; and in a shared object, which is loaded at
# run time or preloaded.
include=$scratch/prefix/include
libraries=("$scratch"/prefix/lib*/libqm_{trace,wire,alloc,hal}.a -pthread)
sanitizers=(${sanitize:+"-fsanitize=$sanitize"})
g++ -std=c++20 "${sanitizers[@]}" -I "$include" main.cpp "$scratch"/prefix/lib*/libqm_{host,trace,wire,alloc,hal}.a -pthread -o by_hand || {
  echo "FAILED: without CMake"
  exit 1
}
./by_hand | grep -q '^[0-9]* 1[0-9][0-9]$' || { echo "FAILED: by hand it prints"; ./by_hand; exit 1; }
# With pkg-config, in C; if find_package() refuses something, it says why.
if [ -z "$sanitize" ]; then
  command -v pkg-config >/dev/null || { echo "FAILED: pkg-config is missing"; exit 1; }
  export PKG_CONFIG_PATH=$(echo "$scratch"/prefix/lib*/pkgconfig "$scratch"/prefix/lib*/*/pkgconfig | tr ' ' :)
  cat >traced.c <<'END'
#include <qm/qm.h>
#include <qm/trace/trace.h>
static unsigned char ram[1 << 20] __attribute__((aligned(4096)));
int main(void) {
  if (qm_init(ram, sizeof ram) != QM_OK || qm_trace_init(NULL) != QM_OK || qm_trace_start("kmalloc") != QM_OK) return 1;
  return qm_malloc(100) == NULL;
}
END
  # shellcheck disable=SC2046 # a list
  gcc -std=c99 traced.c $(pkg-config --cflags --libs quartermaster-trace) -o traced && ./traced || { echo "FAILED: by pkg-config"; exit 1; }
  pkg-config --atleast-version=0.7 quartermaster || { echo "FAILED: pkg-config's version"; exit 1; }
fi
for wanted in "9.9 REQUIRED" "0.7 REQUIRED COMPONENTS alloc nosuch"; do
  mkdir -p refused
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(refused LANGUAGES C CXX)\nfind_package(quartermaster %s)\n' "$wanted" >refused/CMakeLists.txt
  if cmake -S refused -B refused/build -D CMAKE_PREFIX_PATH="$scratch/prefix" >log 2>&1; then echo "FAILED: $wanted is found"; exit 1; fi
  tr -s ' \n' ' ' <log | grep -qE 'version: 0[.]7|has no component nosuch; it has codegen, ' || { cat log; echo "FAILED: no reason"; exit 1; }
  rm -rf refused
done
# Headers of another configuration do not fit the library, and the linker names their configuration.
mkdir -p other/qm
sed 's/^#define QM_COUNT.*//; s/\(QM_CONFIGURATION qm_configuration_.*\)_count/\1/' "$include/qm/config.h" >other/qm/config.h
if g++ -std=c++20 "${sanitizers[@]}" -I other -I "$include" main.cpp "${libraries[@]}" -o mismatched >log 2>&1; then
  echo "FAILED: headers of another configuration link"
  exit 1
fi
grep -q 'undefined reference to `qm_configuration_[0-9a-z_]*' log || { cat log; exit 1; }
if g++ -std=c++20 -DQM_COUNT=1 -I "$include" -fsyntax-only main.cpp >log 2>&1; then
  echo "FAILED: an option on the command line is taken"
  exit 1
fi
grep -q 'an option of Quartermaster is defined on the command line' log || { cat log; exit 1; }
cat >plugin.cpp <<'END'
#include <cstring>
#include <thread>
#include <qm/hal/port.hpp>
#include <qm/qm.h>
extern "C" int plugin() {
  alignas(4096) static unsigned char ram[1 << 20];
  if (qm_init(ram, sizeof ram) != QM_OK) return 1;
  bool served[2] = {};
  std::thread threads[2];
  for (unsigned i = 0; i < 2; ++i) {
    threads[i] = std::thread([&served, i] {
      const qm::hal::HostHart hart(1 + i);
      qm_attach_hart();
      void* block = qm_malloc(100);
      served[i] = block != nullptr && hart.is_own();
      qm_free(block);
      qm_detach_hart();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return served[0] && served[1] ? 0 : 2;
}
END
cat >loader.cpp <<'END'
#include <dlfcn.h>
#include <cstdio>
int main() {
  void* library = dlopen("./plugin.so", RTLD_NOW);
  if (library == nullptr) return std::puts(dlerror()), 3;
  return reinterpret_cast<int (*)()>(dlsym(library, "plugin"))();
}
END
g++ -std=c++20 "${sanitizers[@]}" -shared -fPIC -I "$include" plugin.cpp "${libraries[@]}" -o plugin.so || { echo "FAILED: a shared object"; exit 1; }
g++ -std=c++20 "${sanitizers[@]}" loader.cpp -o loader
./loader || { echo "FAILED: the plug-in ends with $?"; exit 1; }
if [ -z "$sanitize" ]; then
  cat >preloaded.c <<'END'
#include <qm/qm.h>
#include <string.h>
#include <unistd.h>
static unsigned char ram[16 << 20] __attribute__((aligned(4096)));
static void ready(void) {
  static int done;
  if (!done && (done = 1)) qm_init(ram, sizeof ram);
}
void *malloc(size_t size) {
  static const char said[] = "served by Quartermaster\n";
  static int told;
  ready();
  void *block = qm_malloc(size);
  if (block && !told && (told = 1)) (void)!write(2, said, sizeof said - 1);  // not at the end: sort closes it before
  return block;
}
void *calloc(size_t count, size_t size) { return ready(), qm_calloc(count, size); }
void *realloc(void *block, size_t size) { return ready(), qm_realloc(block, size); }
void *aligned_alloc(size_t alignment, size_t size) { return ready(), qm_aligned_alloc(alignment, size); }
void free(void *block) { qm_free(block); }
size_t malloc_usable_size(void *block) { return qm_usable_size(block); }
END
  gcc -O1 -shared -fPIC -I "$include" preloaded.c "${libraries[@]}" -lstdc++ -o preloaded.so
  LD_PRELOAD=./preloaded.so sort --parallel=1 main.cpp >sorted 2>said || { echo "FAILED: sort with the library preloaded"; cat said; exit 1; }
  sort main.cpp | cmp - sorted
  grep -q 'served by' said || { echo "FAILED: it was not served by the preloaded library"; exit 1; }
fi
# A missing component is named.
sed 's/COMPONENTS alloc/COMPONENTS nonsense alloc/' -i.bak CMakeLists.txt
if cmake -G Ninja -B missing -D CMAKE_PREFIX_PATH="$scratch/prefix" >log 2>&1; then
  echo "FAILED: a component that there is not is found"
  exit 1
fi
tr '\n' ' ' <log | tr -s ' ' | grep -q 'has no component nonsense' || { cat log; exit 1; }
mv CMakeLists.txt.bak CMakeLists.txt
# A project that is compiled for another machine gets an error message.
if cmake -G Ninja -B cross -D CMAKE_PREFIX_PATH="$scratch/prefix" -D CMAKE_SYSTEM_NAME=Generic >log 2>&1; then
  echo "FAILED: a package for the host is found for another machine"
  exit 1
fi
grep -q 'this package is for the host' log || { cat log; exit 1; }
echo "found, built and run"
