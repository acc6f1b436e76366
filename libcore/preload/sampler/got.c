/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries are changed one by one with a compare-and-swap, while all threads run: a call reaches the
 * allocator directly or through the sampler, and both are correct at any time. The linker's list of
 * objects is locked meanwhile (dl_iterate_phdr), so that none is unmapped. An object whose
 * read-only part is still writable is not changed: another thread is loading it.
 *
 * An entry is changed only if it leads to the function that the sampler passes calls on to, or if
 * it is not bound yet and only one object defines the function. All other entries belong to another
 * tool, or to a separate allocator of a library.
 */

#include "preload/sampler/got.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "preload/sampler/hold.h"

#ifdef __x86_64__
#define RELOCATION_CALL	 R_X86_64_JUMP_SLOT
#define RELOCATION_ENTRY R_X86_64_GLOB_DAT
#define RELOCATION_DATA	 R_X86_64_64
#else
#define RELOCATION_CALL	 R_AARCH64_JUMP_SLOT
#define RELOCATION_ENTRY R_AARCH64_GLOB_DAT
#define RELOCATION_DATA	 R_AARCH64_ABS64
#endif

#ifdef __x86_64__
#define PUSH	  0x68 /* pushes the 4 bytes that follow */
#define STUB_SIZE 9    /* bytes read of an entry of the PLT */
#else
#define STUB_SIZE 8
#endif

#define CHANGED_MAX  (UINT32_C(1) << 16) /* entries; a power of 2 */
#define CHANGED_SIZE (CHANGED_MAX * sizeof(struct changed_entry))
/* This limits the time from finding a function to writing it into the entry, on a busy machine. */
#define BINDING_NS 50000000

struct hooked_function {
	const char *name;
	uintptr_t own;	      /* the sampler's function */
	uintptr_t real;	      /* the function that the program calls; 0: none */
	unsigned definitions; /* number of objects that define it */
	bool maps;	      /* a function of the mmap family */
	bool asks_kernel;     /* no allocation bypasses the sampler if this entry leads elsewhere */
};

/* This is a changed entry and its old value. Entries of closed objects stay in the table. */
struct changed_entry {
	uintptr_t slot, original;
};

#ifdef __x86_64__
static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
#else
#define BTI_C	      0xd503245fU
#define SAVE_X16_LINK 0xa9bf7bf0U /* stp x16, x30, [sp, #-16]! */
#endif

/* This table is used under the linker's lock only. */
static struct hooked_function hooked[] = {
#define SAMPLER_ROW(function) {.name = #function, .own = (uintptr_t)sampler_own_##function},
	SAMPLER_HOOKS(SAMPLER_ROW) SAMPLER_LINKER_HOOKS(SAMPLER_ROW)
#undef SAMPLER_ROW
#define SAMPLER_ROW(function) \
	{.name = #function, .own = (uintptr_t)sampler_own_##function, .asks_kernel = true},
		SAMPLER_KERNEL_HOOKS(SAMPLER_ROW)
#undef SAMPLER_ROW
};
static struct changed_entry *got_changed;
static unsigned long long seen_adds, seen_subs;
static bool seen_all;
static bool has_changed_unbound; /* an unbound entry was changed since the last attach */
static struct flmem_sampler_entries seen_entries; /* sums over the objects that were seen */

#define HOOKED (sizeof(hooked) / sizeof(hooked[0]))

/* This is an entry as its relocation describes it. */
struct got_entry {
	uintptr_t at;
	const struct hooked_function *hook;
	unsigned kind;	/* one of RELOCATION_... */
	uint32_t index; /* index in its relocation table */
};

struct hook_pass {
	void (*visit)(struct hook_pass *pass, const struct sampler_object *object,
		      const struct got_entry *entry);
	struct sampler_areas areas;
	struct flmem_sampler_entries entries;
	struct sampler_object main;
	uintptr_t python;
	uintptr_t page; /* page that is temporarily writable; 0: none */
	int access;	/* access rights of that page before */
	const char *why;
	bool is_late;	  /* the pass is for objects that were loaded later */
	bool is_repeated; /* the pass is for entries that were bound meanwhile */
};

static struct changed_entry *find_changed(uintptr_t slot, bool add)
{
	uint32_t at = (uint32_t)sampler_hash(slot, 0);

