/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/redact.h"

#define WORDS_MAX 24
#define HIDDEN	  FLMEM_REDACTED

static void assert_command(const char *const *words, const char *expected)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;
	size_t count = 0;

	while (count < WORDS_MAX && words[count])
		count++;
	flmem_redact_command(words, count, &out);
	assert_string_equal(out.data, expected);
}

static void command_lines_lose_their_secrets(void **state)
{
	static const struct {
		const char *words[WORDS_MAX];
		const char *expected;
	} rows[] = {
		/* NVFlare up to 2.8: client job, server job, simulator client */
		{{"python3", "-u",     "-m",	"nvflare.private.fed.app.client.worker_process",
		  "-m",	     "/ws",    "-w",	"/ws/startup",
		  "-t",	     "tok-1",  "-ts",	"sig+/=",
		  "-d",	     "ssid-1", "-n",	"job-1",
		  "-c",	     "site-1", "--set", "secure_train=true"},
		 "python3 -u -m nvflare.private.fed.app.client.worker_process -m /ws -w "
		 "/ws/startup "
		 "-t " HIDDEN " -ts " HIDDEN " -d " HIDDEN
		 " -n job-1 -c site-1 --set secure_train=true"},
		{{"python3", "-m", "nvflare.private.fed.app.client.worker_process", "-ttok",
		  "-tssig", "-dssid", "-c", "x"},
		 "python3 -m nvflare.private.fed.app.client.worker_process -t" HIDDEN " -ts" HIDDEN
		 " -d" HIDDEN " -c x"},
		{{"python3", "-m", "nvflare.private.fed.app.simulator.simulator_worker", "--client",
		  "site-1", "--token", "tok", "--port", "1"},
		 "python3 -m nvflare.private.fed.app.simulator.simulator_worker --client site-1 "
		 "--token " HIDDEN " --port 1"},
		{{"bash", "-c",
		  "exec python3 -m nvflare.private.fed.app.server.runner_process -t tok"},
		 "bash -c exec python3 -m nvflare.private.fed.app.server.runner_process " HIDDEN},
		/* other programs keep -t and -d */
		{{"tar", "-t", "-d", "x"}, "tar -t -d x"},
		/* options in every form */
		{{"p", "--token=tok", "-password", "pw", "--api-key", "k", "--x", "y"},
		 "p --token=" HIDDEN " -password " HIDDEN " --api-key " HIDDEN " --x y"},
		{{"p", "--token", "--password", "pw", "last"},
		 "p --token " HIDDEN " " HIDDEN " last"},
		{{"p", "--token"}, "p --token"},
		{{"p", "--HF_TOKEN", "-dash-first"}, "p --HF_TOKEN " HIDDEN},
		/* inside words */
		{{"env", "HF_TOKEN=abc def", "python3"}, "env HF_TOKEN=" HIDDEN " python3"},
		{{"sh", "-c", "export A=1 DB_PASSWORD='p w'; run"},
		 "sh -c export A=1 DB_PASSWORD='" HIDDEN},
		{{"sh", "-c", "run --token abc -v"}, "sh -c run --token " HIDDEN},
		{{"p", "{\"user\": \"u\", \"api_key\": \"k\"}"},
		 "p {\"user\": \"u\", \"api_key\": \"" HIDDEN},
		{{"curl", "-H", "Authorization: Bearer abc", "-H", "bearer abc"},
		 "curl -H Authorization: " HIDDEN " -H bearer " HIDDEN},
		/* URLs */
		{{"git", "clone", "https://me:pw@host/x@y", "ssh://git@host/p"},
		 "git clone https://" HIDDEN "@host/x@y ssh://" HIDDEN "@host/p"},
		{{"p", "--url=postgres://u:p@db:1/x", "http://h/?a=1&access_token=t&b=2"},
		 "p --url=postgres://" HIDDEN "@db:1/x http://h/?a=1&access_token=" HIDDEN},
		/* known forms */
		{{"p", "ghp_0123456789abcdefghij", "--x=hf_abcdefghijklmnopqrstuv", "hf_short"},
		 "p " HIDDEN " --x=" HIDDEN " hf_short"},
		/* what is no secret stays */
		{{"p", "--tokenizer=bert", "--max-tokens", "512", "--max_new_tokens=1",
		  "keyboard=us"},
		 "p --tokenizer=bert --max-tokens 512 --max_new_tokens=1 keyboard=us"},
		{{"p", "", "a b"}, "p  a b"},
		{{NULL}, ""},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		assert_command(rows[i].words, rows[i].expected);
}

static void variables_lose_their_secrets(void **state)
{
	static const char *const rows[][3] = {
		{"NVFLARE_JOB_AUTH_TOKEN", "abc", HIDDEN},
		{"NVFLARE_JOB_TOKEN_SIGNATURE", "abc", HIDDEN},
		{"NVFLARE_JOB_SSID", "abc", HIDDEN},
		{"wandb_api_key", "abc", HIDDEN},
		{"AWS_SECRET_ACCESS_KEY", "abc", HIDDEN},
		{"GOOGLE_APPLICATION_CREDENTIALS", "/a/b.json", HIDDEN},
		{"EMPTY_TOKEN", "", ""},
		{"NVFLARE_PROXY", "http://u:p@h:3128", "http://" HIDDEN "@h:3128"},
		{"MALLOC_CONF", "dirty_decay_ms:5000,muzzy_decay_ms:0",
		 "dirty_decay_ms:5000,muzzy_decay_ms:0"},
		{"GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.hugetlb=2",
		 "glibc.malloc.tcache_count=0:glibc.malloc.hugetlb=2"},
		{"LD_PRELOAD", "/usr/lib/libjemalloc.so.2 /x", "/usr/lib/libjemalloc.so.2 /x"},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

		flmem_redact_variable(rows[i][0], rows[i][1], &out);
		assert_string_equal(out.data, rows[i][2]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(command_lines_lose_their_secrets),
		cmocka_unit_test(variables_lose_their_secrets),
	};

	return cmocka_run_group_tests_name("redact", tests, NULL, NULL);
}
