/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __x86_64__

#include "safe_probe.h"

#include <cpuid.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "safe_common.h"

/* Layout of the XSAVE area, standard format: Intel SDM volume 1, chapter 13. */
#define AREA_BYTES     16384
#define FCW	       0
#define FTW	       4
#define MXCSR	       24
#define ST_FIRST       32
#define XMM_FIRST      160
#define XMM_BYTES      256
#define XSTATE_BV      512
#define XSTATE_CHECKED 0xe7U /* x87, SSE, AVX, opmask, ZMM_Hi256, Hi16_ZMM */
#define TILE_CONFIG    17
#define TILE_DATA      18
#define XSTATE_TILES   (1U << TILE_CONFIG | 1U << TILE_DATA)
#define XSTATE_COUNT   19
#define CPUID_XSTATE   0xdU

static _Alignas(64) unsigned char vectors_in[AREA_BYTES];
static _Alignas(64) unsigned char vectors_out[AREA_BYTES];
static _Alignas(64) unsigned char vectors_clean[AREA_BYTES];

static struct {
	uint32_t offset;
	uint32_t length;
} components[XSTATE_COUNT];

_Static_assert(offsetof(struct probe, args) == 8, "the assembler knows these offsets");
_Static_assert(offsetof(struct probe, result) == 56, "the assembler knows these offsets");
_Static_assert(offsetof(struct probe, kept_in) == 64, "the assembler knows these offsets");
_Static_assert(offsetof(struct probe, kept_out) == 112, "the assembler knows these offsets");
_Static_assert(offsetof(struct probe, args_out) == 160, "the assembler knows these offsets");
_Static_assert(offsetof(struct probe, red_zone_whole) == 208, "the assembler knows these offsets");
_Static_assert(offsetof(struct probe, vectors_in) == 232, "the assembler knows these offsets");

/* From linux/asm/prctl.h, which older systems lack. */
#define REQUEST_STATE_PERMISSION 0x1023

void probe_enter(struct probe *probe);

/*
 * Makes the call. The probe's address stays on top of the stack, so that rcx, which the kernel
 * overwrites, is the only register needed to find it again; the 128 bytes below are filled and
 * compared.
 */
__asm__(".text\n"
	".globl probe_enter\n"
	".type probe_enter, @function\n"
	"probe_enter:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n"
	"	push %r13\n	push %r14\n	push %r15\n"
	"	push %rdi\n"
	"	mov %rdi, %rbx\n"
	"	lea -128(%rsp), %rdi\n"
	"	mov $0x5a17ed20c0ffee11, %rax\n"
	"	mov $16, %ecx\n"
	"	rep stosq\n"
	"	mov 224(%rbx), %eax\n	mov 228(%rbx), %edx\n"
	"	mov 232(%rbx), %rcx\n"
	"	xrstor64 (%rcx)\n"
	"	mov %rbx, %rcx\n"
	"	mov 64(%rcx), %rbx\n	mov 72(%rcx), %rbp\n"
	"	mov 80(%rcx), %r12\n	mov 88(%rcx), %r13\n"
	"	mov 96(%rcx), %r14\n	mov 104(%rcx), %r15\n"
	"	mov 8(%rcx), %rdi\n	mov 16(%rcx), %rsi\n"
	"	mov 24(%rcx), %rdx\n	mov 32(%rcx), %r10\n"
	"	mov 40(%rcx), %r8\n	mov 48(%rcx), %r9\n"
	"	mov 0(%rcx), %rax\n"
	"	syscall\n"
	"	mov (%rsp), %rcx\n"
	"	mov %rax, 56(%rcx)\n"
	"	mov %rbx, 112(%rcx)\n	mov %rbp, 120(%rcx)\n"
	"	mov %r12, 128(%rcx)\n	mov %r13, 136(%rcx)\n"
	"	mov %r14, 144(%rcx)\n	mov %r15, 152(%rcx)\n"
	"	mov %rdi, 160(%rcx)\n	mov %rsi, 168(%rcx)\n"
	"	mov %rdx, 176(%rcx)\n	mov %r10, 184(%rcx)\n"
	"	mov %r8, 192(%rcx)\n	mov %r9, 200(%rcx)\n"
	"	mov %r11, 216(%rcx)\n"
	"	mov %rcx, %rbx\n"
	"	mov 224(%rbx), %eax\n	mov 228(%rbx), %edx\n"
	"	mov 240(%rbx), %rcx\n"
	"	xsave64 (%rcx)\n"
	"	mov 248(%rbx), %rcx\n"
	"	xrstor64 (%rcx)\n"
	"	lea -128(%rsp), %rdi\n"
	"	mov $0x5a17ed20c0ffee11, %rax\n"
	"	mov $16, %ecx\n"
	"	repe scasq\n"
	"	sete %al\n"
	"	movzbl %al, %eax\n"
	"	mov %rax, 208(%rbx)\n"
	"	pop %rdi\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n"
	"	pop %r12\n	pop %rbp\n	pop %rbx\n"
	"	ret\n"
	".size probe_enter, .-probe_enter\n");

static uint64_t enabled_components(void)
{
	uint32_t low;
	uint32_t high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (uint64_t)high << 32 | low;
}

static void put_word(unsigned char *area, size_t offset, uint32_t value)
{
	memcpy(area + offset, &value, sizeof(value));
}

