// SPDX-License-Identifier: GPL-2.0
/* See access.h. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "access.h"
#include "mem.h"

#define AT(p)	((uint64_t)(uintptr_t)(p))

int other_open(struct other *o, struct pair *p, size_t len)
{
	*o = (struct other){ .p = p, .len = len, .buf = mem_pages(len) };
	if (!o->buf)
		return -ENOMEM;
	o->mr = ibv_reg_mr(p->pd, o->buf, len, ACCESS_ALL);
	return o->mr ? 0 : -errno;
}

void other_close(struct other *o)
{
	if (o->mr)
		ibv_dereg_mr(o->mr);
	if (o->buf)
		munmap(o->buf, o->len);
	*o = (struct other){};
}

int access_post(struct other *o, enum access_kind access, uint32_t key,
		uint64_t addr, uint32_t len)
{
	/* Where A's memory is, where B's */
	struct op op = { .len = len, .flags = IBV_SEND_SIGNALED };
	bool ours = !access_is_remote(access);
	int err;

	op.laddr = ours ? addr : AT(o->buf);
	op.lkey = ours ? key : o->mr->lkey;
	op.raddr = ours ? AT(o->buf) : addr;
	op.rkey = ours ? o->mr->rkey : key;
	switch (access) {
	case SEND_FROM:
		op.opcode = IBV_WR_SEND;
		err = post_recv(o->p->b, 0, AT(o->buf), len, o->mr->lkey);
		break;
	case RECV_TO:
		op.opcode = IBV_WR_SEND;
		op.laddr = AT(o->buf);
		op.lkey = o->mr->lkey;
		err = post_recv(o->p->b, 0, addr, len, key);
		break;
	case WRITE_FROM:
	case WRITE_TO:
		op.opcode = IBV_WR_RDMA_WRITE;
		err = 0;
		break;
	case READ_FROM:
	case READ_TO:
		op.opcode = IBV_WR_RDMA_READ;
		err = 0;
		break;
	default:
		op.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		op.len = 8;
		op.cmp_add = ACCESS_ADD;
		err = 0;
	}
	return err ?: post(o->p->a, &op);
}

int access_wait(struct other *o, enum access_kind access, struct ibv_wc *wc,
		struct ibv_wc *bwc)
{
	struct ibv_wc a = {}, b = {};
	int n = wait_wc(o->p->acq, &a, WAIT_MS);

	if (n != 1)
		return n ?: -ETIMEDOUT;
	if (access == SEND_FROM || access == RECV_TO) {
		/* a request that fails at A leaves B's receive alone */
		n = wait_wc(o->p->bcq, &b, a.status == IBV_WC_LOC_PROT_ERR ? 0 : WAIT_MS);
		if (n < 0 || (!n && a.status != IBV_WC_LOC_PROT_ERR))
			return n ?: -ETIMEDOUT;
	}
	if (wc)
		*wc = a;
	if (bwc)
		*bwc = b;
	return a.status ?: b.status;
}

int access_run(struct other *o, enum access_kind access, uint32_t key, uint64_t addr,
	       uint32_t len, struct ibv_wc *wc, struct ibv_wc *bwc)
{
	int err = access_post(o, access, key, addr, len);

	return err ?: access_wait(o, access, wc, bwc);
}

int access_check(struct other *o, enum access_kind access, uint32_t key, uint64_t addr,
		 void *mem, uint32_t len, uint64_t seed)
{
	uint64_t old = 0, *word = mem;
	bool good;
	int err;

	if (len > o->len)
		return -EMSGSIZE;
	if (access_reads(access))
		memset(o->buf, 0xee, len);
	else
		fill(o->buf, len, seed);
	memcpy(&old, o->buf, 8);
	err = access_run(o, access, key, addr, len, NULL, NULL);
	if (err)
		return err;
	switch (access) {
	case ATOMIC_AT:
		/* A has what was there, and there the sum is now */
		memcpy(&old, o->buf, 8);
		good = *word == old + ACCESS_ADD;
		break;
	case ATOMIC_TO:
		good = *word == old && *(uint64_t *)o->buf == old + ACCESS_ADD;
		break;
	default:
		good = differs(access_reads(access) ? o->buf : mem, len, seed) < 0;
	}
	return good ? 0 : -EBADMSG;
}