	for (uint32_t i = 0; i < CHANGED_MAX / 2; i++, at++) {
		struct changed_entry *entry = &got_changed[at % CHANGED_MAX];

		if (entry->slot == slot)
			return entry;
		if (entry->slot)
			continue;
		if (!add)
			return NULL;
		entry->slot = slot;
		return entry;
	}
	return NULL;
}

static bool make_changed(void)
{
	long at;

	if (got_changed)
		return true;
	at = syscall(SYS_mmap, NULL, CHANGED_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
	got_changed = at == -1 ? NULL : (void *)at;
	return got_changed != NULL;
}

/* Restores the protection of the page. */
static void close_page(struct hook_pass *pass)
{
	if (pass->page && !(pass->access & PROT_WRITE))
		sampler_protect(pass->page, sampler_page_size(), pass->access);
	pass->page = 0;
}

static bool open_page(struct hook_pass *pass, uintptr_t slot)
{
	uintptr_t page = sampler_page_of(slot);
	int access;

	if (pass->page == page)
		return true;
	close_page(pass);
	access = sampler_areas_access(&pass->areas, page);
	if (access < 0 || !(access & PROT_READ))
		return false;
	if (!(access & PROT_WRITE) &&
	    !sampler_protect(page, sampler_page_size(), access | PROT_WRITE))
		return false;
	pass->page = page;
	pass->access = access;
	return true;
}

static bool is_in_object(const struct sampler_object *object, uintptr_t address)
{
	return address >= object->start && address < object->end;
}

/*
 * Returns whether the entry leads to the linker, which replaces it by the function at the first
 * call. It then leads to the code of the PLT that names this very relocation (psABI: push its
 * index; with IBT an endbr64 before it). On aarch64 all share the first entry of the PLT, which
 * saves x16 and x30 (with BTI after a landing pad). No function of the object begins like that.
 */
static bool is_unbound(const struct hook_pass *pass, const struct sampler_object *object,
		       uintptr_t value, const struct got_entry *entry)
{
	const int needed = PROT_READ | PROT_EXEC;
	int access = sampler_areas_access(&pass->areas, value);

	if (entry->kind != RELOCATION_CALL || !is_in_object(object, value) || access < 0 ||
	    (access & needed) != needed || !is_in_object(object, value + STUB_SIZE))
		return false;
#ifdef __x86_64__
	const unsigned char *code = (const unsigned char *)value;
	uint32_t index;

	if (memcmp(code, endbr64, sizeof(endbr64)) == 0)
		code += sizeof(endbr64);
	memcpy(&index, code + 1, sizeof(index));
	return code[0] == PUSH && index == entry->index;
#else
	const uint32_t *code = (const uint32_t *)value;

	return value % sizeof(*code) == 0 && code[code[0] == BTI_C] == SAVE_X16_LINK;
#endif
}

static void count_other(struct hook_pass *pass, const struct sampler_object *object,
			uintptr_t value, const struct got_entry *entry)
{
	/* In a program at a fixed address, its PLT entry may be a function's address everywhere. */
	if (is_in_object(&pass->main, value) && !is_in_object(&pass->main, object->start))
		return;
	if (entry->hook->asks_kernel)
		return;
	if (is_unbound(pass, object, value, entry))
		pass->entries.unresolved++;
	else if (value)
		pass->entries.elsewhere++;
}

static void change_entry(struct hook_pass *pass, uintptr_t *slot, uintptr_t value, uintptr_t own)
{
	struct changed_entry *change = find_changed((uintptr_t)slot, true);

	if (!change || !open_page(pass, (uintptr_t)slot)) {
		pass->entries.locked++;
		return;
	}
	change->original = value;
	/* The linker may bind the entry at this moment: then it keeps the function itself. */
	if (__atomic_compare_exchange_n(slot, &value, own, false, __ATOMIC_SEQ_CST,
					__ATOMIC_RELAXED))
		pass->entries.redirected++;
	else
		pass->entries.unresolved++;
}

/* Returns whether the entry leads to the function that the sampler passes calls on to. */
static bool is_redirectable(const struct hook_pass *pass, const struct sampler_object *object,
			    uintptr_t value, const struct got_entry *entry)
{
	const struct hooked_function *hook = entry->hook;

	if (!hook->real)
		return false;
	return value == hook->real ||
	       (hook->definitions == 1 && is_unbound(pass, object, value, entry));
}

static void redirect_entry(struct hook_pass *pass, const struct sampler_object *object,
			   const struct got_entry *entry)
{
	const struct hooked_function *hook = entry->hook;
	uintptr_t *slot = (uintptr_t *)entry->at, value = __atomic_load_n(slot, __ATOMIC_RELAXED);

	if (entry->kind == RELOCATION_DATA) {
		pass->entries.fixed += hook->real && value == hook->real;
	} else if (value == hook->own) {
		pass->entries.redirected++;
	} else if (is_redirectable(pass, object, value, entry)) {
		/*
		 * The blocks that the allocator returns include the memory that it maps for itself.
		 */
		if (!hook->maps || !is_in_object(object, hooked[0].real)) {
			change_entry(pass, slot, value, hook->own);
			has_changed_unbound |= value != hook->real;
		}
	} else {
		count_other(pass, object, value, entry);
	}
}

/* The interpreter's own entries must lead to the allocator, or another tool has changed them. */
static void check_redirected(struct hook_pass *pass, const struct sampler_object *object,
			     const struct got_entry *entry)
{
	uintptr_t value = *(uintptr_t *)entry->at;

	/* A value within the object is unbound, whatever its PLT looks like, or is its own. */
	if (entry->kind == RELOCATION_DATA || !entry->hook->real || !value ||
	    entry->hook->asks_kernel || value == entry->hook->real || value == entry->hook->own ||
	    is_in_object(object, value) || is_in_object(&pass->main, value))
		return;
	if (is_in_object(object, pass->python) || object->is_main)
		pass->why = "calls of the allocator already lead to another tool";
}

/* Returns whether the entry bypasses the sampler. The allocator's own mappings do not count. */
static bool is_unseen(const struct sampler_object *object, const struct got_entry *entry)
{
	const struct hooked_function *hook = entry->hook;

	return hook->real && !hook->asks_kernel &&
	       __atomic_load_n((uintptr_t *)entry->at, __ATOMIC_RELAXED) == hook->real &&
	       !(hook->maps && is_in_object(object, hooked[0].real));
}

static void restore_entry(struct hook_pass *pass, const struct sampler_object *object,
			  const struct got_entry *entry)
{
	const struct hooked_function *hook = entry->hook;
	uintptr_t *slot = (uintptr_t *)entry->at, value = hook->own, original;
	const struct changed_entry *change;

	if (entry->kind == RELOCATION_DATA)
		return;
	pass->entries.elsewhere += is_unseen(object, entry);
	if (__atomic_load_n(slot, __ATOMIC_RELAXED) != hook->own)
		return;
	change = find_changed(entry->at, false);
	original = change ? change->original : hook->real;
	/* The stored value is stale: it is from an object that was at this address before. */
	if (hook->real && original != hook->real && !is_unbound(pass, object, original, entry))
		original = hook->real;
	if (!original || !open_page(pass, entry->at)) {
		pass->entries.locked++;
		return;
	}
	__atomic_compare_exchange_n(slot, &value, original, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_RELAXED);
}

static const struct hooked_function *find_hooked(const char *name)
{
	/* Fast rejection: most names begin with another character. */
	if (!strchr("acdfmprsv", *name))
		return NULL;
	for (size_t i = 0; i < HOOKED; i++)
		if (strcmp(hooked[i].name, name) == 0)
			return &hooked[i];
	return NULL;
}

static bool visit_relocation(struct hook_pass *pass, const struct sampler_object *object,
			     unsigned part, size_t index)
{
	const ElfW(Rela) *relocation = &object->tables[part][index];
	const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(relocation->r_info)];
	struct got_entry entry = {
		.at = object->base + relocation->r_offset,
		.kind = (unsigned)ELF64_R_TYPE(relocation->r_info),
		.index = (uint32_t)index,
	};

	if (entry.kind != RELOCATION_CALL && entry.kind != RELOCATION_ENTRY &&
	    entry.kind != RELOCATION_DATA)
		return false;
	if (relocation->r_addend || !*(object->names + symbol->st_name))
		return false;
	entry.hook = find_hooked(object->names + symbol->st_name);
	if (entry.hook)
		pass->visit(pass, object, &entry);
	return entry.hook != NULL;
}

/* Returns whether the object's RELRO part is still writable: another thread is loading it. */
static bool is_unready(const struct hook_pass *pass, const struct sampler_object *object)
{
	int access = PROT_READ;

	if (object->sealed_start < object->sealed_end)
		access = sampler_areas_access(&pass->areas, object->sealed_start);
	return access < 0 || access & PROT_WRITE;
}

static void add_entries(struct flmem_sampler_entries *to, const struct flmem_sampler_entries *more)
{
	to->redirected += more->redirected;
	to->fixed += more->fixed;
	to->elsewhere += more->elsewhere;
	to->unresolved += more->unresolved;
	to->locked += more->locked;
	to->objects += more->objects;
	to->still_loading += more->still_loading;
}

/* Remembers an object without open entries: unbound or locked ones may be redirected next time. */
static void remember_object(const struct dl_phdr_info *info,
			    const struct flmem_sampler_entries *entries)
{
	if (!entries->unresolved && !entries->locked && sampler_seen_add(info->dlpi_phdr))
		add_entries(&seen_entries, entries);
}

static void forget_objects(void)
{
	sampler_seen_clear();
	seen_entries = (struct flmem_sampler_entries){0};
}

static void visit_relocations(struct hook_pass *pass, const struct sampler_object *object)
{
	bool found = false;

	for (unsigned table = 0; table < 2; table++)
		for (size_t i = 0; i < object->counts[table]; i++)
			found |= visit_relocation(pass, object, table, i);
	close_page(pass);
	pass->entries.objects += found;
}

static int visit_object(struct dl_phdr_info *info, size_t size, void *context)
{
	struct hook_pass *pass = context;
	struct sampler_object object;

	(void)size;
	if (!sampler_object_read(info, &object))
		return 0;
	/*
	 * Not when restoring: a changed entry was read-only, so another tool has made it writable.
	 */
	if (pass->visit != restore_entry && is_unready(pass, &object)) {
		pass->entries.still_loading++;
		return 0;
	}
	visit_relocations(pass, &object);
	return 0;
}

/* Redirects the entries of an object that was not seen before. */
static int redirect_object(struct dl_phdr_info *info, size_t size, void *context)
{
	struct hook_pass *pass = context, own = *pass;

	if (sampler_seen_has(info->dlpi_phdr))
		return 0;
	own.entries = (struct flmem_sampler_entries){0};
	visit_object(info, size, &own);
	add_entries(&pass->entries, &own.entries);
	if (!own.entries.still_loading)
		remember_object(info, &own.entries);
	return 0;
}

static int find_main_object(struct dl_phdr_info *info, size_t size, void *context)
{
	struct hook_pass *pass = context;

	(void)size;
	return sampler_object_read(info, &pass->main) && pass->main.is_main;
}

/* Finds definitions in the order of the link map, in which the linker searches, too. */
static int find_definitions(struct dl_phdr_info *info, size_t size, void *context)
{
	struct sampler_object object;
	uintptr_t function;

	(void)size;
	(void)context;
	if (!sampler_object_read(info, &object))
		return 0;
	for (size_t i = 0; i < HOOKED; i++) {
		hooked[i].definitions += sampler_object_define(&object, hooked[i].name, &function);
		if (!hooked[i].real)
			hooked[i].real = function;
	}
	return 0;
}

static void resolve_hooked(void)
{
	for (size_t i = 0; i < HOOKED; i++)
		hooked[i].real = hooked[i].definitions = 0;
	sampler_walk(find_definitions, NULL);
	for (size_t i = 0; i < HOOKED; i++) {
		/* The sampler must not receive blocks of another allocator. */
		if (!sampler_hooks_pass_on(hooked[i].name, hooked[i].real))
			hooked[i].real = 0;
		hooked[i].maps = strstr(hooked[i].name, "map") != NULL;
	}
}

static void visit_objects(struct hook_pass *pass,
			  void (*visit)(struct hook_pass *pass, const struct sampler_object *object,
					const struct got_entry *entry))
{
	pass->visit = visit;
	pass->entries = (struct flmem_sampler_entries){0};
	sampler_walk(visit_object, pass);
}

/* Begins a pass at the first object. The list is locked until the walk ends. */
static bool begin_pass(struct hook_pass *pass)
{
	if (!make_changed() || !sampler_areas_read(&pass->areas)) {
		pass->why = "the mappings of the process cannot be read: it has no /proc in its "
			    "root directory, or no free descriptor";
		return false;
	}
	sampler_walk(find_main_object, pass);
	resolve_hooked();
	return true;
}

static void redirect_objects(struct hook_pass *pass, const struct dl_phdr_info *info)
{
	if (!pass->is_late || info->dlpi_subs != seen_subs)
		forget_objects();
	pass->visit = redirect_entry;
	pass->entries = seen_entries;
	sampler_walk(redirect_object, pass);
	seen_adds = info->dlpi_adds;
	seen_subs = info->dlpi_subs;
	seen_all = pass->entries.still_loading == 0;
}

static int redirect_locked(struct dl_phdr_info *info, size_t size, void *context)
{
	struct hook_pass *pass = context;

	(void)size;
	/*
	 * Sampling has ended: the thread that restores the entries runs next, or has already run.
	 */
	if ((pass->is_late || pass->is_repeated) && !sampler_is_active())
		return 1;
	/* This returns early where no object was loaded since the last time. */
	if (pass->is_late && seen_all && info->dlpi_adds == seen_adds)
		return 1;
	if (!begin_pass(pass))
		return 1;
	if (!pass->is_late)
		visit_objects(pass, check_redirected);
	if (!pass->why)
		redirect_objects(pass, info);
	sampler_areas_free(&pass->areas);
	return 1;
}

static int restore_locked(struct dl_phdr_info *info, size_t size, void *context)
{
	struct hook_pass *pass = context;

	(void)info;
	(void)size;
	if (begin_pass(pass)) {
		visit_objects(pass, restore_entry);
		sampler_areas_free(&pass->areas);
	}
	seen_all = false;
	return 1;
}

const char *sampler_got_redirect(uintptr_t python, struct flmem_sampler_entries *entries)
{
	struct hook_pass pass = {.python = python};

	sampler_walk(redirect_locked, &pass);
	*entries = pass.entries;
	return pass.why;
}

void sampler_got_redirect_again(uintptr_t python, struct flmem_sampler_entries *entries)
{
	const struct timespec pause = {.tv_nsec = BINDING_NS};
	struct hook_pass pass = {.python = python, .is_repeated = true};

	if (!has_changed_unbound)
		return;
	syscall(SYS_nanosleep, &pause, NULL);
	sampler_walk(redirect_locked, &pass);
	if (pass.visit && !pass.why)
		*entries = pass.entries;
	has_changed_unbound = false;
}

uint64_t sampler_got_restore(uint64_t *ret_unseen)
{
	struct hook_pass pass = {0};

	sampler_walk(restore_locked, &pass);
	if (ret_unseen)
		*ret_unseen = pass.entries.elsewhere;
	return pass.entries.locked + (pass.why != NULL);
}

/* Redirects the entries of new objects, then ends the walk. */
static void redirect_new_objects(void)
{
	struct hook_pass pass = {.is_late = true};

	sampler_walk(redirect_locked, &pass);
	sampler_walk_end();
	if (pass.visit && !pass.why && !sampler_shown.state.preloaded)
		sampler_shown.state.entries = pass.entries;
}

void sampler_got_catch_up(void)
{
	if (!sampler_thread.opened || !sampler_is_active())
		return;
	sampler_thread.opened = 0;
	sampler_walk_begin();
	redirect_new_objects();
}

/* Does not wait: this thread has the linker's lock, for which handlers of a fork may wait. */
void sampler_got_object_begins(void)
{
	if (!sampler_is_active())
		return;
	if (sampler_walk_try())
		redirect_new_objects();
	else
		sampler_thread.opened = 1;
}
