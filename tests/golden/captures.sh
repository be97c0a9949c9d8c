# Sourced by check.sh and record.sh: the list of captures. A name, then the arguments of qm_make_capture before and
# after the file's name: EVENTS, STACKS, LIVE, LOST.
golden_captures='
complete   100 6 10 0
overrun    60 4 8 5
'

# make NAME EVENTS STACKS LIVE LOST, into the folder $to
make_capture() { "$maker" "$2" "$to/$1.qm" "$3" "$4" "$5"; }

# Writes the reports on the capture $1/$2.qm into the folder $to. Runs in the folder of the capture, so that the reports
# contain no path. A series of numbers is written on one line.
make_reports() {
  (cd "$1" && "$qm" report --all --top 5 "$2.qm") >"$to/$2.txt" && (cd "$1" && "$qm" report --json --top 1 "$2.qm") | sed -zE 's/\n +(-?[0-9])/ \1/g' >"$to/$2.json"
}
