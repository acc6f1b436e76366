# SPDX-License-Identifier: Apache-2.0
"""Each check finds a fault that is planted for it, and passes the same tree without it."""
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"

CLEAN = {
    "cli/main.c": SPDX + '#include "main.h"\n\nint main(void)\n{\n\treturn 0;\n}\n',
    "cli/main.h": SPDX + "#include <flmem/a.h>\n",
    "libcore/include/flmem/a.h": SPDX + "struct a;\n",
    "libcore/proc/p.c": SPDX + '#include "base/a.h"\n\n/* not a call: atoi(x), printf("") */\n'
                         "struct flmem_a {\n\tint b;\n};\n\nenum b {\n\tC\n};\n"
                         "static int p_rows[2];\nstatic const struct {\n\tint b;\n} p_names[] = {\n\t{1},\n};\n",
    "libcore/base/a.h": SPDX + "struct b;\n",
    "docs/architecture.md": "| `cli/` | a |\n| `libcore/include/flmem/` | b |\n| `libcore/base/`, `libcore/proc/` | c |\n",
    "CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\nproject(flmem VERSION 1.2.3)\n"
                      "pkg_check_modules(ZLIB REQUIRED zlib)\n",
    "scripts/a.py": "# SPDX-License-Identifier: Apache-2.0\nimport os  # noqa: F401\n",
    "scripts/x": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\necho\n",
}

