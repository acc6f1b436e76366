# SPDX-License-Identifier: Apache-2.0
"""Which directories of libcore/ may depend on which (docs/architecture.md)."""

BELOW_ALLOCATORS = ("base", "preload", "proc", "elf", "remote")
BELOW_RULES = BELOW_ALLOCATORS + ("allocators", "documents", "runtimes")
BELOW_OPS = BELOW_RULES + ("rules", "frameworks", "settings", "series")
BELOW_TRIM = BELOW_OPS + ("ops/target", "ops/detect")
BELOW_AGGREGATE = ("base", "model", "aggregate", "net")

# The directories that each directory may include besides itself. A new directory is one row.
DIRECTORIES = {
    "base": (),
    "preload": (),
    "documents": ("base",),
    "proc": ("base",),
    "elf": ("base", "proc"),
    "remote": ("base", "preload", "proc", "elf"),
    "allocators": BELOW_ALLOCATORS,
    "runtimes": BELOW_ALLOCATORS,
    "rules": BELOW_RULES + ("series", "profiler"),
    "frameworks": BELOW_RULES + ("rules", "series"),
    "settings": BELOW_RULES + ("rules", "series", "frameworks"),
    "series": ("base",),
    "model": ("base",),
    "aggregate": ("base",),
    "net": ("base",),
    "mpi": ("base",),
    "ops/target": BELOW_OPS,
    "ops/host": BELOW_OPS + ("ops/start",),
    "ops/detect": BELOW_OPS + ("ops/target",),
    "ops/trim": BELOW_TRIM,
    "ops/recommend": BELOW_TRIM + ("profiler",),
    "ops/start": BELOW_OPS,
    "ops/watch": BELOW_TRIM + ("ops/trim",),
    "ops/profile": BELOW_OPS + ("ops/target", "ops/start", "profiler"),
    "ops/aggregate": BELOW_AGGREGATE + ("mpi",),
    "exchange": ("base",),
    "ops/exchange": BELOW_AGGREGATE + ("exchange", "serve", "ops/aggregate"),
    "profiler": ("base", "preload", "proc", "elf", "series"),
    "report": ("base",),
    "serve": ("base",),
}

# The same table for the directories of cli/; "" is cli/ itself.
CLI = {
    "options": (),
    "print": (),
    "live": ("print",),
    "": ("options", "print"),
    "aggregate": ("", "options", "print"),
    "exchange": ("", "options", "print", "aggregate"),
    "profile": ("", "options", "print"),
    "start": ("", "options", "print"),
    "trim": ("", "options", "print"),
    "watch": ("", "options", "print", "live"),
    "generate": ("", "options", "print"),
}

# Directories that print results of others: they may use only the public headers of those.
PRINTERS = ("report", "serve")


def directory_of(path):
    """Returns the first level of a path, or two levels where those have their own rules."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "ops" and len(parts) > 2 else parts[0]
