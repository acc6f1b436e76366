# SPDX-License-Identifier: Apache-2.0
"""make image: an OCI image with flmem, its libraries and nothing else.

    make.py BUILD DIRECTORY        BUILD as installed by `cmake --install`

DIRECTORY/flmem-VERSION-ARCHITECTURE.tar is for `docker load`, `podman load` and registries' tools,
DIRECTORY/oci the same as a layout, DIRECTORY/root its files. No daemon and no root are needed.
docs/guides/containers.md says more.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "wheels"))
import oci  # noqa: E402
import make as wheels  # noqa: E402

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Libraries that are loaded on use, so that ldd does not list them: metrics, checksums, the live
# view. libcurl is left out: a container beside a job needs no models at addresses.
ON_USE = ("libmicrohttpd.so.12", "libgnutls.so.30", "libncursesw.so.6")
TERMINALS = ("xterm", "xterm-256color", "screen", "screen-256color", "tmux-256color", "linux", "vt100")
SETTINGS = {"Entrypoint": ["/usr/bin/flmem"], "Cmd": ["--help"], "Env": ["PATH=/usr/bin", "TERM=xterm"],
            "WorkingDir": "/"}


def run(*words, **more):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def install(build, root):
    """Installs the command, the library and the objects that it preloads; no documentation and no
    headers."""
    stage = root + ".stage"
    shutil.rmtree(stage, ignore_errors=True)
    run("cmake", "--install", build, "--prefix", os.path.join(stage, "usr"))
    [library] = glob.glob(os.path.join(stage, "usr", "lib", "**", "libflmem.so.0"), recursive=True)
    libraries = os.path.dirname(library)
    kept = [os.path.join(stage, "usr", "bin", "flmem"),
            *glob.glob(os.path.join(libraries, "libflmem.so.0*")),
            *glob.glob(os.path.join(libraries, "flmem", "*.so"))]
    for path in kept:
        place = os.path.join(root, os.path.relpath(path, stage))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        shutil.copy(path, place, follow_symlinks=False)
        if not os.path.islink(place):
            run("strip", "--strip-unneeded", place)
    shutil.rmtree(stage)
    return libraries[len(stage):]


def find_on_use():
    """Returns the path of each library of ON_USE, by the loader's list."""
    listed = run("/sbin/ldconfig", "-p")
    found = []
    for name in ON_USE:
        match = re.search(rf"^\s*{re.escape(name)} .*=> (\S+)$", listed, re.M)
        if not match:
            raise SystemExit(f"image: {name} is missing; run scripts/setup build")
        found.append(match.group(1))
    return found


def needed(paths, directory):
    """Returns the loader and every library that these programs and libraries need, with the
    libraries of those."""
    found = set()
    for path in paths:
        listed = run("ldd", path, env=dict(os.environ, LD_LIBRARY_PATH=directory))
        if "not found" in listed:
            raise SystemExit(f"image: {path} needs a library that is not here:\n{listed}")
        found.update(re.findall(r"(?:=> |^\s*)(/\S+) \(0x", listed, re.M))
    return {path for path in found if not path.startswith(directory)}


def spellings(path):
    """Returns the names under which dpkg may list a file: below /lib or /usr/lib, the file itself
    or a link to it."""
    bare = path[len("/usr"):] if path.startswith("/usr/") else path
    return {bare, "/usr" + bare, os.path.realpath(path)}


