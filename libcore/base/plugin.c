/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/plugin.h>

#include <dlfcn.h>
#include <string.h>

/*
 * Returns the loader's message. For a library that was only not loaded yet the loader has none, as
 * it does not count that as an error.
 */
static const char *loader_reason(const struct flmem_plugin *plugin)
{
	const char *reason = dlerror();

	return reason && !plugin->loaded_only ? reason : "this process has not loaded it";
}

/*
 * Opens the first library that exists; reports the loader's reason for the best name, since the
 * others are for older systems.
 */
static void *open_library(const struct flmem_plugin *plugin, const char **ret_soname,
			  struct flmem_error *err)
{
	int flags = RTLD_NOW | RTLD_LOCAL | (plugin->stays ? RTLD_NODELETE : 0) |
		    (plugin->loaded_only ? RTLD_NOLOAD : 0);
	struct flmem_error first = {.code = FLMEM_EUNSUPPORTED};

	for (size_t i = 0; i < FLMEM_PLUGIN_NAMES_MAX && plugin->sonames[i]; i++) {
		void *library = dlopen(plugin->sonames[i], flags);

		if (library) {
			*ret_soname = plugin->sonames[i];
			return library;
		}
		if (i == 0)
			flmem_error_set(&first, FLMEM_EUNSUPPORTED, 0, "%s: %s", plugin->missing,
					loader_reason(plugin));
	}
	if (err)
		*err = first;
	return NULL;
}

static void *find_symbol(void *library, const struct flmem_plugin_symbol *symbol)
{
	void *address = NULL;

	for (size_t i = 0; i < FLMEM_PLUGIN_NAMES_MAX && symbol->names[i] && !address; i++)
		address = dlsym(library, symbol->names[i]);
	return address;
}

static const char *find_absent(void *library, const struct flmem_plugin_symbol *symbols,
			       size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!symbols[i].optional && !find_symbol(library, &symbols[i]))
			return symbols[i].names[0];
	return NULL;
}

static int explain_absent(const struct flmem_plugin *plugin, const char *soname, const char *name,
			  struct flmem_error *err)
{
	if (plugin->lacks)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "%s lacks %s", soname,
				       plugin->lacks);
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "%s lacks %s; install a newer one",
			       soname, name);
}

int flmem_plugin_load(const struct flmem_plugin *plugin, const struct flmem_plugin_symbol *symbols,
		      size_t count, void **ret_library, struct flmem_error *err)
{
	const char *soname = NULL, *name;
	void *library = open_library(plugin, &soname, err);

	if (!library)
		return FLMEM_EUNSUPPORTED;
	name = find_absent(library, symbols, count);
	if (name) {
		dlclose(library);
		return explain_absent(plugin, soname, name, err);
	}
	for (size_t i = 0; i < count; i++) {
		void *address = find_symbol(library, &symbols[i]);

		memcpy(symbols[i].slot, &address, sizeof(address));
	}
	if (ret_library)
		*ret_library = library;
	return 0;
}

void flmem_plugin_close(void *library)
{
	if (library)
		dlclose(library);
}
