/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LAUNCH_SCAN_H
#define FLMEM_FRAMEWORKS_LAUNCH_SCAN_H

/* Shared by the readers of scripts and of containers. */

#include "frameworks/launch/launch_search.h"

#define FLMEM_LAUNCH_WORD_MAX	 4096
#define FLMEM_LAUNCH_PROGRAM_MAX 64
#define FLMEM_LAUNCH_HEREDOCS	 4
#define FLMEM_LAUNCH_MARK_MAX	 64

/* One word of a script: its text without quotes, and its place. */
struct flmem_launch_word {
	struct flmem_place place;
	bool cut; /* the word is longer than the buffer */
	char text[FLMEM_LAUNCH_WORD_MAX];
};

/* Programs that run the rest of a command. */
enum flmem_launch_runner {
	FLMEM_LAUNCH_DIRECTLY,
	FLMEM_LAUNCH_BY_ENV,
	FLMEM_LAUNCH_BY_SUDO,
	FLMEM_LAUNCH_BY_SU,
	FLMEM_LAUNCH_BY_SSH,
	FLMEM_LAUNCH_BY_TEXT, /* eval, tmux, screen: a word may be a command */
	FLMEM_LAUNCH_BY_SHELL,
	FLMEM_LAUNCH_BY_CONTAINER, /* docker run */
	FLMEM_LAUNCH_BY_APPTAINER,
	FLMEM_LAUNCH_BY_MPI,
	FLMEM_LAUNCH_BY_FLUX,
	FLMEM_LAUNCH_BY_JSRUN,
	FLMEM_LAUNCH_BY_CH_RUN,
	FLMEM_LAUNCH_BY_ENROOT,
};

/* What reads the output of "echo TEXT |" and the like. */
enum flmem_launch_prints {
	FLMEM_LAUNCH_NOWHERE,
	FLMEM_LAUNCH_TO_SHELL,
	FLMEM_LAUNCH_TO_PYTHON,
	FLMEM_LAUNCH_TO_OTHERS, /* env -i bash, ssh, xargs */
};

/* The meaning of the words after an entry point. */
struct flmem_launch_entry {
	char previous[FLMEM_LAUNCH_PROGRAM_MAX], earlier[FLMEM_LAUNCH_PROGRAM_MAX];
	bool interprets;
	char option;
};

/* The statement that is being read. */
struct flmem_launch_statement {
	int launch;				 /* the launch on it, or -1 */
	size_t first;				 /* its first variable */
	char command[FLMEM_LAUNCH_PROGRAM_MAX];	 /* last part of its first word */
	char previous[FLMEM_LAUNCH_PROGRAM_MAX]; /* last part of the word before */
	char earlier[FLMEM_LAUNCH_PROGRAM_MAX];	 /* and of the one before that */
	char entry[FLMEM_LAUNCH_PROGRAM_MAX];	 /* of docker run --entrypoint, or "" */
	const char *pending; /* its value is the next word: Dockerfile's ENV NAME VALUE; or NULL */
	bool after_env;
	bool declares, exports, unsets;
	bool refers; /* declare -n NAME=OTHER */
	enum flmem_launch_prints prints;
	enum flmem_launch_runner runner;
	const char *dropper;
	struct flmem_place launcher; /* mpirun and the like */
	const char *unclear_passing; /* why it may not pass variables on; or NULL */
	bool hydra;		     /* it is that of MPICH or Intel MPI, which passes all on */
	bool unsets_next;	     /* env -u NAME */
	bool mentions;		     /* a variable that rules check */
	bool apart;		     /* part of a pipe or in the background: sets nothing outside */
	bool opens;		     /* it is the header of a condition */
	bool names_only;	     /* it only names programs: pkill -f PROGRAM */
	unsigned char names_scope;   /* in which it does so */
	bool shows_only;	     /* its words are only shown: echo TEXT */
	bool for_itself;	     /* ExecStartPre= of a unit: sets nothing for ExecStart= */
	bool interprets;	     /* it runs a file of Python, which the next word may be */
	bool runs_file;		     /* it runs one that is named */
	struct flmem_place interpreter; /* or of a variable that may be the file */
	bool unclear;			/* that it is a variable */
	bool by_variable;		/* the program is one, and may be Python */
	bool locates;			/* what it names is the program: $(which PROGRAM) VERB */
	bool finds, runs_found;		/* it lists files; something runs these */
	struct flmem_place found;	/* the start script among them */
	char option;			/* of Python, before the word: 'm', 'c', or NUL */
	const char *wrapper;		/* why what runs the program may set variables; or NULL */
	struct flmem_place wrapped_by;
	bool runs_arguments; /* "$@", of a function */
};