# (check, file, its content, text of the finding)
FAULTS = (
    ("layers", "libcore/base/b.c", SPDX + '#include "proc/a.h"\n', "base/ may not depend on proc/"),
    ("layers", "libcore/new/b.c", SPDX + '#include "base/a.h"\n', "does not know the directory 'new'"),
    ("layers", "libcore/ops/detect/b.c", SPDX + '#include "ops/trim/a.h"\n',
     "ops/detect/ may not depend on ops/trim/"),
    ("layers", "libcore/rules/b.c", SPDX + '#include <flmem/recommend.h>\n',
     "rules/ is below the operation"),
    ("layers", "libcore/ops/target/b.c", SPDX + '#include <flmem/detect.h>\n',
     "ops/target/ is below the operation"),
    ("layers", "cli/b.c", SPDX + '#include "base/a.h"\n', "cli/ sees"),
    ("layers", "cli/print/b.c", SPDX + '#include "main.h"\n', "cli/print may not depend on cli/"),
    ("layers", "cli/new/b.c", SPDX + '#include "main.h"\n', "does not know the directory 'cli/new'"),
    ("layers", "cli/b.c", SPDX + "#include <cjson/cJSON.h>\n", "only libcore/report/"),
    ("layers", "cli/b.c", SPDX + "#include <mpi.h>\n", "only libcore/mpi/"),
    ("layers", "cli/print/b.c", SPDX + "#include <ncurses.h>\n", "only cli/live/"),
    ("layers", "libcore/base/b.inc", SPDX + '#include "proc/a.h"\n', "base/ may not depend on proc/"),
    ("layers", "libcore/preload/b.c", SPDX + "#include <base/a.h>\n", "included in quotes"),
    ("layers", "libcore/base/b.c", SPDX + '#include "base/../proc/p.h"\n', "by '..'"),
    ("layers", "libcore/ops/detect/a.c", SPDX, "add it to OPERATIONS"),
    ("layers", "libcore/include/flmem/b.h", SPDX + '#include "base/a.h"\n', "public headers"),
    ("layers", "libcore/base/a.c", SPDX + '#include <stdio.h>\n#include "base/a.h"\n', "first"),
    ("forbidden", "cli/b.c", SPDX + "int f(char *s)\n{\n\treturn atoi(s);\n}\n", "atoi"),
    ("forbidden", "tests/b.c", SPDX + "void f(char *s)\n{\n\tsprintf(s, s);\n}\n", "sprintf"),
    ("forbidden", "cli/b.c", SPDX + "void *f(void)\n{\n\treturn dlopen(0, 1);\n}\n", "flmem/plugin.h"),
    ("forbidden", "libcore/base/b.c", SPDX + "void f(void)\n{\n\texit(1);\n}\n", "exit"),
    ("forbidden", "libcore/base/b.c", SPDX + 'void f(void)\n{\n\tfprintf(\n\t\tstderr, "");\n}\n', "b.c:4: fprintf"),
    ("forbidden", "libcore/new/b.inc", SPDX + "int f(char *s)\n{\n\treturn atoi(s);\n}\n", "b.inc:4: atoi"),
    ("forbidden", "libcore/base/b.h", SPDX + "static inline void *f(void)\n{\n\treturn dlmopen(0, 0, 1);\n}\n", "b.h:4"),
    ("forbidden", "cli/b.c", SPDX + 'int f(void)\n{\n\treturn flmem_error_set(0, 1, 0, "out of memory");\n}\n',
     "b.c:4: a failed allocation: use flmem_error_nomem()"),
    ("forbidden", "cli/b.c",
     SPDX + 'int f(void)\n{\n\treturn flmem_error_set(0, 1, ENOMEM,\n\t\t\t       "cannot");\n}\n',
     "b.c:4: a failed allocation: use flmem_error_nomem()"),
    ("lengths", "cli/b.c", SPDX + "\n" * 600, "split it"),
    ("lengths", "README.md", "b\n" * 161, "README.md: 161 lines; at most 160"),
    ("lengths", "CHANGELOG.md", "- b\n  c\n", "CHANGELOG.md:2: an entry is one line"),
    ("lengths", "cli/b.c", SPDX + "int f(void)\n{\n" + "\tg();\n" * 61 + "}\n", "61 lines in 'int f"),
    ("lengths", "libcore/base/b.inc", SPDX + "int f(void)\n{\n" + "\tg();\n" * 61 + "}\n", "61 lines in 'int f"),
    ("lengths", "scripts/y", "#!/bin/sh\n" + "\n" * 600, "scripts/y: 601 lines"),
    ("lengths", "cli/b.c", SPDX + "/* " + "b" * 95 + " */\n", "101 columns"),
    ("names", "cli/b.c", SPDX + "static int go(void)\n{\n\treturn 1;\n}\n",
     "cli/b.c:2: 'go' does not name its object"),
    ("names", "libcore/base/b.h", SPDX + "static inline int go(void)\n{\n\treturn 1;\n}\n", "b.h:2: 'go'"),
    ("names", "libcore/base/b.inc", SPDX + "static int go(void)\n{\n\treturn 1;\n}\n", "b.inc:2: 'go'"),
    ("names", "cli/b.c",
     SPDX + "int main(void);\n\n/* f() */\nstatic const char *\nmain(int argc,\n     char **argv)\n{\n}\n",
     "cli/b.c:5: cli/main.c has a function 'main' as well"),
    ("names", "libcore/proc/q.c", SPDX + "struct flmem_a {\n\tint b;\n};\n",
     "libcore/proc/q.c:2: libcore/proc/p.c defines 'flmem_a' as well"),
    ("names", "libcore/proc/main.c", SPDX, "libcore/proc/main.c: cli/ has a file 'main' as well"),
    ("names", "libcore/proc/q.c", SPDX + "enum b {\n\tC\n};\n",
     "libcore/proc/q.c:2: libcore/proc/p.c defines 'b' as well"),
    ("names", "libcore/proc/q.c", SPDX + "static const char *const p_rows[] = {\n\t0,\n};\n",
     "libcore/proc/q.c:2: libcore/proc/p.c has static data 'p_rows' as well"),
    ("names", "libcore/proc/q.c", SPDX + "static int p_names;\n",
     "libcore/proc/q.c:2: libcore/proc/p.c has static data 'p_names' as well"),
    ("versions", "docs/b.md", "flmem-1.2.2.tar.gz\n", "names version 1.2.2"),
    ("versions", "cli/b.c", "/* flmem 1.2.2 */\n", "names version 1.2.2"),
    ("versions", "CHANGELOG.md", "# Changelog\n\n## 1.2.2\n\n## 1.2.3\n", "has version 1.2.2"),
    ("versions", "packaging/conda/recipe.yaml", '  version: "1.2.3"\n    - zlib-ng\n', "lacks '- zlib'"),
    ("versions", "CMakeLists.txt",
     "# SPDX-License-Identifier: Apache-2.0\nproject(flmem VERSION 1.2.3)\npkg_check_modules(B libb)\n",
     "libb is not in the recipes"),
    ("places", "global.safetensors", "", "global.safetensors: the root has no such entry"),
    ("places", "cli/a.prof", "", "cli/a.prof: left by a run?"),
    ("places", "cli/a.c.orig", "", "cli/a.c.orig: left by a run?"),
    ("places", "libcore/a/b/c/d/e.c", "", "CMake finds no source there"),
    ("places", "cli/new/b.c", "", "has no row that names cli/new/"),
    ("places", "libcore/proc/new/b.c", "", "has no row that names libcore/proc/new/"),
    ("places", "docs/architecture.md", "| `cli/` | `old/` |\n| `libcore/` | `proc/`, `include/`, `base/`, `flmem/` |\n"
     "| `cli/old/` | b |\n", "names cli/old/, which does not exist"),
    ("spdx", "cli/b.c", "int b;\n", "cli/b.c"),
    ("spdx", "scripts/y", "#!/bin/bash\n", "scripts/y"),
    ("spdx", "scripts/y", "#! /usr/bin/env sh\n", "scripts/y"),
    ("spdx", "libcore/report/html/b.js", "let b;\n", "b.js"),
    ("spdx", "docs/b.yml", "b: 1\n", "docs/b.yml"),
    ("format", "cli/b.c", SPDX + "int  b;\n", "cli/b.c"),
    ("format", "libcore/new/b.inc", SPDX + "int  b;\n", "b.inc"),
    ("shell", "scripts/y", "#!/bin/sh\necho $1\n", "scripts/y"),
    ("shell", "new/y", "#!/usr/bin/env sh\necho $1\n", "new/y"),
    ("python", "scripts/y", '#!/usr/bin/env python3\nb = "c\nd"\n', "scripts/y:2: "),
    ("python", "scripts/b.py", 'b = "\\d"\n', "scripts/b.py:1: invalid escape sequence"),
    ("python", "scripts/b.py", "import os\n", "'os' imported but unused"),
    ("python", "scripts/b.py", "def b():\n    return c\n", "undefined name 'c'"),
    ("python", "libcore/bindings/python/flmem/b.pyi", "def b(:\n", "b.pyi:1"),
    ("wording", "cli/b.c", SPDX + 'const char *b = "a release that was "\n\t"foretold";\n', "cli/b.c:2"),
    ("wording", "libcore/include/flmem/b.h", SPDX + "/*\n * It is reckoned\n */\n", "b.h:2: 'reckon'"),
    ("wording", "libcore/base/b.c", SPDX + "/* Looks\n * at b. */\nint b;\n", "b.c:2: 'Looks at'"),
    ("wording", "cli/b.c", SPDX + 'const char *b = "cannot tell; it was not told";\n', "'told'"),
    ("wording", "docs/b.md", "# B\n\nIt\nis no\nsound file.\n", "docs/b.md:4: 'is no sound'"),
    ("wording", "cli/b.c", SPDX + 'const char *b = "2 samples found "\n\t"no room in the file";\n', "'found no room'"),
    ("wording", "libcore/base/b.c", SPDX + 'const char *b = "a value that is no whole number";\n', "'is no w'"),
    ("wording", "cli/b.c", SPDX + 'const char *b = "the file is cut short";\n', "'cut short'"),
    ("wording", "docs/b.yml", "a: Like\n  phases of its rounds\n", "docs/b.yml:1: 'Like phases'"),
    ("wording", "docs/b.json", '{"a": "stands higher"}\n', "docs/b.json:1: 'stands higher'"),
    ("wording", "libcore/bindings/python/flmem/b.py", '# b\n"""It was\n told."""\nb = "foretold"\n', "b.py:4: 'foretold'"),
    ("wording", "scripts/b.py", "b = 1\n# It is no\n# sound file.\n", "b.py:2: 'is no sound'"),
    ("wording", "CHANGELOG.md", "- It is reckoned.\n", "CHANGELOG.md:1: 'reckon'"),
    ("wording", "scripts/y", "#!/bin/sh\n# reckoned\n", "scripts/y:2: 'reckon'"),
    ("wording", "tests/cli/b.bats", '@test "it was\ttold" {\n}\n', "tests/cli/b.bats:1: 'told'"),
    ("wording", "tests/unit/b.c", SPDX + "/* reckoned */\n", "tests/unit/b.c:2: 'reckon'"),
    ("wording", "libcore/new/b.js", "// reckoned\n", "b.js:1: 'reckon'"),
    ("frameworks", "libcore/ops/detect/b.c", SPDX + "int b = FLMEM_FRAMEWORK_NVFLARE;\n",
     "b.c:2: 'FLMEM_FRAMEWORK_NVFLARE' names a framework"),
    ("frameworks", "libcore/rules/b.c", SPDX + 'const char *b = "an APPFL job";\n', "names a framework"),
    ("frameworks", "libcore/frameworks/b.c", SPDX + 'const char *b = "NVFLARE_B";\n',
     "names a framework"),
    ("frameworks", "libcore/frameworks/launch/b.c", SPDX + 'const char *b = "flwr-serverapp";\n',
     "names a framework"),
    ("frameworks", "libcore/proc/b.c", SPDX + 'const char *b = "nvflare.b";\n', "names a framework"),
    ("frameworks", "libcore/settings/b.c", SPDX + 'const char *b = "NVFLARE_B";\n',
     "names a framework"),
    ("frameworks", "libcore/report/b.c", SPDX + "/* Flower */\nint flwr;\n", "b.c:3: 'flwr'"),
    ("frameworks", "libcore/report/html/b.js", 'let b = "NVFlare";\n', "names a framework"),
    ("frameworks", "libcore/new/b.inc", "int flwr;\n", "b.inc:1: 'flwr'"),
    ("frameworks", "libcore/frameworks/appfl/b.c", SPDX + "int b = flmem_flower_b;\n",
     "belongs to another framework"),
    ("frameworks", "libcore/frameworks/flower/b.c", SPDX + '#include "frameworks/nvflare/b.h"\n',
     "belongs to another framework"),
    ("public", "libcore/include/flmem/b.h", SPDX + "\nFLMEM_API void f(void);\n", "no comment"),
    ("public", "libcore/include/flmem/b.h",
     SPDX + "/* It may fail. */\nFLMEM_API int f(struct flmem_error *err);\n", "MUST_CHECK"),
    ("public", "libcore/include/flmem/b.h",
     SPDX + "/* It may fail: FLMEM_EFAILED. */\nFLMEM_API struct a *f(struct flmem_error *err);\n", "MUST_CHECK"),
    ("public", "libcore/include/flmem/b.h", SPDX + "/* b */\nvoid f(void);\n", "f() is not exported"),
    ("public", "libcore/include/flmem/b.h",
     SPDX + "\n/* It may fail. */\nFLMEM_API FLMEM_MUST_CHECK int f(struct flmem_error *err);\n", "names no error"),
    ("headers", "libcore/base/b.h", SPDX + "int f(size_t n);\n", "size_t"),
    ("headers", "cli/new/deep/b.h", SPDX + "int f(size_t n);\n", "size_t"),
    ("headers", "libcore/base/b.h", SPDX + "struct b {\n\tint c;\n};\n", "redefinition"),
    ("headers", "libcore/include/flmem/b.h", SPDX + "void f(int class);\n", "c++"),
)

