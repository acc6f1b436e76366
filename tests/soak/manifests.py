# SPDX-License-Identifier: Apache-2.0
"""
The files of docs/kubernetes by the schemas of Kubernetes, as they are and as `kubectl kustomize` makes
them. A file with a planted mistake has to be found. What is absent is reported.

usage: manifests.py
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, ".."))

from emitted import Absent, kubernetes_reader  # noqa: E402
from harness import report, skip  # noqa: E402

TOP = os.path.dirname(os.path.dirname(HERE))
FOLDER = os.path.join(TOP, "docs", "kubernetes")
MISTAKE = ("allowPrivilegeEscalation", "allowPrivilegeEscalatoin")


def write(directory, name, text):
    path = os.path.join(directory, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def rendered(directory):
    """Yields (name, path) of kustomize's output for each of its folders."""
    for place in sorted(glob.glob(os.path.join(FOLDER, "**", "kustomization.yaml"), recursive=True)):
        name = os.path.relpath(os.path.dirname(place), TOP)
        done = subprocess.run(["kubectl", "kustomize", os.path.dirname(place)], check=True,
                              stdout=subprocess.PIPE, text=True)
        yield f"kustomize {name}", write(directory, name.replace("/", "-") + ".yaml", done.stdout)


def main():
    try:
        read = kubernetes_reader()
    except Absent as why:
        skip(str(why))
    files = [(os.path.relpath(path, TOP), path)
             for path in sorted(glob.glob(os.path.join(FOLDER, "**", "*.yaml"), recursive=True))
             if os.path.basename(path) != "kustomization.yaml"]
    with tempfile.TemporaryDirectory(prefix="flmem-manifests-") as directory:
        with open(files[0][1], encoding="utf-8") as file:
            planted = write(directory, "planted.yaml", file.read().replace(*MISTAKE))
        if not read(planted):
            raise SystemExit("a planted mistake is not found")
        if shutil.which("kubectl"):
            files += rendered(directory)
        else:
            print("SKIP: kustomize: needs kubectl")
        rows = [(name, "; ".join(read(path)) or "valid") for name, path in files]
    report.table(("file", "by the schemas"), rows)
    sys.exit(any(result != "valid" for _, result in rows))


main()
