# SPDX-License-Identifier: Apache-2.0
"""
`make deb`, `make deb-arm64`, `make image`, `make rpm` and a wheel, each made twice: in directories of other
names and lengths, at other times, with another umask, time zone and language. The bytes have to be equal. The
first ones are read by lintian and rpmlint, and must not name the directory that they were built in. As root, those for
this machine are also installed in a copy of its file system (overlayfs), used and removed, and must leave nothing behind.

usage: packages.py [--first TREE] [PART...]        TREE has been built already

PART: deb, deb-arm64, image, rpm, wheel.
"""
import argparse
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "checks")]

from harness import report, skip  # noqa: E402
import tree  # noqa: E402

TOP = os.path.dirname(os.path.dirname(HERE))
TAG = f"manylinux_2_28_{os.uname().machine}"
# Paths relative to the tree.
RESULTS = {
    "deb": ("build/release/*.deb",),
    "deb-arm64": ("build/deb-arm64/*.deb",),
    "image": ("build/image/*.tar",),
    "rpm": ("build/rpm/RPMS/*/*.rpm", "build/rpm/SRPMS/*.rpm"),
    "wheel": (f"build/wheels/dist/*-{TAG}.whl",),
}
NEEDS = {"deb": ("cpack", "dpkg-shlibdeps"), "deb-arm64": ("debootstrap", "chroot"), "image": ("dpkg-query", "strip"), "rpm": ("rpmbuild", "rpm2cpio", "cpio"),
         "wheel": ("dpkg-source",)}
USE = """flmem --version
flmem detect --pid $$
flmem env --role client
%s -c 'import flmem; assert flmem.get_allocator_type() == "glibc"'"""
# Commands with the path of libraries on systems with RPM. Debian's rpm does not know the packages
# that these need.
INSTALL = {
    "deb": ("dpkg -i %s", "dpkg --verify {}", "dpkg -P {}", "/usr/bin/python3"),
    "rpm": ("echo /usr/lib64 >/etc/ld.so.conf.d/lib64.conf && rpm -i --nodeps %s && ldconfig", "rpm -V --nodeps {}", "rpm -e {}",
            "PYTHONPATH=$(dirname /usr/lib/python3*/site-packages/flmem) /usr/bin/python3"),
}
CIRCUMSTANCES = (
    ("one", 0o022, {"TZ": "UTC", "LC_ALL": "C"}),
    ("another-directory/with-a-longer-name", 0o077, {"TZ": "Asia/Kolkata", "LC_ALL": "C.UTF-8"}),
)


