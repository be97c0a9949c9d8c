"""What ./test does once the packages are there; its usage is in ./test.

The stages are the workflow presets of CMakePresets.json that have a test step, in their order: each is a build of its own,
with the targets of its build preset and those tests that the filter of its test preset takes. A stage builds while the
tests of the one before it run. tests.txt of a build says which targets a test needs, so that a part of a stage builds no
more than that; a need with a slash is a target of another build.
"""

import collections
import fcntl
import json
import os
import queue
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = os.getcwd()
BUILD = os.path.abspath(os.environ.get("QM_BUILD_DIR") or "build")
JOBS = os.environ.get("QM_JOBS") or str(os.cpu_count())
TEST_JOBS = str(int(JOBS) + 1) if JOBS.isdigit() else JOBS  # some tests wait, for silence on a line, more than they compute
LEAST_FREE_MB = 200

Test = collections.namedtuple("Test", "number name needs")
NOISE = re.compile(r"(Internal ctest|Test project|Total Test|Errors while|The following|[0-9]+% tests passed|\s*$)"
                   r"|\s+Start +[0-9]+:|\s[0-9 ]+ - \S+ \(")
RESULT = re.compile(r"\s*\d+/\d+ Test +#\d+: (\S+) +\.*(.*?) +([0-9.]+) sec")


class Refused(Exception):
    """Nothing can be run: a sentence, and the status of ./test."""

    def __init__(self, sentence, status):
        super().__init__(sentence)
        self.status = status


class Stage:
    """A row of the table: a preset, its build targets and its filter."""

    def __init__(self, presets, test_preset):
        self.name = test_preset["name"]
        self.preset = test_preset["configurePreset"]
        self.folder = os.path.join(BUILD, self.preset)
        self.what = test_preset.get("description", "")
        self.environment = test_preset.get("environment", {})
        self.filter = test_preset.get("filter", {})
        targets = [build["targets"] for build in presets["buildPresets"] if build["name"] == self.name]
        self.targets = targets[0] if targets else []

    def takes(self, name, labels):
        for choice, wanted in (("include", True), ("exclude", False)):
            expressions = self.filter.get(choice, {})
            if "name" in expressions and bool(re.search(expressions["name"], name)) != wanted:
                return False
            if "label" in expressions and any(re.search(expressions["label"], label) for label in labels) != wanted:
                return False
        return True


def read_stages():
    with open("CMakePresets.json", encoding="utf-8") as file:
        presets = json.load(file)
    tests = {test["name"]: Stage(presets, test) for test in presets["testPresets"] if not test.get("hidden")}
    order = [step["name"] for flow in presets["workflowPresets"] for step in flow["steps"] if step["type"] == "test"]
    return [tests[name] for name in order], {name: test for name, test in tests.items() if name not in order}


class Children:
    """The programs that run. Each has a session of its own, by which what it started is found as well."""

    def __init__(self):
        self.lock = threading.Lock()
        self.alive = set()
        self.ended = False

    def start(self, command, **options):
        with self.lock:
            if self.ended:
                raise KeyboardInterrupt
            child = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, text=True, errors="replace", **options)
            self.alive.add(child)
            return child

    def wait(self, child):
        status = child.wait()
        with self.lock:
            self.alive.discard(child)
        return status

    def end(self):
        """Kills them, and all that they started."""
        with self.lock:
            self.ended = True
            doomed = descendants({child.pid for child in self.alive})
        for pid in doomed:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def descendants(roots):
    """The processes of these sessions, and all their children: who starts a session of his own is a child still."""
    parents = {}
    found = set(roots)
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry)] = int(fields[1])
            if int(fields[3]) in roots:
                found.add(int(entry))
    more = True
    while more:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
    return found


