/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of how a thread is borrowed, for spin (https://spinroot.com). tests/model/run.py checks
 * it, in `make soak`, and checks as well that each fault planted below by a macro is found.
 *
 * Who acts: the thread; flmem; a killer (SIGKILL of flmem) and a freezer (SIGSTOP or a cgroup
 * freezer, with or without an end), both between any two steps of flmem; a sender of signals; an
 * exec, by another thread of the target or by the thread itself, also of a program that waits at
 * the very same place; a second tracer; and a thief, another thread of flmem's process that waits
 * for any child and takes the reports of the kernel.
 *
 * What a step stands for:
 *	look		flmem_candidates_find(), flmem_task_read_wait()
 *	seize		flmem_tracee_seize()
 *	interrupt, wait_stop
 *			flmem_tracee_stop(); the report may be stolen: sort_unreported()
 *	compare		is_in_place(), flmem_arch_interrupted_in(), and accepts_stopped_thread()
 *	resume		flmem_arch_make_resumable()
 *	write		flmem_process_write_memory(): through /proc/PID/mem, opened once
 *	peek		flmem_borrow_sees_frames(): PTRACE_PEEKDATA of the cookie
 *	registers, mask	flmem_arch_arm(): PTRACE_SETREGSET arms, PTRACE_SETSIGMASK follows
 *	detach		flmem_tracee_release()
 *	results		await_results(), flmem_borrow_read_results()
 *	give_back	flmem_borrow_restore(): seizes again, is_parked(), flmem_arch_restore()
 *	release		flmem_tracee_release() of a thread that was not armed
 *	enter, ask	flmem_call_return_restore() with -DAARCH64, where the kernel has forgotten which call
 *			it has to end when a signal arrives
 *
 * What holds (the asserts, `monitor` and the formula `comes_back`):
 *	The thread returns to the call that it was in, with its registers and its signal mask.
 *	Its calls are made at most once for each time that it is armed, and only with frames on the
 *	stack; it is armed only in the wait that was checked.
 *	No write goes to another address space than the one that was opened, nor to the registers
 *	of another program.
 *	A call is ended by EINTR only if flmem is killed between the stop and `resume`.
 *	With -DAARCH64: no signal gets between the restored registers and the call, which it would not
 *	end then, unless flmem is killed or too late.
 *	flmem traces no thread outside of the two windows from `seize` to `detach`, in which it waits
 *	for nothing but the stop (some ten microseconds each). Whatever happens, the thread is
 *	itself again and again: a flmem that is frozen inside a window is killed by the kernel
 *	(flmem_interrupts_defer()). With -DLIBRARY it is not, since it runs in another program's process;
 *	that it stays frozen there is then the one exception.
 *
 * What is not in the model: time (a limit may pass at any step), vector state, several threads and
 * which of them takes a signal, and that the registers of the park are those of no call of the
 * program (arch.h).
 */

#define ORIGINAL 0 /* the address space that flmem opened */
#define ANOTHER	 1 /* of the program that was executed */
#define TRIES	 2
#define SIGNALS	 1

mtype:place = { SAFE, LOCKED, PROGRAM, CALLS, PARKED, BEFORE };
mtype:who = { NOBODY, FLMEM, DEBUGGER };
mtype:stop = { NONE, INTERRUPTED, SIGNALLED, EXECUTED, ENTERED };

/* The thread, as the kernel has it. */
mtype:place at = SAFE; /* what its registers say */
mtype:who tracer = NOBODY;
mtype:stop cause = NONE;
bit space = ORIGINAL;
bool stopped = false; /* its tracer has stopped it */
bool reported = false; /* the stop is reported to whoever waits for it */
bool trap = false;     /* an interrupt is on its way */
bool masked = false;   /* all signals are blocked */
bool pending = false;  /* a signal is pending */
bool cut_off = false;  /* its call ends with EINTR once it runs */
bool entering = false; /* it stops at its next system call */

/* These are on the stack, in the original address space. */
bool frames = false, cookie = false, results = false;
bool inhabited = true; /* the thread, or a process that shares it, uses the space */

/* The state of flmem. */
bool frozen = false, killed = false, window = false, late = false;
byte armed = 0, called = 0;

#define is_own	  (at == SAFE || at == LOCKED || at == PROGRAM || at == BEFORE)
#define is_itself (is_own && !masked && !stopped)
#define is_ours	  (tracer == FLMEM && stopped)

inline let_go()
{
	tracer = NOBODY;
	stopped = false;
	reported = false;
	trap = false;
	entering = false;
	if
	:: cause == SIGNALLED -> pending = true
	:: else
	fi;
	cause = NONE
}

inline stop_for(why)
{
	stopped = true;
	reported = true;
	cause = why
}

active proctype thread()
{
end:	do
	:: atomic { !stopped && trap ->
		trap = false;
		stop_for(INTERRUPTED);
		if
		:: at == SAFE || at == LOCKED -> cut_off = true
		:: at == SAFE || at == LOCKED -> skip
		:: at != SAFE && at != LOCKED -> skip
		fi }
	:: atomic { !stopped && !trap && pending && !masked ->
		pending = false;
		if
		:: tracer != NOBODY -> stop_for(SIGNALLED)
		:: tracer == NOBODY && (at == SAFE || at == LOCKED) -> cut_off = false; at = PROGRAM
		:: tracer == NOBODY && at == BEFORE -> assert(killed || late) /* its call is not ended */
		:: tracer == NOBODY && at != SAFE && at != LOCKED && at != BEFORE ->
			skip /* its handler ran */
		fi }
#ifdef AARCH64
	:: atomic { !stopped && !trap && at == BEFORE && (masked || !pending) ->
		at = SAFE;
		if
		:: entering -> entering = false; stop_for(ENTERED)
		:: else
		fi }
	:: atomic { !stopped && !trap && at == PARKED && entering ->
		entering = false;
		stop_for(ENTERED) } /* the call that asks has returned */
#endif
	:: atomic { !stopped && !trap && cut_off ->
		assert(killed); /* this is a stray EINTR */
		cut_off = false;
		at = PROGRAM }
	:: atomic { !stopped && !trap && !cut_off && (at == SAFE || at == LOCKED) -> at = PROGRAM }
	:: atomic { !stopped && !trap && at == PROGRAM ->
		if
		:: at = SAFE
		:: at = LOCKED
		fi;
		if /* it uses its stack down to the frames, or not */
		:: space == ORIGINAL -> frames = false; cookie = false
		:: skip
		fi }
	:: atomic { !stopped && !trap && at == CALLS ->
		assert(space == ORIGINAL && frames);
		masked = true;
		called++;
		assert(called <= armed);
		results = true;
		at = PARKED }
#ifndef FAULT_ENDLESS_PARK
	:: atomic { !stopped && !trap && at == PARKED && !entering ->
		assert(space == ORIGINAL && frames); /* the last call needs them */
		masked = false;
		cut_off = false;
		at = SAFE }
#endif
	od
}

active proctype executor()
{
	if
	:: atomic { true -> /* another thread executes: this one is killed, its number stays */
		space = ANOTHER;
		tracer = NOBODY;
		stopped = false; reported = false; trap = false; cause = NONE;
		masked = false; pending = false; cut_off = false; entering = false;
		if
		:: at = SAFE
		:: at = PROGRAM
		fi;
		if
		:: inhabited = false
		:: skip
		fi }
	:: atomic { at == PROGRAM && !stopped && !trap -> /* the thread itself executes: it stays traced */
		space = ANOTHER;
		if
		:: tracer == FLMEM -> stop_for(EXECUTED)
		:: else
		fi;
		if
		:: inhabited = false
		:: skip
		fi }
	:: true /* no exec happens */
	fi
}

active proctype sender()
{
	byte sent = 0;

end:	do
	:: atomic { sent < SIGNALS && !pending -> pending = true; sent++ }
	od
}

active proctype debugger()
{
	if
	:: true
	:: atomic { tracer == NOBODY -> tracer = DEBUGGER; trap = true }
		if
		:: atomic { tracer == DEBUGGER -> cut_off = false; let_go() }
		:: tracer != DEBUGGER
		fi
	fi
}

active proctype thief()
{
end:	do
	:: atomic { reported && tracer == FLMEM -> reported = false }
	od
}

active proctype killer()
{
	if
	:: true
	:: atomic { true ->
		killed = true;
		window = false;
		if
		:: tracer == FLMEM -> let_go() /* the kernel detaches */
		:: else
		fi }
	fi
}

#ifndef LIBRARY
/* flmem_interrupts_defer(): the kernel kills a command that has held the thread for too long. */
active proctype limit()
{
end:	do
	:: atomic { frozen && window && !killed ->
		killed = true;
		window = false;
		if
		:: tracer == FLMEM -> let_go()
		:: else
		fi }
	od
}
#endif

active proctype freezer()
{
	if
	:: true
	:: frozen = true;
		if
		:: true /* it stays frozen */
		:: frozen = false
		fi
	fi
}

#ifdef FAULT_REPORTS_ONLY
#define is_known reported
#else
#define is_known true
#endif

/* Handles a stop that flmem sees; `got` stays NONE where the thread goes on. */
inline sort_stop()
{
	reported = false;
	if
	:: cause == SIGNALLED -> /* the signal is passed on */
		stopped = false;
		cause = NONE;
		if
		:: at == SAFE || at == LOCKED -> cut_off = false; at = PROGRAM
		:: else
		fi
	:: else -> got = cause
	fi
}

/* This is one step of flmem: nothing comes between, and it needs a flmem that runs. */
#define STEP(condition) atomic { !frozen && !killed && (condition) ->

/* Seizes, interrupts and waits; `got` is NONE when the thread is not ours or the time is over. */
inline stop_thread()
{
	STEP(true)
		got = NONE;
		if
		:: tracer == NOBODY -> tracer = FLMEM; window = true
		:: else
		fi };
	STEP(true)
		if
		:: tracer == FLMEM && !stopped -> trap = true
		:: else
		fi };
	do
	:: STEP(is_ours && is_known && got == NONE) sort_stop() }
	:: STEP(got != NONE || tracer != FLMEM) break }
	:: STEP(window) break } /* the time is over */
	od
}