def copy_tree(place):
    """Copies the project's files with new times, and links the compiler and sources of wheels."""
    for name in tree.files(TOP):
        target = os.path.join(place, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(os.path.join(TOP, name), target, follow_symlinks=False)
        if os.access(os.path.join(TOP, name), os.X_OK):
            os.chmod(target, 0o755)
    for name in ("venv", "sources"):
        made = os.path.join(TOP, "build", "wheels", name)
        if os.path.exists(made):
            os.makedirs(os.path.join(place, "build", "wheels"), exist_ok=True)
            os.symlink(made, os.path.join(place, "build", "wheels", name))


def words_of(part):
    if part == "wheel":
        return [sys.executable, "-B", "scripts/wheels/make.py", TAG]
    return ["make", part]


def build(place, parts, umask, environment, date):
    """Builds without a cache of objects, which would hide differences."""
    own = {**os.environ, **environment, "FLMEM_SETUP": "no", "CMAKE_C_COMPILER_LAUNCHER": "",
           "SOURCE_DATE_EPOCH": date}
    for part in parts:
        # every other place belongs to the sources of the rpm
        log = os.path.join(place, "build", f"{part}.log")
        os.makedirs(os.path.dirname(log), exist_ok=True)
        with open(log, "wb") as file:
            done = subprocess.run(words_of(part), cwd=place, env=own, stdout=file, check=False,
                                  stderr=subprocess.STDOUT, umask=umask)
        if done.returncode:
            with open(log, encoding="utf-8", errors="replace") as file:
                raise SystemExit(f"make {part} in {place} failed:\n{file.read()[-3000:]}")


def source_date():
    return subprocess.run([os.path.join(TOP, "scripts", "source-date")], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()


def results(place, part):
    """Returns the path of each result by its name."""
    found = {os.path.basename(path): path for pattern in RESULTS[part]
             for path in glob.glob(os.path.join(place, pattern))}
    if not found:
        raise SystemExit(f"make {part} left nothing in {place}")
    return found


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def compare(part, first, second):
    """Compares two builds; returns the differences."""
    ones, others = results(first, part), results(second, part)
    if sorted(ones) != sorted(others):
        return [f"other files: {sorted(ones)}, {sorted(others)}"]
    return [f"{name} differs" for name in ones if digest(ones[name]) != digest(others[name])]


def unpack(path, place):
    """Unpacks the files of a package."""
    os.makedirs(place)
    if path.endswith(".deb"):
        subprocess.run(["dpkg-deb", "-x", path, place], check=True)
    elif path.endswith(".rpm"):
        with subprocess.Popen(["rpm2cpio", path], stdout=subprocess.PIPE) as archive:
            subprocess.run(["cpio", "--quiet", "-idm"], cwd=place, stdin=archive.stdout, check=True)
    elif path.endswith(".whl"):
        shutil.unpack_archive(path, place, "zip")


def paths_in(path, built_in, scratch):
    """Returns files of a package that name the directory in which it was built."""
    place = os.path.join(scratch, os.path.basename(path) + ".d")
    unpack(path, place)
    for directory, _, names in os.walk(place):
        for name in names:
            file = os.path.join(directory, name)
            if os.path.isfile(file) and not os.path.islink(file):
                with open(file, "rb") as opened:
                    if os.fsencode(built_in) in opened.read():
                        yield f"{os.path.relpath(file, place)} names {built_in}"


def lint(part, paths):
    """Returns the findings of the distribution's own checker, or why it was not run."""
    program = {"deb": "lintian", "deb-arm64": "lintian", "rpm": "rpmlint"}.get(part)
    if not program:
        return [], "equal"
    if not shutil.which(program):
        return [], f"equal; {program} is not installed"
    words = ["lintian", "--fail-on", "error,warning"] if program == "lintian" else \
        ["rpmlint", "-r", os.path.join(TOP, "packaging", "rpm", "rpmlintrc")]
    done = subprocess.run([*words, *paths], check=False, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL)
    lines = [line for line in done.stdout.splitlines() if ": W: " in line or ": E: " in line or
             line.startswith(("W: ", "E: "))]
    if done.returncode and not lines:
        lines = [f"{program} ended with status {done.returncode}"]
    return lines, f"equal; {program} reports nothing"


def run_in_copy(scratch, paths, script):
    """Runs a script in a copy of this system with these files below /packages; returns (status,
    output, files left)."""
    upper, work, root = (os.path.join(scratch, "copy", name) for name in ("upper", "work", "root"))
    for place in (os.path.join(upper, "packages"), work, root):
        os.makedirs(place)
    for path in paths:
        shutil.copy(path, os.path.join(upper, "packages"))
    inside = (f'mount -t overlay overlay -o "lowerdir=/,upperdir={upper},workdir={work}" "{root}" && '
              f'mount -t proc proc "{root}/proc" && mount --rbind /dev "{root}/dev" && exec chroot "{root}" sh -exc "$1"')
    done = subprocess.run(["unshare", "--mount", "sh", "-c", inside, "sh", script], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    left = [os.path.relpath(os.path.join(directory, name), upper) for directory, names, files in os.walk(upper)
            for name in names + files if "flmem" in name and not directory.endswith("/packages")]
    shutil.rmtree(os.path.dirname(upper))
    return done.returncode, done.stdout, left


def install(part, paths, scratch):
    """Installs, uses and removes these packages; returns problems and remarks."""
    if part not in INSTALL:
        return [], ""
    if os.geteuid() or not os.path.isdir("/sys/module/overlay") and subprocess.run(
            ["modprobe", "overlay"], check=False, stderr=subprocess.DEVNULL).returncode:
        return [], "; NOT INSTALLED: needs root and overlayfs"
    add, verify, remove, python = INSTALL[part]
    query = "dpkg-deb -f %s Package" if part == "deb" else "rpm -qp --qf '%%{name}\\n' %s"
    inside = " ".join("/packages/" + os.path.basename(path) for path in paths)
    names = f"$(for one in {inside}; do {query % '$one'}; done)"
    script = "\n".join((add % inside, verify.format(names), USE % python, f"names={names}", remove.format("$names"),
                        "! test -e /usr/bin/flmem"))
    status, said, left = run_in_copy(scratch, paths, script)
    problems = [f"installing ended with status {status}: {said[-600:]}"] if status else []
    return problems + [f"removing left /{name}" for name in left], "; installed, used and removed"


def check(part, first, second, scratch):
    paths = sorted(results(first, part).values())
    problems = compare(part, first, second)
    for path in paths:
        problems += paths_in(path, first, scratch)
    made = [path for path in paths if not path.endswith(".src.rpm")]
    findings, said = lint(part, made)
    wrong, more = install(part, made, scratch)
    problems += findings + wrong
    said += more
    for problem in problems:
        print(f"PROBLEM: {part}: {problem}")
    size = sum(os.path.getsize(path) for path in paths)
    return (part, "FAILED" if problems else "passed", size,
            "; ".join(problems)[:300] if problems else said)


def options():
    parser = argparse.ArgumentParser(description="Makes packages twice and compares them.")
    parser.add_argument("--first", metavar="TREE", help="a tree in which the parts have been made")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(RESULTS))
    chosen = parser.parse_args()
    for part in chosen.parts:
        if part not in RESULTS:
            parser.error(f"invalid value '{part}'; choose from {', '.join(RESULTS)}")
    return chosen


def possible(parts):
    """Returns parts whose programs are installed; the others are reported."""
    for part in parts:
        absent = [name for name in NEEDS[part] if not shutil.which(name)]
        if part == "wheel" and not os.path.exists(os.path.join(TOP, "build", "wheels", "venv")):
            absent = ["the compiler of `make wheels`"]
        if absent:
            print(f"SKIP: {part}: needs {', '.join(absent)}")
        else:
            yield part


def main():
    chosen = options()
    parts = list(possible(chosen.parts or RESULTS))
    if not parts:
        skip("no package can be made here")
    with tempfile.TemporaryDirectory(prefix="flmem-packages-") as scratch:
        places = [os.path.join(scratch, name) for name, _, _ in CIRCUMSTANCES]
        if chosen.first:
            places[0] = os.path.abspath(chosen.first)
        new = [(place, *how) for place, (_, *how) in zip(places, CIRCUMSTANCES)][bool(chosen.first):]
        # Read it before the first build, which takes minutes in which the tree may change.
        date = source_date()
        for place, *_ in new:
            copy_tree(place)
        for place, umask, environment in new:
            build(place, parts, umask, environment, date)
        rows = [check(part, *places, scratch) for part in parts]
    report.table(("package", "result", "bytes", "made twice"), rows)
    sys.exit(any(row[1] == "FAILED" for row in rows))


main()
