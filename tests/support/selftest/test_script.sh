#!/bin/sh
# test_script.sh SOURCE FOLDER: ./test counts what did not run as failed. It runs here with a cmake, a ninja and a ctest that only
# say what they are told to: each case is what ctest lists, the results that it prints before it ends, and how ./test must end.
set -u
source=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder/tools"
printf '#!/bin/sh\nexit 0\n' >"$folder/tools/cmake"
cp "$folder/tools/cmake" "$folder/tools/ninja"
cat >"$folder/tools/ctest" <<'END'
#!/bin/sh
number=0
case " $* " in
  *' -N '*)
    for name in $LISTED; do number=$((number + 1)); echo "  Test #$number: $name"; done ;;
  *)
    for result in $RESULTS; do number=$((number + 1)); echo " $number/2 Test #$number: unit.a$number ....   $result  0.01 sec"; done
    [ "$number" -eq 2 ] || kill -9 $$ ;;
esac
END
chmod +x "$folder"/tools/*

check() { # listed results pattern status words
  LISTED=$1 RESULTS=$2 PATH=$folder/tools:$PATH QM_BUILD_DIR=$folder/build "$source/test" "$3" >"$folder/log" 2>&1
  status=$?
  if [ $status -ne "$4" ] || ! grep -qF -- "$5" "$folder/log"; then
    tail -n 20 "$folder/log"
    echo "error: with tests \"$1\" and results \"$2\" ./test ends with $status, or without \"$5\""
    exit 1
  fi
}

check 'unit.a1 unit.a2' 'Passed Passed' 'unit.a' 0 ' passed, 0 failed'
check 'unit.a1 unit.a2' 'Passed ***Failed' 'unit.a' 1 'unit.a2 (host-asan)'
check 'unit.a1 unit.a2' 'Passed' 'unit.a' 1 'tests.host-asan: ended early, with 1 of 2 results'
check '' '' . 1 'tests.host-asan: ctest names none'
check '' '' 'unit.a' 2 'no test matches unit.a'
