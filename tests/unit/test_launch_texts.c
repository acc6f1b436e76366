/* SPDX-License-Identifier: Apache-2.0 */
/* Tests commands that are texts: in words, after a pipe, in a here-string. */
#include "launch_rows.h"

#include "base/cleanup.h"
#include "base/text/buf.h"

#define RUN    "nvflare simulator job"
#define SIM    "from nvflare.recipe import SimEnv; r.execute(SimEnv(num_clients=2))"
#define REFERS "a variable is set by another name"

static const struct row texts[] = {
	/* texts that a shell reads from a pipe */
	{UNSET, "echo '" RUN "' | bash\n", 1, NULL},
	{UNSET, SET "echo '" RUN "' | bash\n", 0, NULL},
	{UNSET, SET "echo \"" RUN "\" 2>&1 | /bin/sh -x\n", 0, NULL},
	{UNSET, "cd ws && echo -e 'cd x\\n" RUN "' |& zsh\n", 1, NULL},
	{UNSET, "printf 'export MALLOC_ARENA_MAX=4\\n" RUN "\\n' | sh\n", 0, NULL},
	{IGNORED, "printf 'export MALLOC_ARENA_MAX=4\\n" RUN "\\n' | sh\n", 0, NULL},
	{IGNORED, "printf 'export MALLOC_ARENA_MAX=0\\n" RUN "\\n' | sh\n", 1, NULL},
	{UNSET, "printf '%s\\n' '" RUN "' | sh\n", 1, NULL},
	{UNSET, "echo '" RUN "' | at now\n", 1, NULL},
	{UNSET, SET "echo '" RUN "' | batch\n", 0, NULL},
	/* texts for another program, which may run them or not */
	{UNCLEAR, "echo '" RUN "' | ssh host\n", 1, "another command runs"},
	{UNCLEAR, "echo '" RUN "' | sudo bash\n", 1, "another command runs"},
	{UNCLEAR, "echo '" RUN "' | MALLOC_ARENA_MAX=4 bash\n", 1, NULL},
	{UNSET, "echo '" RUN "' | MALLOC_ARENA_MAX=4 bash\n", 0, NULL},
	{UNCLEAR, "echo '" RUN "' | tee log | bash\n", 1, NULL},
	{UNCLEAR, "echo '0 3 * * * " RUN "' | crontab -\n", 1, NULL},
	/* texts that are only printed */
	{UNCLEAR, CLIENT "echo '" RUN "' | tee log; bash x\n", 0, NULL},
	{UNCLEAR, CLIENT "echo '" RUN "' || bash x\n", 0, NULL},
	{UNCLEAR, CLIENT "echo '" RUN "' >bash\necho 'a|bash' '" RUN "'\n", 0, NULL},
	{UNSET, SET CLIENT "unset MALLOC_ARENA_MAX\necho '" RUN "' | cat\n", 0, NULL},
	{UNSET, SET CLIENT "unset MALLOC_ARENA_MAX\necho read '" RUN "'\n", 0, NULL},
	{UNSET, SET CLIENT "unset MALLOC_ARENA_MAX\necho 'x y' | bash # " RUN "\n", 0, NULL},

	/* here-strings */
	{UNSET, "bash <<< '" RUN "'\n", 1, NULL},
	{UNSET, SET "bash -s <<<\"" RUN "\"\n", 0, NULL},
	{UNSET, SET "sudo bash <<< '" RUN "'\n", 1, "sudo drops it"},
	{UNSET, SET "ssh host <<< '" RUN "'\n", 1, "ssh drops it"},
	{UNSET, "sh <<<$'export MALLOC_ARENA_MAX=4\\n" RUN "'\n", 0, NULL},
	{UNSET, "at now <<< '" RUN "'\n", 1, NULL},
	{UNSET, SET CLIENT "unset MALLOC_ARENA_MAX\ngrep x <<< '" RUN "'\n", 0, NULL},
	{UNSET, "at now <<EOF\n" CLIENT "EOF\n", 1, NULL},
	{UNSET, SET "at now <<EOF\n" CLIENT "EOF\n", 0, NULL},

	/* Python code as a text */
	{UNSET, "echo '" SIM "' | python3\n", 1, NULL},
	{UNSET, SET "python3 <<< '" SIM "'\n", 0, NULL},
	{UNSET, "python3 - <<<'" SIM "'\n", 1, NULL},
	{UNCLEAR, "python3 <<< '" SIM "'\n", 1, "it runs Python"},
	{UNSET, SET CLIENT "unset MALLOC_ARENA_MAX\necho '" SIM "' | grep python3\n", 0, NULL},
	{UNCLEAR, "# nvflare\ncat job.py | python3 -\n", 1, "it runs Python"},
	{UNCLEAR, "# nvflare\ncat a/job.py | uv run python\n", 0, NULL},
	{UNCLEAR, "# nvflare\ncat job.py | grep python\ncat job.py >python\n", 0, NULL},

	/* commands inside of words */
	{UNSET, "OUT=`" RUN "`\n", 1, NULL},
	{UNSET, "OUT=\"$(" RUN ")\"\n", 1, NULL},
	{UNSET, "if [ \"$( (" RUN ") )\" = x ]; then a; fi\n", 1, NULL},
	{UNSET, "echo \"ends: `" RUN "`\"\n", 1, NULL},
	{UNSET, SET "for x in `" RUN "`; do a; done\n", 0, NULL},
	{UNSET, SET CLIENT "unset MALLOC_ARENA_MAX\necho '`" RUN "`' '$(" RUN ")'\n", 0, NULL},
	{UNSET, SET CLIENT "unset MALLOC_ARENA_MAX\n# `" RUN "`\nx=`date\n", 0, NULL},
	/* texts that are written to files which shells read */
	{UNCLEAR, "echo '" RUN "' >> jobs/run_all.sh\n", 1, "another command runs"},
	{UNCLEAR, SET CLIENT "echo 'export MALLOC_ARENA_MAX=0' >>~/.bashrc\n", 1, NULL},
	{UNCLEAR, SET CLIENT "echo 'export MALLOC_ARENA_MAX=0' | tee -a ~/.bashrc\n", 1, NULL},
	{UNCLEAR, SET CLIENT "echo 'r = FedAvgRecipe(a=1)' >job.py\n", 1, NULL},
	{UNCLEAR, SET CLIENT "printf 'r = FedAvgRecipe(a=1)' | tee job.py\n", 1, NULL},
	{UNCLEAR, SET CLIENT "echo 'see FedAvgRecipe' >job.txt\n", 0, NULL},
	{UNCLEAR, SET CLIENT "echo '" RUN "' >log.txt\necho 'export A=1' >>~/.bashrc\n", 0, NULL},
	/* texts that the shell, or an unknown command, may run */
	{UNSET, "trap '" RUN "' EXIT\n", 1, NULL},
	{UNSET, SET "trap '" RUN "' EXIT\n", 0, NULL},
	{UNCLEAR, "alias sim='" RUN "'\nsim\n", 1, "another program"},
	{UNCLEAR, "in_pane 2 '" RUN "'\n", 1, "another program"},
	{UNCLEAR, "in_pane 2 'MALLOC_ARENA_MAX=2 " RUN "'\n", 1, NULL},
	{UNCLEAR,
	 SET CLIENT "log_info '" RUN "'\ngrep '" RUN "' log\ndie 'nvflare simulator failed'\n"
		    "note 'first run " RUN "'\ngit commit -m '" RUN
		    "'\nalias ll='ls -l'\ntrap 'kill 0' EXIT\n",
	 0, NULL},

	/* lines of another operating system */
	{UNCLEAR, SET CLIENT "true\r\n", 1, "carriage returns"},

	/* files that contain commands */
	{UNCLEAR, "# nvflare\ncat steps | bash\n", 1, "commands of another file"},
	{UNCLEAR, "# nvflare\ncat <steps | sudo -u fl bash # .py\n", 0, NULL},
	{UNCLEAR, "# nvflare\nbash -s <steps\n", 1, "commands of another file"},
	{UNCLEAR, "# nvflare\nbash < steps\n", 1, "commands of another file"},
	{UNCLEAR, "# nvflare\nssh host < run.sh # .py\n", 1, "commands of another file"},
	{UNCLEAR, "# nvflare\ncat run.sh | ssh host bash -s\n", 1, "commands of another file"},
	{UNCLEAR, "# nvflare\nssh host cat < data.py\ncat hosts | xargs -n1 ping\n", 0, NULL},
	{UNCLEAR, "# nvflare\nbash -c x </dev/null\nbash <(ls)\ncat a.sh >b.sh\n", 0, NULL},

	/* env -S */
	{UNSET, "env -S '" RUN "'\n", 1, NULL},
	{UNSET, SET "env -S '" RUN "'\n", 0, NULL},
	{UNSET, SET "env -S '-i " RUN "'\n", 1, "env -i drops it"},
	{UNSET, SET "env -S '-i A=1' " RUN "\n", 1, "env -i drops it"},
	{UNSET, SET "env -S'-u MALLOC_ARENA_MAX " RUN "'\n", 1, NULL},
	{UNSET, SET "env -S'-u TMPDIR " RUN "'\n", 0, NULL},
	{UNSET, "env --split-string='MALLOC_ARENA_MAX=4 " RUN "'\n", 0, NULL},
	{UNSET, "env -vS 'MALLOC_ARENA_MAX=4' " RUN "\n", 0, NULL},
	{UNSET, SET "env -S" RUN "\n", 0, NULL},

	/* a command in a variable */
	{UNSET, "C=\"" RUN "\"\n$C\n", 1, NULL},
	{UNSET, "C='" RUN "'\n${C} -x >log 2>&1 &\n", 1, NULL},
	{UNSET, "C=\"" RUN "\"\necho $C\neval $C\n", 1, NULL},
	{UNSET, "C=\"" RUN "\"\neval \"$C\"\n", 1, NULL},
	{UNSET, "local C=\"" RUN "\"\nexec $C\n", 1, NULL},
	{UNSET, "C=\"" RUN "\"\nC=\"$C -n 2\"\n$C\n", 1, NULL},
	{UNSET, "C=\"" RUN "\"\n" SET "$C\n", 0, NULL},
	{UNSET, "C=\"" RUN "\"\nMALLOC_ARENA_MAX=2 $C\n", 0, NULL},
	{UNSET, "C=\"MALLOC_ARENA_MAX=2 " RUN "\"\neval $C\n", 0, NULL},
	{UNSET, SET "C=\"" RUN "\"\nsudo $C\n", 1, "sudo drops it"},
	{UNSET, "C=\"" RUN "\"\necho $C\ntest -n \"$C\"\n$CC\n", 0, NULL},
	{UNSET, "C=\"" RUN "\"\nC=\"echo a\"\n$C\n", 0, NULL},
	{UNSET, "C=\"echo nvflare simulator\"\n$D\n", 0, NULL},
	{UNCLEAR, "nvflare $MODE -w ws\n", 1, "what nvflare does"},
	{UNCLEAR, "exec nvflare \"$@\"\n", 1, "what nvflare does"},
	{UNCLEAR, "pip install nvflare $MORE\n", 0, NULL},
	{UNCLEAR, "echo nvflare $MORE\n", 0, NULL},

	/* variables that a loop reads */
	{UNSET, "while read -r l; do export \"$l\"; done <.env\n" RUN "\n", 0, NULL},
	{UNCLEAR, "while read -r l; do export \"$l\"; done <.env\n" RUN "\n", 1, "another file"},
	{UNSET, "export A=$l\n" RUN "\n", 1, NULL},

	/* a text that unsets a variable */
	{UNSET, SET "bash -c 'unset MALLOC_ARENA_MAX; " RUN "'\n", 1, NULL},
	{UNSET, SET "bash -c 'unset TMPDIR; " RUN "'\n", 0, NULL},
	{UNSET, SET "bash -c 'unset MALLOC_ARENA_MAX; " SET RUN "'\n", 0, NULL},
	{UNSET, SET "bash -c 'env -u MALLOC_ARENA_MAX true; " RUN "'\n", 0, NULL},

	/* variables by another name, and from an input */
	{UNCLEAR, "declare -n r=MALLOC_ARENA_MAX\nr=2\nexport MALLOC_ARENA_MAX\n" RUN "\n", 1,
	 REFERS},
	{UNSET, "declare -gn r=MALLOC_ARENA_MAX\nr=2\nexport MALLOC_ARENA_MAX\n" RUN "\n", 0, NULL},
	{UNCLEAR, "f() { local -n r=MALLOC_ARENA_MAX; r=2; }\n" RUN "\n", 1, REFERS},
	{UNCLEAR,
	 "declare -n r=OTHER\ndeclare -x n=MALLOC_ARENA_MAX\necho -n x=MALLOC_ARENA_MAX\n" RUN "\n",
	 0, NULL},
	{UNSET, "declare -n r=OTHER\n" RUN "\n", 1, NULL},
	{UNCLEAR, "read -r MALLOC_ARENA_MAX <f\nexport MALLOC_ARENA_MAX\n" RUN "\n", 1,
	 "known only when the file runs"},
	{UNSET, "read -r MALLOC_ARENA_MAX <f\nexport MALLOC_ARENA_MAX\n" RUN "\n", 0, NULL},
	{UNSET, "printf -v MALLOC_ARENA_MAX %d 2\nexport MALLOC_ARENA_MAX\n" RUN "\n", 0, NULL},
	{UNSET, "printf MALLOC_ARENA_MAX\nexport MALLOC_ARENA_MAX\n" RUN "\n", 1, NULL},
	{UNSET, "read MALLOC_ARENA_MAX\n" RUN "\n", 1, "without exporting it"},
};

