/* SPDX-License-Identifier: GPL-2.0 */
/* Attributes, marked accesses and barriers. One host thread runs everything: the barriers only have to bind the compiler. */
#ifndef SHIM_LINUX_COMPILER_H
#define SHIM_LINUX_COMPILER_H

#include <stddef.h>

#define __user
#define __kernel
#define __iomem
#define __percpu
#define __rcu
#define __force
#define __bitwise
#define __must_hold(x)
#define __acquires(x)
#define __releases(x)
#define __acquire(x)		((void)0)
#define __release(x)		((void)0)
#define __init
#define __exit
#define __initdata
#define __read_mostly
#define __ro_after_init
#define __cacheline_aligned
#define __cacheline_aligned_in_smp
#define ____cacheline_aligned
#define ____cacheline_aligned_in_smp
#define __counted_by(m)
#define __counted_by_be(m)
#define __nonstring
#undef __always_inline
#define __always_inline		inline __attribute__((__always_inline__))
#define noinline		__attribute__((__noinline__))
#define __noreturn		__attribute__((__noreturn__))
#define __packed		__attribute__((__packed__))
#define __aligned(n)		__attribute__((__aligned__(n)))
#define __maybe_unused		__attribute__((__unused__))
#define __always_unused		__attribute__((__unused__))
#define __must_check		__attribute__((__warn_unused_result__))
#define __used			__attribute__((__used__))
#define __printf(a, b)		__attribute__((__format__(printf, a, b)))
#define __cold			__attribute__((__cold__))
#define __pure			__attribute__((__pure__))
#ifndef __attribute_const__
#define __attribute_const__	__attribute__((__const__))
#endif
#define __cleanup(f)		__attribute__((__cleanup__(f)))
#undef fallthrough
#define fallthrough		__attribute__((__fallthrough__))
#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)
#define unreachable()		__builtin_unreachable()
#define __same_type(a, b)	__builtin_types_compatible_p(typeof(a), typeof(b))
#define __is_constexpr(x) \
	(sizeof(int) == sizeof(*(8 ? ((void *)((long)(x) * 0l)) : (int *)8)))
#define __UNIQUE_ID_(p, n)	__UNIQUE_ID__(p, n)
#define __UNIQUE_ID__(p, n)	p##n
#define __UNIQUE_ID(p)		__UNIQUE_ID_(__uid_, __COUNTER__)
#define __stringify_1(x...)	#x
#define __stringify(x...)	__stringify_1(x)

#define barrier()		__asm__ __volatile__("" : : : "memory")
#define READ_ONCE(x)		(*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v)	do { *(volatile typeof(x) *)&(x) = (v); } while (0)
#define data_race(x)		(x)
#define smp_load_acquire(p)	({ typeof(*(p)) ___v = READ_ONCE(*(p)); barrier(); ___v; })
#define smp_store_release(p, v)	do { barrier(); WRITE_ONCE(*(p), v); } while (0)
#define smp_store_mb(x, v)	do { WRITE_ONCE(x, v); barrier(); } while (0)
#define smp_mb()		barrier()
#define smp_rmb()		barrier()
#define smp_wmb()		barrier()
#define mb()			barrier()
#define rmb()			barrier()
#define wmb()			barrier()
#define dma_rmb()		barrier()
#define dma_wmb()		barrier()
#define smp_mb__before_atomic()	barrier()
#define smp_mb__after_atomic()	barrier()
#define smp_mb__after_spinlock() barrier()
#define smp_acquire__after_ctrl_dep() barrier()
#define cpu_relax()		barrier()

#define struct_group(NAME, MEMBERS...) \
	union { struct { MEMBERS }; struct { MEMBERS } NAME; }
#define struct_group_tagged(TAG, NAME, MEMBERS...) \
	union { struct { MEMBERS }; struct TAG { MEMBERS } NAME; }
#define DECLARE_FLEX_ARRAY(T, NAME) \
	struct { struct { } __empty_##NAME; T NAME[]; }

#ifndef offsetof
#define offsetof(t, m)		__builtin_offsetof(t, m)
#endif
#define sizeof_field(t, m)	sizeof(((t *)0)->m)
#define offsetofend(t, m)	(offsetof(t, m) + sizeof_field(t, m))
#ifndef static_assert
#define static_assert(e, ...)	_Static_assert(e, "" __VA_ARGS__ #e)
#endif

#endif
