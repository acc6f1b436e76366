/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LAUNCH_SCAN_H
#define FLMEM_FRAMEWORKS_LAUNCH_SCAN_H

/*
 * The state of a scan over a script, Dockerfile or unit, word by word, and the functions by which
 * the files launch_*.c take part in it. flmem_launch_read_script() runs the scan.
 *
 * A statement is one command with its arguments. A launch is a start of a program of a framework; a
 * statement has at most one. Rows of variables, launches and doubts are added to
 * scan->launches. Functions named ..._note_... are called at each word and record what it means.
 */

#include "frameworks/launch/launch_search.h"

#define FLMEM_LAUNCH_WORD_MAX	 4096 /* bytes of a word with its NUL; longer ones are cut */
#define FLMEM_LAUNCH_PROGRAM_MAX 64   /* bytes of the name of a program, without its folder */
#define FLMEM_LAUNCH_HEREDOCS	 4    /* heredocs that begin on one line */
#define FLMEM_LAUNCH_MARK_MAX	 64   /* bytes of the mark that ends a heredoc */

/* One word of a script: its text without quotes, and its place. */
struct flmem_launch_word {
	struct flmem_place place;
	bool cut; /* the word is longer than the buffer */
	char text[FLMEM_LAUNCH_WORD_MAX];
};

/* The program in front of the command that runs it: it decides which variables are passed on. */
enum flmem_launch_runner {
	FLMEM_LAUNCH_DIRECTLY, /* no such program */
	FLMEM_LAUNCH_BY_ENV,
	FLMEM_LAUNCH_BY_SUDO,
	FLMEM_LAUNCH_BY_SU, /* su, runuser */
	FLMEM_LAUNCH_BY_SSH,
	FLMEM_LAUNCH_BY_TEXT,	   /* eval, tmux, screen: one word may hold the command */
	FLMEM_LAUNCH_BY_SHELL,	   /* bash -c, or commands on its input */
	FLMEM_LAUNCH_BY_CONTAINER, /* docker run, podman run, kubectl run */
	FLMEM_LAUNCH_BY_APPTAINER,
	FLMEM_LAUNCH_BY_MPI, /* mpirun, mpiexec */
	FLMEM_LAUNCH_BY_FLUX,
	FLMEM_LAUNCH_BY_JSRUN,
	FLMEM_LAUNCH_BY_CH_RUN, /* ch-run of Charliecloud */
	FLMEM_LAUNCH_BY_ENROOT,
};

/* The program after a pipe that reads the output of echo, printf or cat. */
enum flmem_launch_prints {
	FLMEM_LAUNCH_NOWHERE, /* no pipe, or a program that runs nothing */
	FLMEM_LAUNCH_TO_SHELL,
	FLMEM_LAUNCH_TO_PYTHON,
	FLMEM_LAUNCH_TO_OTHERS, /* env -i bash, ssh, xargs: not followed */
};

/*
 * The state after ENTRYPOINT of a Dockerfile, with which the words of CMD continue. The fields
 * have the same meaning as in struct flmem_launch_statement.
 */
struct flmem_launch_entry {
	char previous[FLMEM_LAUNCH_PROGRAM_MAX], earlier[FLMEM_LAUNCH_PROGRAM_MAX];
	bool interprets;
	char option;
};

/* The statement that is being read. It is reset at the end of each statement. */
struct flmem_launch_statement {
	/* What was found so far. */
	int launch;		/* index of the launch in this statement, or -1 */
	size_t first_variable;	/* index of the first row of variables that it added */
	bool mentions_variable; /* one of its words names a variable that rules check */

	/* Names of programs, each without its folder; "" before the first word. */
	char command[FLMEM_LAUNCH_PROGRAM_MAX];	 /* the first word of the statement */
	char previous[FLMEM_LAUNCH_PROGRAM_MAX]; /* the word before the current one */
	char earlier[FLMEM_LAUNCH_PROGRAM_MAX];	 /* the word before `previous` */
	char entry[FLMEM_LAUNCH_PROGRAM_MAX];	 /* value of docker run --entrypoint */

	/* Assignments of variables. */
	const char *pending; /* variable whose value is the next word (ENV NAME VALUE); or NULL */
	bool after_env;	     /* the last word was ENV of a Dockerfile: the next is a name */
	bool declares;	     /* declare, typeset or local */
	bool exports;	     /* export, declare -x */
	bool unsets;	     /* unset, export -n: the names that follow stop being set */
	bool unsets_next;    /* the next word is the NAME of env -u NAME */
	bool refers;	     /* declare -n NAME=OTHER: NAME is an alias of OTHER */