#define SERVICE "services:\n  a:\n    image: i\n"
#define POD	"spec:\n  containers:\n  - name: a\n    image: i\n"
#define IMAGE	"FROM python:3.12\n"

/* Files with an entry point whose arguments are elsewhere. */
static const struct file_row entries[] = {
	{"compose.yaml",
	 {UNSET, SERVICE "    entrypoint: nvflare\n    command: simulator j\n", 1, NULL}},
	{"compose.yaml",
	 {UNSET, SERVICE "    entrypoint: [nvflare]\n    command: [simulator, j]\n", 1, NULL}},
	{"compose.yaml",
	 {UNSET,
	  SERVICE "    entrypoint: nvflare\n    command: simulator j\n"
		  "    environment: [MALLOC_ARENA_MAX=4]\n",
	  0, NULL}},
	{"compose.yaml",
	 {UNSET, SERVICE "    entrypoint: nvflare\n    command: poc simulator\n", 0, NULL}},
	{"compose.yaml",
	 {UNSET, SERVICE "    entrypoint: nvflare\n  b:\n    command: simulator j\n", 0, NULL}},
	{"pod.yaml",
	 {UNSET, POD "    command: [nvflare]\n    args: [simulator, -n, '2', j]\n", 1, NULL}},
	{"pod.yaml",
	 {UNSET,
	  POD "    command: [nvflare]\n    args: [simulator, j]\n"
	      "    env: [{name: MALLOC_ARENA_MAX, value: '4'}]\n",
	  0, NULL}},
	{"Dockerfile",
	 {UNSET, IMAGE "ENTRYPOINT [\"nvflare\"]\nCMD [\"simulator\", \"j\"]\n", 1, NULL}},
	{"Dockerfile",
	 {UNSET,
	  IMAGE "ENTRYPOINT [\"nvflare\"]\nCMD [\"simulator\", \"j\"]\nENV MALLOC_ARENA_MAX=4\n", 0,
	  NULL}},
	{"Dockerfile",
	 {UNSET, IMAGE "ENTRYPOINT [\"nvflare\"]\nCMD [\"poc\", \"simulator\"]\n", 0, NULL}},
	{"Dockerfile",
	 {UNSET, IMAGE "ENTRYPOINT [\"nvflare\"]\n" IMAGE "CMD [\"simulator\", \"j\"]\n", 0, NULL}},
	{"Dockerfile",
	 {UNCLEAR, "# nvflare\n" IMAGE "ENTRYPOINT [\"python3\"]\nCMD [\"j.py\"]\n", 1, NULL}},
	{"run.sh", {UNSET, "docker run --entrypoint nvflare img simulator j\n", 1, NULL}},
	{"run.sh",
	 {UNSET, "docker run --entrypoint=/opt/nvflare -v a:b img simulator j\n", 1, NULL}},
	{"run.sh",
	 {UNSET, "docker run --entrypoint nvflare -e MALLOC_ARENA_MAX=4 img simulator j\n", 0,
	  NULL}},
	{"run.sh",
	 {UNSET, "docker run --entrypoint nvflare img poc\ndocker run img simulator j\n", 0, NULL}},
};

