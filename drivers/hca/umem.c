// SPDX-License-Identifier: GPL-2.0
/*
 * Umems: lists of pages of user space that the host has pinned, so that commands of
 * a user context can name memory for a queue without naming an address (HM 1.4).
 *
 * Invariants:
 *  - A umem is used by commands of its own user context only.
 *  - It cannot be destroyed while a queue or a doorbell record lies in it; so what a
 *    queue got from it stays valid.
 *  - What the HCA writes to (the ring of a CQ) lies in a umem that is writable.
 */
#include <linux/errno.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "engine.h"

/**
 * struct hca_umem - a list of pages
 * @users: queues and records that lie in it; -1 on its way out
 * @uid: the user context that it belongs to
 * @owner: that user context
 * @writable: the HCA may write to all of it
 * @buf: its memory
 * @rcu: look-ups run under RCU
 */
struct hca_umem {
	atomic_t users;
	u16 uid;
	struct hca_number *owner;
	bool writable;
	struct hca_buf buf;
	struct rcu_head rcu;
};

static struct hca_umem *hca_umem_get(struct hca *hca, u32 id, u16 uid)
{
	struct hca_umem *umem;

	rcu_read_lock();
	umem = xa_load(&hca->umems, id);
	if (umem && (umem->uid != uid || !atomic_inc_unless_negative(&umem->users)))
		umem = NULL;
	rcu_read_unlock();
	return umem;
}

/**
 * hca_umem_put() - a queue or a record lies in a umem no longer
 * @umem: the umem; not to be touched afterwards
 *
 * Context: any.
 */
void hca_umem_put(struct hca_umem *umem)
{
	atomic_dec(&umem->users);
}

/**
 * hca_umem_buf() - reach a range of a umem
 * @hca: the HCA
 * @buf: filled in; hca_buf_free() ends the use
 * @id: number of the umem
 * @uid: user context of the command
 * @offset: where the range begins, in bytes
 * @size: its length in bytes
 * @align: what @offset is a multiple of, at most a page
 * @write: the HCA is going to write there
 *
 * Context: process, may sleep.
 * Return: HCA_OK; BAD_RES_ERR with check 0x13 if the user context has no such umem;
 * BAD_PARAM_ERR with check 0x14 if the range does not lie in it, is not aligned or may
 * not be written.
 */
hca_cmd_status hca_umem_buf(struct hca *hca, struct hca_buf *buf, u32 id, u16 uid, u64 offset,
			    u64 size, u32 align, bool write)
{
	struct hca_umem *umem = hca_umem_get(hca, id, uid);
	u64 at, end;

	memset(buf, 0, sizeof(*buf));
	if (!umem)
		return HCA_REFUSE(BAD_RES_ERR, 0x13);
	if (check_add_overflow(offset, size, &end) || end > umem->buf.size)
		goto refuse;
	at = umem->buf.offset + offset;
	if (at & (align - 1) || (write && !umem->writable))
		goto refuse;
	buf->shift = umem->buf.shift;
	buf->chunk = umem->buf.chunk + (at >> buf->shift);
	buf->offset = at & ((1ULL << buf->shift) - 1);
	buf->size = size;
	buf->umem = umem;
	return HCA_OK;

refuse:
	hca_umem_put(umem);
	return HCA_REFUSE(BAD_PARAM_ERR, 0x14);
}

/* The HCA may write where it is told so for every page. */
static bool hca_umem_writable(const __be64 *mtt, u64 nr)
{
	while (nr--)
		if (!(be64_to_cpu(*mtt++) & MLX5_EN_WR))
			return false;
	return true;
}

hca_cmd_status hca_cmd_create_umem(struct hca *hca, const void *in, size_t inlen,
				   void *out, size_t outlen)
{
	const void *ctx = MLX5_ADDR_OF(create_umem_in, in, umem);
	const __be64 *mtt = MLX5_ADDR_OF(umem, ctx, mtt);
	unsigned int log_page = MLX5_GET(umem, ctx, log_page_size) + HCA_PAGE_SHIFT;
	u64 room = (inlen - MLX5_ST_SZ_BYTES(create_umem_in)) / sizeof(*mtt);
	u64 page_offset = MLX5_GET(umem, ctx, page_offset);
	u64 nr = MLX5_GET64(umem, ctx, num_of_mtt);
	struct hca_umem *umem;
	hca_cmd_status status;
	u32 id;

	if (MLX5_GET(create_umem_in, in, op_mod))
		return HCA_REFUSE(BAD_OP_ERR, 1);
	if (!nr || nr > room)
		return HCA_REFUSE(BAD_INP_LEN_ERR, 2);
	if (MLX5_GET(umem, ctx, ats) || page_offset >> log_page || nr >> (63 - log_page))
		return HCA_REFUSE(BAD_PARAM_ERR, 3);

	umem = kzalloc_obj(*umem);
	if (!umem)
		return HCA_REFUSE(LIM_ERR, 4);
	umem->uid = MLX5_GET(create_umem_in, in, uid);
	if (!hca_uctx_use(hca, umem->uid, &umem->owner)) {
		status = HCA_REFUSE(BAD_RES_ERR, 5);
		goto free_umem;
	}
	umem->writable = hca_umem_writable(mtt, nr);
	status = hca_buf_map(hca, &umem->buf, mtt, nr, log_page, page_offset,
			     (nr << log_page) - page_offset);
	if (status)
		goto unuse_uctx;
	if (xa_alloc_cyclic(&hca->umems, &id, umem, XA_LIMIT(1, (1 << HCA_LOG_MAX_UMEM) - 1),
			    &hca->umem_next, GFP_KERNEL) < 0) {
		status = HCA_REFUSE(LIM_ERR, 6);
		goto free_buf;
	}
	MLX5_SET(create_umem_out, out, umem_id, id);
	return HCA_OK;

free_buf:
	hca_buf_free(&umem->buf);
unuse_uctx:
	hca_uctx_unuse(umem->owner);
free_umem:
	kfree(umem);
	return status;
}

static void hca_umem_free(struct hca_umem *umem)
{
	hca_buf_free(&umem->buf);
	hca_uctx_unuse(umem->owner);
	kfree_rcu(umem, rcu);
}

hca_cmd_status hca_cmd_destroy_umem(struct hca *hca, const void *in, size_t inlen,
				    void *out, size_t outlen)
{
	u32 id = MLX5_GET(destroy_umem_in, in, umem_id);
	u16 uid = MLX5_GET(destroy_umem_in, in, uid);
	hca_cmd_status status = HCA_OK;
	struct hca_umem *umem;

	if (MLX5_GET(destroy_umem_in, in, op_mod))
		return HCA_REFUSE(BAD_OP_ERR, 1);
	rcu_read_lock();
	umem = xa_load(&hca->umems, id);
	if (!umem || umem->uid != uid)
		status = HCA_REFUSE(BAD_RES_ERR, 2);
	else if (atomic_cmpxchg(&umem->users, 0, -1) != 0)
		status = HCA_REFUSE(RES_BUSY, 3);
	rcu_read_unlock();
	if (status)
		return status;
	xa_erase(&hca->umems, id);
	hca_umem_free(umem);
	return HCA_OK;
}

/**
 * hca_umems_destroy() - destroy what software left behind
 * @hca: the HCA; all queues are gone
 */
void hca_umems_destroy(struct hca *hca)
{
	struct hca_umem *umem;
	unsigned long id;

	xa_for_each(&hca->umems, id, umem) {
		xa_erase(&hca->umems, id);
		hca_umem_free(umem);
	}
}
