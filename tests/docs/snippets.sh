#!/usr/bin/env bash
# snippets.sh SOURCE CXX CC CONFIG: every block of C or C++ in README.md and docs/ must compile, with and without call
# sites. This script has the declarations that each block needs; a block without them fails. The tests named package and
# examples build the code in docs/embedding.md and docs/porting.md.
set -eu -o pipefail
source=$(cd "$1" && pwd) cxx=$2 cc=$3 config=$4
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
includes=()
for layer in wire hal hal/host alloc trace console console/scan firmware/app; do includes+=(-I "$source/$layer/include"); done

frame() { # what stands before the block; `body` if it is statements
  case $1 in
    README.md.1.cpp) echo '#include <span>'; echo 'void body(std::span<const qm::MemoryRange> memory, unsigned harts) {' ;;
    call-sites.md.1.cpp) printf '%s\n' '#include <qm/object_cache.hpp>' '#include <qm/cache.hpp>' '#include <qm/new.hpp>' 'struct Session { Session(int, int) {} };' 'struct State { explicit State(int) {} };' \
      'void body(qm::Cache* cache, qm::ObjectCache<Session>& sessions, int address, int port) {' ;;
    call-sites.md.2.c) echo 'void body(qm_cache *packets) {' ;;
    call-sites.md.3.c) printf '%s\n' '#include <qm/qm.h>' '#define HEAD 16' 'struct packet;' ;;
    walkthrough.md.1.cpp) printf '%s\n' '#include <qm/cache.hpp>' 'void body() {' ;;
    tracing.md.1.cpp) printf '%s\n' '#include <qm/console/findleaks.hpp>' '#include <qm/firmware/scan_roots.hpp>' 'void body() {' ;;
    console.md.1.cpp) echo 'void set_led(bool on) noexcept;' ;;
    *) echo "no frame for $1" >&2; exit 1 ;;
  esac
}

cd "$scratch"
# The build's configuration, without and with call sites.
mkdir -p without/qm with/qm
sed '/^#define QM_CALL_SITES/d' "$config" >without/qm/config.h
sed '/QM_CALL_SITES 1$/d; /QM_CALL_SITES \*\/$/d; $i #define QM_CALL_SITES 1' "$config" >with/qm/config.h
count=0
for document in "$source"/README.md "$source"/docs/*.md; do
  name=${document##*/}
  case $name in embedding.md | porting.md) continue ;; esac
  [ "$document" != "$source/docs/README.md" ] || name=docs-README.md
  awk -v name="$name" '/^```(cpp|c)$/ { out = name "." ++count "." substr($0, 4); printf "" > out; next } /^```$/ { out = ""; next } out { print > out }' "$document"
done
for block in *.md.*; do
  prelude=$(frame "$block")
  { # preprocessor lines come first
    grep '^#' "$block" || true
    printf '%s\n' "$prelude"
    grep -v '^#' "$block"
    case $prelude in *'{') echo '}' ;; esac
  } >"test.${block##*.}"
  for sites in without with; do
    case $block in
      *.cpp) "$cxx" -std=c++20 -Wall -Wno-unused-variable -Wno-unused-but-set-variable -Werror -fsyntax-only "-I$sites" "${includes[@]}" test.cpp ;;
      *.c) "$cc" -std=c99 -Wall -Wno-unused-variable -Werror -fsyntax-only "-I$sites" "${includes[@]}" test.c ;;
    esac || { echo "FAILED: $block $sites call sites"; cat "test.${block##*.}"; exit 1; }
  done
  count=$((count + 1))
done
[ "$count" -ge 5 ] || { echo "FAILED: only $count blocks found"; exit 1; }
echo "$count blocks compile"
