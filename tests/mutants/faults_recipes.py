# SPDX-License-Identifier: Apache-2.0
"""Faults in what is reported about recipes that a script changes, or passes on."""
from faults import Fault

CHANGES = "libcore/frameworks/nvflare/recipes/nvflare_recipe_changes.c"
USES = "libcore/frameworks/nvflare/recipes/nvflare_recipe_uses.c"
NAMES = "libcore/frameworks/nvflare/recipes/nvflare_recipe_names.c"
JOB_FILES = "libcore/frameworks/nvflare/nvflare_job_files.c"
CONSTRUCTORS = "libcore/frameworks/nvflare/nvflare_constructors.c"
IGNORED = "libcore/frameworks/nvflare/rules/nvflare_ignored_rules.c"
IMPORTS = "libcore/frameworks/nvflare/rules/nvflare_import_rules.c"

SCOPES = "libcore/frameworks/nvflare/recipes/nvflare_recipe_scopes.c"

RECIPES = ("unit.test_recipe_uses",)
HIDDEN = ("unit.test_recipe_hidden",)
SUFFIXES = ("cli.recommend_scripts/differ in their suffix",)

FAULTS = (
    Fault("job-above", "libcore/frameworks/nvflare/nvflare_files.c", 'laid_out = strcmp(flmem_text_basename(config), "config") == 0;', "laid_out = true;",
          "configurations in a folder that is no job", ("cli.recommend_scripts/outside of a job",)),
    Fault("bound-again-inner", "libcore/frameworks/nvflare/nvflare_rebound_names.c", "word->place.column > 1)", "word->place.column > 99)",
          "an inner class of the name of a recipe", ("unit.test_bound_again",)),
    Fault("bound-again-star", "libcore/frameworks/nvflare/nvflare_rebound_names.c", "if (!from || own ||", "if (1 || own ||",
          "import of * behind the import of a recipe", ("unit.test_bound_again",)),
    Fault("bound-again-match", "libcore/frameworks/nvflare/nvflare_rebound_names.c", "\t\tread_case(search);", "\t\t;",
          "a pattern that binds the name of a recipe", ("unit.test_bound_again",)),
    Fault("recipe-words", "libcore/frameworks/nvflare/nvflare_files.c", '".simulator_run(", "server_memory_gc_rounds"', '".simulator_run("',
          "Python with settings of recipes alone", ("unit.test_bound_again",)),
    Fault("recipe-own-name", "libcore/documents/python/python_names.c",
          "\treturn hide_name(pass, name, &place);\n}\n\n/* Reads", "\treturn bind_import(pass, name, NULL, &place);\n}\n\n/* Reads",
          "a class that inherits from an import of its own name", ("unit.test_recipe_reach",)),
    Fault("recipe-name-made", "libcore/documents/python/python_fields.c", "\treturn flmem_python_is_any(&ahead.word, ends);",
          "\treturn true;", "a name of an attribute that is put together", HIDDEN),
    Fault("recipe-name-called", CHANGES, "is_quoted(name.text, flmem_nvflare_recipe_methods)",
          "is_quoted(name.text, flmem_nvflare_recipe_methods) || 1",
          "a method of a recipe that getattr() names", HIDDEN),
    Fault("recipe-own-module", SCOPES, "\t    imports_itself(search, &ahead))", "\t    (imports_itself(search, &ahead) && 0))",
          "a script that imports itself", HIDDEN),
    Fault("recipe-objects", SCOPES, "reaches_objects(search) ||", "(reaches_objects(search) && 0) ||", "gc.get_objects()", HIDDEN),
    Fault("recipe-definitions", NAMES, "\t\t\trecipes->full = true;\n\t\t\tcontinue;", "\t\t\tcontinue;",
          "more definitions than are kept", HIDDEN),
    Fault("recipe-lambda", CHANGES, "if (level->lambda || ", "if (",
          "a recipe that a lambda keeps", RECIPES),
    Fault("recipe-argument", CHANGES, "\t\treturn !call->is_own || call->of_class;", "\t\treturn false;",
          "a recipe that a function of another package gets", RECIPES),
    Fault("recipe-alias", CHANGES, "\tfor (size_t i = 0; i < search->target_count; i++)\n\t\tsearch->grown",
          "\tfor (size_t i = 1; i < search->target_count; i++)\n\t\tsearch->grown",
          "the other names of a recipe", RECIPES),
    Fault("recipe-returned", CHANGES, "\t\tfunction->makes_recipe = true;", "",
          "a recipe that a function of the script returns", RECIPES),
    Fault("recipe-rebound", USES, "\t\tcheck_rebinding(search);\n", "\t\t(void)check_rebinding;\n",
          "another object under the name of a recipe", RECIPES),
    Fault("recipe-code", USES, "\t\tcheck_code_text(search);", "\t\t(void)check_code_text;",
          "code in a string that changes a recipe", RECIPES),
    Fault("recipe-parameter", NAMES, "\tif (!flmem_nvflare_is_recipe(recipes, name))\n",
          "\tif (0)\n", "a recipe that a function of the script gets", RECIPES),
    Fault("recipe-member", NAMES, "\tadded.member = last_part(", "\t(void)last_part(",
          "a recipe that is an attribute of any object", HIDDEN),
    Fault("recipe-decorator", NAMES, "\tif (!is_known_decorator(&name))", "\tif (0)",
          "a decorator of a function that makes a recipe", HIDDEN),
    Fault("recipe-method-kept", CHANGES, "\t\treturn keeps_method(search, use, &chain);",
          "\t\treturn false;", "a method of a recipe that is kept", HIDDEN),
    Fault("recipe-variables", SCOPES, "\t\treturn takes_recipe(search->recipes, ahead);",
          "\t\treturn false;", "a recipe that locals() reaches", HIDDEN),
    Fault("recipe-field", USES, "\t\twalk_fields(search);", "\t\t(void)walk_fields;",
          "a recipe in a field of a string", HIDDEN),
    Fault("job-file-mode", JOB_FILES, "\t\treturn index == 0 && !opens_to_read(*ahead);",
          "\t\treturn false;", "a configuration file that a script opens to write it", RECIPES),
    Fault("job-file-name", JOB_FILES, "\tsearch->names[search->name_count++] = search->name;\n", "",
          "a configuration file that a variable names", RECIPES),
    Fault("recipe-method-replaced", CONSTRUCTORS, "(is_api_member(n->text) && is_member_named(check, n))",
          "0", "a method of a recipe that is replaced", RECIPES),
    Fault("module-replaced", IMPORTS, "(strcmp(text, \"nvflare\") == 0 ||", "(0 ||",
          "NVFlare itself being replaced in sys.modules", RECIPES),
    Fault("config-ignored", IGNORED, "if (access(other, F_OK) == 0)", "if (0)",
          "a configuration beside one that NVFlare reads in its place", SUFFIXES),
    Fault("code-kept", "libcore/documents/python/python_code.c", "\treturn flmem_python_is(&search->reader.word, \"exec\") ||",
          "\treturn 0 && flmem_python_is(&search->reader.word, \"exec\") &&",
          "exec under another name", ("unit.test_script_rules",)),
    Fault("code-called-name", "libcore/documents/python/python_code.c", "(call ? at[length] == '(' :", "(call ? 0 :",
          "eval of a variable beside a text that calls a class", ("unit.test_script_rules",)),
    Fault("letters-likely", "libcore/frameworks/files.c", "flmem_syntax_is_python(file->syntax) && flmem_python_fold_text",
          "0 && flmem_python_fold_text", "a framework that is named in other letters", ("unit.test_appfl_rules",)),
    Fault("notebook-lines", "libcore/documents/python/notebook_cells.c", "\tdocument->line_count = notebook->line_count;\n", "",
          "the line of a notebook's file", RECIPES),
    Fault("quadratic-annotation", "libcore/documents/python/python_names.c", "\tif (reader->word.place.start < pass->equals_from ||\n",
          "\tif (1 ||\n", "searching each statement once for its assignment", ("unit.test_recommend_time",)),
    Fault("quadratic-fields", "libcore/documents/python/python_fields.c", "\tif (before->at > python.at && before->at <= start) {", "\tif (0) {",
          "counting the lines of a string with fields once", ("unit.test_recommend_time",)),
    Fault("endless-stages", "libcore/frameworks/launch/launch_script.c", "launches->cut |= scan->stages == STAGES_MAX;",
          "(void)STAGES_MAX;", "a limit to the stages of a Dockerfile", ("unit.test_launch_texts",)),
    Fault("setting-attribute", "libcore/frameworks/nvflare/rules/nvflare_script_rules.c", "*text == '_' ? text + 1 : text", "text",
          "the attribute that holds a setting of a part of a job", ("unit.test_script_rules",)),
)