	/* The program in front of the command, and which variables it passes on. */
	enum flmem_launch_runner runner;
	const char *dropper;	     /* static: what drops the variables, as "env -i"; or NULL */
	struct flmem_place launcher; /* place of mpirun, srun and the like */
	const char *unclear_passing; /* static: why variables may not be passed on; or NULL */
	bool hydra; /* mpiexec of MPICH or Intel MPI, which passes on all variables */

	/* Where the statement runs: whether its variables reach what follows it. */
	enum flmem_launch_prints prints; /* what reads its output, if it is echo, printf or cat */
	bool apart;	   /* part of a pipe, or in the background: sets nothing outside */
	bool is_condition; /* begins with if, while, case and the like */
	bool for_itself;   /* ExecStartPre= of a unit: sets nothing for ExecStart= */

	/* Statements that start nothing. */
	bool names_only;	   /* only names programs: pkill -f PROGRAM */
	unsigned char names_scope; /* the scope in which `names_only` holds */
	bool shows_only;	   /* only shows its words: echo TEXT */
	bool locates;		   /* names the program that is run: $(which PROGRAM) VERB */

	/* Python. */
	bool interprets;		/* an interpreter was read: the next word may be its file */
	bool runs_file;			/* runs a file of Python that is named */
	struct flmem_place interpreter; /* place of the interpreter, or of `file_in_variable` */
	bool file_in_variable;		/* the name of the file may be in a variable */
	bool by_variable;		/* the program is in a variable, and may be Python */
	char option;			/* option before this word: 'm', 'c', or NUL */

	/* Start scripts that find and the like list. */
	bool finds;		  /* the command lists files */
	bool runs_found;	  /* something runs the listed files: -exec, | xargs */
	struct flmem_place found; /* the start script among the words; end is 0 if there is none */

	/* Wrappers, which run the program with variables that the file does not show. */
	const char *wrapper;	       /* static: why variables may be set; or NULL */
	struct flmem_place wrapped_by; /* place of the wrapper */
	bool runs_arguments;	       /* has "$@" or "$1": runs the arguments of its function */
};

#define FLMEM_LAUNCH_COMMANDS 4 /* variables with commands that are kept */

/*
 * A variable that holds a command: NAME="COMMAND". Both point into the text of the script; the
 * value is without quotes. A `name_length` of 0 marks an unused entry.
 */
struct flmem_launch_command {
	const char *name, *value;
	size_t name_length, length;
};

/* The state of one scan. */
struct flmem_launch_scan {
	/* Position. */
	const char *text;	  /* the whole script; ends in NUL */
	size_t at, line_start;	  /* offsets: of the next character, of its line */
	unsigned line;		  /* number of the line, from 1 */
	unsigned char scope;	  /* index into launches->scopes of the part of the script */
	bool after_pipe;	  /* the statement is after a "|": a separate shell runs it */
	bool next_group_function; /* the next group is the body of a function */
	bool in_array;		  /* within "NAME=(", whose words may run later as a command */
	bool any_word;		  /* a word that is not a comment has been read */

	struct flmem_launches *launches;   /* what the scan finds; not owned */
	struct flmem_launch_statement now; /* the statement that is being read */

	/* The kind of file, and the part of it. */
	bool shell;	    /* a script of a shell: only exported variables reach programs */
	bool build_step;    /* in RUN of a Dockerfile: runs while the image is built */
	bool build_section; /* in %post or the like of Apptainer: runs while the image is built */
	char folder[FLMEM_LAUNCH_PROGRAM_MAX]; /* last part of the folder entered by cd, or "" */
	bool after_tmpfs, after_mount; /* the next word is the value of --tmpfs, of --mount */

	/* Exports of the shell. */
	bool exports_all;	 /* set -a */
	const char *exported[8]; /* variables exported by name, with or without value; NULL last */

	/* Variables that Slurm does not pass on. */
	bool steps_drop;	  /* srun passes on only what #SBATCH --export lists */
	bool batch_drops;	  /* sbatch passes on nothing, because of SBATCH_EXPORT */
	const char *step_dropper; /* variable that sets `steps_drop`; NULL: #SBATCH --export */
	size_t listed; /* the first `listed` rows of variables are those of #SBATCH --export */

	/* Heredocs that begin on this line. */
	char marks[FLMEM_LAUNCH_HEREDOCS][FLMEM_LAUNCH_MARK_MAX];
	size_t mark_count;
	bool mark_next;		   /* the next word is a mark: "<< MARK" */
	bool line_runs;		   /* a command of the line is a shell, which runs their text */
	const char *heredoc_drops; /* `dropper` of the command that reads them; or NULL */

