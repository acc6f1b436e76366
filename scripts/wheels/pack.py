# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of an installed tree: the same tree gives the same bytes.

The programs go to PATH through the wheel's scripts, what belongs below the prefix through its data,
so that the command finds libflmem, and libflmem its preload objects, as in any other installation.
"""
import base64
import hashlib
import json
import os
import stat
import time
import zipfile

PYTHON_MODULE = "python/flmem/"
SUMMARY = "Manages the memory of long-running federated-learning jobs"

INSTALL = '''# SPDX-License-Identifier: Apache-2.0
"""Written by the wheel: where pip has put libflmem, relative to this module."""
import os as _os

# pip install --target; a virtual environment or a prefix; a prefix whose modules are two levels down
_PLACES = ("../lib", "../../..", "../../../../lib")

LIBRARY_DIRECTORY = next(
    (place for place in _PLACES if _os.path.exists(
        _os.path.join(_os.path.dirname(_os.path.abspath(__file__)), place, "libflmem.so.0"))),
    _PLACES[1])
'''


def place_in_wheel(name, data):
    """Returns the place in the wheel of a file of the installed tree; None: it is left out."""
    if name.startswith(PYTHON_MODULE):
        return None if name.endswith(".pyc") else name[len("python/"):]
    if name.startswith("bin/"):
        return f"{data}/scripts/{name[len('bin/'):]}"
    if name.startswith("lib/flmem/") or name == "lib/libflmem.so.0":
        return f"{data}/data/{name}"
    if name.startswith("share/") and not name.startswith("share/doc/"):
        return f"{data}/data/{name}"
    return None


def collect(stage, data):
    """Returns a dict of paths in the wheel to (bytes, whether the file can be run)."""
    found = {}
    for directory, _, names in os.walk(stage):
        for name in names:
            path = os.path.join(directory, name)
            place = place_in_wheel(os.path.relpath(path, stage), data)
            if place:
                with open(path, "rb") as file:
                    found[place] = (file.read(), bool(os.stat(path).st_mode & stat.S_IXUSR))
    found["flmem/_install.py"] = (INSTALL.encode("ascii"), False)
    return found


def metadata(version, readme, licences):
    lines = ["Metadata-Version: 2.4", "Name: flmem", f"Version: {version}", f"Summary: {SUMMARY}",
             "License-Expression: Apache-2.0 AND MIT AND Zlib"]
    lines += [f"License-File: {name}" for name in sorted(licences)]
    lines += ["Classifier: Environment :: Console", "Classifier: Operating System :: POSIX :: Linux",
              "Classifier: Topic :: System :: Monitoring", "Requires-Python: >=3.8",
              "Description-Content-Type: text/markdown", "", readme]
    return "\n".join(lines).encode("utf-8")


def sbom(version, tag, libraries, compiler, when):
    """Returns a CycloneDX 1.5 document: the libraries linked into the binaries, and the tools that
    made them."""
    def component(library):
        package = library.debian_version.replace(":", "%3A").replace("+", "%2B")
        return {
            "type": "library",
            "bom-ref": f"{library.package}@{library.debian_version}",
            "name": library.name,
            "version": library.upstream,
            "description": f"{library.archive} with the corrections of Debian {library.debian_version}",
            "hashes": [{"alg": "SHA-256", "content": library.sha256}],
            "licenses": [{"license": {"id": library.licence}}],
            "purl": f"pkg:deb/debian/{library.package}@{package}?arch=source",
            "externalReferences": [{"type": "website", "url": library.homepage}],
        }

    own = f"flmem@{version}"
    return json.dumps({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when)),
            "tools": {"components": [{"type": "application", "name": "ziglang",
                                      "version": compiler,
                                      "purl": f"pkg:pypi/ziglang@{compiler}"}]},
            "component": {"type": "application", "bom-ref": own, "name": "flmem",
                          "version": version, "licenses": [{"license": {"id": "Apache-2.0"}}],
                          "purl": f"pkg:pypi/flmem@{version}",
                          "properties": [{"name": "flmem:wheel-tag", "value": tag}]},
        },
        "components": [component(library) for library in libraries],
        "dependencies": [{"ref": own,
                          "dependsOn": [f"{x.package}@{x.debian_version}" for x in libraries]}],
    }, indent=1).encode("utf-8") + b"\n"


def record(files, own_name):
    def row(name):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name][0]).digest()).rstrip(b"=")
        return f"{name},sha256={digest.decode('ascii')},{len(files[name][0])}\n"
    return ("".join(row(name) for name in sorted(files)) + own_name + ",,\n").encode("utf-8")


def write(path, files, when):
    """Packs the files. Directory entries are not needed; the files of *.dist-info come last (PEP
    427)."""
    moment = time.gmtime(max(when, 315532800))[:6]  # the times of a zip file begin in 1980
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name in sorted(files, key=lambda n: (".dist-info/" in n, n)):
            content, executable = files[name]
            info = zipfile.ZipInfo(name, moment)
            info.create_system = 3
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
            wheel.writestr(info, content)


def pack(stage, out, version, tag, when, texts, libraries, compiler):
    """Writes the wheel and returns its path. `texts` are README and the licences by their names."""
    data, info = f"flmem-{version}.data", f"flmem-{version}.dist-info"
    files = collect(stage, data)
    for name, content in texts["licences"].items():
        files[f"{info}/licenses/{name}"] = (content, False)
    files[f"{info}/METADATA"] = (metadata(version, texts["readme"], texts["licences"]), False)
    files[f"{info}/WHEEL"] = (("Wheel-Version: 1.0\nGenerator: flmem scripts/wheels\n"
                               f"Root-Is-Purelib: false\nTag: py3-none-{tag}\n").encode(), False)
    files[f"{info}/sboms/flmem.cdx.json"] = (sbom(version, tag, libraries, compiler, when), False)
    files[f"{info}/RECORD"] = (record(files, f"{info}/RECORD"), False)
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, f"flmem-{version}-py3-none-{tag}.whl")
    write(path, files, when)
    return path
