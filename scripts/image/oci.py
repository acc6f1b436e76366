# SPDX-License-Identifier: Apache-2.0
"""Writes an OCI image layout (image-spec 1.0) of one directory, without a daemon.

The same directory and time give the same bytes: entries are sorted, belong to root and have that time.
"""
import gzip
import hashlib
import io
import json
import os
import tarfile
import time

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def entries(root):
    """Returns the paths below the directory, parents first, in an order that does not depend on the
    file system."""
    found = []
    for directory, folders, files in os.walk(root):
        found += [os.path.relpath(os.path.join(directory, name), root) for name in folders + files]
    return sorted(found)


def add_entry(archive, root, name, when):
    info = archive.gettarinfo(os.path.join(root, name), arcname=name)
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = when
    if not info.isreg():
        archive.addfile(info)
        return
    with open(os.path.join(root, name), "rb") as file:
        archive.addfile(info, file)


def pack_tree(root, when):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT, dereference=False) as archive:
        for name in entries(root):
            add_entry(archive, root, name, when)
    return out.getvalue()


def put_blob(layout, media_type, data):
    """Stores bytes under their digest; returns their descriptor."""
    digest = sha256(data)
    path = os.path.join(layout, "blobs", *digest.split(":"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return {"mediaType": media_type, "digest": digest, "size": len(data)}


def put_json(layout, media_type, value):
    return put_blob(layout, media_type, json.dumps(value, sort_keys=True).encode())


def config_of(settings, architecture, tree, when):
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
    return {"created": created, "architecture": architecture, "os": "linux", "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [sha256(tree)]},
            "history": [{"created": created, "created_by": "scripts/image/make.py"}]}


def write_layout(root, layout, architecture, settings, reference, when):
    """Writes the directory `root` as an image to the directory `layout`, which must be absent or
    empty."""
    tree = pack_tree(root, when)
    layer = put_blob(layout, LAYER, gzip.compress(tree, 9, mtime=0))
    config = put_json(layout, CONFIG, config_of(settings, architecture, tree, when))
    manifest = put_json(layout, MANIFEST, {"schemaVersion": 2, "mediaType": MANIFEST, "config": config,
                                           "layers": [layer]})
    manifest["annotations"] = {"org.opencontainers.image.ref.name": reference}
    manifest["platform"] = {"architecture": architecture, "os": "linux"}
    files = {"index.json": {"schemaVersion": 2, "manifests": [manifest]},
             "oci-layout": {"imageLayoutVersion": "1.0.0"}}
    for name, value in files.items():
        with open(os.path.join(layout, name), "w", encoding="ascii") as file:
            json.dump(value, file, sort_keys=True)
    return manifest


def pack_layout(layout, path, when):
    """Writes the layout as one file, for `podman load` and `docker load`."""
    with open(path, "wb") as file:
        file.write(pack_tree(layout, when))