	/* Dockerfile. */
	struct flmem_launch_entry entry; /* ENTRYPOINT, for the CMD after it */
	unsigned stages;		 /* how many FROM were read */

	struct flmem_launch_command commands[FLMEM_LAUNCH_COMMANDS];
	size_t command_count;
};

/*
 * Returns the static name of the variable that the first `length` bytes of `text` name, or NULL if
 * no rule checks a variable of this name.
 */
const char *flmem_launch_variable_name(const char *text, size_t length);

/* Whether a text holds the name of a variable that rules check. */
bool flmem_launch_mentions_variable(const char *text);

/* The names of all variables that rules check, by index from 0; NULL after the last. */
const char *flmem_launch_name_at(size_t index);

/*
 * Adds a row. A `value` of NULL means that the value is not known; `launch` is -1 for the whole
 * file. Without a place nothing is added.
 */
void flmem_launch_add_variable(struct flmem_launches *launches, const char *name, const char *value,
			       int launch, const struct flmem_place *place);

/* Adds a mount in memory. `path` may be followed by a colon or a comma and options. */
void flmem_launch_add_mount(struct flmem_launches *launches, const char *path, int launch,
			    const struct flmem_place *place);

/* Adds a copy of a launch. Returns its index, or -1 if the table is full. */
int flmem_launch_add(struct flmem_launches *launches, const struct flmem_launch *launch);

/* `why` is static. */
void flmem_launch_add_doubt(struct flmem_launches *launches, const struct flmem_place *place,
			    const char *why);

/*
 * Adds a doubt about a Python file that is run: it may create a job or be the code of a client.
 * `script` is "" if the file is not known.
 */
void flmem_launch_add_script(struct flmem_launches *launches, const struct flmem_place *place,
			     const char *script);

/*
 * Scans a script, Dockerfile or unit. With `shell`, only exported variables reach the programs that
 * it starts.
 */
void flmem_launch_read_script(const char *text, bool shell, struct flmem_launches *launches);

/*
 * Reads a text that holds commands. The launches and variables in it get the place of the text, and
 * *launch becomes the index of the last launch. Returns false if the text starts no program of a
 * framework; *launch is then unchanged.
 */
bool flmem_launch_read_inner(struct flmem_launches *launches, const char *text,
			     const struct flmem_place *place, int *launch);

/* A text with commands, which is a word or a heredoc of a script. */
struct flmem_launch_text {
	const char *text;
	const struct flmem_place *place;
	unsigned char scope; /* the part of the script that it is in */
	const char *dropper; /* static: what drops variables before the text runs; or NULL */
	bool is_heredoc;
};

/* The same as flmem_launch_read_inner(), with the scope and dropper of the text. */
bool flmem_launch_read_text(struct flmem_launches *launches, const struct flmem_launch_text *text,
			    int *launch);

/* Reads a word that holds a command (launch_texts.c). Returns false if it holds none. */
bool flmem_launch_note_text(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			    const char *before);

/* Reads the commands of `COMMAND` and "$(COMMAND)" in a word (launch_others.c). */
void flmem_launch_note_substitutions(struct flmem_launch_scan *scan,
				     const struct flmem_launch_word *word);

/*
 * Adds a doubt at alias NAME='COMMAND', and at a quoted command that is an argument of an unknown
 * program.
 */
void flmem_launch_note_unfollowed(struct flmem_launch_scan *scan,
				  const struct flmem_launch_word *word);

/* Whether the output of the current command is written to a file that a shell reads. */
bool flmem_launch_writes_script(const struct flmem_launch_scan *scan);

/* Whether it is written to a Python script. */
bool flmem_launch_writes_python(const struct flmem_launch_scan *scan);

/* Keeps the command of NAME="COMMAND", and reads it where $NAME runs it; true in that case. */
bool flmem_launch_note_command(struct flmem_launch_scan *scan,
			       const struct flmem_launch_word *word);

/*
 * Name of the program that a word runs, without its folder; for $NAME, the program that the
 * variable holds, if it is known. Returns a pointer into `text` or `out`.
 */
const char *flmem_launch_program_of(struct flmem_launch_scan *scan, const char *text,
				    char out[FLMEM_LAUNCH_PROGRAM_MAX]);

/* The text that env -S splits into words; NULL if the word is not that text. */
const char *flmem_launch_split_string(const struct flmem_launch_scan *scan, const char *text,
				      const char *before);

/* At the words "echo", "printf" and "cat": finds which program reads their output. */
void flmem_launch_note_output(struct flmem_launch_scan *scan, const struct flmem_launch_word *word);

