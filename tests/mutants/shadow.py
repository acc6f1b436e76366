# SPDX-License-Identifier: Apache-2.0
"""
A build that differs from BUILD in one object file, without touching BUILD or the sources.

Everything is a symbolic link into BUILD but what a fault changes: its one source file is compiled
into another object, and the programs of the tests that have to notice it are linked with that
object. The commands are BUILD's own, as ninja reports them. So a fault costs one compilation and one
link, and the tree is the same when a run is killed.
"""
import ctypes
import glob
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

OBJECTS = "libcore/CMakeFiles/flmem_objects.dir"
SOURCES = "libcore"
# the same objects as an archive, from which the linker takes missing ones
ARCHIVE = "libcore/libflmem_archive.a"
# The sampler is loaded into other programs by the command, which finds it beside its library.
SAMPLER_OBJECTS = "libcore/CMakeFiles/flmem_sampler.dir"
SAMPLER_SOURCES = "libcore/preload/sampler/"
SAMPLER = "libcore/flmem/libflmem-sampler.so"
READY_OBJECTS = "libcore/CMakeFiles/flmem_sampler_ready.dir"
READY = "libcore/flmem/libflmem-sampler-ready.so"  # the library that attach loads
CANNOT_START = 127  # exit status of the dynamic linker
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
SKIPPED = 77
PLAIN = ("-O2", "-fno-sanitize=all")  # sanitizers record the columns of a line
# it links a test in two thirds of the time
LINKER = ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()
STEP_S = 0.1  # interval of reading a log for a failure
END_S = 60  # time in which killed processes of a test must end


class Failure(Exception):
    """Raised if a fault could not be tried."""


def become_subreaper():
    """Makes processes that a test leaves behind children of this process, which ends them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def new_folder(directory, prefix=""):
    """Returns a new folder that programs of other users can read, such as the sampler in it."""
    folder = tempfile.mkdtemp(prefix=prefix, dir=directory)
    os.chmod(folder, 0o755)
    return folder


def take_own_tmp(directory, needed):
    """Makes DIRECTORY this process's /tmp, where leftovers of killed tests can be removed. Does
    nothing without root, or if one of the NEEDED paths is in /tmp. Returns whether it was done."""
    if any(os.path.realpath(path).startswith("/tmp/") for path in (directory, *needed)):
        return False
    libc = ctypes.CDLL(None)
    if libc.unshare(CLONE_NEWNS):
        return False
    os.mkdir(directory)
    os.chmod(directory, 0o1777)
    return not (libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) or
                libc.mount(os.fsencode(directory), b"/tmp", None, MS_BIND, None))


def empty_directory(path):
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def children():
    path = f"/proc/self/task/{os.getpid()}/children"
    with open(path, encoding="ascii") as file:
        return [int(pid) for pid in file.read().split()]


def end_children():
    """Kills and reaps leftover processes, and their leftovers in turn, in the order in which they
    end: the init of a PID namespace ends only after the others in it were reaped."""
    end = time.monotonic() + END_S
    while True:
        found = children()
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            reaped = os.waitpid(-1, os.WNOHANG)[0]
        except ChildProcessError:
            return
        if not reaped:
            if time.monotonic() > end:
                raise Failure(f"processes {found} of a test do not end")
            time.sleep(0.01)


def read_tests(build):
    """Returns ctest's table: name to (command, environment, time limit)."""
    # Run in another folder: ctest would replace the log of the run that this one is part of.
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
            file.write(f'subdirs("{build}")\n')
        listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=directory, check=True,
                                stdout=subprocess.PIPE)
    found = {}
    for test in json.loads(listed.stdout)["tests"]:
        properties = {p["name"]: p["value"] for p in test["properties"]}
        environment = dict(word.split("=", 1) for word in properties.get("ENVIRONMENT", ()))
        # These tests are built for the faults alone, as mutant.test_X.
        name = re.sub(r"^mutant\.", "unit.", test["name"])
        found[name] = (test.get("command"), environment, properties.get("TIMEOUT", 300))
    return found


def read_commands(build):
    """Returns for each file the command with which BUILD makes it. ninja takes as long for one as
    for all."""
    listed = subprocess.run(["ninja", "-t", "compdb"], cwd=build, check=True, stdout=subprocess.PIPE)
    return {entry["output"]: entry["command"] for entry in json.loads(listed.stdout)}


def link_directory(source, target):
    os.makedirs(target)
    for name in os.listdir(source):
        os.symlink(os.path.join(source, name), os.path.join(target, name))


def program_of(test):
    """Returns the program of unit.test_x or unit.test_x/word in BUILD."""
    return "tests/" + test.split("/")[0][len("unit."):]