# The same for links.py, which reads the objects of the sources of libcore/ and cli/.
OBJECT_CLEAN = {
    "libcore/proc/a.c": "int f(void);\nint g(void)\n{\n\treturn f();\n}\n",
    "libcore/base/a.c": "int f(void)\n{\n\treturn 1;\n}\n",
    "cli/a.c": "int g(void);\nstatic int (*h)(void) __attribute__((used)) = g;\n",
}
OBJECT_FAULTS = (
    ("libcore/base/b.c", "int g(void);\nstatic int (*h)(void) __attribute__((used)) = g;\n",
     "base/ may not depend on proc/"),
    ("libcore/base/b.c", "int h(void)\n{\n\treturn 1;\n}\n", "libcore/base/b.c: nothing uses h"),
    ("libcore/preload/sampler/b.c", "int h(void)\n{\n\treturn 1;\n}\n", "libcore/preload/sampler/b.c: nothing uses h"),
    ("cli/generate/b.c", "int h(void)\n{\n\treturn 1;\n}\n", "cli/generate/b.c: nothing uses h"),
    ("cli/b.c", "int h[1];\nint *get(void)\n{\n\treturn h;\n}\n", "cli/b.c: no other file uses h"),
)
OBJECTS = {"libcore": "libcore/CMakeFiles/flmem_objects.dir",
           "cli": "cli/CMakeFiles/flmem_cli_objects.dir"}
