#!/usr/bin/env python3
"""readme.py ROOT BUILD: does what README.md tells a stranger to type, and compares what comes back.

The commands of "Try it" must be those below. ./run gets a terminal of 80 columns, where the session at the top of the page
is typed; each answer must be the page's, apart from addresses, the hart, and what "..." stands for. ./run demo must find its
leak. ./test has this test, so its help is enough here; other tests compile the code of the page. Status: 0 all is so, 1 not.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

SECONDS = 120
PROMPT = "qm> "


def fail(sentence):
    print("error:", sentence)
    sys.exit(1)


def same(line):
    """The line without what differs between runs."""
    return re.sub(r"hart \d+", "hart N", re.sub(r"0x[0-9a-f]+", "0xN", line)).rstrip()


class Terminal:
    def __init__(self, command, environment):
        self.text = ""
        self.child, self.line = pty.fork()
        if self.child == 0:
            os.execvpe(command[0], command, environment)
        fcntl.ioctl(self.line, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def read_until(self, words):
        """Reads up to @p words, and drops them. @returns what came before."""
        end = time.monotonic() + SECONDS
        while words not in self.text:
            if time.monotonic() > end:
                fail(f"no {words!r} within {SECONDS} s after: {self.text[-2000:]}")
            if select.select([self.line], [], [], 1)[0]:
                try:
                    self.text += os.read(self.line, 4096).decode(errors="replace")
                except OSError:
                    fail(f"./run has ended: {self.text[-2000:]}")
        before, _, self.text = self.text.partition(words)
        return before

    def type(self, keys):
        os.write(self.line, keys.encode())

    def status(self):
        while True:
            try:
                if not os.read(self.line, 4096):
                    break
            except OSError:
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


def session_of(text):
    """The commands of the page's session, each with its lines."""
    block = re.search(r"^```\n(qm> .*?)^```$", text, re.M | re.S)
    if not block:
        fail("README.md has no session")
    session = []
    for line in block.group(1).split("\n")[:-1]:
        if line.startswith(PROMPT):
            session.append((line[len(PROMPT):], []))
        else:
            session[-1][1].append(line)
    return session


def without_blank_end(lines):
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


def check_answer(command, wanted, answer):
    lines = [same(line) for line in answer.replace("\r", "").split("\n")]
    if lines[:1] == [command]:
        lines = lines[1:]  # the echo
    lines = without_blank_end(lines)
    wanted = without_blank_end([same(line) for line in wanted])
    if "..." in wanted:
        at = wanted.index("...")
        first, last = without_blank_end(wanted[:at]), wanted[at + 1:]
        right = lines[:len(first)] == first and lines[len(lines) - len(last):] == last
    else:
        right = lines == wanted
    if not right:
        fail(f"`{command}` answers\n" + "\n".join(lines) + "\nand README.md has\n" + "\n".join(wanted))


def main():
    root, build = sys.argv[1:]
    with open(os.path.join(root, "README.md"), encoding="utf-8") as file:
        text = file.read()
    environment = {**os.environ, "QM_BUILD_DIR": build, "TERM": "xterm"}
    commands = re.findall(r"^    (\./\w+(?: \w+)*)", text.partition("## Try it")[2].partition("\n## ")[0], re.M)
    if commands != ["./run", "./run demo"] or "`./test`" not in text or "`./test quick`" not in text:
        fail(f"this test knows other commands than README.md has: {commands}")
    os.chdir(root)

    terminal = Terminal(["./run"], environment)
    terminal.read_until(PROMPT)
    for command, wanted in session_of(text):
        terminal.type(command + "\r")
        check_answer(command, wanted, terminal.read_until("\n" + PROMPT))
    terminal.type("\x01x")
    if terminal.status() != 0:
        fail("Ctrl-A x ends ./run with another status than 0")

    for words, wanted in ((["./run", "demo"], ""), (["./test", "--help"], "./test quick")):
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                              check=False, timeout=SECONDS)
        if done.returncode != 0 or wanted not in done.stdout:
            fail(f"{' '.join(words)} ends with status {done.returncode}:\n{done.stdout[-3000:]}")
    print("the commands of README.md do what it says")


if __name__ == "__main__":
    main()