class Shadow:
    def __init__(self, build, root, directory, tests):
        self.build, self.root, self.directory, self.tests = build, root, directory, tests
        self.commands = read_commands(build)
        tmp = os.path.join(directory, "tmp")
        self.tmp = tmp if take_own_tmp(tmp, (build, root)) else None
        self.planted = None  # (source, its text with the fault) of the last compilation
        for name in os.listdir(build):
            own = os.path.join(directory, name)
            if name in ("cli", "libcore", "tests"):
                link_directory(os.path.join(build, name), own)
            else:
                os.symlink(os.path.join(build, name), own)
        os.mkdir(os.path.join(directory, "changed"))

    def _command(self, target):
        """Returns the words of the command with which BUILD makes one file."""
        if target not in self.commands:
            raise Failure(f"{self.build} makes no {target}")
        # CMake encloses links as ": && command && :". A shell takes the backslash from "\$ORIGIN".
        command = self.commands[target].replace("\\$", "$")
        words = [word for word in shlex.split(command) if word not in (":", "&&")]
        # Skip ccache: it has no object with a fault.
        return words[1:] if os.path.basename(words[0]) == "ccache" else words

    def _run(self, words):
        done = subprocess.run(words, cwd=self.build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              # for a cc that is a link to ccache
                              env=dict(os.environ, CCACHE_DISABLE="1"))
        if done.returncode:
            raise Failure(done.stdout.decode(errors="replace").strip()[-2000:])

    def _fresh(self, path):
        """Removes the link or the file of the last fault."""
        own = os.path.join(self.directory, path)
        if os.path.lexists(own):
            os.unlink(own)
        return own

    def compile(self, fault):
        """Compiles the changed object of a source in libcore/."""
        source = os.path.join(self.root, fault.file)
        objects = SAMPLER_OBJECTS if fault.file.startswith(SAMPLER_SOURCES) else OBJECTS
        target = f"{objects}/{os.path.relpath(fault.file, SOURCES)}.o"
        built = os.path.join(self.build, target)
        if not os.path.exists(built) or os.path.getmtime(built) < os.path.getmtime(source):
            raise Failure(f"{built} is older than its source; build {self.build} first")
        self.planted = fault.file, fault.planted(source)
        return target, self._compile_text(target, source, self.planted[1])

    def _compile_text(self, target, source, text, more=()):
        """Compiles the object of a source with another text."""
        changed = os.path.join(self.directory, "changed", os.path.basename(source))
        with open(changed, "w", encoding="utf-8") as file:
            file.write(text)
        words = []
        for word in self._command(target):
            word = changed if word == source else word
            words.append(changed + ".o" + word[len(target):] if word.startswith(target) else word)
        # An unused function is not an error here, and no debug information is needed. The tests pass
        # without optimisation, too: the sanitised build has none.
        self._run([*words, "-w", "-g0", "-O0", *more])
        return changed + ".o"

    def is_same_code(self, fault, target):
        """Reports whether the compiler makes the same code of the fault, which then cannot change
        the program."""
        source, codes = os.path.join(self.root, fault.file), []
        with open(source, encoding="utf-8") as file:
            texts = file.read(), fault.planted(source)
        for text in texts:
            with open(self._compile_text(target, source, text, PLAIN), "rb") as file:
                codes.append(file.read())
        return codes[0] == codes[1]

    def _link(self, target, replaced, more=()):
        own = self._fresh(target)
        swaps = {target: own, replaced[0]: replaced[1], **dict(more)}
        theirs, words = self._command(target), []
        archived = replaced[0] and replaced[0] not in theirs
        for word in theirs:
            words += [replaced[1], word] if archived and word == ARCHIVE else [swaps.get(word, word)]
        if replaced[0] and replaced[1] not in words:
            raise Failure(f"{target} does not contain {replaced[0]}")
        self._run([*words, "-Wl,--strip-debug", *(LINKER if target.startswith("tests/") else ())])

    def _of_test(self, target, changed):
        """Compiles the changed object of a test, which may include the source itself."""
        file, text = self.planted
        words = self._command(target)
        own = [word for word in words if word.endswith(f"/__/{file}.o")]
        if changed[0] in words or len(own) != 1:
            return changed
        return own[0], self._compile_text(own[0], os.path.join(self.root, file), text)

    def _library(self):
        found = glob.glob(os.path.join(self.build, "libcore", "libflmem.so.*.*.*"))
        if len(found) != 1:
            raise Failure(f"no libflmem.so in {self.build}")
        return os.path.relpath(found[0], self.build)

    def _link_sampler(self, changed):
        beside = os.path.dirname(SAMPLER)
        own = os.path.join(self.directory, beside)
        if os.path.islink(own):
            os.unlink(own)
            link_directory(os.path.join(self.build, beside), own)
        self._link(SAMPLER, changed)
        file, text = self.planted
        ready = READY_OBJECTS + changed[0][len(SAMPLER_OBJECTS):]
        self._link(READY, (ready, self._compile_text(ready, os.path.join(self.root, file), text)))

    def link_clean(self, test):
        """Links a test without a fault in the same way, so that it cannot notice a difference of
        the linker."""
        if test.startswith("unit."):
            self._link(program_of(test), ("", ""))

    def link(self, test, changed):
        """Links the program of a test: its own program, or the command with its library."""
        if test.startswith("unit."):
            self._link(program_of(test), self._of_test(program_of(test), changed))
            return
        library = self._library()
        if changed[0].startswith(SAMPLER_OBJECTS):
            self._link_sampler(changed)
            changed = ("", "")
        self._link(library, changed)
        for path in glob.glob(os.path.join(self.build, "libcore", "libflmem.so*")):
            path = os.path.relpath(path, self.build)
            if path != library:
                os.symlink(os.path.basename(library), self._fresh(path))
        own = os.path.join(self.directory, library)
        words = self._command("cli/flmem")
        libraries = os.path.join(self.build, "libcore")
        # An rpath relative to $ORIGIN leads to the library beside the command that is linked here.
        rpath = [w for w in words if w.startswith("-Wl,-rpath,") and
                 (libraries in w or "$ORIGIN/../libcore" in w)]
        if not rpath or library not in words:
            raise Failure("cli/flmem is not linked with the library of the build")
        theirs = {word: word.replace(libraries, os.path.dirname(own)) for word in rpath}
        self._link("cli/flmem", ("", ""), {library: own, **theirs}.items())
        self._start("cli/flmem")

    def _start(self, command):
        """Checks that the command starts: one that does not would fail every test, whatever the
        fault."""
        done = subprocess.run([os.path.join(self.directory, command), "--version"], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode == CANNOT_START:
            raise Failure(done.stdout.decode(errors="replace").strip())

    def _words(self, test):
        """Returns (command, environment, time limit) of a test on this build."""
        name, _, pattern = test.partition("/")
        if name not in self.tests or not self.tests[name][0]:
            raise Failure(f"ctest knows no test '{name}'")
        command, environment, limit = self.tests[name]
        if pattern and name.startswith("unit."):
            command = [*command, pattern]
        elif pattern:
            command = ["bats", "--tap", "-f", pattern, command[-1]]

        def moved(text):
            inside = text == self.build or text.startswith(
                (self.build + "/cli/flmem", self.build + "/tests/test_"))
            return self.directory + text[len(self.build):] if inside else text
        return ([moved(word) for word in command],
                {key: moved(value) for key, value in environment.items()}, limit)

    def run(self, test, limit_s, hasty=False):
        """Returns ("passed", "partly" when some of its cases were skipped, "skipped", "failed" or
        "time limit", output, seconds). HASTY: the first case that fails ends the test."""
        command, environment, limit = self._words(test)
        log_path = os.path.join(self.directory, "log")
        started = time.monotonic()
        with open(log_path, "w+b") as log:
            process = subprocess.Popen(command, env=dict(os.environ, **environment), stdout=log,
                                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       cwd=self.directory, start_new_session=True)
            status = _wait(process, min(limit, limit_s), log_path if hasty else None)
            end_children()
            if self.tmp:
                empty_directory(self.tmp)
            log.seek(0)
            text = log.read().decode(errors="replace")
        spent = time.monotonic() - started
        if "1..0" in text.splitlines():
            raise Failure(f"no test has the name of '{test}'")
        if status is None:
            return "time limit", text, spent
        if status == SKIPPED or (status == 0 and _all_skipped(text)):
            return "skipped", text, spent
        if status:
            return "failed", text, spent
        return ("partly" if _some_skipped(text) else "passed"), text, spent


def _wait(process, limit_s, log_path):
    """Returns the exit status of a test, or None after LIMIT_S. The test is killed when its log
    reports a failure: the following cases may wait for what the failed one left undone."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        try:
            return process.wait(timeout=STEP_S if log_path else limit_s)
        except subprocess.TimeoutExpired:
            if log_path and _has_failed(log_path):
                process.kill()
                process.wait()
                return 1
    process.kill()
    process.wait()
    return None


def _has_failed(log_path):
    with open(log_path, encoding="utf-8", errors="replace") as log:
        return any(line.startswith(("[  FAILED  ]", "not ok ")) for line in log)


def _some_skipped(text):
    return any("[  SKIPPED ]" in line or line.startswith("SKIP") or
               (line.startswith("ok ") and "# skip" in line.lower()) for line in text.splitlines())


def _all_skipped(text):
    """Recognises skipped tests: bats and cmocka end with 0 when they skip."""
    lines = text.splitlines()
    if any(line.startswith("1..") for line in lines):
        ran = [line for line in lines if line.startswith("ok ") and "# skip" not in line.lower()]
        return not ran
    return any("[  SKIPPED ]" in line for line in lines) and \
        not any("[       OK ]" in line for line in lines)
