/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/text/text.h"

/*
 * The frame: runs S (named F) and writes K, length and text to address A, at most N bytes of text.
 * The code defines no functions, so that it leaves no reference cycle for the collector.
 *
 * The memory is written through /proc/self/mem; if the process may not open that (it was made
 * undumpable), through ctypes if the program has loaded it.
 *
 * The thread is not one of the program's. threading creates an entry for such a thread when code
 * asks for the current thread, as logging does, and before 3.13 keeps it forever, so the code
 * removes it.
 *
 * Functions of the program that replace print() or those of os, for example with one that writes
 * elsewhere, are not called.
 */
#define FRAME_BEGIN \
	"try:\n"    \
	" import io,posix,sys,time,_thread\n"

#define FRAME_RUN                                                                  \
	" o=io.StringIO()\n"                                                       \
	" r='ok'\n"                                                                \
	" b=time.perf_counter_ns()\n"                                              \
	" try:\n"                                                                  \
	"  if X:raise E[0]\n"                                                      \
	"  exec(compile(S,F,'exec'),{'__name__':'__flmem__','__file__':F,'print':" \
	"lambda *a,**k:(print if type(print)is type(len)else lambda*b,sep=' ',"    \
	"end='\\n',file=0,flush=0:file.write(sep.join(map(str,b))+end))"           \
	"(*a,**dict(k,file=k.get('file') or o))})\n"                               \
	" except BaseException as e:\n"                                            \
	"  n=0\n"                                                                  \
	"  t=e.__traceback__\n"                                                    \
	"  while t:\n"                                                             \
	"   if t.tb_frame.f_code.co_filename==F:n=t.tb_lineno\n"                   \
	"   t=t.tb_next\n"                                                         \
	"  try:r=' '.join(('%s: %s'%(type(e).__name__,e)).split())\n"              \
	"  except BaseException:r=type(e).__name__\n"                              \
	"  r='raised '+r[:300]+(' (line %d)'%n if n else '')\n"                    \
	" b=time.perf_counter_ns()-b\n"                                            \
	" t=sys.modules.get('threading')\n"                                        \
	" i=_thread.get_ident\n"                                                   \
	" if t and not X and type(i)is type(len)and type(t._active.get(i()))is "   \
	"t._DummyThread:del t._active[i()]\n"                                      \
	" o=(r+'\\n'+o.getvalue()).encode('utf-8','replace')\n"                    \
	" r=K+len(o).to_bytes(4,'little')+b.to_bytes(8,'little')+o[:N]\n"          \
	" try:\n"                                                                  \
	"  f=posix.open('/proc/self/mem',posix.O_WRONLY|posix.O_CLOEXEC)\n"        \
	"  try:posix.pwrite(f,r,A)\n"                                              \
	"  finally:posix.close(f)\n"                                               \
	" except OSError:\n"                                                       \
	"  f=sys.modules.get('ctypes')\n"                                          \
	"  if f:f.memmove(A,r,len(r))\n"                                           \
	"except BaseException:pass\n"

static const char frame[] = FRAME_BEGIN FRAME_RUN;

/*
 * The part that runs in the thread that the main thread started. Signal handlers may have run on
 * the main thread during that start: an exception that they raised (KeyboardInterrupt, or
 * sys.exit() for SIGTERM) is in E and would be lost. Once the main thread is back in the program,
 * out of frame H, it gets the signal again. A handler is recognised by its frame: its first
 * argument (or the second, after self) is the number of a signal that has a handler. The thread
 * that acquires L runs the code: after such an exception a second thread may be started.
 */
#define FRAME_RESEND                                                                  \
	" if not X:\n"                                                                \
	"  if not L.acquire(0):raise KeyError\n"                                      \
	"  import _signal\n"                                                          \
	"  n=999\n"                                                                   \
	"  while n:\n"                                                                \
	"   t=sys._current_frames().get(M)\n"                                         \
	"   while t and t is not H:t=t.f_back\n"                                      \
	"   n=t and n-1\n"                                                            \
	"   if n:time.sleep(.001)\n"                                                  \
	"  for e in E:\n"                                                             \
	"   s=[2]*isinstance(e,KeyboardInterrupt)\n"                                  \
	"   t=e.__traceback__\n"                                                      \
	"   while t:\n"                                                               \
	"    f=t.tb_frame\n"                                                          \
	"    c=f.f_code\n"                                                            \
	"    s+=[x for x in map(f.f_locals.get,c.co_varnames[:min(2,c.co_argcount)])" \
	"if isinstance(x,int)and 0<x<65 and callable(_signal.getsignal(x))]\n"        \
	"    t=t.tb_next\n"                                                           \
	"   if s:_signal.pthread_kill(M,s[-1])\n"                                     \
	"  e=f=t=H=None\n"                                                            \
	"  E.clear()\n"

