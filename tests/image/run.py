# SPDX-License-Identifier: Apache-2.0
"""The image of scripts/image/make.py, unpacked and used as in a container: run.py BUILD

flmem runs in the image's root with a mount namespace of its own and the host's pids, as `kubectl debug`
and shareProcessNamespace have it, with the rights of each row of docs/guides/containers.md, on a
process outside. Needs root. Exit status 77 if that is absent.
"""
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(TOP, "tests"))
sys.path.insert(0, os.path.join(TOP, "tests", "wheels"))
from harness import report, skip  # noqa: E402
from scenario import VICTIM  # noqa: E402

HANG_S = 120
NOBODY, OTHER = 65534, 65533
# Capabilities that docker and containerd give a container by default.
USUAL = ("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
         "net_bind_service", "net_raw", "sys_chroot", "mknod", "audit_write", "setfcap")
UNDECIDED = 9  # exit status: watched for too short a time
WATCH = ("/usr/bin/flmem", "watch", "--duration", "500ms", "--interval", "100ms", "--json", "--pid")
DETECT = ("/usr/bin/flmem", "detect", "--json", "--pid")
OWNER = "needs CAP_DAC_OVERRIDE"
PTRACE = "needs CAP_SYS_PTRACE"

# (name, user, capabilities, whether the heap is read, exit status of trim, text of the refusal)
RIGHTS = (
    ("the user of the process, no capability", NOBODY, (), True, 0, ""),
    ("another user, no capability", OTHER, (), False, 4, PTRACE),
    ("root, no capability", 0, (), False, 4, PTRACE),
    ("root, a container's usual capabilities", 0, USUAL, False, 4, PTRACE),
    ("root, SYS_PTRACE alone", 0, ("sys_ptrace",), False, 4, OWNER),
    ("root, SYS_PTRACE and DAC_OVERRIDE", 0, ("sys_ptrace", "dac_override"), True, 0, ""),
    ("root, the usual ones and SYS_PTRACE", 0, (*USUAL, "sys_ptrace"), True, 0, ""),
)
ENTER = ('mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && mount -t proc proc "$0/proc" && '
         'exec "$@"')


def read_layout(directory):
    """Unpacks the only layer; the digest of every blob must match its name."""
    def blob(descriptor):
        with open(os.path.join(directory, "blobs", *descriptor["digest"].split(":")), "rb") as file:
            data = file.read()
        assert len(data) == descriptor["size"], descriptor
        assert "sha256:" + hashlib.sha256(data).hexdigest() == descriptor["digest"], descriptor
        return data
    with open(os.path.join(directory, "index.json"), encoding="ascii") as file:
        [entry] = json.load(file)["manifests"]
    manifest = json.loads(blob(entry))
    config, [layer] = json.loads(blob(manifest["config"])), manifest["layers"]
    tree = gzip.decompress(blob(layer))
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(tree).hexdigest()]
    return config, tree


def unpack(tree, place):
    with tarfile.open(fileobj=io.BytesIO(tree)) as archive:
        for member in archive:
            assert (member.uid, member.gid) == (0, 0) and not member.mode & 0o6000, member.name
        archive.extractall(place)


def inside(root, words, user=0, capabilities=None):
    """Returns the words that run `words` in the image, with the given rights and the host's
    pids."""
    if user:
        rights = ["chroot", f"--userspec={user}:{user}", "--groups=", root]
    elif capabilities is None:
        rights = ["chroot", root]
    else:  # SYS_CHROOT is for the test itself: nothing of flmem needs it
        kept = "".join(f",+{name}" for name in ("sys_chroot", *capabilities))
        rights = ["setpriv", f"--bounding-set=-all{kept}", "chroot", root]
    return ["unshare", "--mount", "--", "sh", "-c", ENTER, root, *rights, *words]


def run(words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=HANG_S, check=False)
    return done.returncode, done.stdout, done.stderr


