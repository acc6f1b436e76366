/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profiler/demangle.h"

static const struct {
	const char *symbol, *name;
} rows[] = {
	{"_ZN2at5emptyEl", "at::empty"},
	{"_Z4workv", "work"},
	{"_ZNSt6vectorIdSaIdEE9push_backERKd", "std::vector<...>::push_back"},
	{"_ZNK3foo3barILi16EE3getEv", "foo::bar<...>::get"},
	{"_ZN3fooC1Ev", "foo::foo"},
	{"_ZN1a3fooD2Ev", "a::foo::~foo"},
	{"_ZNSs6appendEPKc", "std::string::append"},
	{"_ZNSsC1Ev", "std::string::string"},
	{"_Znwm", "operator new"},
	{"_ZN3fooixEm", "foo::operator[]"},
	{"_ZSt4copyIPdS0_ET0_T_S2_S1_", "std::copy<...>"},
	{"_ZN12_GLOBAL__N_14workEv", "(anonymous)::work"},
	{"_ZZN3foo3runEvENKUlvE_clEv", "foo::run"},
	{"_ZN3fooUlvE_4callEv", "foo::(lambda)::call"},
	{"_ZN3foo4makeB5cxx11Ev", "foo::make"},
	{"_ZN1aIJidEE1bE", "a<...>::b"},
	{"_ZN1aIPFvRKSsEA4_cE1bEv", "a<...>::b"},
	{"_ZN3c104impl12PyObjectSlotD1Ev.cold", "c10::impl::PyObjectSlot::~PyObjectSlot"},
};

static void test_names(void **state)
{
	char out[FLMEM_DEMANGLED_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_true(flmem_demangle(rows[i].symbol, strlen(rows[i].symbol), out));
		assert_string_equal(out, rows[i].name);
	}
}

static void test_no_names(void **state)
{
	static const char *const symbols[] = {
		"malloc",   "_Z",	"_Z99999999999x", "_ZN3foo", "_ZN3fooI",
		"_ZTV3foo", "_ZN1aIXE", "_ZNS_1aE",	  "_ZN0E",   "_ZNC1Ev",
	};
	char out[FLMEM_DEMANGLED_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
		assert_false(flmem_demangle(symbols[i], strlen(symbols[i]), out));
}

/* Tests every prefix of every name, and many levels. */
static void test_cut_and_deep(void **state)
{
	char out[FLMEM_DEMANGLED_MAX], deep[2000] = "_ZN1aI";

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t length = strlen(rows[i].symbol); length; length--) {
			char *copy = malloc(length);

			assert_non_null(copy);
			memcpy(copy, rows[i].symbol, length);
			flmem_demangle(copy, length, out);
			free(copy);
		}
	memset(deep + 6, 'P', sizeof(deep) - 6);
	assert_false(flmem_demangle(deep, sizeof(deep), out));
	for (size_t i = 0; i + 3 <= sizeof(deep); i += 3)
		memcpy(deep + i, i ? "1aI" : "_ZN", 3);
	assert_false(flmem_demangle(deep, sizeof(deep), out));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_no_names),
		cmocka_unit_test(test_cut_and_deep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