#define FLMEM_LAUNCH_COMMANDS 4

/* NAME="COMMAND", where both are in the text of the script; the value without quotes. */
struct flmem_launch_command {
	const char *name, *value;
	size_t name_length, length;
};

struct flmem_launch_scan {
	const char *text;
	size_t at, line_start;
	unsigned line;
	struct flmem_launches *launches;
	struct flmem_launch_statement now;
	unsigned char scope;
	bool runs;		  /* there was a word that is not a comment */
	bool function;		  /* the next group is one */
	bool shell;		  /* the file is a script: its variables have to be exported */
	bool exports_all;	  /* set -a */
	bool build_step;	  /* RUN of a Dockerfile */
	bool build_section;	  /* %post of Apptainer */
	bool steps_drop;	  /* srun passes on only what #SBATCH --export lists */
	bool batch_drops;	  /* sbatch passes on nothing, by SBATCH_EXPORT */
	const char *step_dropper; /* the variable by which steps drop; NULL: #SBATCH --export */
	bool after_pipe;	  /* a separate shell runs the statement */
	size_t listed;		  /* how many variables that is: the first ones */
	const char *exported[8];  /* by name alone; ends in NULL */
	char folder[FLMEM_LAUNCH_PROGRAM_MAX]; /* last part of the one that it is in, or "" */
	bool after_tmpfs, after_mount; /* options of docker run whose value is the next word */
	char marks[FLMEM_LAUNCH_HEREDOCS][FLMEM_LAUNCH_MARK_MAX]; /* heredocs of this line */
	size_t mark_count;
	bool mark_next;			 /* the next word is one */
	bool line_runs;			 /* a command of the line is a shell */
	const char *heredoc_drops;	 /* the `dropper` of what reads them */
	struct flmem_launch_entry entry; /* of a Dockerfile, for its CMD */
	unsigned stages;		 /* of it, up to here */
	struct flmem_launch_command commands[FLMEM_LAUNCH_COMMANDS];
	size_t command_count;
};

/* The name as the tables spell it; NULL: no rule checks the variable. */
const char *flmem_launch_variable_name(const char *text, size_t length);

/* Whether a text holds the name of such a variable. */
bool flmem_launch_mentions_variable(const char *text);

/* Calls for each name that rules check; NULL after the last. */
const char *flmem_launch_name_at(size_t index);

/* A value of NULL is not known. */
void flmem_launch_add_variable(struct flmem_launches *launches, const char *name, const char *value,
			       int launch, const struct flmem_place *place);

/* Adds a path, which may be followed by a colon and options. */
void flmem_launch_add_mount(struct flmem_launches *launches, const char *path, int launch,
			    const struct flmem_place *place);

/* Its index; -1 where there is no more room. */
int flmem_launch_add(struct flmem_launches *launches, const struct flmem_launch *launch);

void flmem_launch_add_doubt(struct flmem_launches *launches, const struct flmem_place *place,
			    const char *why);

/* A Python file that is run, which may create a job or be the code of a client. */
void flmem_launch_add_script(struct flmem_launches *launches, const struct flmem_place *place,
			     const char *script);

/* `shell`: only exported variables reach the programs that it starts. */
void flmem_launch_read_script(const char *text, bool shell, struct flmem_launches *launches);

/*
 * Reads a text that holds commands with their variables, which get the place of the text. The last
 * launch in it becomes *launch. False if it starts no program of that kind.
 */
bool flmem_launch_read_inner(struct flmem_launches *launches, const char *text,
			     const struct flmem_place *place, int *launch);

/* A text with commands, in a word or a heredoc. */
struct flmem_launch_text {
	const char *text;
	const struct flmem_place *place;
	unsigned char scope;
	const char *dropper; /* of what runs it, or NULL */
	bool is_heredoc;
};

bool flmem_launch_read_text(struct flmem_launches *launches, const struct flmem_launch_text *text,
			    int *launch);

/* Reads a word that holds a command. False for any other word. */
bool flmem_launch_note_text(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			    const char *before);