/* Adds a doubt at a word that names a file from which a shell reads its commands. */
void flmem_launch_note_commands(struct flmem_launch_scan *scan,
				const struct flmem_launch_word *word, const char *before);

/* Text of the doubt about a command that another program runs. */
extern const char flmem_launch_by_others[];

/* Reads the containers of a YAML document, or if it has none, the variables anywhere in it. */
void flmem_launch_read_yaml(const struct flmem_node *root, struct flmem_launches *launches);

/*
 * Adds a doubt for each file that is a text inside of the document and about a framework: an entry
 * of a ConfigMap (launch_embedded.c).
 */
void flmem_launch_read_embedded(const struct flmem_node *root, struct flmem_launches *launches);

/* Whether an unparsed document about a framework has the name of such a file. */
bool flmem_launch_may_embed(const struct flmem_buf *text);

/* Reads the tasks of JSON or TOML, or if there are none, the variables anywhere in it. */
void flmem_launch_read_tasks(const struct flmem_node *root, struct flmem_launches *launches);

/* Reads variables at any key, for a program that the document does not show. */
void flmem_launch_read_bare(const struct flmem_node *root, struct flmem_launches *launches);

/* Adds a row that ends a variable at a place; a `name` of "" ends all variables. */
void flmem_launch_add_unset(struct flmem_launches *launches, const char *name, int launch,
			    const struct flmem_place *place);

/*
 * Records that `dropper` (static, "env -i") keeps all variables set before, also those in front of
 * the command, from the program that follows.
 */
void flmem_launch_drop(struct flmem_launch_scan *scan, const struct flmem_place *place,
		       const char *dropper);

/* Moves on by `count` characters, or to the end of the text. */
void flmem_launch_skip(struct flmem_launch_scan *scan, size_t count);

/* Reads a word and removes its quotes; ${...} is kept whole. Must not be called at the end. */
void flmem_launch_read_word(struct flmem_launch_scan *scan, struct flmem_launch_word *word);

/* Ends the statement: decides for which launch its variables are, and resets scan->now. */
void flmem_launch_end_statement(struct flmem_launch_scan *scan);

/* Reads a list of variables of srun, sbatch or supervisord. Returns false for other words. */
bool flmem_launch_note_list(struct flmem_launch_scan *scan, const struct flmem_launch_word *word);

/* Adds the variables of a list NAME=VALUE,NAME of a scheduler. */
void flmem_launch_add_listed(struct flmem_launch_scan *scan, const char *list,
			     const struct flmem_place *place);

/* At an option that names a variable: passes on its value from before the command. */
void flmem_launch_pass_on(struct flmem_launch_scan *scan, const char *name,
			  const struct flmem_place *place);

/* Cancels flmem_launch_drop() in this statement, at an option that keeps all variables. */
void flmem_launch_undo_drop(struct flmem_launch_scan *scan);

/* The command after a key, as in "ExecStart=COMMAND"; the whole text if there is no key. */
const char *flmem_launch_skip_key(const struct flmem_launch_scan *scan, const char *text);

/*
 * At each word before the program: notes a wrapper that may set variables for it, and at the end of
 * the statement adds the doubt (launch_wrappers.c).
 */
void flmem_launch_note_wrapper(struct flmem_launch_scan *scan,
			       const struct flmem_launch_word *word);
void flmem_launch_end_wrapper(struct flmem_launch_scan *scan);

/* Whether the command is a function of the script, so that variables before it may reach more. */
bool flmem_launch_sets_by_function(const struct flmem_launch_scan *scan);

/* Whether a program only names others, as pkill and which do (launch_named.c). */
bool flmem_launch_is_naming(const char *program);

/* Whether the quoted arguments of a program are only shown, searched for or compared. */
bool flmem_launch_only_shows(const char *program);

/*
 * Whether the output of the command that begins here is read by another program as commands or
 * arguments.
 */
bool flmem_launch_is_piped_to_others(const struct flmem_launch_scan *scan);

/*
 * Notes at each word the start script that find, ls and the like list, and at the end of the
 * statement adds a doubt if something runs it (launch_others.c).
 */
void flmem_launch_note_found(struct flmem_launch_scan *scan, const struct flmem_launch_word *word);
void flmem_launch_end_found(struct flmem_launch_scan *scan);

/* Whether the rest of the statement starts nothing, as after "pkill" (launch_named.c). */
bool flmem_launch_only_names(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			     const char *before);

/*
 * Which variables a launcher such as mpirun passes on (launch_launchers.c). Called at its name, at
 * each word after that, and at the end of the statement.
 */