/* Releases the thread: waits until it has stopped, and repeats what its stop cut off. */
inline release_thread()
{
	do
	:: STEP(tracer != FLMEM || (is_ours && got != NONE)) break }
	:: STEP(is_ours && is_known && got == NONE)
		sort_stop();
		if
		:: got == NONE -> trap = true
		:: else
		fi }
	od;
#ifndef FAULT_NOT_REPEATED
	STEP(true)
		if
		:: is_ours && cause == INTERRUPTED -> cut_off = false
		:: else
		fi };
#endif
	STEP(true)
		if
		:: tracer == FLMEM -> let_go()
		:: else
		fi;
		got = NONE;
		window = false }
}

inline write_frames()
{
	STEP(true)
		if
#ifdef FAULT_WRITES_BY_PID
		:: is_ours -> assert(space == ORIGINAL); frames = true; cookie = true; results = false
#else
		:: inhabited || space == ORIGINAL -> frames = true; cookie = true; results = false
#endif
		:: else -> ok = false
		fi }
}

inline write_registers()
{
	STEP(true)
		if
		:: is_ours ->
			assert(space == ORIGINAL && at == SAFE);
			at = CALLS;
			armed++
		:: else -> ok = false
		fi }
}

inline write_mask()
{
	STEP(true)
		if
		:: is_ours -> masked = true
		:: else
		fi }
}