/* `COMMAND`, and "$(COMMAND)" in quotes (launch_others.c). */
void flmem_launch_note_substitutions(struct flmem_launch_scan *scan,
				     const struct flmem_launch_word *word);

/* alias NAME='COMMAND', and a quoted command that is an argument of an unknown program: a doubt. */
void flmem_launch_note_unfollowed(struct flmem_launch_scan *scan,
				  const struct flmem_launch_word *word);

/* Whether what a command prints is written to a file that a shell reads. */
bool flmem_launch_writes_script(const struct flmem_launch_scan *scan);

/* At NAME="COMMAND", and where $NAME runs it. True if the word runs one. */
bool flmem_launch_note_command(struct flmem_launch_scan *scan,
			       const struct flmem_launch_word *word);

/* The last part of a word of a command, or of the program that its variable stands for. */
const char *flmem_launch_program_of(struct flmem_launch_scan *scan, const char *text,
				    char out[FLMEM_LAUNCH_PROGRAM_MAX]);

/* The text after the option -S of env, which splits it; NULL: the word is not that text. */
const char *flmem_launch_split_string(const struct flmem_launch_scan *scan, const char *text,
				      const char *before);

/* At "echo", "printf" and "cat": what a pipe makes of their output. */
void flmem_launch_note_output(struct flmem_launch_scan *scan, const struct flmem_launch_word *word);

/* At a word of a command: a file that a shell reads its commands from is a doubt. */
void flmem_launch_note_commands(struct flmem_launch_scan *scan,
				const struct flmem_launch_word *word, const char *before);

/* The reason for doubt about a command that another program runs. */
extern const char flmem_launch_by_others[];

/* Containers, or where there are none the variables of the file. */
void flmem_launch_read_yaml(const struct flmem_node *root, struct flmem_launches *launches);

/* Tasks of JSON and TOML, or where there are none the variables of the file. */
void flmem_launch_read_tasks(const struct flmem_node *root, struct flmem_launches *launches);

/* Variables anywhere, for a program that the file does not show. */
void flmem_launch_read_bare(const struct flmem_node *root, struct flmem_launches *launches);

/* Marks where a variable stops applying; "": all variables. */
void flmem_launch_add_unset(struct flmem_launches *launches, const char *name, int launch,
			    const struct flmem_place *place);

void flmem_launch_drop(struct flmem_launch_scan *scan, const struct flmem_place *place,
		       const char *dropper);

void flmem_launch_skip(struct flmem_launch_scan *scan, size_t count);

/* Reads a word and removes its quotes; ${...} is kept whole. Not at the end of the text. */
void flmem_launch_read_word(struct flmem_launch_scan *scan, struct flmem_launch_word *word);

/* Variables in front of a command apply only to that command. */
void flmem_launch_end_statement(struct flmem_launch_scan *scan);

/* Variables in a list of srun, sbatch and supervisord. False if the word has none. */
bool flmem_launch_note_list(struct flmem_launch_scan *scan, const struct flmem_launch_word *word);

/* A list of NAME=VALUE and NAME, as schedulers take it. */
void flmem_launch_add_listed(struct flmem_launch_scan *scan, const char *list,
			     const struct flmem_place *place);

/* NAME alone: the value that it has before the statement, or in front of its command. */
void flmem_launch_pass_on(struct flmem_launch_scan *scan, const char *name,
			  const struct flmem_place *place);

/* An option of the command cancels an earlier drop of variables. */
void flmem_launch_undo_drop(struct flmem_launch_scan *scan);

/* The command in a word that begins with a key of a unit or the like; else the word. */
const char *flmem_launch_skip_key(const struct flmem_launch_scan *scan, const char *text);

/* At a word before the program: what may set variables for it (launch_wrappers.c). */
void flmem_launch_note_wrapper(struct flmem_launch_scan *scan,
			       const struct flmem_launch_word *word);

void flmem_launch_end_wrapper(struct flmem_launch_scan *scan);

/* Whether variables in front of a command reach programs by a function of the script. */
bool flmem_launch_sets_by_function(const struct flmem_launch_scan *scan);

/* Whether a program only names others, as pkill and which do (launch_named.c). */
bool flmem_launch_is_naming(const char *program);

/* Whether a command's texts in quotes are only for people, or compared. */
bool flmem_launch_only_shows(const char *program);

