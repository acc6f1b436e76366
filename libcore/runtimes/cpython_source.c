/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/text.h"

/*
 * Runs S (named F) and writes K, length and text to address A, at most N bytes of text. Straight
 * code without functions of its own, so that it leaves no cycle to be collected later.
 *
 * The memory is reached through /proc/self/mem; where that is closed to the process itself (it was
 * made undumpable), through ctypes if the program has loaded it anyway.
 *
 * In the main thread the program's signal handlers may run in the middle of S, and what they raise
 * (KeyboardInterrupt, or sys.exit() for SIGTERM) would be lost here. The signal is sent to this
 * thread again, which has it blocked until it is back in the program. A handler is known by its
 * frame: its first argument (or the second, after self) is the number of a signal that has one.
 */
static const char frame[] =
	"try:\n"
	" import io,os,sys,time,_signal,_thread\n"
	" o=io.StringIO()\n"
	" r='ok'\n"
	" b=time.perf_counter_ns()\n"
	" try:\n"
	"  exec(compile(S,F,'exec'),{'__name__':'__flmem__','__file__':F,'print':"
	"lambda *a,**k:print(*a,**dict(k,file=k.get('file') or o))})\n"
	" except BaseException as e:\n"
	"  s=[2]*isinstance(e,KeyboardInterrupt)\n"
	"  n=0\n"
	"  t=e.__traceback__.tb_next\n"
	"  while t:\n"
	"   c=t.tb_frame.f_code\n"
	"   if c.co_filename==F:n=t.tb_lineno\n"
	"   elif isinstance(e,(KeyboardInterrupt,SystemExit)):\n"
	"    s+=[x for x in map(t.tb_frame.f_locals.get,c.co_varnames[:min(2,c.co_argcount)])"
	" if isinstance(x,int) and 0<x<65 and callable(_signal.getsignal(x))]\n"
	"   t=t.tb_next\n"
	"  if s and _thread.get_native_id()==os.getpid():\n"
	"   _signal.pthread_kill(_thread.get_ident(),s[-1])\n"
	"  try:r=' '.join(('%s: %s'%(type(e).__name__,e)).split())\n"
	"  except BaseException:r=type(e).__name__\n"
	"  r='raised '+r[:300]+(' (line %d)'%n if n else '')\n"
	" b=time.perf_counter_ns()-b\n"
	" o=(r+'\\n'+o.getvalue()).encode('utf-8','replace')\n"
	" r=K+len(o).to_bytes(4,'little')+b.to_bytes(8,'little')+o[:N]\n"
	" try:\n"
	"  f=os.open('/proc/self/mem',os.O_WRONLY|os.O_CLOEXEC)\n"
	"  try:os.pwrite(f,r,A)\n"
	"  finally:os.close(f)\n"
	" except OSError:\n"
	"  f=sys.modules.get('ctypes')\n"
	"  if f:f.memmove(A,r,len(r))\n"
	"except BaseException:pass\n";

int flmem_cpython_cookie_make(unsigned char ret_cookie[FLMEM_CPYTHON_COOKIE],
			      struct flmem_error *err)
{
	if (getrandom(ret_cookie, FLMEM_CPYTHON_COOKIE, GRND_NONBLOCK) == FLMEM_CPYTHON_COOKIE)
		return 0;
	return flmem_error_set(err, FLMEM_EFAILED, errno, "no random numbers");
}

/* A bytes literal. */
static void append_literal(struct flmem_buf *buf, const char *bytes, size_t length)
{
	flmem_buf_puts(buf, "b\"");
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)bytes[i];

		if (c == '\n')
			flmem_buf_puts(buf, "\\n");
		else if (c == '"' || c == '\\')
			flmem_buf_printf(buf, "\\%c", c);
		else if (c >= ' ' && c < 0x7f)
			flmem_buf_putc(buf, (char)c);
		else
			flmem_buf_printf(buf, "\\x%02x", c);
	}
	flmem_buf_putc(buf, '"');
}

void flmem_cpython_source_wrap(const struct flmem_cpython_code *code,
			       const unsigned char cookie[FLMEM_CPYTHON_COOKIE], size_t output_max,
			       struct flmem_buf *buf, size_t *ret_address_at)
{
	/* An expression, so that no name is bound in __main__, where it is run. */
	flmem_buf_puts(buf, "exec(");
	append_literal(buf, frame, sizeof(frame) - 1);
	flmem_buf_puts(buf, ",{'A':0x");
	*ret_address_at = buf->length;
	flmem_buf_printf(buf, "0000000000000000,'N':%zu,'K':", output_max);
	append_literal(buf, (const char *)cookie, FLMEM_CPYTHON_COOKIE);
	flmem_buf_puts(buf, ",'F':");
	append_literal(buf, code->name, strlen(code->name));
	flmem_buf_puts(buf, ".decode('utf-8','replace'),'S':");
	append_literal(buf, code->text, code->length);
	flmem_buf_puts(buf, "})\n");
	flmem_buf_putc(buf, '\0');
}

/* The first line tells how it ended. */
static bool take_text(const char *text, size_t length, struct flmem_cpython_answer *answer)
{
	static const char raised[] = "raised ";
	const char *end = memchr(text, '\n', length);
	size_t first = end ? (size_t)(end - text) : length;
	size_t rest = end ? first + 1 : length;

	if (first > sizeof(raised) - 1 && flmem_text_starts(text, raised)) {
		answer->exception =
			strndup(text + sizeof(raised) - 1, first - (sizeof(raised) - 1));
		if (!answer->exception)
			return false;
	}
	answer->output = strndup(text + rest, length - rest);
	return answer->output != NULL;
}

bool flmem_cpython_answer_parse(const unsigned char *bytes, size_t length,
				const unsigned char cookie[FLMEM_CPYTHON_COOKIE],
				struct flmem_cpython_answer *ret_answer)
{
	struct flmem_cpython_answer answer = {0};
	size_t head = FLMEM_CPYTHON_ANSWER_HEAD;
	FLMEM_AUTO_FREE char *text = NULL;
	uint32_t whole;

	if (length < head || memcmp(bytes, cookie, FLMEM_CPYTHON_COOKIE) != 0)
		return false;
	memcpy(&whole, bytes + FLMEM_CPYTHON_COOKIE, sizeof(whole));
	memcpy(&answer.took_ns, bytes + FLMEM_CPYTHON_COOKIE + 4, sizeof(answer.took_ns));
	answer.cut = whole > FLMEM_CPYTHON_OUTPUT_MAX || whole > length - head;
	if (whole > FLMEM_CPYTHON_OUTPUT_MAX)
		whole = FLMEM_CPYTHON_OUTPUT_MAX;
	if (whole > length - head)
		whole = (uint32_t)(length - head);
	/* A copy that ends in a NUL. */
	text = strndup((const char *)bytes + head, whole);
	if (!text || !take_text(text, strlen(text), &answer)) {
		flmem_cpython_answer_clear(&answer);
		return false;
	}
	*ret_answer = answer;
	return true;
}

void flmem_cpython_answer_clear(struct flmem_cpython_answer *answer)
{
	free(answer->exception);
	free(answer->output);
	*answer = (struct flmem_cpython_answer){0};
}