static void fill(unsigned char *area, size_t offset, size_t length, uint32_t *random)
{
	for (size_t i = 0; i < length; i++)
		area[offset + i] = (unsigned char)random_next(random);
}

static void find_components(uint64_t wanted)
{
	for (uint32_t i = 2; i < XSTATE_COUNT; i++) {
		uint32_t length;
		uint32_t offset;
		uint32_t c;
		uint32_t d;

		if (!(wanted >> i & 1))
			continue;
		__cpuid_count(CPUID_XSTATE, i, length, offset, c, d);
		if ((uint64_t)length + offset > AREA_BYTES)
			victim_die("the XSAVE area is larger than expected");
		components[i].length = length;
		components[i].offset = offset;
	}
}

void probe_init(struct probe *probe)
{
	uint32_t a;
	uint32_t b;
	uint32_t c;
	uint32_t d;

	memset(probe, 0, sizeof(*probe));
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		victim_die("this processor has no XSAVE");
	probe->components = enabled_components() & XSTATE_CHECKED;
	probe->vectors_in = vectors_in;
	probe->vectors_out = vectors_out;
	probe->vectors_clean = vectors_clean;
	find_components(probe->components);
	put_word(vectors_clean, MXCSR, 0x1f80);
}

bool probe_use_tiles(struct probe *probe)
{
	if ((enabled_components() & XSTATE_TILES) != XSTATE_TILES ||
	    syscall(SYS_arch_prctl, REQUEST_STATE_PERMISSION, TILE_DATA) != 0)
		return false;
	probe->components |= XSTATE_TILES;
	find_components(XSTATE_TILES);
	return true;
}

/* Configures palette 1: eight tiles of 16 rows of 64 bytes. */
static void fill_tile_config(unsigned char *config)
{
	memset(config, 0, components[TILE_CONFIG].length);
	config[0] = 1;
	for (size_t i = 0; i < 8; i++) {
		config[16 + 2 * i] = 64;
		config[48 + i] = 16;
	}
}

/*
 * Fills the state that the thread holds: all of it, or sometimes all except tiles, as after a
 * matrix product.
 */
static uint64_t fill_vectors(uint64_t present, uint32_t *random)
{
	put_word(vectors_in, FCW, 0x0f7f); /* masked exceptions, rounding towards zero */
	vectors_in[FTW] = 0xff;		   /* all eight registers valid */
	put_word(vectors_in, MXCSR, 0x1f80 | 0x6000);
	for (size_t i = 0; i < 8; i++)
		fill(vectors_in, ST_FIRST + 16 * i, 10, random);
	fill(vectors_in, XMM_FIRST, XMM_BYTES, random);
	for (size_t i = 2; i < XSTATE_COUNT; i++)
		fill(vectors_in, components[i].offset, components[i].length, random);
	if (components[TILE_CONFIG].length)
		fill_tile_config(vectors_in + components[TILE_CONFIG].offset);
	return random_next(random) % 2 ? present : present & ~(uint64_t)XSTATE_TILES;
}

static void randomise(struct probe *probe, uint32_t seed)
{
	uint32_t random = seed | 1;

	for (size_t i = 0; i < 6; i++)
		probe->kept_in[i] = (uint64_t)random_next(&random) << 32 | random_next(&random);
	probe->present = fill_vectors(probe->components, &random);
	memcpy(vectors_in + XSTATE_BV, &probe->present, sizeof(probe->present));
	memset(vectors_out, 0, sizeof(vectors_out));
}

static void compare(const char *what, size_t offset, size_t length)
{
	if (memcmp(vectors_in + offset, vectors_out + offset, length) != 0)
		victim_fail("%s changed across the system call", what);
}

static const char *component_name(size_t component)
{
	switch (component) {
	case 2:
		return "the upper half of a ymm register";
	case 5:
		return "a mask register";
	case 6:
		return "the upper half of a zmm register";
	case 7:
		return "one of zmm16 to zmm31";
	case TILE_CONFIG:
		return "the tile configuration";
	default:
		return "a tile";
	}
}

static void compare_vectors(uint64_t present)
{
	compare("x87 control word", FCW, 2);
	compare("x87 tag word", FTW, 1);
	compare("mxcsr", MXCSR, 4);
	for (size_t i = 0; i < 8; i++)
		compare("an x87 register", ST_FIRST + 16 * i, 10);
	compare("an xmm register", XMM_FIRST, XMM_BYTES);
	for (size_t i = 2; i < XSTATE_COUNT; i++)
		if (present >> i & 1)
			compare(component_name(i), components[i].offset, components[i].length);
}

int64_t probe_call(struct probe *probe, uint32_t seed)
{
	randomise(probe, seed);
	probe_enter(probe);
	if (memcmp(probe->kept_in, probe->kept_out, sizeof(probe->kept_in)) != 0)
		victim_fail("a general register changed across the system call");
	if (memcmp(probe->args, probe->args_out, sizeof(probe->args)) != 0)
		victim_fail("an argument register changed across the system call");
	if (!probe->red_zone_whole)
		victim_fail("the red zone was overwritten");
	if (probe->flags_out & 0x400)
		victim_fail("the direction flag is set");
	compare_vectors(probe->present);
	return (int64_t)probe->result;
}

#else
typedef int safe_probe_unused;
#endif
