# SPDX-License-Identifier: Apache-2.0
"""Faults in what is reported about the commands that start a federation."""
from faults import Fault

WRAPPERS = "libcore/frameworks/launch/launch_wrappers.c"
SHELL = "libcore/frameworks/launch/launch_shell.c"

VALUES = "libcore/frameworks/nvflare/rules/nvflare_value_rules.c"

WRAPPED = ("unit.test_launch_wrappers",)

COMM = "libcore/frameworks/nvflare/rules/nvflare_comm_rules.c"
SIZES = "libcore/frameworks/nvflare/nvflare_comm.c"
PROCESS = "libcore/frameworks/nvflare/rules/nvflare_process_rules.c"
SET = "libcore/frameworks/nvflare/nvflare_set.c"
COMMS = ("unit.test_comm_rules",)

LIMITS = "libcore/frameworks/limits.c"
CONTAINERS = "libcore/frameworks/launch/launch_limits.c"
PLANS = ("cli.plan",)

FAULTS = (
    Fault("text-behind", "libcore/frameworks/nvflare/nvflare_environ_texts.c", "length > TEXT_MAX && i <", "0 && i <",
          "the rest of a long text", ("unit.test_script_rules",)),
    Fault("alias-magic-option", "libcore/documents/python/notebook_aliases.c", "if (**at != '-')", "if (1)",
          "an option of alias_magic", ("unit.test_script_rules",)),
    Fault("alias-of-programs", "libcore/documents/python/notebook_aliases.c", "aliases->programs = true;", ";",
          "programs that are commands of a cell", ("unit.test_script_rules",)),
    Fault("marks-searched-again", "libcore/frameworks/launch/launch_search.c", "if (kept->marks != program->marks)",
          "if (1)", "the marks of a script searched for each word", ("unit.test_recommend_time",)),
    Fault("limit-usable", LIMITS, "known && usable < limit->need.least", "known && bytes < limit->need.least",
          "a limit that leaves less than a tenth", PLANS),
    Fault("limit-most", LIMITS, "known && usable >= limit->need.most", "known",
          "a limit that suffices for one role of two", PLANS),
    Fault("limit-decimal", LIMITS, "unit[0] && unit[1] != 'i';", "0;", "a limit in powers of 1000", ("unit.test_limits",)),
    Fault("limit-default", "libcore/frameworks/nvflare/rules/nvflare_limit_rules.c", "if (server ||", "if (",
          "a default of all sites beside that of the server", PLANS),
    Fault("limit-module", CONTAINERS, "strchr(\"0123456789$\\\"\", text[word->start]);", "true;", "-m of Python behind docker run", PLANS),
    Fault("comm-zero", SIZES, "{FLMEM_COMM_CHUNK, 1}", "{FLMEM_COMM_CHUNK, 0}", "a chunk of 0", COMMS),
    Fault("comm-stalls", SIZES, "window / chunk + 1, chunk", "window / chunk + 2, chunk",
          "a window below what is acknowledged", COMMS),
    Fault("comm-message", SIZES, "limit <= 0 || chunk <= limit)", "limit <= 0 || chunk <= 2 * limit)",
          "a chunk above the largest message", COMMS),
    Fault("comm-blob-small", SIZES, "limit->number < DOWNLOAD)", "limit->number < DOWNLOAD / 2)",
          "a limit of blobs below a chunk of a model", COMMS),
    Fault("comm-retry", SIZES, "|| bytes <= limit->number)", "|| bytes / 2 <= limit->number)",
          "a limit of retries below the window", COMMS),
    Fault("comm-beside", COMM, "if (!row || row->unset)", "if (1)", "another variable of the launch", COMMS),
    Fault("comm-inner-key", COMM, "if (n->key && is_size_key(n->key))\n\t\t\treport", "if (0 && is_size_key(n->key))\n\t\t\treport",
          "a key in a map of a connection", COMMS),
    Fault("comm-null", SIZES, "if (!node || node->kind == FLMEM_NODE_NULL)", "if (!node)",
          "a key that is null", COMMS),
    Fault("appfl-message-limit", "libcore/frameworks/appfl/appfl_message_rules.c", "number > INT_MAX)", "number > 2.0 * INT_MAX + 2)",
          "a message size that gRPC cannot take", ("unit.test_appfl_rules",)),
    Fault("appfl-size-tag", "libcore/frameworks/appfl/appfl_message_rules.c", "return !flmem_text_starts(text, \"!!float\");", "return false;",
          "a size that a tag makes a text", ("unit.test_appfl_rules",)),
    Fault("yaml-key-twice", "libcore/frameworks/nvflare/rules/nvflare_key_rules.c", "check->input->document.syntax == FLMEM_SYNTAX_YAML)\n\t\tfind_dup",
          "check->input->document.syntax == FLMEM_SYNTAX_HOCON)\n\t\tfind_dup", "a key that YAML has twice", ("unit.test_appfl_rules",)),
    Fault("appfl-message-name", "libcore/frameworks/appfl/appfl_message_rules.c", 'if (strstr(key, "msg") ||', 'if (',
          "max_msg_size", ("unit.test_appfl_rules",)),
    Fault("launch-chunk-zero", VALUES, "kind == FLMEM_PYTHON_INT_VALID && size <= 0", "kind == FLMEM_PYTHON_INT_VALID && size < 0",
          "a chunk size of 0 in the environment", ("unit.test_launch_chunks",)),
    Fault("launch-chunk-numpy", VALUES, "!flmem_launch_is(variable, FLMEM_NVFLARE_NUMPY_CHUNK)", "1",
          "a chunk size of NumPy arrays in the environment", ("unit.test_launch_chunks",)),
    Fault("launcher-value", "libcore/frameworks/nvflare/rules/nvflare_launcher_rules.c", "return flmem_glibc_arena_max_parse(value, &arenas);", "return true;",
          "a launcher with a limit of 0 arenas", COMMS),
    Fault("launcher-shell-value", "libcore/frameworks/nvflare/rules/nvflare_launcher_rules.c", "if (sets_in_shell(setup, names[i]) &&", "if (strstr(setup, names[i]) &&",
          "lines of a shell with a limit of 0 arenas", COMMS),
    Fault("launcher-study", "libcore/frameworks/nvflare/rules/nvflare_launcher_rules.c", "return named && strcmp(named, name) == 0 && (!value || is_value_heeded(name, value));",
          "return named && strcmp(named, name) == 0;", "an empty variable in the template of a pod", ("unit.test_launch_rules",)),
    Fault("setup-local", "libcore/frameworks/launch/launch_containers.c", "if (!row->local && !row->unset)", "if (!row->unset)",
          "what a batch job sets without exporting it", COMMS),
    Fault("set-replaced", SET, "if (sets.count && !is_replaced(&before, at))", "if (sets.count)",
          "a second --set of one command", COMMS),
    Fault("set-other-program", SET, "return option - text > 1 && strchr(", "return option - text > 1 || strchr(",
          "--set of another program", COMMS),
    Fault("set-line", SET, "if (*p == '\\n' && !input->document.root && !is_continued(text, p))", "if (0)",
          "words of the line behind --set", COMMS),
    Fault("comm-twice", "libcore/frameworks/nvflare/rules/nvflare_ignored_rules.c", "order < 0 || at == COMM_KIT}", "order < 0 || at != COMM_KIT}",
          "two files for connections in a kit", COMMS),
    Fault("kit-keys", "libcore/frameworks/nvflare/rules/nvflare_key_rules.c", "\tif (check->kind == RESOURCES)\n", "\tif (check->kind == RESOURCES && 0)\n",
          "a setting of a job in a file of a site", COMMS),
    Fault("kit-file-name", "libcore/frameworks/files.c", "return flmem_text_ends(name, row->text);", "return false;",
          "a file of a kit that adds to another one", COMMS),
    Fault("live-comm-fails", PROCESS, "flmem_comm_find_zero, remark)", "flmem_comm_find_invalid, remark)",
          "a chunk of 0 in the environment of a process", ("unit.test_live_rules",)),
    Fault("live-comm-limit", PROCESS, "\t       has_comm_fault(process, flmem_comm_find_retry_small, remark) ||\n", "",
          "a limit of retries of a process below its window", ("unit.test_live_rules",)),
    Fault("live-chunk", PROCESS,
          "(kind == FLMEM_PYTHON_INT_VALID && size > 0)", "kind == FLMEM_PYTHON_INT_VALID",
          "a chunk size of 0 of a live process", ("unit.test_live_rules",)),
    Fault("launch-wrapper", WRAPPERS, "launches[now->launch].doubted = true;", "launches[now->launch].doubted = false;",
          "a program that something with other variables starts", WRAPPED),
    Fault("launch-prefix", WRAPPERS, "\tif (is_behind_variable(scan, text))", "\tif (is_behind_variable(scan, text) && 0)",
          "a variable in front of a command", WRAPPED),
    Fault("launch-arguments", WRAPPERS, "\treturn scope && now->runs_arguments;", "\treturn false;",
          "variables that a function sets for its arguments", WRAPPED),
    Fault("launch-name-made", SHELL, "now.exports && names_by_variable(text)", "now.exports && names_by_variable(text) && 0",
          "export of a name that is a variable", WRAPPED),
    Fault("launch-own-text", SHELL, "!is_own_text(scan, text)", "(is_own_text(scan, text) || 1)",
          "eval of a command that is in the script", WRAPPED),
    Fault("launch-yaml-boolean", "libcore/frameworks/launch/launch_containers.c",
          "value->kind == FLMEM_NODE_BOOL && strchr", "value->kind == FLMEM_NODE_LIST && strchr",
          "a boolean of YAML that Compose takes for a text", WRAPPED),
    Fault("yaml-tag", "libcore/documents/yaml.c", "|| (tag && flmem_text_is_one_of(tag, tags));", ";",
          "a tag of YAML", ("unit.test_document",)),
    Fault("set-text-part", SET, "\tif (equals && is_part_of_text(input, word + length))", "\tif (equals && 0 && is_part_of_text(input, word))",
          "a value of --set that a script puts together", COMMS),
    Fault("set-text-prefix", SET, "\t\tif (is_in_python(input) && p > *at)\n", "\t\tif (0)\n",
          "a word of --set that is a string with fields", COMMS),
    Fault("cell-in-time", "libcore/documents/python/notebook_cells.c", "\tnotebook->shell |= is_shell_cell(line);\n", "",
          "a cell of the shell in one of %%time", ("unit.test_launch_calls",)),
    Fault("code-of-variable", "libcore/frameworks/nvflare/nvflare_environ_commands.c", "\t\treturn flmem_launch_is_code(text);\n", "\t\treturn false;\n",
          "code for python3 -c in a variable", ("unit.test_launch_calls",)),
)
