/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/text/redact.h"

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

static const struct {
	const char *words[WORDS_MAX];
	const char *expected;
} commands[] = {
	/* NVFlare up to 2.8: client job, server job, simulator client */
	{{"python3", "-u",     "-m",	"nvflare.private.fed.app.client.worker_process",
	  "-m",	     "/ws",    "-w",	"/ws/startup",
	  "-t",	     "tok-1",  "-ts",	"sig+/=",
	  "-d",	     "ssid-1", "-n",	"job-1",
	  "-c",	     "site-1", "--set", "secure_train=true"},
	 "python3 -u -m nvflare.private.fed.app.client.worker_process -m /ws -w "
	 "/ws/startup "
	 "-t " HIDDEN " -ts " HIDDEN " -d " HIDDEN " -n job-1 -c site-1 --set secure_train=true"},
	{{"python3", "-m", "nvflare.private.fed.app.client.worker_process", "-ttok", "-tssig",
	  "-dssid", "-c", "x"},
	 "python3 -m nvflare.private.fed.app.client.worker_process -t" HIDDEN " -ts" HIDDEN
	 " -d" HIDDEN " -c x"},
	{{"python3", "-m", "nvflare.private.fed.app.simulator.simulator_worker", "--client",
	  "site-1", "--token", "tok", "--port", "1"},
	 "python3 -m nvflare.private.fed.app.simulator.simulator_worker --client site-1 "
	 "--token " HIDDEN " --port 1"},
	{{"bash", "-c", "exec python3 -m nvflare.private.fed.app.server.runner_process -t tok"},
	 "bash -c exec python3 -m nvflare.private.fed.app.server.runner_process " HIDDEN},
	/* other programs keep -t and -d */
	{{"tar", "-t", "-d", "x"}, "tar -t -d x"},
	/* options in every form */
	{{"p", "--token=tok", "-password", "pw", "--api-key", "k", "--x", "y"},
	 "p --token=" HIDDEN " -password " HIDDEN " --api-key " HIDDEN " --x y"},
	{{"p", "--token", "--password", "pw", "last"}, "p --token " HIDDEN " " HIDDEN " last"},
	{{"p", "--token"}, "p --token"},
	{{"p", "--HF_TOKEN", "-dash-first"}, "p --HF_TOKEN " HIDDEN},
	/* secrets inside words */
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
	/* known forms of secrets */
	{{"p", "ghp_0123456789abcdefghij", "--x=hf_abcdefghijklmnopqrstuv", "hf_short"},
	 "p " HIDDEN " --x=" HIDDEN " hf_short"},
	/* a harmless word hides no secret one, in any spelling of it */
	{{"p", "--tokenizer-auth-token", "abc", "--tokenizerAuthToken=abc", "--max-tokens-secret",
	  "abc", "IPAD_TOKEN=abc", "PAD_TOKEN_PASSWORD=abc"},
	 "p --tokenizer-auth-token " HIDDEN " --tokenizerAuthToken=" HIDDEN
	 " --max-tokens-secret " HIDDEN " IPAD_TOKEN=" HIDDEN " PAD_TOKEN_PASSWORD=" HIDDEN},
	/* short names, whole words only */
	{{"p", "--pass", "x", "--db-pwd=x", "SSHPASS=x", "--account-key", "x", "--auth=u", "--pin",
	  "1", "--pw", "x", "API-KEY-2=x", "--sig", "x", "--psk=x"},
	 "p --pass " HIDDEN " --db-pwd=" HIDDEN " SSHPASS=" HIDDEN " --account-key " HIDDEN
	 " --auth=" HIDDEN " --pin " HIDDEN " --pw " HIDDEN " API-KEY-2=" HIDDEN " --sig " HIDDEN
	 " --psk=" HIDDEN},
	{{"p", "--passes", "3", "--pin-memory", "true", "--key-file", "/k", "monkey=1", "--author",
	  "me", "--processid", "7", "--bypass", "x", "design=flat"},
	 "p --passes 3 --pin-memory true --key-file /k monkey=1 --author me --processid 7 "
	 "--bypass x design=flat"},
	/* abbreviated long options */
	{{"p", "--tok", "x", "--passw=x", "--hf-toke", "x", "--to", "x"},
	 "p --tok " HIDDEN " --passw=" HIDDEN " --hf-toke " HIDDEN " --to x"},
	/* options with several values */
	{{"p", "--api-keys", "-a", "b", "c", "--rounds", "3"},
	 "p --api-keys " HIDDEN " " HIDDEN " " HIDDEN " --rounds 3"},
	/* connection strings and signed addresses */
	{{"p", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=abc==;x=y",
	  "Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey=abc", "Server=h;Uid=u;Pwd=abc"},
	 "p DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" HIDDEN
	 " Endpoint=sb://h/;SharedAccessKeyName=" HIDDEN " Server=h;Uid=u;Pwd=" HIDDEN},
	{{"p", "https://h/c?sv=2&sig=abc%3D", "https://h/?X-Amz-Signature=abc",
	  "https://h/m?token%3Dabc", "https://hooks.slack.com/services/T0/B0/abc",
	  "https://h/api/webhooks/1/abc"},
	 "p https://h/c?sv=2&sig=" HIDDEN " https://h/?X-Amz-Signature=" HIDDEN
	 " https://h/m?token%3D" HIDDEN " https://hooks.slack.com/" HIDDEN
	 " https://h/api/webhooks/" HIDDEN},
	{{"p", "user:pw@tcp(db:3306)/x", "postgres://u:p/w@db/x", "u:/pw@h", "me@host:/x",
	  "http://h:80/x"},
	 "p " HIDDEN "@tcp(db:3306)/x postgres://" HIDDEN "@db/x " HIDDEN
	 "@h me@host:/x http://h:80/x"},
	/* USER:PASSWORD */
	{{"curl", "-u", "user:pw", "-uuser:pw", "--user=user:pw", "--proxy-user", "u:p", "-u",
	  "user"},
	 "curl -u " HIDDEN " -u" HIDDEN " --user=" HIDDEN " --proxy-user " HIDDEN " -u user"},
	{{"sh", "-c", "curl -u user:pw https://h"}, "sh -c curl -u " HIDDEN},
	{{"smbclient", "-U", "user%pw"}, "smbclient -U " HIDDEN},
	{{"python3", "-u", "-m", "m", "-u", "tcp://h:1"}, "python3 -u -m m -u tcp://h:1"},
	/* headers, also in separate words */
	{{"curl", "-H", "Authorization: Basic YTpi", "-H", "X-Api-Key: abc", "Basic YTpi"},
	 "curl -H Authorization: " HIDDEN " -H X-Api-Key: " HIDDEN " Basic " HIDDEN},
	{{"curl", "-H", "Authorization:", "Bearer", "abc", "url"},
	 "curl -H Authorization: " HIDDEN " " HIDDEN " url"},
	{{"curl", "-H", "Authorization:", "Basic", "abc", "url"},
	 "curl -H Authorization: " HIDDEN " " HIDDEN " url"},
	{{"p", "token", "=", "abc", "last"}, "p token " HIDDEN " " HIDDEN " last"},
	/* bare names */
	{{"aws", "configure", "set", "aws_secret_access_key", "abc"},
	 "aws configure set aws_secret_access_key " HIDDEN},
	{{"aws", "configure", "set", "default.aws_secret_access_key", "abc"},
	 "aws configure set default.aws_secret_access_key " HIDDEN},
	{{"python3", "make_token.py", "--size", "3"}, "python3 make_token.py --size 3"},
	/* quotes of every depth */
	{{"sh", "-c", "echo '{\\\"token\\\": \\\"abc\\\"}'"},
	 "sh -c echo '{\\\"token\\\": \\\"" HIDDEN},
	{{"p", "config['token']='abc'", "[\"--token\", \"abc\"]", "<password>abc<"},
	 "p config['token']='" HIDDEN " [\"--token\", \"" HIDDEN " <password>" HIDDEN},
	{{"p", "{\"api_key\":", "\"abc\"}", "token:", "abc"},
	 "p {\"api_key\": " HIDDEN " token: " HIDDEN},
	{{"p", "machine h login u\npassword\tabc"}, "p machine h login u\npassword\t" HIDDEN},
	/* options of certain programs */
	{{"sudo", "/usr/bin/mysql", "-uroot", "-pabc", "--port=1", "db"},
	 "sudo /usr/bin/mysql -uroot -p" HIDDEN " --port=1 db"},
	{{"docker", "login", "-u", "me", "-p", "abc", "h"}, "docker login -u me -p " HIDDEN " h"},
	{{"docker", "run", "-p", "80:80", "i"}, "docker run -p 80:80 i"},
	{{"sshpass", "-p", "abc", "ssh", "h"}, "sshpass -p " HIDDEN " ssh h"},
	{{"sh", "-c", "mysql -h db -pabc x"}, "sh -c mysql -h db -p" HIDDEN},
	/* known forms of secrets, also inside names */
	{{"p", "AIzaSyA0123456789012345678901234567890", "x-ghp_0123456789abcdefghij",
	  "npm_012345678901234567890123456789", "ya29.a0123456789012345678"},
	 "p " HIDDEN " " HIDDEN " " HIDDEN " " HIDDEN},
	{{"wandb", "login", "0123456789abcdef0123456789abcdef01234567", "-n",
	  "6f1d1c9e-1f0b-4a54-9d0e-0123456789ab"},
	 "wandb login " HIDDEN " -n 6f1d1c9e-1f0b-4a54-9d0e-0123456789ab"},
	{{"p", "x\n-----BEGIN PRIVATE KEY-----\nMIIE"}, "p x\n" HIDDEN},
	/* texts that are not secrets are kept */
	{{"p", "--tokenizer=bert", "--max-tokens", "512", "--max_new_tokens=1", "keyboard=us"},
	 "p --tokenizer=bert --max-tokens 512 --max_new_tokens=1 keyboard=us"},
	{{"p", "", "a b"}, "p  a b"},
	{{NULL}, ""},
};

