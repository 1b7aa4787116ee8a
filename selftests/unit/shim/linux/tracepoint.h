/* SPDX-License-Identifier: GPL-2.0 */
/* Trace events become empty functions; the second reading of a trace header, for its definitions, finds nothing. */
#ifndef SHIM_LINUX_TRACEPOINT_H
#define SHIM_LINUX_TRACEPOINT_H

#include <linux/kernel.h>

#define TP_PROTO(a...)		a
#define TP_ARGS(a...)
#define TP_STRUCT__entry(a...)
#define TP_fast_assign(a...)
#define TP_printk(a...)
#define TRACE_EVENT(name, proto, args, s, a, p) \
	static inline void trace_##name(proto) { } \
	static inline bool __maybe_unused trace_##name##_enabled(void) { return false; }
#define DECLARE_EVENT_CLASS(name, proto, args, s, a, p)
#define DEFINE_EVENT(class, name, proto, args) TRACE_EVENT(name, PARAMS(proto), args,,,)
#define PARAMS(a...)		a
#define TRACE_DEFINE_ENUM(x)
#define __print_symbolic(a...)	0
#define __print_flags(a...)	0

#endif
