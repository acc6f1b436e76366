# SPDX-License-Identifier: Apache-2.0
"""Faults in what is reported about the files and Python of Flower and APPFL."""
from faults import Fault

SIMULATIONS = "libcore/frameworks/flower/flower_simulations.c"

FLOWER = "libcore/frameworks/flower/flower_rules.c"
LETTERS = "libcore/documents/python/python_unicode.c"

TOML = ("unit.test_toml",)

READER = "libcore/documents/toml.c"
VALUES = "libcore/documents/toml_values.c"

SYNTAX = "libcore/documents/python/python_syntax.c"
REFUSED = ("unit.test_python_syntax",)

ENCODING = "libcore/documents/python/python_encoding.c"
ENCODINGS = ("unit.test_python_encoding",)

EMBEDDED = "libcore/frameworks/launch/launch_embedded.c"
EMBEDDINGS = ("unit.test_launch_embedded",)

TAGS = "libcore/documents/yaml_tags.c"
APPFL = ("unit.test_appfl_rules",)

FAULTS = (
    Fault("python-lazy-line", "libcore/documents/python/python_lazy.c", "if (lazy->place.line != word->place.line) {", "if (0) {",
          "the lines behind a lazy import over two lines", ("unit.test_python_calls",)),
    Fault("python-lazy", "libcore/documents/python/python_lazy.c", "lazy = flmem_python_at_statement(&reader) &&",
          "lazy = false &&", "imports of Python 3.15", ("unit.test_python_calls",)),
    Fault("cell-script", "libcore/documents/python/notebook_kinds.c", "return !scripts_python(code);", "return true;",
          "a cell of %%script python3", ("unit.test_python_calls",)),
    Fault("cell-language", "libcore/documents/python/notebook_kinds.c", "return !flmem_text_is_one_of(name, others);",
          "return true;", "a cell in another language", ("unit.test_python_calls",)),
    Fault("embedded-class", EMBEDDED, "if (last && isupper((unsigned char)text[last]))", "if (last)",
          "a host instead of a class in an embedded file", EMBEDDINGS),
    Fault("embedded-content", EMBEDDED, "return node->parent && is_checked_name(node->parent->key);", "return false;",
          "a file of Compose that is a text", EMBEDDINGS),
    Fault("image-heredoc", "libcore/frameworks/launch/launch_scopes.c", "if ((!copies && !scan->build_step) ||",
          "if (1 ||", "a heredoc of a Dockerfile", EMBEDDINGS),
    Fault("python-encoding-ascii", ENCODING, "if (!keeps_ascii(handle))", "if (0)",
          "an encoding in which ASCII is not written as such", ENCODINGS),
    Fault("python-encoding-third-line", ENCODING, "\t\ttext += *text == '\\r';\n", "\t\ttext += strspn(text, \"\\r\");\n",
          "an encoding in the third line of three that end in CR", ENCODINGS),
    Fault("python-encoding-code-line", ENCODING, "if (found || (blank < line && text[blank] != '#'))", "if (found)",
          "an encoding behind a line of code", ENCODINGS),
    Fault("python-bracket-kind", SYNTAX, "strchr(closing, c) - closing)", "strchr(closing, c) - closing && 0)",
          "a bracket that closes another one", REFUSED),
    Fault("python-field", SYNTAX, "if (has_fields && has_open_field(p, length))", "if (0)",
          "quotes of an f-string in one of its fields", REFUSED),
    Fault("python-outer-block", SYNTAX, "if (scan->levels[scan->level_count - 1] != indent)", "if (0)",
          "an indentation that matches no block", REFUSED),
    Fault("python-tabs", SYNTAX, "if (indent < blanks || p[blanks] == '\\\\')", "if (p[blanks] == '\\\\')",
          "tabs that indent", REFUSED),
    Fault("python-last-block", SYNTAX, "if (state == SYNTAX_GOING && scan.block_due)", "if (0)",
          "a block that the text ends in front of", REFUSED),
    Fault("toml-table-twice", READER, " || node->declared != TOML_IMPLIED)", ")", "a table that is there twice", TOML),
    Fault("toml-table-dotted", READER, "node->kind != FLMEM_NODE_MAP || node->declared == TOML_HEADED ||",
          "node->kind != FLMEM_NODE_MAP ||", "a key that adds to a table of a header", TOML),
    Fault("toml-closed", READER, "node->declared = TOML_CLOSED;", "", "a header that adds to a table within braces", TOML),
    Fault("toml-return", READER, 'if (!flmem_cursor_looks_at(&at, "\\r\\n"))', "if (0)", "a carriage return alone", TOML),
    Fault("toml-leading-zero", VALUES, "(*p == '0' && length > 1))", "0)", "a number with a leading zero", TOML),
    Fault("toml-escape", VALUES, "if (p[blanks] != '\\n')", "if (0)", "an escape that TOML lacks", TOML),
    Fault("toml-day", VALUES, "return month == 2 && leap ? 29 :", "return month == 2 ? 29 :", "a day that a month lacks", TOML),
    Fault("yaml-tag-own", TAGS, "if (!flmem_text_starts(tag, OWN))\n\t\treturn true;",
          "if (!flmem_text_starts(tag, OWN))\n\t\treturn false;", "a tag that no one defines", APPFL),
    Fault("yaml-tag-value", TAGS, "|| has_wrong_value(node, tag);", ";", "a text with the tag of a number", APPFL),
    Fault("yaml-tag-key", "libcore/documents/yaml.c", "*event->data.scalar.tag == '!')", "1)", "the tag of a key", APPFL),
    Fault("flower-false", SIMULATIONS, "return !zero && !flmem_node_is_true(node);",
          "return false;", "num-cpus = false", TOML),
    Fault("flower-list", SIMULATIONS,
          "\tif (federation->kind == FLMEM_NODE_LIST)", "\tif (0)",
          "an array of tables where a federation is expected", TOML),
    Fault("flower-host", SIMULATIONS,
          "if (is_invalid_number(host, i == 1) ||", "if (0 &&",
          "num-cpus of init-args", TOML),
    Fault("flower-import", FLOWER,
          'report_imports(check, "calls", "importlib.import_module");', "",
          "a module of Flower that is imported by its name", TOML),
    Fault("flower-module", FLOWER, "if (is_flower_module(n->text) ||", "if (",
          "what getattr() gets from a module of Flower", TOML),
    Fault("letters-folded", LETTERS, "\tmemcpy(name, folded, length);", "",
          "names in other letters than those of ASCII", ("unit.test_python_calls",)),
    Fault("suffix-default", "libcore/frameworks/files.c", '".json.default"', '".json.defaults"',
          "configurations of jobs that end in .default", ("unit.test_files",)),
    Fault("flower-key", SIMULATIONS, 'if (n->key && strcmp(n->key, "num-cpus") != 0 &&', "if (0 &&",
          "a key of client-resources that Flower ignores", TOML),
    Fault("flower-default", FLOWER, "return flmem_node_get(federations, name) != NULL;",
          "return true;", "a default federation that the file lacks", TOML),
)