#define BOOT "From: a\n"
#define RUNS "%runscript\n  exec nvflare simulator j\n"
#define UNIT "[Service]\nExecStart=/opt/bin/nvflare simulator j\n"

/* Parts of a file that run at another time, or separately. */
static const struct file_row parts[] = {
	{"fl.def", {UNSET, BOOT "%post\n  " SET RUNS, 1, NULL}},
	{"fl.def", {UNSET, BOOT "%test\n  " SET RUNS, 1, NULL}},
	{"fl.def", {UNSET, BOOT "%environment\n  " SET RUNS, 0, NULL}},
	{"fl.def",
	 {UNSET, BOOT "%post\n  pip install nvflare\n%environment\n  " SET RUNS, 0, NULL}},
	{"fl.def", {UNSET, BOOT RUNS "%test\n  true\n%environment\n  " SET, 0, NULL}},
	{"fl.def", {UNSET, BOOT "%appenv a\n  " SET RUNS, 1, NULL}},
	{"fl.def", {UNSET, BOOT "%appenv a\n  " SET "%apprun a\n  nvflare simulator j\n", 0, NULL}},
	{"fl.def",
	 {UNSET, BOOT "%post\n  echo 'export A=1' >>$APPTAINER_ENVIRONMENT\n" RUNS, 0, NULL}},
	{"fl.def",
	 {UNCLEAR, BOOT "%post\n  echo 'export A=1' >>$APPTAINER_ENVIRONMENT\n" RUNS, 1, NULL}},
	{"fl.service", {UNSET, UNIT "ExecStartPre=export MALLOC_ARENA_MAX=4\n", 1, NULL}},
	{"fl.service", {UNSET, UNIT "ExecStartPre=/bin/env MALLOC_ARENA_MAX=4 true\n", 1, NULL}},
	{"fl.service",
	 {UNSET, UNIT "ExecStartPre=true\nEnvironment=MALLOC_ARENA_MAX=4\n", 0, NULL}},
	{"fl.service",
	 {UNSET, UNIT "ExecStartPre=systemctl set-environment MALLOC_ARENA_MAX=4\n", 0, NULL}},
	{"fl.service",
	 {UNSET,
	  "[Service]\nExecStartPre=true\nExecStart=env MALLOC_ARENA_MAX=4 nvflare simulator j\n", 0,
	  NULL}},
};

