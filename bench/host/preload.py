#!/usr/bin/env python3
"""Whole programs over the heap and over other mallocs, each preloaded: processor time and peak memory.

    preload.py FOLDER [TURNS]      the folder has libqm_bench_preload.so and qm_bench_usage

The mallocs take turns within a turn, so other work on the machine slows all of them. A figure is the median over the
turns: of the processor time (user and system, of the program and its children) divided by glibc's in the same turn, and
of the peak of the resident memory of the largest process. Programs that are not there are left out, and so are other
mallocs. QM_MIMALLOC_BENCH names a folder of mimalloc-bench, built: its programs run too.

Prints a row for each program and malloc, as the benches do, and two of all programs: the geometric mean and the
highest of the time divided by the least of the other mallocs.
"""
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

LIBRARIES = {"jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}
OURS = "Quartermaster"
SECONDS = 300  # a program that takes longer is killed

PYTHON = """
import json
rows = [{"name": f"row {i}", "values": list(range(i % 17)), "next": {"of": str(i)}} for i in range(60000)]
text = json.dumps(rows)
for _ in range(3):
    rows = json.loads(text)
    index = {row["name"]: row for row in rows}
    text = json.dumps(sorted(index.values(), key=lambda row: row["next"]["of"]))
"""
SHELL = """
declare -A seen
for ((i = 0; i < 60000; ++i)); do
  words=(one "word $i" "and $((i * 7))")
  seen[$((i % 5000))]="${words[*]}"
  line=${seen[$((i / 2 % 5000))]}
  line=${line//word/verb}
done
"""
AWK = """
BEGIN {
  for (i = 0; i < 400000; ++i) {
    key = "key " (i * 7919 % 30011)
    count[key] = count[key] + 1
    text[i % 1000] = text[i % 1000] key
    if (length(text[i % 1000]) > 300) text[i % 1000] = ""
  }
}
"""
SOURCE = """
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>
std::size_t words(const std::string& text) {
  std::map<std::string, std::vector<int>> places;
  std::unordered_map<std::string, std::function<int(int)>> calls;
  const std::regex word("[a-z]+");
  for (std::sregex_iterator at(text.begin(), text.end(), word), end; at != end; ++at) {
    places[at->str()].push_back(static_cast<int>(at->position()));
    calls[at->str()] = [n = places.size()](int x) { return x + static_cast<int>(n); };
  }
  return places.size() + calls.size();
}
"""


def local_programs(folder):
    """The programs that a developer's machine has: name, command, further environment."""
    source, text = os.path.join(folder, "words.cpp"), os.path.join(folder, "lines.txt")
    with open(source, "w") as file:
        file.write(SOURCE)
    with open(text, "w") as file:
        file.writelines(f"{i * 7919 % 1000003} line {i}\n" for i in range(300000))
    values = os.path.join(folder, "values.json")
    with open(values, "w") as file:
        json.dump([{"id": i, "name": f"name {i}", "list": list(range(i % 9))} for i in range(40000)], file)
    return [
        ("g++ -O1", ["g++", "-std=c++20", "-O1", "-c", "-o", os.path.join(folder, "words.o"), source], {}),
        ("python3", ["python3", "-S", "-c", PYTHON], {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}),
        ("bash", ["bash", "--norc", "-c", SHELL], {}),
        ("awk", ["awk", AWK], {}),
        ("sort", ["sort", "--parallel=2", "-S", "16M", "-T", folder, "-o", os.path.join(folder, "sorted"), text], {"LC_ALL": "C"}),
        ("jq", ["jq", "-c", "map(select(.id % 3 == 0) | {name, sum: (.list | add)}) | group_by(.sum)", values], {}),
    ]


def mimalloc_bench(folder):
    """The programs of mimalloc-bench: name, command, standard input. The arguments are those of its own script."""
    threads = os.cpu_count() or 1
    programs, data = os.path.join(folder, "out", "bench"), os.path.join(folder, "bench")
    commands = [
        ("cfrac", ["17545186520507317056371138836327483792789528"], None),
        ("espresso", [os.path.join(data, "espresso", "largest.espresso")], None),
        ("barnes", [], os.path.join(data, "barnes", "input")),
        ("larson", [5, 8, 1000, 5000, 100, 4141, threads], None),
        ("mstress", [threads, 50, 25], None),
        ("rptest", [threads, 0, 1, 2, 500, 1000, 100, 8, 16000], None),
        ("alloc-test", [threads], None),
        ("xmalloc-test", ["-w", threads, "-t", 5, "-s", 64], None),
        ("sh6bench", [2 * threads], None),
        ("sh8bench", [2 * threads], None),
        ("cache-scratch", [threads, 1000, 1, 2000000, threads], None),
        ("cache-thrash", [threads, 1000, 1, 2000000, threads], None),
        ("glibc-simple", [], None),
        ("glibc-thread", [threads], None),
    ]
    return [(name, [os.path.join(programs, name), *map(str, arguments)], given) for name, arguments, given in commands]


def environment_with(library):
    return {**os.environ, "LD_PRELOAD": library} if library else dict(os.environ)


def run(usage, command, library, more, given):
    """Runs the program with the malloc. Returns seconds of processors and peak KiB, or None if it fails."""
    with open(given or os.devnull, "rb") as stdin:
        done = subprocess.run([usage, "timeout", str(SECONDS), *command], stdin=stdin, capture_output=True, text=True,
                              errors="replace", env={**environment_with(library), **more}, check=False)
    if done.returncode != 0:
        print(f"{command[0]} over {library or 'glibc'}: status {done.returncode}: {done.stderr[-300:]}", file=sys.stderr)
        return None
    microseconds, kilobytes = map(int, done.stdout.split())
    return microseconds / 1e6, kilobytes


def is_preloaded(library):
    """Whether a program started with it has the library in its memory."""
    maps = subprocess.run(["cat", "/proc/self/maps"], env=environment_with(library), capture_output=True, text=True, check=False)
    return maps.returncode == 0 and os.path.basename(library).split(".so")[0] in maps.stdout


def row(**figures):
    print("@bench " + json.dumps(figures), flush=True)


def compare(usage, name, command, mallocs, turns, more, given):
    """Prints the program's rows. Returns our time divided by the least of the others, or None."""
    seconds = {malloc: [] for malloc in mallocs}
    kilobytes = {malloc: [] for malloc in mallocs}
    for turn in range(turns + 1):
        for malloc, library in mallocs.items():
            result = run(usage, command, library, more, given)
            if result is None:
                return None
            if turn != 0:  # the first turn reads the files
                seconds[malloc].append(result[0])
                kilobytes[malloc].append(result[1])
    relative = {malloc: statistics.median(mine / max(theirs, 1e-3) for mine, theirs in zip(seconds[malloc], seconds["glibc"]))
                for malloc in mallocs}
    for malloc in mallocs:
        row(case=name, allocator=malloc, **{"CPU / glibc": round(relative[malloc], 2),
            "CPU ms": round(1000 * statistics.median(seconds[malloc])),
            "peak KiB": round(statistics.median(kilobytes[malloc]))})
    return relative[OURS] / min(relative[malloc] for malloc in mallocs if malloc != OURS)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    built, turns = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 5
    library, usage = os.path.join(built, "libqm_bench_preload.so"), os.path.join(built, "qm_bench_usage")
    if not is_preloaded(library):
        sys.exit(f"error: {library} cannot be preloaded")
    mallocs = {OURS: library, "glibc": None}
    mallocs.update((name, other) for name, other in LIBRARIES.items() if is_preloaded(other))
    with tempfile.TemporaryDirectory() as folder:
        programs = [(name, command, more, None) for name, command, more in local_programs(folder)]
        if "QM_MIMALLOC_BENCH" in os.environ:
            programs += [(name, command, {}, given) for name, command, given in mimalloc_bench(os.environ["QM_MIMALLOC_BENCH"])]
        over_best = []
        for name, command, more, given in programs:
            if shutil.which(command[0]) is None:
                print(f"{name}: there is no {command[0]}", file=sys.stderr)
                continue
            ratio = compare(usage, name, command, mallocs, turns, more, given)
            if ratio is not None:
                over_best.append(ratio)
    if not over_best:
        sys.exit("error: no program ran")
    for name, value in (("all, geometric mean", math.exp(statistics.fmean(map(math.log, over_best)))),
                        ("all, highest", max(over_best))):
        row(case=name, allocator=OURS, **{"CPU / least of the others": round(value, 2)})


if __name__ == "__main__":
    main()