static const char started[] = FRAME_BEGIN FRAME_RESEND FRAME_RUN;

/*
 * The part that runs on the main thread: starts a thread for W. Of the program only signal handlers
 * can run meanwhile; if one raises, a second thread is started. If threads are replaced by
 * something that would run in this thread (gevent, eventlet), or none can be started, W only
 * reports that.
 */
#define START_1 "import sys,_thread as t\n"
#define START_2 "s=t.start_new_thread\n"
#define START_3 "if type(s)is not type(len):raise RuntimeError('start_new_thread is replaced')\n"
#define START_4 "G.update(H=sys._getframe(2),M=t.get_ident(),L=G.get('L')or t.allocate_lock())\n"
#define START_5 "s(exec,(W,G))\n"

static const char starter[] =
	"try:\n"
	" " START_1 " " START_2 " " START_3 " " START_4 " " START_5 "except BaseException as e:\n"
	" G['E'].append(e)\n"
	" try:\n"
	"  " START_1 "  " START_2 "  " START_3 "  " START_4 "  " START_5
	" except BaseException as e:\n"
	"  if 'L'not in G or G['L'].acquire(0):\n"
	"   G['X']=1\n"
	"   exec(W,G)\n"
	"   G['E'].clear()\n";

int flmem_cpython_cookie_make(unsigned char ret_cookie[FLMEM_CPYTHON_COOKIE],
			      struct flmem_error *err)
{
	if (getrandom(ret_cookie, FLMEM_CPYTHON_COOKIE, GRND_NONBLOCK) == FLMEM_CPYTHON_COOKIE)
		return 0;
	return flmem_error_set(err, FLMEM_EFAILED, errno, "no random numbers");
}

/* Appends a bytes literal. */
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

/* Appends the names that the frame uses. */
static void append_globals(const struct flmem_cpython_code *code,
			   const unsigned char cookie[FLMEM_CPYTHON_COOKIE], size_t output_max,
			   struct flmem_buf *buf, size_t *ret_address_at)
{
	flmem_buf_puts(buf, "{'A':0x");
	*ret_address_at = buf->length;
	flmem_buf_printf(buf, "0000000000000000,'E':[],'X':0,'N':%zu,'K':", output_max);
	append_literal(buf, (const char *)cookie, FLMEM_CPYTHON_COOKIE);
	flmem_buf_puts(buf, ",'F':");
	append_literal(buf, code->name, strlen(code->name));
	flmem_buf_puts(buf, ".decode('utf-8','replace'),'S':");
	append_literal(buf, code->text, code->length);
	flmem_buf_putc(buf, '}');
}

/*
 * An expression, so that it binds no name in __main__, where it runs. A program may have a function
 * of its own that is named exec there, which for example runs commands: then only __builtins__ has
 * Python's, as a module or a dictionary. Any other function in that place is not called.
 */
#define EXEC_BEGIN "(lambda e:e.__class__ is''.join.__class__ and e("
#define EXEC_END                                                                    \
	"))((lambda b:b if b.__class__ is{}.__class__ else'__name__'in b.__dir__()" \
	"and b.__dict__ or{})(__builtins__).get('exec'))\n"

void flmem_cpython_source_wrap(const struct flmem_cpython_code *code,
			       const unsigned char cookie[FLMEM_CPYTHON_COOKIE], size_t output_max,
			       struct flmem_buf *buf, size_t *ret_address_at)
{
	flmem_buf_puts(buf, EXEC_BEGIN);
	append_literal(buf, frame, sizeof(frame) - 1);
	flmem_buf_putc(buf, ',');
	append_globals(code, cookie, output_max, buf, ret_address_at);
	flmem_buf_puts(buf, EXEC_END);
	flmem_buf_putc(buf, '\0');
}

void flmem_cpython_source_wrap_start(const struct flmem_cpython_code *code,
				     const unsigned char cookie[FLMEM_CPYTHON_COOKIE],
				     size_t output_max, struct flmem_buf *buf,
				     size_t *ret_address_at)
{
	flmem_buf_puts(buf, EXEC_BEGIN);
	append_literal(buf, starter, sizeof(starter) - 1);
	flmem_buf_puts(buf, ",{'W':");
	append_literal(buf, started, sizeof(started) - 1);
	flmem_buf_puts(buf, ",'G':");
	append_globals(code, cookie, output_max, buf, ret_address_at);
	flmem_buf_puts(buf, "}" EXEC_END);
	flmem_buf_putc(buf, '\0');
}

/* Splits the text of an answer, whose first line is the outcome. */
static bool split_text(const char *text, size_t length, struct flmem_cpython_answer *answer)
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
	/* Copy the text, with a NUL at its end. */
	text = strndup((const char *)bytes + head, whole);
	if (!text || !split_text(text, strlen(text), &answer)) {
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