static void command_lines_lose_their_secrets(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(commands); i++)
		assert_command(commands[i].words, commands[i].expected);
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
		{"NVFLARE_PASS", "abc", HIDDEN},
		{"NVFLARE_TOKENIZER_AUTH_TOKEN", "abc", HIDDEN},
		{"NVFLARE_CONFIG", "{\"auth_token\": \"abc\"}", "{\"auth_token\": \"" HIDDEN},
		{"NVFLARE_TENSOR_DOWNLOAD_CHUNK_SIZE", "2097152", "2097152"},
		{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:128",
		 "expandable_segments:True,max_split_size_mb:128"},
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

/* Words of a hostile process: long, and made to be searched again and again. */
static void hostile_words_take_no_longer_than_others(void **state)
{
	static const char *const patterns[] = {
		"a:",	 "a:a@",  "://",	"http://a:", "token}", "tokenizer", "mysql ",
		"-u ",	 "\"-ux", "TOKENIZER_", "-",	     "key ",   "=",	    "login -x ",
		"pass ", "basic", "%3d",	"hf_",	     "0",      "user: @",
	};
	const size_t size = (size_t)1 << 19;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(patterns); i++) {
		FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;
		FLMEM_AUTO_FREE char *word = malloc(size + 1);
		size_t length = strlen(patterns[i]);
		const char *words[] = {word};

		assert_non_null(word);
		for (size_t at = 0; at < size; at++)
			word[at] = patterns[i][at % length];
		word[size] = '\0';
		flmem_redact_command(words, 1, &out);
		assert_false(out.failed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(command_lines_lose_their_secrets),
		cmocka_unit_test(variables_lose_their_secrets),
		cmocka_unit_test(hostile_words_take_no_longer_than_others),
	};

	return cmocka_run_group_tests_name("redact", tests, NULL, NULL);
}