class Report:
    """Lines as they come, and what they came to."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.kinds = collections.defaultdict(lambda: [0, 0.0])
        self.times = []
        self.failures = []

    def say(self, text):
        with self.lock:
            print(text, flush=True)

    def result(self, verdict, name, stage, seconds, why=""):
        with self.lock:
            self.counts[verdict] += 1
            kind = self.kinds[name.partition(".")[0]]
            kind[0] += 1
            kind[1] += seconds
            self.times.append((seconds, f"{name} ({stage})"))
            if verdict == "failed":
                self.failures.append(f"{name} ({stage}){why and ': ' + why}")
            print(f"{verdict.upper() if verdict == 'failed' else verdict:7} {seconds:8.2f} s  {name} ({stage}){why and ': ' + why}", flush=True)

    def close(self, seconds):
        """The summary; its last line counts."""
        print("\nslowest:")
        for time_taken, name in sorted(self.times, reverse=True)[:10]:
            print(f"  {time_taken:8.2f} s  {name}")
        print("by kind:")
        for kind, (count, time_taken) in sorted(self.kinds.items()):
            print(f"  {time_taken:8.2f} s  {count:4} {kind}")
        if self.failures:
            print("failed:", *self.failures, sep="\n  ")
            print(f"to repeat with its seed: QM_SEED={os.environ.get('QM_SEED') or 1} ./test NAME")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"transcripts and logs: {BUILD}/*/transcripts, {BUILD}/*.log; {seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processors")
        line = f"{self.counts['passed']} passed, {self.counts['failed']} failed"
        if self.counts["skipped"]:
            line += f", {self.counts['skipped']} skipped"
        print(line, flush=True)


class Runner:
    def __init__(self, pattern):
        self.pattern = pattern
        self.children = Children()
        self.report = Report()
        self.built = set()
        self.configured = {}

    def logged(self, command, log):
        """Runs a command with its output in a file. Returns whether it succeeded. Compilers get huge pages, a tenth less time for Clang."""
        with open(log, "w", encoding="utf-8") as file:
            return self.children.wait(self.children.start(["nice", "-n", "5", *command], stdout=file, stderr=file,
                                                          env={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", **os.environ})) == 0

    def install(self, packages):
        return self.children.wait(self.children.start(["sh", "cmake/install-packages.sh", packages])) == 0

    def configure(self, preset):
        if preset not in self.configured:
            self.configured[preset] = self.logged(["cmake", "--preset", preset, "-B", os.path.join(BUILD, preset)],
                                                  f"{BUILD}/{preset}-configure.log")
        return self.configured[preset]

    def tests_of(self, stage):
        """The tests that this run wants of a configured stage."""
        child = self.children.start(["ctest", "--test-dir", stage.folder, "--show-only=json-v1"], stdout=subprocess.PIPE)
        output = child.communicate()[0]
        self.children.wait(child)
        needs = {}
        with open(os.path.join(stage.folder, "tests.txt"), encoding="utf-8") as file:
            for line in file:
                name, *needs[name] = line.split()
        chosen = []
        for number, test in enumerate(json.loads(output)["tests"], 1):
            labels = [label for entry in test.get("properties", []) if entry["name"] == "LABELS" for label in entry["value"]]
            name = test["name"]
            if stage.takes(name, labels) and re.search(self.pattern or "", name):
                chosen.append(Test(number, name, needs.get(name, [])))
        return chosen

    def build(self, preset, targets):
        """Builds targets of a preset that are not built yet. Returns whether it succeeded."""
        wanted = [target for target in dict.fromkeys(targets) if (preset, target) not in self.built]
        if not wanted:
            return True
        if not self.configure(preset):
            return False
        good = self.logged(["cmake", "--build", os.path.join(BUILD, preset), "-j", JOBS, "--target", *wanted], f"{BUILD}/{preset}-build.log")
        if good:
            self.built.update((preset, target) for target in wanted)
        return good

    def prepare(self, stage):
        """Configures and builds a stage. Returns its tests; None if the stage has nothing to run."""
        begun = time.monotonic()
        for folder in (BUILD, os.environ.get("TMPDIR") or "/tmp"):
            if shutil.disk_usage(folder).free < LEAST_FREE_MB << 20:
                raise Refused(f"the disk of {folder} is full: less than {LEAST_FREE_MB} MB are free", 3)
        log = f"{BUILD}/{stage.preset}-configure.log"
        tests = []
        good = self.configure(stage.preset)
        if good:
            tests = self.tests_of(stage)
            whole = self.pattern is None or (self.pattern and re.search(self.pattern, f"build.{stage.name}"))
            if not tests and not whole:
                return None
            if any(test.name.startswith("formats.") for test in tests) and not self.install("formats"):
                self.report.say("the tests named formats that need these are skipped")
            needs = [need for test in tests for need in test.needs]
            targets = (stage.targets if whole else []) + [need for need in needs if "/" not in need]
            others = collections.defaultdict(list)
            for need in needs:
                if "/" in need:
                    others[need.partition("/")[0]].append(need.partition("/")[2])
            # The other builds first: their logs are not to be taken for this stage's.
            for preset, wanted in [*others.items(), (stage.preset, targets)]:
                if good:
                    log = f"{BUILD}/{preset}-build.log"
                    good = self.build(preset, wanted)
        if good:
            self.report.result("passed", f"build.{stage.name}", stage.preset, time.monotonic() - begun)
            if not tests and self.pattern is None:
                self.report.result("failed", f"tests.{stage.name}", stage.preset, 0, "ctest names none")
            return tests
        if self.children.ended:
            return None
        with open(log, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        self.report.say("\n".join(lines[-40:]))
        why = "the disk is full" if any("No space left on device" in line for line in lines) else f"the whole log is {log}"
        self.report.result("failed", f"build.{stage.name}", stage.preset, time.monotonic() - begun, why)
        return None

    def run_tests(self, stage, tests):
        """Runs the tests of a built stage. One that gives no result fails."""
        numbers = [test.number for test in tests]
        chosen = ",".join(str(number) for number in [numbers[0], numbers[0], 1, *numbers[1:]])
        child = self.children.start(
            ["ctest", "--test-dir", stage.folder, "-j", TEST_JOBS, "--output-on-failure", "--no-label-summary", "-I", chosen],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**stage.environment, **os.environ})
        missing = {test.name for test in tests}
        with open(f"{BUILD}/{stage.name}-tests.log", "w", encoding="utf-8") as log:
            for line in child.stdout:
                log.write(line)
                result = RESULT.match(line)
                if result:
                    name, verdict, seconds = result.groups()
                    missing.discard(name)
                    kind = "skipped" if "***Skipped" in verdict else "failed" if "***" in verdict else "passed"
                    why = verdict.replace("*", " ").strip() if kind == "failed" else ""
                    self.report.result(kind, name, stage.preset, float(seconds), why)
                elif not NOISE.match(line):
                    self.report.say(line.rstrip("\n"))
        self.children.wait(child)
        if missing and not self.children.ended:
            self.report.result("failed", f"tests.{stage.name}", stage.preset, 0,
                               f"ended early, with {len(tests) - len(missing)} of {len(tests)} results")

    def run(self, stages):
        """Builds the stages one after the other; the tests of each run beside the next one's build."""
        waiting = queue.Queue()

        def tester():
            for stage, tests in iter(waiting.get, None):
                try:
                    self.run_tests(stage, tests)
                except KeyboardInterrupt:
                    return

        thread = threading.Thread(target=tester, daemon=True)
        thread.start()
        for stage in stages:
            tests = self.prepare(stage)
            if tests:
                waiting.put((stage, tests))
        waiting.put(None)
        while thread.is_alive():
            thread.join(0.2)  # short, so that Ctrl-C is heard

    def list(self, stages):
        """Prints the builds and tests. Returns whether there are any."""
        found = False
        for stage in stages:
            if not self.configure(stage.preset):
                raise Refused(f"{stage.preset} cannot be configured: {BUILD}/{stage.preset}-configure.log says why", 3)
            tests = self.tests_of(stage)
            if tests or not self.pattern:
                print(f"build.{stage.name}: {stage.what}")
            for test in tests:
                print(f"{test.name} ({stage.name})")
            found = found or bool(tests)
        return found


