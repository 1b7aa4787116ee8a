/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of the HCA half: commands, requests, completions, and every
 * refusal with the check that refused (design rule 7).
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM softhca

#if !defined(HCA_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define HCA_TRACE_H

#include <linux/tracepoint.h>
#include <linux/types.h>

TRACE_EVENT(hca_cmd,
	TP_PROTO(u16 opcode, u8 status, u8 check),
	TP_ARGS(opcode, status, check),
	TP_STRUCT__entry(
		__field(u16, opcode)
		__field(u8, status)
		__field(u8, check)
	),
	TP_fast_assign(
		__entry->opcode = opcode;
		__entry->status = status;
		__entry->check = check;
	),
	TP_printk("opcode=0x%x status=0x%x check=%u", __entry->opcode, __entry->status,
		  __entry->check)
);

TRACE_EVENT(hca_wqe,
	TP_PROTO(u32 qpn, u16 index, u8 opcode, u64 len, u32 rkey, u64 raddr),
	TP_ARGS(qpn, index, opcode, len, rkey, raddr),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u16, index)
		__field(u8, opcode)
		__field(u64, len)
		__field(u32, rkey)
		__field(u64, raddr)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->index = index;
		__entry->opcode = opcode;
		__entry->len = len;
		__entry->rkey = rkey;
		__entry->raddr = raddr;
	),
	TP_printk("qpn=0x%x index=%u opcode=0x%x len=%llu rkey=0x%x raddr=0x%llx", __entry->qpn,
		  __entry->index, __entry->opcode, __entry->len, __entry->rkey, __entry->raddr)
);

TRACE_EVENT(hca_cqe,
	TP_PROTO(u32 cqn, u32 qpn, u8 opcode, u32 index),
	TP_ARGS(cqn, qpn, opcode, index),
	TP_STRUCT__entry(
		__field(u32, cqn)
		__field(u32, qpn)
		__field(u8, opcode)
		__field(u32, index)
	),
	TP_fast_assign(
		__entry->cqn = cqn;
		__entry->qpn = qpn;
		__entry->opcode = opcode;
		__entry->index = index;
	),
	TP_printk("cqn=0x%x qpn=0x%x opcode=0x%x index=%u", __entry->cqn, __entry->qpn,
		  __entry->opcode, __entry->index)
);

TRACE_EVENT(hca_refused,
	TP_PROTO(u32 qpn, u32 key, u64 va, u64 len, u8 syndrome),
	TP_ARGS(qpn, key, va, len, syndrome),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, key)
		__field(u64, va)
		__field(u64, len)
		__field(u8, syndrome)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->key = key;
		__entry->va = va;
		__entry->len = len;
		__entry->syndrome = syndrome;
	),
	TP_printk("qpn=0x%x key=0x%x va=0x%llx len=%llu syndrome=0x%x", __entry->qpn,
		  __entry->key, __entry->va, __entry->len, __entry->syndrome)
);

TRACE_EVENT(hca_umr,
	TP_PROTO(u32 qpn, u32 key, u64 mask, u64 offset, u32 octwords, u8 syndrome),
	TP_ARGS(qpn, key, mask, offset, octwords, syndrome),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, key)
		__field(u64, mask)
		__field(u64, offset)
		__field(u32, octwords)
		__field(u8, syndrome)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->key = key;
		__entry->mask = mask;
		__entry->offset = offset;
		__entry->octwords = octwords;
		__entry->syndrome = syndrome;
	),
	TP_printk("qpn=0x%x key=0x%x mask=0x%llx offset=%llu octwords=%u syndrome=0x%x",
		  __entry->qpn, __entry->key, __entry->mask, __entry->offset,
		  __entry->octwords, __entry->syndrome)
);

TRACE_EVENT(hca_page_fault,
	TP_PROTO(u32 qpn, u8 type, u32 token, u32 key, u64 va),
	TP_ARGS(qpn, type, token, key, va),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u8, type)
		__field(u32, token)
		__field(u32, key)
		__field(u64, va)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->type = type;
		__entry->token = token;
		__entry->key = key;
		__entry->va = va;
	),
	TP_printk("qpn=0x%x type=%u token=0x%x key=0x%x va=0x%llx", __entry->qpn,
		  __entry->type, __entry->token, __entry->key, __entry->va)
);

TRACE_EVENT(hca_qp_state,
	TP_PROTO(u32 qpn, u8 from, u8 to),
	TP_ARGS(qpn, from, to),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u8, from)
		__field(u8, to)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("qpn=0x%x %u -> %u", __entry->qpn, __entry->from, __entry->to)
);

#endif /* HCA_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