OBJECTS_APART = {"libcore/preload/sampler/": "libcore/CMakeFiles/flmem_sampler.dir",
                 "cli/generate/": "cli/CMakeFiles/flmem_gen.dir"}


def run(check, top, *extra):
    """Runs a check in a fork, as the start of an interpreter takes longer than most checks of such a tree."""
    extra = extra or (["cc"] if check == "headers" else [])
    with tempfile.TemporaryFile() as output:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            become(os.path.join(HERE, check + ".py"), [top, *extra], output.fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return status, output.read().decode(errors="replace")


def become(path, words, output):
    """Runs a program in this process, which then ends."""
    status = 1
    for number in (1, 2):
        os.dup2(output, number)
    try:
        sys.argv = [path, *words]
        runpy.run_path(path, run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def plant(top, files):
    for name, content in files.items():
        path = os.path.join(top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)


def build(top, build_directory, files):
    for name in files:
        folder, below = name.split("/", 1)
        apart = [objects for place, objects in OBJECTS_APART.items() if name.startswith(place)]
        target = os.path.join(build_directory, apart[0] if apart else OBJECTS[folder], below + ".o")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        subprocess.run(["cc", "-c", "-o", target, os.path.join(top, name)], check=True)


def plant_objects(files):
    with tempfile.TemporaryDirectory() as top, tempfile.TemporaryDirectory() as build_directory:
        plant(top, files)
        build(top, build_directory, files)
        return run("links", top, build_directory)


def object_failures():
    """Returns the number of OBJECT_FAULTS that links.py does not find."""
    status, output = plant_objects(OBJECT_CLEAN)
    failures = 0 if status == 0 else 1
    if failures:
        print(f"links: the clean objects fail:\n{output}")
    for name, content, expected in OBJECT_FAULTS:
        status, output = plant_objects({**OBJECT_CLEAN, name: content})
        if status != 1 or expected not in output:
            print(f"links: '{expected}' not found in {name}; it said:\n{output}")
            failures += 1
    return failures


def generated_failures():
    """Tests generated.py, with a script in place of flmem-gen."""
    failures = 0
    clean = {"docs/options.md": "a\n", "gen": '#!/bin/sh\necho a >"$1/docs/options.md"\n'}
    for files, expected in (({}, "0 findings"), ({"docs/options.md": "b\n"}, "docs/options.md: differs from the tables"),
                            ({"completions/b": ""}, "completions/b: is no longer generated")):
        with tempfile.TemporaryDirectory() as top:
            plant(top, {**clean, **files})
            os.chmod(os.path.join(top, "gen"), 0o700)
            status, output = run("generated", top, os.path.join(top, "gen"))
        if status != (1 if files else 0) or expected not in output:
            print(f"generated: '{expected}' not found; it said:\n{output}")
            failures += 1
    return failures


def main():
    failures, passes = object_failures() + generated_failures(), {}
    for check, name, content, expected in FAULTS:
        with tempfile.TemporaryDirectory() as top:
            plant(top, CLEAN)
            shutil.copy(os.path.join(HERE, "..", "..", ".clang-format"), top)
            if check not in passes:
                passes[check], clean_output = run(check, top)
                if passes[check] == 77:
                    print(f"SKIP: {clean_output.strip()}")
                elif passes[check] != 0:
                    print(f"{check}: the clean tree fails:\n{clean_output}")
                    failures += 1
            if passes[check] == 77:
                continue
            plant(top, {name: content})
            status, output = run(check, top)
        if status != 1 or expected not in output:
            print(f"{check}: '{expected}' not found in {name}; it said:\n{output}")
            failures += 1
    print(f"{len(FAULTS) + len(OBJECT_FAULTS)} faults, {failures} failures")
    sys.exit(1 if failures else 0)


main()