def choose(words):
    """The stages and the pattern that the words of the command line mean."""
    stages, extra = read_stages()
    integrations = [stage for name, stage in extra.items() if name.startswith("integrations")]
    words = words or [""]
    if len(words) > 1 or words[0].startswith("-"):
        raise Refused("usage: ./test [--list] [quick | integrations | full | PRESET | NAME]; see ./test --help", 2)
    word = words[0]
    if word == "":
        return stages, None
    if word == "full":
        return stages + integrations + [extra["full"]], None
    if word == "integrations":
        return integrations, ""
    if word in extra:
        return [extra[word]], ""
    named = [stage for stage in stages if stage.name == word]
    if named:
        return named, None
    try:
        re.compile(word)
    except re.error as error:
        raise Refused(f"{word} is no regular expression: {error}", 2) from error
    return stages + integrations, word


def take_lock():
    """Of two ./test in one build folder the second refuses."""
    lock = open(os.path.join(BUILD, ".test-lock"), "a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        raise Refused(f"another ./test (process {lock.read().strip()}) runs in {BUILD}; wait for it, or set QM_BUILD_DIR", 3) from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def interrupt(number, frame):
    raise KeyboardInterrupt


def main():
    words = [word for word in sys.argv[1:] if word != "--list"]
    listing = "--list" in sys.argv
    stages, pattern = choose(words)
    os.makedirs(BUILD, exist_ok=True)
    lock = take_lock()
    runner = Runner(pattern)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    begun = time.monotonic()
    try:
        if listing:
            found = runner.list(stages)
        elif words == ["full"] and not runner.install("full"):
            raise Refused("./test full needs these packages", 3)
        else:
            runner.run(stages)
            found = bool(runner.report.times)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        runner.children.end()
        print("interrupted; what ran is ended", file=sys.stderr, flush=True)
        return 130
    except Refused:
        runner.children.end()
        raise
    finally:
        lock.close()
    if not found:
        raise Refused(f"no test matches {''.join(words)}; ./test --list and ./test --list integrations name them", 2)
    if listing:
        return 0
    runner.report.close(time.monotonic() - begun)
    return 1 if runner.report.counts["failed"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Refused as refused:
        print(f"error: {refused}", file=sys.stderr)
        sys.exit(refused.status)
    except BrokenPipeError:  # the reader has seen enough, as `./test --list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(3)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(3)