#ifdef AARCH64
#define OWN_PLACE BEFORE

inline run_to_call()
{
	STEP(true)
		got = NONE;
		if
		:: is_ours -> stopped = false; cause = NONE; entering = true
		:: else
		fi };
	do
	:: STEP(is_ours && is_known && got == NONE) reported = false; got = cause }
	:: STEP(got != NONE || tracer != FLMEM) break }
	:: STEP(window) late = true; break } /* the time is over */
	od
}

/* Asks in the stop before the delivery of a signal, which is queued again because it is blocked. */
inline ask()
{
#ifdef FAULT_ASKED_MASK_FIRST
	write_mask();
#endif
	STEP(true)
		if
		:: is_ours && at == BEFORE -> assert(space == ORIGINAL); at = PARKED
		:: else
		fi };
	write_mask();
	STEP(true)
		if
		:: is_ours -> pending = true; cause = NONE
		:: else
		fi };
	run_to_call();
	STEP(true)
		if
		:: is_ours && at == PARKED -> masked = false
		:: else
		fi };
	STEP(true)
		if
		:: is_ours && at == PARKED && got == ENTERED ->
			assert(space == ORIGINAL);
			at = BEFORE
		:: else
		fi }
}

inline enter_call()
{
	if
	:: STEP(!ok) skip }
	:: STEP(ok) skip };
		run_to_call();
		if
		:: STEP(got == SIGNALLED) skip }; /* with SA_RESTART the call is made again */
			if
			:: STEP(is_ours && at == BEFORE) at = PROGRAM } /* EINTR */
			:: STEP(true) skip };
				ask();
				if
				:: STEP(got == ENTERED) skip };
					run_to_call();
					STEP(true)
						if
						:: is_ours && at == BEFORE && got == SIGNALLED -> at = PROGRAM
						:: else
						fi }
				:: STEP(got != ENTERED) skip }
				fi
			fi
		:: STEP(got != SIGNALLED) skip }
		fi
	fi
}
#else
#define OWN_PLACE SAFE
#endif