void flmem_launch_begin_launcher(struct flmem_launch_scan *scan,
				 const struct flmem_launch_word *word);
void flmem_launch_note_launcher(struct flmem_launch_scan *scan,
				const struct flmem_launch_word *word);
void flmem_launch_note_parallel(struct flmem_launch_scan *scan,
				const struct flmem_launch_word *word);
void flmem_launch_end_launcher(struct flmem_launch_scan *scan);

/* Which variables bsub and qsub pass on. True if the word needs no further reading. */
bool flmem_launch_note_submission(struct flmem_launch_scan *scan,
				  const struct flmem_launch_word *word, const char *before);

/*
 * Drops at "srun" the variables that #SBATCH --export does not list; note_steps() reads assignments
 * of SLURM_EXPORT_ENV, SRUN_EXPORT_ENV and SBATCH_EXPORT, which switch that on or off.
 */
void flmem_launch_drop_of_step(struct flmem_launch_scan *scan, const struct flmem_place *place,
			       const char *dropper);
void flmem_launch_note_steps(struct flmem_launch_scan *scan, const char *text);

/* Drops at "sbatch" all variables, if SBATCH_EXPORT is NONE or NIL. */
void flmem_launch_drop_of_batch(struct flmem_launch_scan *scan, const struct flmem_place *place);

/*
 * Reads "python3 -u job.py", "./job.py", and python3 "$1", whose file is not known. `name` is the
 * word without its folder (launch_python.c).
 */
void flmem_launch_note_python(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			      const char *name);
void flmem_launch_end_python(struct flmem_launch_scan *scan);

/* Reads the code in the heredoc of `python3 <<MARK`. */
void flmem_launch_note_stdin(struct flmem_launch_scan *scan, const char *mark,
			     const struct flmem_place *place);

/* Reads Python code in a word. Returns false if it creates no job and runs no simulator. */
bool flmem_launch_note_own_code(struct flmem_launch_scan *scan, const char *code,
				const struct flmem_place *place);

/* Whether a command runs Python code that creates a job or runs a simulator. */
bool flmem_launch_is_code(const char *text);

/* Whether Python code in a word creates a job or runs another file. */
bool flmem_launch_makes_job(const char *text);

/*
 * Adds the launch of a simulator and the doubt about a script that Python code stands for, with the
 * place, scope and dropper of `at`. *launch becomes the index of the launch. Returns false if the
 * code creates no job and runs no simulator.
 */
bool flmem_launch_note_code(struct flmem_launches *launches, const char *code,
			    const struct flmem_launch *at, int *launch);

/* The text after the prefix APPTAINERENV_ or SINGULARITYENV_; the text if it has none. */
const char *flmem_launch_skip_apptainer(const char *text);

/*
 * Skips a comment and reads the directives of a scheduler in it: #SBATCH --export=ALL,NAME=VALUE.
 */
void flmem_launch_note_comment(struct flmem_launch_scan *scan);

/*
 * Read the exports of the shell, programs that run commands in another environment, and files of
 * variables that are sourced (launch_shell.c). `before` is the word before, at most 7 characters.
 */
void flmem_launch_note_export(struct flmem_launch_scan *scan, const char *text, const char *before);
void flmem_launch_note_runner(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			      const char *before);
void flmem_launch_note_source(struct flmem_launch_scan *scan, const struct flmem_launch_word *word);
/* Whether the script exports a variable by its name, so that later assignments are exported too. */
bool flmem_launch_is_exported(const struct flmem_launch_scan *scan, const char *name);

/* Read a bracket or a separator, which begins or ends a part of the script (launch_scopes.c). */
void flmem_launch_note_bracket(struct flmem_launch_scan *scan);
void flmem_launch_note_separator(struct flmem_launch_scan *scan);

/* Reads a keyword of the shell, such as "if". Returns false for other words. */
bool flmem_launch_note_keyword(struct flmem_launch_scan *scan, const char *text);

/* Reads the operator of a heredoc, or the mark after one. Returns false if the word is neither. */
bool flmem_launch_note_heredoc(struct flmem_launch_scan *scan,
			       const struct flmem_launch_word *word);
bool flmem_launch_note_image_heredoc(struct flmem_launch_scan *scan,
				     const struct flmem_launch_word *word);

/* Adds a scope for one command: variables set in it reach nothing else. Returns its index. */
unsigned char flmem_launch_own_scope(struct flmem_launch_scan *scan);

/* Adds a doubt at a quoted command that sets a variable. True if the word is such a command. */
bool flmem_launch_note_quoted(struct flmem_launch_scan *scan, const struct flmem_launch_word *word);

#endif
