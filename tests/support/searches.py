"""What tests/models/run and tests/relacy/run share: each search finds no error, and finds one in each of its mutants."""

import os
import sys
import tempfile


class Failure(Exception):
    pass


def run(name, load, check):
    """Checks what load(name) returns, and each of its mutants. @returns whether all did what they should."""
    passed = True
    try:
        search = load(name)
    except Failure as failure:
        print(f"FAILED {name}: {failure}", flush=True)
        return False
    for mutant in (None, *search.mutants):
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(check(search, mutant, folder), flush=True)
            except Failure as failure:
                print(f"FAILED {name}: {failure}", flush=True)
                passed = False
    return passed


def main(usage, folder, extension, missing, load, check):
    """@param usage of the program, @param extension of the searches in its folder, @param missing a list of Debian packages,
    @param check called with the search, a mutant or None, and an empty folder; returns a line for the report, or raises Failure.
    @returns the program's status."""
    arguments = sys.argv[1:]
    names = sorted(file[:-len(extension)] for file in os.listdir(folder) if file.endswith(extension))
    if arguments == ["--list"]:
        print("\n".join(names))
        return 0
    if any(name not in names for name in arguments):
        print(f"{usage}\nNames: {' '.join(names)}", file=sys.stderr)
        return 2
    if missing:
        print(f"missing, each a Debian package of that name: {' '.join(missing)}", file=sys.stderr)
        return 1
    return 0 if all([run(name, load, check) for name in arguments or names]) else 1