def packages_of(paths):
    """Returns Debian's packages of these files."""
    names = {path: spellings(path) for path in paths}
    done = subprocess.run(["dpkg-query", "-S", *sorted(set().union(*names.values()))], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    owners = {name: owner for owner, name in (line.rsplit(": ", 1) for line in done.stdout.splitlines())}
    found = set()
    for path in paths:
        owner = next((owners[name] for name in sorted(names[path]) if name in owners), None)
        if not owner:
            raise SystemExit(f"image: {path} is of no package, so its licence is unknown")
        found.add(owner.split(",")[0])
    return sorted(found)


def copy_libraries(paths, root, directory):
    for path in paths:
        loader = os.path.basename(path).startswith("ld-")
        place = root + (path if loader else os.path.join(directory, os.path.basename(path)))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        shutil.copy(os.path.realpath(path), place)


def copy_notices(packages, root):
    """Copies licences, and the records by which scanners of images know packages without dpkg."""
    for package in packages:
        name = package.split(":")[0]
        licence = os.path.join(root, "usr/share/doc", name, "copyright")
        os.makedirs(os.path.dirname(licence), exist_ok=True)
        shutil.copy(f"/usr/share/doc/{name}/copyright", licence)
        record = os.path.join(root, "var/lib/dpkg/status.d", name)
        os.makedirs(os.path.dirname(record), exist_ok=True)
        with open(record, "w", encoding="utf-8") as file:
            file.write(run("dpkg-query", "-s", package))
    own = os.path.join(root, "usr/share/doc/flmem")
    os.makedirs(own, exist_ok=True)
    shutil.copy(os.path.join(wheels.TOP, "LICENSE"), own)


def copy_terminals(root):
    for name in TERMINALS:
        for base in ("/lib/terminfo", "/usr/share/terminfo"):
            path = os.path.join(base, name[0], name)
            if os.path.exists(path):
                place = os.path.join(root, "usr/share/terminfo", name[0], name)
                os.makedirs(os.path.dirname(place), exist_ok=True)
                shutil.copy(path, place)
                break


def make_places(root):
    """Makes the places that the container's runtime mounts, and /tmp."""
    for name in ("dev", "etc", "proc", "sys", "tmp"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    with open(os.path.join(root, "etc/passwd"), "w", encoding="ascii") as file:
        file.write("root:x:0:0:root:/:/usr/bin/flmem\nnobody:x:65534:65534:nobody:/:/usr/bin/flmem\n")
    for directory, folders, files in os.walk(root):
        for name in folders:
            os.chmod(os.path.join(directory, name), 0o755)
        for path in (os.path.join(directory, name) for name in files):
            if not os.path.islink(path):
                os.chmod(path, 0o755 if os.access(path, os.X_OK) else 0o644)
    os.chmod(os.path.join(root, "tmp"), 0o1777)
    os.chmod(root, 0o755)


def make_root(build, root):
    shutil.rmtree(root, ignore_errors=True)
    directory = install(build, root)
    own = glob.glob(os.path.join(root, "usr", "**", "*.so*"), recursive=True)
    on_use = find_on_use()
    libraries = needed([os.path.join(root, "usr/bin/flmem"), *own, *on_use], root + directory)
    libraries.update(on_use)
    copy_libraries(libraries, root, directory)
    copy_notices(packages_of(libraries), root)
    copy_terminals(root)
    make_places(root)


def labels(version):
    prefix = "org.opencontainers.image."
    return {prefix + "title": "flmem", prefix + "version": version, prefix + "licenses": "Apache-2.0",
            prefix + "description": "memory of long-running federated-learning jobs"}


def main():
    if len(sys.argv) != 3:
        raise SystemExit("usage: make.py BUILD DIRECTORY")
    build, directory = (os.path.abspath(path) for path in sys.argv[1:])
    os.umask(0o022)  # the archive stores the modes of the layout's files
    root, layout = os.path.join(directory, "root"), os.path.join(directory, "oci")
    make_root(build, root)
    shutil.rmtree(layout, ignore_errors=True)
    version, when = wheels.project_version(), wheels.commit_time()
    architecture = ARCHITECTURES[os.uname().machine]
    oci.write_layout(root, layout, architecture, dict(SETTINGS, Labels=labels(version)),
                     f"flmem:{version}", when)
    path = os.path.join(directory, f"flmem-{version}-{architecture}.tar")
    oci.pack_layout(layout, path, when)
    print(f"{path}: {os.path.getsize(path) / (1 << 20):.1f} MiB")


if __name__ == "__main__":
    main()
