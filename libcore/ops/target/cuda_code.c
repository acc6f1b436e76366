/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/target/cuda_code.h"

#include "base/text/text.h"

/*
 * Python code of driver() and pool(). It skips a device whose primary context is not active: each
 * call for it would create that context, of some hundred megabytes. Neither the driver nor ctypes
 * is loaded by this code (4 is RTLD_NOLOAD). In capture mode 2, relaxed, the calls of this thread
 * do not end the capture of a CUDA graph in another thread. Numbers:
 * CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT (5) and USED_MEM_CURRENT (7) of cuda.h.
 */
static const char driver_code[] =
	"has_driver=1\n"
	"def driver():\n"
	" k=sys.modules.get('ctypes')\n"
	" if k is None:raise RuntimeError('ctypes is not imported')\n"
	" d=k.CDLL('libcuda.so.1',4)\n"
	" n=k.c_int();v=k.c_int();f=k.c_uint();a=k.c_int();m=k.c_int(2);s=[]\n"
	" if d.cuDeviceGetCount(k.byref(n)):n.value=0\n"
	" d.cuThreadExchangeStreamCaptureMode(k.byref(m))\n"
	" for i in range(n.value):\n"
	"  if d.cuDeviceGet(k.byref(v),i):continue\n"
	"  if d.cuDevicePrimaryCtxGetState(v,k.byref(f),k.byref(a)):continue\n"
	"  if a.value:s.append(i)\n"
	" return d,s\n"
	"def pool(d,i,trim):\n"
	" k=sys.modules['ctypes'];v=k.c_int();p=k.c_void_p();n=[k.c_uint64(),k.c_uint64()]\n"
	" if d.cuDeviceGet(k.byref(v),i)or d.cuDeviceGetDefaultMemPool(k.byref(p),v):"
	"return 0,0\n"
	" e=d.cuMemPoolTrimTo(p,k.c_size_t(0))if trim else 0\n"
	" if e:raise RuntimeError('cuMemPoolTrimTo: CUDA error %d'%e)\n"
	" for x,y in zip(n,(5,7)):\n"
	"  e=d.cuMemPoolGetAttribute(p,y,k.byref(x))\n"
	"  if e:raise RuntimeError('cuMemPoolGetAttribute: CUDA error %d'%e)\n"
	" return n[0].value,n[1].value\n";

static const char no_driver_code[] = "has_driver=0\n"
				     "def driver():return None,[]\n"
				     "def pool(d,i,trim):return 0,0\n";

static bool driver_is_mapped(const struct flmem_modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (flmem_text_starts(flmem_text_basename(modules->rows[i].path), "libcuda.so."))
			return true;
	return false;
}

void flmem_cuda_code(const struct flmem_modules *modules, const char *code, struct flmem_buf *out)
{
	flmem_buf_puts(out, "import sys\n");
	flmem_buf_puts(out, driver_is_mapped(modules) ? driver_code : no_driver_code);
	flmem_buf_puts(out, code);
}
