/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/secret_options.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

/*
 * Options of NVFlare's modules carry a session's token, its signature and the id of the server's
 * session (up to 2.8; from 2.9 on they are in the environment). The other programs' options are
 * from their manuals.
 */
#define NVFLARE_APP "nvflare.private.fed.app."
#define SESSION_OPTIONS                 \
	{                               \
		"-t", "-ts", "-d", NULL \
	}

static const struct flmem_secret_options secret_options_programs[] = {
	{NVFLARE_APP "client.worker_process", SESSION_OPTIONS},
	{NVFLARE_APP "server.runner_process", SESSION_OPTIONS},
	{NVFLARE_APP "client.sub_worker_process", SESSION_OPTIONS},
	{NVFLARE_APP "simulator.simulator_worker", SESSION_OPTIONS},
	{NVFLARE_APP "relay.relay", SESSION_OPTIONS},
	{"mysql", {"-p"}},
	{"mysqldump", {"-p"}},
	{"mysqladmin", {"-p"}},
	{"mysqlimport", {"-p"}},
	{"mariadb", {"-p"}},
	{"mariadb-dump", {"-p"}},
	{"mongo", {"-p"}},
	{"mongosh", {"-p"}},
	{"mongodump", {"-p"}},
	{"mongorestore", {"-p"}},
	{"rabbitmqadmin", {"-p"}},
	{"influx", {"-p", "-t"}},
	{"sshpass", {"-p"}},
	{"redis-cli", {"-a"}},
	{"ldapsearch", {"-w"}},
	{"ldapadd", {"-w"}},
	{"ldapmodify", {"-w"}},
	{"ldapwhoami", {"-w"}},
	{"mosquitto_pub", {"-P"}},
	{"mosquitto_sub", {"-P"}},
	{"sqlcmd", {"-P"}},
	{"bcp", {"-P"}},
	{"ipmitool", {"-P"}},
	{"zip", {"-P"}},
	{"unzip", {"-P"}},
	{"7z", {"-p"}},
	{"openssl", {"-k", "-K", "-pass"}},
	{"login", {"-p"}}, /* docker login, podman login, helm registry login */
};

const struct flmem_secret_options *flmem_secret_options_of(const char *name, size_t length)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(secret_options_programs); i++)
		if (strlen(secret_options_programs[i].program) == length &&
		    memcmp(secret_options_programs[i].program, name, length) == 0)
			return &secret_options_programs[i];
	return NULL;
}

const struct flmem_secret_options *flmem_secret_options_find(const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *name = flmem_text_basename(words[i]);
		const struct flmem_secret_options *found =
			flmem_secret_options_of(name, strlen(name));

		if (found)
			return found;
	}
	return NULL;
}

const char *flmem_secret_option_match(const struct flmem_secret_options *program, const char *word)
{
	const char *best = NULL;

	for (size_t i = 0; program && i < FLMEM_ARRAY_SIZE(program->options); i++) {
		const char *option = program->options[i];

		if (option && flmem_text_starts(word, option) &&
		    (!best || strlen(option) > strlen(best)))
			best = option;
	}
	return best;
}