static void parts_that_run_at_another_time_set_nothing(void **state)
{
	(void)state;
	assert_true(files_are_right(parts, FLMEM_ARRAY_SIZE(parts)));
}

static void entry_points_have_their_arguments(void **state)
{
	(void)state;
	assert_true(files_are_right(entries, FLMEM_ARRAY_SIZE(entries)));
}

static void commands_in_texts_are_read(void **state)
{
	(void)state;
	assert_true(scripts_are_right(texts, FLMEM_ARRAY_SIZE(texts)));
}

/*
 * For each of many commands in one pipe, a part of the line is searched for the command's reader.
 */
static void long_pipes_take_time_in_proportion(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	(void)state;
	for (int i = 0; i < 3000; i++)
		flmem_buf_puts(&text, "echo a | ");
	flmem_buf_puts(&text, "cat\n" CLIENT);
	assert_false(text.failed);
	assert_true(row_is_right("run.sh", &(struct row){UNSET, text.data, 1, NULL}));
}

/* The text before a stage is searched for the first stages only. */
static void of_many_stages_not_all_are_read(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct row row = {UNCLEAR, NULL, 0, NULL};

	(void)state;
	for (int i = 0; i < 64; i++)
		flmem_buf_puts(&text, "FROM x\n");
	flmem_buf_puts(&text, "ENV MALLOC_ARENA_MAX=2\nCMD " CLIENT);
	row.text = text.data;
	assert_true(row_is_right("Dockerfile", &row));
	flmem_buf_puts(&text, "FROM x\nCMD " CLIENT);
	assert_false(text.failed);
	row = (struct row){UNCLEAR, text.data, 1, "not all of the file was read"};
	assert_true(row_is_right("Dockerfile", &row));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commands_in_texts_are_read),
		cmocka_unit_test(entry_points_have_their_arguments),
		cmocka_unit_test(parts_that_run_at_another_time_set_nothing),
		cmocka_unit_test(long_pipes_take_time_in_proportion),
		cmocka_unit_test(of_many_stages_not_all_are_read),
	};

	return cmocka_run_group_tests_name("launch_texts", tests, NULL, NULL);
}
