/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which variables launchers of parallel programs and of containers pass on: mpiexec(1) of
 * MPICH and Intel MPI, mpirun(1) of Open MPI, flux-run(1), jsrun, ch-run(1), enroot, parallel(1).
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_scan.h"

static const char by_mpirun[] =
	"Open MPI passes on to other hosts only variables of -x; check what runs there";
static const char by_jsrun[] = "which variables jsrun passes on depends on its options";
static const char by_enroot[] = "which variables enroot passes on depends on its configuration";

/* Drops the variables that a pattern matches: "NAME", "PREFIX*", "*". */
static void drop_pattern(struct flmem_launch_scan *scan, const char *pattern,
			 const struct flmem_place *place, const char *dropper)
{
	size_t length = strcspn(pattern, "*?[/");
	bool prefix = pattern[length] == '*' && !pattern[length + 1];
	const char *name;

	if (prefix && !length) {
		flmem_launch_drop(scan, place, dropper);
		return;
	}
	if (pattern[length] && !prefix) {
		flmem_launch_add_doubt(scan->launches, place,
				       "a pattern chooses which variables it gets");
		return;
	}
	for (size_t i = 0; (name = flmem_launch_name_at(i)); i++)
		if (strncmp(name, pattern, length) == 0 && (prefix || !name[length]))
			flmem_launch_add_unset(scan->launches, name, -1, place);
}

/* Passes on the variable that the value of an option names. */
static void pass_named(struct flmem_launch_scan *scan, const char *text,
		       const struct flmem_place *place)
{
	const char *name = flmem_launch_variable_name(text, strlen(text));

	if (name)
		flmem_launch_pass_on(scan, name, place);
}

static bool is_local_list(const char *hosts)
{
	while (*hosts) {
		if (!flmem_text_starts(hosts, "localhost") && !flmem_text_starts(hosts, "127."))
			return false;
		hosts += strcspn(hosts, ",");
		hosts += *hosts == ',';
	}
	return true;
}

static bool is_host_option(const char *text)
{
	static const char *const options[] = {"-H",	      "-host",	       "--host",
					      "-hosts",	      "-hostfile",     "--hostfile",
					      "-machinefile", "--machinefile", NULL};

	return flmem_text_is_one_of(text, options);
}

/* Notes hosts of mpirun (--host a,b): to others than the local host not all variables go. */
static void note_hosts(struct flmem_launch_scan *scan, const char *text)
{
	static const char attached[] = "--host=";
	bool own = flmem_text_starts(text, attached);

	if ((own && !is_local_list(text + sizeof(attached) - 1)) ||
	    flmem_text_starts(text, "--hostfile=") ||
	    (is_host_option(scan->now.previous) && !is_local_list(text)))
		scan->now.unclear_passing = by_mpirun;
}

static void note_mpi(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char *const none[] = {"-genvnone", "-envnone", NULL};
	static const char *const lists[] = {"-genvlist", "-envlist", NULL};
	static const char *const pairs[] = {"-genv", "-env", NULL};
	const char *text = word->text, *before = scan->now.previous;

	scan->now.hydra |= flmem_text_starts(text, "-genv") || flmem_text_starts(text, "-env");
	if (flmem_text_is_one_of(text, none)) {
		flmem_launch_drop(scan, &word->place, "mpiexec -genvnone");
	} else if (flmem_text_is_one_of(before, lists)) {
		flmem_launch_drop(scan, &word->place, "mpiexec -genvlist");
		flmem_launch_add_listed(scan, text, &word->place);
	} else if (flmem_text_is_one_of(before, pairs)) {
		scan->now.pending = flmem_launch_variable_name(text, strlen(text));
	} else if (strcmp(before, "-x") == 0) {
		pass_named(scan, word->text, &word->place);
	} else {
		note_hosts(scan, text);
	}
}

/* Reads --env=-PATTERN, --env-remove=PATTERN and --env=NAME of flux run. */
static void note_flux(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char rule[] = "--env=", removed[] = "--env-remove=";
	const char *text = word->text, *before = scan->now.previous;
	bool named = strcmp(before, "--env") == 0;

	if (flmem_text_starts(text, rule)) {
		text += sizeof(rule) - 1;
		named = true;
	}
	if (named && *text == '-')
		drop_pattern(scan, text + 1, &word->place, "flux --env");
	else if (named)
		pass_named(scan, text, &word->place);
	else if (flmem_text_starts(text, removed))
		drop_pattern(scan, text + sizeof(removed) - 1, &word->place, "flux --env-remove");
	else if (strcmp(before, "--env-remove") == 0)
		drop_pattern(scan, text, &word->place, "flux --env-remove");
}