class Target:
    """A Python process of another user, outside the image, which retains memory."""

    def __enter__(self):
        self.process = subprocess.Popen(
            ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
             "/usr/bin/python3", "-I", "-c", VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={"PYTHONMALLOC": "malloc"})
        assert self.process.stdout.readline() == "ready\n", "the target did not start"
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.communicate()

    def is_well(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline() == "2500\n"


def check_layout(directory, place):
    config, tree = read_layout(os.path.join(directory, "oci"))
    unpack(tree, place)
    assert config["config"]["Entrypoint"] == ["/usr/bin/flmem"], config
    status, out, err = run(inside(place, ["/usr/bin/flmem", "--version", "--json"]))
    assert status == 0, err
    version = json.loads(out)["version"]
    assert config["config"]["Labels"]["org.opencontainers.image.version"] == version
    return f"{len(tree) / (1 << 20):.1f} MiB unpacked"


def check_watch(words):
    """Checks detect and returns the defects: resident memory can be read by every user."""
    status, out, err = run(words)
    if status not in (0, UNDECIDED) or not re.search(r'"rss_bytes":\s*[1-9]', out):
        return [f"watch: status {status}: {err}"]
    return []


def check_right(place, row):
    """Returns the defects of this row."""
    _, user, capabilities, reads, trims, names = row
    with Target() as target:
        pid = str(target.process.pid)
        found = check_watch(inside(place, [*WATCH, pid], user, capabilities))
        status, out, err = run(inside(place, [*DETECT, pid], user, capabilities))
        heap = json.loads(out)["processes"][0]["heap"]
        if (heap["trimmable_bytes"] is not None) != reads:
            found.append(f"detect: status {status}: {heap} {err}")
        words = ["/usr/bin/flmem", "trim", "--pid", pid, "--timeout", "60s", "--json"]
        status, out, err = run(inside(place, words, user, capabilities))
        if status != trims or names not in out + err:
            found.append(f"trim: status {status}: {out}{err}")
        if not trims and json.loads(out)["results"][0]["released_bytes"] < 4 << 20:
            found.append(f"trim: too little released: {out}")
        if not target.is_well():
            found.append("the target does not answer as before")
    return found


def ask(address):
    """Returns the answer once there is a sample: before, the status is 503."""
    end = time.monotonic() + HANG_S
    while True:
        try:
            with urllib.request.urlopen(address, timeout=HANG_S) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as problem:
            if problem.code != 503 or time.monotonic() > end:
                raise
        time.sleep(0.05)


def read_metrics(watch):
    """Queries the endpoint that the watch in the image has printed on standard error."""
    for line in watch.stderr:
        match = re.search(r"http://127\.0\.0\.1:\d+\S*", line)
        if match:
            return ask(match.group())
    return ""


def check_metrics(place):
    with Target() as target:
        words = ["/usr/bin/flmem", "watch", "--pid", str(target.process.pid), "--quiet", "--interval",
                 "100ms", "--listen", "127.0.0.1:0"]
        with subprocess.Popen(inside(place, words), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as watch:
            try:
                text = read_metrics(watch)
            finally:
                watch.kill()
    assert "flmem_memory_resident_bytes" in text, text[:500]
    return f"{len(text.splitlines())} lines"


def check_repeated(build, directory, again):
    """Makes the image twice and compares the bytes."""
    make(build, again)
    [first], [second] = ([os.path.join(place, name) for name in os.listdir(place)
                          if name.endswith(".tar")] for place in (directory, again))
    with open(first, "rb") as one, open(second, "rb") as other:
        assert one.read() == other.read(), "another image from the same build"
    return f"{os.path.getsize(first) / (1 << 20):.1f} MiB"


def make(build, directory):
    subprocess.run([sys.executable, "-B", os.path.join(TOP, "scripts", "image", "make.py"), build,
                    directory], check=True, stdout=subprocess.DEVNULL)


def attempt(name, check, *words):
    try:
        return name, "passed", check(*words)
    except (AssertionError, OSError, ValueError, subprocess.SubprocessError) as problem:
        return name, "FAILED", str(problem)[:300]


def run_parts(build, scratch):
    image, place = os.path.join(scratch, "image"), os.path.join(scratch, "root")
    os.makedirs(place)
    os.chmod(place, 0o755)
    make(build, image)
    rows = [attempt("layout", check_layout, image, place),
            attempt("made twice", check_repeated, build, image, os.path.join(scratch, "again")),
            attempt("watch --listen", check_metrics, place)]
    for row in RIGHTS:
        problems = check_right(place, row)
        rows.append((row[0], "FAILED" if problems else "passed", "; ".join(problems)[:300]))
    return rows


def main():
    build = os.path.abspath(sys.argv[1])
    if os.geteuid() != 0:
        skip("only root can run the image as other users with other capabilities")
    for tool in ("setpriv", "unshare", "strip", "dpkg-query"):
        if not shutil.which(tool):
            skip(f"{tool} is not installed")
    if os.path.exists("/proc/sys/kernel/yama/ptrace_scope"):
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            if file.read().strip() != "0":
                skip("kernel.yama.ptrace_scope is not 0: other rights are needed")
    with tempfile.TemporaryDirectory(prefix="flmem-image-") as scratch:
        os.chmod(scratch, 0o755)
        rows = run_parts(build, scratch)
    report.table(("part", "result", "found"), rows)
    sys.exit(any(row[1] == "FAILED" for row in rows))


if __name__ == "__main__":
    main()