active proctype flmem()
{
	mtype:stop got = NONE;
	bool ok = false;
	byte tries = 0;

again:	do
	:: STEP(tries == TRIES) goto done }
	:: STEP(tries < TRIES && at == SAFE && !stopped) break } /* look */
	:: STEP(tries < TRIES && (at != SAFE || stopped)) tries++ } /* no thread to borrow */
	od;
	STEP(true) tries++; ok = true };
	stop_thread();
#ifndef FAULT_NOT_COMPARED
	STEP(true) ok = got == INTERRUPTED && is_ours && at == SAFE }; /* compare */
#else
	STEP(true) ok = got == INTERRUPTED && is_ours && at != PROGRAM };
#endif
	STEP(true)
		if
		:: ok && is_ours -> cut_off = false /* resume */
		:: else -> ok = false
		fi };
#ifdef FAULT_ARMED_FIRST
	if
	:: STEP(ok) skip }; write_registers(); write_frames()
	:: STEP(!ok) skip }
	fi;
#else
	if
	:: STEP(ok) skip };
		write_frames();
#ifndef FAULT_NOT_PEEKED
		STEP(true) ok = ok && is_ours && space == ORIGINAL && cookie } /* peek */
#endif
	:: STEP(!ok) skip }
	fi;
	if
	:: STEP(ok) skip };
#ifdef FAULT_MASK_FIRST
		write_mask();
#endif
		write_registers()
	:: STEP(!ok) skip }
	fi;
#endif
	if
	:: STEP(!ok) skip }; release_thread(); goto again
	:: STEP(ok) skip }
	fi;
	write_mask();
	STEP(true) /* detach */
		if
#ifdef FAULT_STAYS_TRACER
		:: is_ours -> stopped = false; cause = NONE
#else
		:: tracer == FLMEM -> let_go()
#endif
		:: else
		fi;
		window = false };
	do /* results */
	:: STEP(cookie && results) break }
	:: STEP(!cookie) goto again } /* lost: it has gone on */
	:: STEP(true) goto done } /* the time is over; the calls go on by themselves */
	od;
	stop_thread(); /* give_back */
#ifndef FAULT_RESTORED_ANYWHERE
	STEP(true) ok = got == INTERRUPTED && is_ours && at == PARKED };
#else
	STEP(true) ok = got == INTERRUPTED && is_ours };
#endif
	STEP(true)
		if
		:: ok && is_ours -> masked = false
		:: else -> ok = false
		fi };
	STEP(true)
		if
		:: ok && is_ours ->
			assert(space == ORIGINAL && at == PARKED);
			at = OWN_PLACE;
			cut_off = false
		:: else -> ok = false
		fi };
#if defined(AARCH64) && !defined(FAULT_NOT_ENTERED)
	enter_call();
#endif
	release_thread();
	goto again;
done:	skip
}

active proctype monitor()
{
	bool tick = false;

end:	do
	/* It is never let run with the mask of the calls and without them. */
	:: atomic { is_own && masked && !stopped -> assert(false) }
	/* Outside of the windows no process depends on flmem. */
	:: atomic { tracer == FLMEM && !window -> assert(false) }
	/* Time goes on even where no process acts: spin searches for fair cycles in runs without end. */
	:: tick = !tick
	od
}

#ifdef LIBRARY
ltl comes_back { ([]<> is_itself) || (<>[] (frozen && window)) }
#else
ltl comes_back { []<> is_itself }
#endif