static void note_jsrun(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	if (strcmp(word->text, "-D") == 0 || flmem_text_starts(word->text, "--env_no_propagate"))
		scan->now.unclear_passing = by_jsrun;
	else if (strcmp(scan->now.previous, "-E") == 0 || strcmp(scan->now.previous, "--env") == 0)
		pass_named(scan, word->text, &word->place);
}

/* Reads --unset-env=PATTERN and --set-env=FILE; --set-env=NAME=VALUE is read as an assignment. */
static void note_ch_run(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char unset[] = "--unset-env=", set[] = "--set-env";
	const char *text = word->text, *value = strchr(text, '=');

	if (flmem_text_starts(text, unset)) {
		drop_pattern(scan, text + sizeof(unset) - 1, &word->place, "ch-run --unset-env");
	} else if (flmem_text_starts(text, set) && !(value && strchr(value + 1, '='))) {
		scan->launches->open = true;
		flmem_launch_add_doubt(scan->launches, &word->place,
				       "variables are set in another file or by another command");
	}
}

/* Drops variables for hosts of --sshlogin, except those that --env names before or after it. */
static void drop_for_hosts(struct flmem_launch_scan *scan, const struct flmem_place *place)
{
	const struct flmem_launches *launches = scan->launches;
	size_t count = launches->variable_count;

	if (scan->now.dropper) /* an earlier option for hosts has dropped them */
		return;
	flmem_launch_drop(scan, place, "parallel --sshlogin");
	for (size_t i = scan->now.first_variable; i < count; i++)
		if (launches->variables[i].repeated)
			flmem_launch_pass_on(scan, launches->variables[i].name, place);
}

void flmem_launch_note_parallel(struct flmem_launch_scan *scan,
				const struct flmem_launch_word *word)
{
	static const char *const hosts[] = {"-S", "--sshlogin", "--sshloginfile", "--slf", NULL};
	static const char attached[] = "--sshlogin";
	const char *text = word->text, *before = scan->now.previous;

	if (strcmp(scan->now.command, "parallel") != 0)
		return;
	if (flmem_text_is_one_of(before, hosts)
		    ? strcmp(text, ":") != 0
		    : flmem_text_starts(text, attached) && strchr(text, '='))
		drop_for_hosts(scan, &word->place);
	else if (strcmp(before, "--env") == 0)
		pass_named(scan, word->text, &word->place);
}

void flmem_launch_note_launcher(struct flmem_launch_scan *scan,
				const struct flmem_launch_word *word)
{
	switch (scan->now.runner) {
	case FLMEM_LAUNCH_BY_MPI:
		note_mpi(scan, word);
		break;
	case FLMEM_LAUNCH_BY_FLUX:
		note_flux(scan, word);
		break;
	case FLMEM_LAUNCH_BY_JSRUN:
		note_jsrun(scan, word);
		break;
	case FLMEM_LAUNCH_BY_CH_RUN:
		note_ch_run(scan, word);
		break;
	case FLMEM_LAUNCH_BY_ENROOT:
		if (strcmp(scan->now.previous, "-e") == 0 ||
		    strcmp(scan->now.previous, "--env") == 0)
			pass_named(scan, word->text, &word->place);
		break;
	default:
		break;
	}
}

void flmem_launch_begin_launcher(struct flmem_launch_scan *scan,
				 const struct flmem_launch_word *word)
{
	scan->now.launcher = word->place;
	if (scan->now.runner == FLMEM_LAUNCH_BY_ENROOT)
		scan->now.unclear_passing = by_enroot;
}

void flmem_launch_end_launcher(struct flmem_launch_scan *scan)
{
	const struct flmem_launch_statement *now = &scan->now;
	const char *name;

	if (now->launch < 0 || !now->unclear_passing || now->hydra)
		return;
	for (size_t i = 0; (name = flmem_launch_name_at(i)); i++) {
		const struct flmem_launch_variable *row =
			flmem_launch_find(scan->launches, now->launch, name);

		if (!row || row->repeated || row->place.start > now->launcher.start)
			continue;
		flmem_launch_add_doubt(scan->launches, &now->launcher, now->unclear_passing);
		return;
	}
}