/*
 * Whether the output of the command that begins here is read by another program as commands or
 * arguments.
 */
bool flmem_launch_is_piped_to_others(const struct flmem_launch_scan *scan);

/* The start script of a kit that find and the like list: at each word, after the command. */
void flmem_launch_note_found(struct flmem_launch_scan *scan, const struct flmem_launch_word *word);
void flmem_launch_end_found(struct flmem_launch_scan *scan);

/* Whether the words of the statement from this one on start nothing. */
bool flmem_launch_only_names(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			     const char *before);

/* What launchers pass on (launch_launchers.c): at their name, at an option, after the command. */
void flmem_launch_begin_launcher(struct flmem_launch_scan *scan,
				 const struct flmem_launch_word *word);
void flmem_launch_note_launcher(struct flmem_launch_scan *scan,
				const struct flmem_launch_word *word);
void flmem_launch_note_parallel(struct flmem_launch_scan *scan,
				const struct flmem_launch_word *word);
void flmem_launch_end_launcher(struct flmem_launch_scan *scan);

/* Which variables bsub and qsub pass on. True where that is all that is known of the word. */
bool flmem_launch_note_submission(struct flmem_launch_scan *scan,
				  const struct flmem_launch_word *word, const char *before);

/* What srun drops in a job with #SBATCH --export; SLURM_EXPORT_ENV, which ends or begins that. */
void flmem_launch_drop_of_step(struct flmem_launch_scan *scan, const struct flmem_place *place,
			       const char *dropper);
void flmem_launch_note_steps(struct flmem_launch_scan *scan, const char *text);

/* What sbatch drops where SBATCH_EXPORT is NONE or NIL. */
void flmem_launch_drop_of_batch(struct flmem_launch_scan *scan, const struct flmem_place *place);

/* "python3 -u job.py", "./job.py", and python3 "$1", whose file is not known (launch_python.c). */
void flmem_launch_note_python(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			      const char *name);
void flmem_launch_end_python(struct flmem_launch_scan *scan);

/* At a heredoc of `python3 <<MARK`. */
void flmem_launch_note_stdin(struct flmem_launch_scan *scan, const char *mark,
			     const struct flmem_place *place);

/* Code of Python in a word of the script. False if it makes no job and runs no simulator. */
bool flmem_launch_note_own_code(struct flmem_launch_scan *scan, const char *code,
				const struct flmem_place *place);

/* Whether a command runs code that makes a job or runs a simulator. */
bool flmem_launch_is_code(const char *text);

/*
 * Adds what such code starts, with the place, scope and dropper of `at`. False for any other code.
 */
bool flmem_launch_note_code(struct flmem_launches *launches, const char *code,
			    const struct flmem_launch *at, int *launch);

/* The text after APPTAINERENV_ or SINGULARITYENV_; else the text. */
const char *flmem_launch_skip_apptainer(const char *text);

/*
 * Skips a comment and reads the directives of a scheduler in it: #SBATCH --export=ALL,NAME=VALUE.
 */
void flmem_launch_note_comment(struct flmem_launch_scan *scan);

/* The shell's exports, and what runs commands in another environment (launch_shell.c). */
void flmem_launch_note_export(struct flmem_launch_scan *scan, const char *text, const char *before);
void flmem_launch_note_runner(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			      const char *before);
void flmem_launch_note_source(struct flmem_launch_scan *scan, const struct flmem_launch_word *word);
bool flmem_launch_is_exported(const struct flmem_launch_scan *scan, const char *name);

/* Parts of a script and heredocs (launch_scopes.c). At a bracket or separator: skips it. */
void flmem_launch_note_bracket(struct flmem_launch_scan *scan);
void flmem_launch_note_separator(struct flmem_launch_scan *scan);

/* Whether a word is a keyword of the shell at the start of a statement. */
bool flmem_launch_note_keyword(struct flmem_launch_scan *scan, const char *text);

/* Whether a word is an operator of a heredoc, or the mark after one. */
bool flmem_launch_note_heredoc(struct flmem_launch_scan *scan,
			       const struct flmem_launch_word *word);

/* A scope of one command: what is set in it reaches nothing else. */
unsigned char flmem_launch_own_scope(struct flmem_launch_scan *scan);

/* True where that is all that is known of the word. */
bool flmem_launch_note_quoted(struct flmem_launch_scan *scan, const struct flmem_launch_word *word);

#endif
