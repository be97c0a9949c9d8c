#!/bin/bash
# test_script.sh SOURCE FOLDER: the output and the status of ./test, where tests fail or do not run and where the
# environment has a fault. It runs with a cmake and a ctest that print given output: LISTED, RESULTS, and BUILD for a
# build that fails.
set -u
source=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder/tools"
cat >"$folder/tools/cmake" <<'END'
#!/bin/bash
if [ "$1" = --preset ]; then
  mkdir -p "$4" && printf '%s x\n' $LISTED >"$4/tests.txt"
elif [ -n "${BUILD:-}" ]; then
  echo "$BUILD"
  exit 1
fi
END
cat >"$folder/tools/ctest" <<'END'
#!/bin/bash
number=0
case " $* " in
  *' --show-only=json-v1 '*)
    for name in $LISTED; do
      list="${list:-}${list:+,}{\"name\": \"$name\", \"properties\": [{\"name\": \"LABELS\", \"value\": [\"${LABEL:-unit}\"]}]}"
    done
    echo "{\"tests\": [${list:-}]}" ;;
  *)
    if [ "$RESULTS" = hang ]; then
      setsid sleep 1000 &
      echo $! >"$FOLDER/pid"
      wait
    fi
    for result in $RESULTS; do number=$((number + 1)); echo " $number/2 Test #$number: unit.a$number ....   $result  0.01 sec"; done
    [ "$number" -eq 2 ] || kill -9 $$ ;;
esac
END
chmod +x "$folder"/tools/*
export FOLDER=$folder QM_BUILD_DIR=$folder/build

wrong() {
  tail -n 20 "$folder/log"
  echo "error: $1"
  exit 1
}
check() { # listed results arguments status words
  set -f  # the arguments are words, not patterns
  # shellcheck disable=SC2086
  LISTED=$1 RESULTS=$2 PATH=$folder/tools:$PATH "$source/test" $3 >"$folder/log" 2>&1
  status=$?
  set +f
  [ $status -eq "$4" ] || wrong "with tests \"$1\", results \"$2\" and argument \"$3\" ./test ends with $status, not $4"
  grep -qE -- "$5" "$folder/log" || wrong "with tests \"$1\", results \"$2\" and argument \"$3\" ./test does not say \"$5\""
}
last() { tail -n 1 "$folder/log" | grep -qxE -- "$1" || wrong "the last line is not \"$1\""; }

check 'unit.a1 unit.a2' 'Passed Passed' 'unit.a' 0 '^passed  +0[.]01 s  unit[.]a1 \(host-asan\)$'
last '[0-9]+ passed, 0 failed'
check 'unit.a1 unit.a2' 'Passed ***Skipped' 'unit.a' 0 '^skipped +0[.]01 s  unit[.]a2'
last '[0-9]+ passed, 0 failed, [0-9]+ skipped'
check 'unit.a1 unit.a2' 'Passed ***Failed' 'unit.a' 1 '^  unit[.]a2 \(host-asan\): Failed'
check 'unit.a1 unit.a2' 'Passed' 'unit.a' 1 'tests[.]host-asan .*: ended early, with 1 of 2 results'
check 'x.y' 'Passed Passed' '' 1 'tests[.]host-tsan .*: ctest names none'
check 'unit.a1 unit.a2' 'Passed Passed' host-asan 0 'build[.]host-asan'
last '3 passed, 0 failed'
LABEL=integration check 'unit.a1 unit.a2' 'Passed Passed' integrations 0 '^passed .* unit[.]a2 \(target-release\)$'
check 'unit.a1 unit.a2' 'Passed Passed' integrations 2 '^error: no test matches integrations; '

# The last line of .ci/run is the sum of ./test and ./test integrations; its status is that of the one that failed.
mkdir -p "$folder/ci/.ci"
cp "$source/.ci/run" "$folder/ci/.ci/run"
ci() { # commands of ./test, commands of ./test integrations, status, last line
  printf '#!/bin/sh\nif [ "${1:-}" = integrations ]; then\n%s\nelse\n%s\nfi\n' "$2" "$1" >"$folder/ci/test"
  chmod +x "$folder/ci/test"
  sh "$folder/ci/.ci/run" >"$folder/log" 2>&1
  status=$?
  [ $status -eq "$3" ] || wrong "with a ./test of \"$1\" and of \"$2\" .ci/run ends with $status, not $3"
  last "$4"
}
ci 'echo 5 passed, 0 failed' 'echo 2 passed, 0 failed, 1 skipped' 0 '7 passed, 0 failed, 1 skipped'
ci 'echo 4 passed, 1 failed; exit 1' 'echo 2 passed, 0 failed' 1 '6 passed, 1 failed'
ci 'echo 5 passed, 0 failed' 'echo error: the disk is full; exit 3' 3 '5 passed, 1 failed'

# Bad input: one sentence for each error.
check '' '' 'unit.a' 2 '^error: no test matches unit[.]a; '
check '' '' '--list unit.a' 2 '^error: no test matches unit[.]a; '
check '' '' '(' 2 '^error: [(] is no regular expression'
check '' '' '--lust' 2 '^error: usage: '
BUILD='fatal error: x.s: No space left on device' check 'unit.a1' '' host-asan 1 'build[.]host-asan .*: the disk is full$'
BUILD='fatal error' check 'unit.a1' '' host-asan 1 'build[.]host-asan .*: the whole log is '
exec 8>"$folder/build/.test-lock"
flock 8
check 'unit.a1' '' '' 3 '^error: another ./test .* runs in '
exec 8>&-

# Ctrl-C: status 130, and all processes that ctest started have ended, whatever their session.
LISTED='unit.a1 unit.a2' RESULTS=hang PATH=$folder/tools:$PATH "$source/test" host-asan >"$folder/log" 2>&1 &
until [ -s "$folder/pid" ]; do sleep 0.1; done
kill -INT $!
wait $!
status=$?
[ $status -eq 130 ] || wrong "interrupted, ./test ends with $status"
until ! kill -0 "$(cat "$folder/pid")" 2>/dev/null; do sleep 0.1; done  # else the test's timeout ends this

# No network, and no packages installed: the message names the packages.
for tool in apt-get sudo; do printf '#!/bin/sh\nexit 100\n' >"$folder/tools/$tool"; done
printf '#!/bin/sh\nexit 1\n' >"$folder/tools/dpkg-query"
chmod +x "$folder"/tools/*
check '' '' '' 3 '^error: could not install: .*ninja-build'
