// SPDX-License-Identifier: GPL-2.0
/*
 * Work requests on RC queue pairs: gathering and scattering, inline data, wrapping rings, long messages, atomics, receiver
 * not ready, missing peers, malformed WQEs, and what is flushed when a queue pair fails. libmlx5-abi 6, HM 4.1, 4.7.
 */
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "unit.h"

#define US		1000ULL
#define MS		1000000ULL
#define SECOND		1000000000ULL

#define LEN_ERR		MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR
#define QP_OP		MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR
#define LOCAL_PROT	MLX5_CQE_SYNDROME_LOCAL_PROT_ERR
#define FLUSHED		MLX5_CQE_SYNDROME_WR_FLUSH_ERR
#define INVAL_REQ	MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR
#define REMOTE_ACCESS	MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR
#define REMOTE_OP	MLX5_CQE_SYNDROME_REMOTE_OP_ERR
#define RETRY_EXC	MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR
#define RNR_EXC		MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR
#define PAGE_CODE	(HCA_VS_LEVEL0 | HCA_CHECK_PAGE)

/* the same traffic through every way of ringing */
TEST("doorbells", every_operation_by_every_way_of_ringing)
{
	for (int how = 0; how < RING_HOWS; how++) {
		struct pair p;
		struct wqe w;
		u64 *at;
		int i;

		m->ring_how = how;
		p = pair_new(m);
		for (i = 0; i < 4; i++)
			post_recv(p.b, p.rkey, p.d + 0x100 * i, 0x100);
		post_send(p.a, p.lkey, p.s, 0x80);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
		EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0);
		ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 0x80, 1, PAIR_OFFSET);
		wqe_begin(&w, MLX5_OPCODE_SEND_IMM, SIGNALED, 0xaabbccdd);
		wqe_data(&w, p.lkey, p.s + 0x200, 0x10);
		sq_post(p.a, &w);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 1);
		EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND_IMM, 1);
		ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 0x100, 0x10, 1, PAIR_OFFSET + 0x200);
		wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE_IMM, SIGNALED, 0x11223344);
		wqe_raddr(&w, p.d + 0x300, p.rkey);
		wqe_data(&w, p.lkey, p.s + 0x300, 0x100);
		sq_post(p.a, &w);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 2);
		EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_WR_IMM, 2);
		ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 0x300, 0x100, 1, PAIR_OFFSET + 0x300);
		/* the buffer of the receive WQE that a WRITE_IMM consumes stays as it is */
		ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 0x200, 0x100, 2, PAIR_OFFSET + 0x200);
		post_write(p.a, p.lkey, p.s + 0x400, 0x100, p.rkey, p.d + 0x400);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 3);
		ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 0x400, 0x100, 1, PAIR_OFFSET + 0x400);
		post_read(p.a, p.lkey, p.s + 0x800, 0x100, p.rkey, p.d + 0x1000);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 4);
		ASSERT_PATTERN(&p.src, PAIR_OFFSET + 0x800, 0x100, 2, PAIR_OFFSET + 0x1000);
		at = (u64 *)(p.dst.cpu + PAIR_OFFSET + 0x1800);
		*at = 41;
		post_atomic(p.a, MLX5_OPCODE_ATOMIC_FA, p.lkey, p.s, p.rkey, p.d + 0x1800, 1, 0);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 5);
		ASSERT_EQ(*at, 42ull);
		/* nothing else was waiting for its turn */
		EXPECT_NONE(p.a->scq);
		EXPECT_NONE(p.b->rcq);
		ASSERT_EQ(qp_free(p.a), 0);
		ASSERT_EQ(qp_free(p.b), 0);
	}
}

/* one doorbell for many WQEs, more than any budget of the ringing thread; the last one alone is signalled */
TEST("doorbells", a_burst_behind_one_doorbell)
{
	for (int how = 0; how < RING_HOWS; how++) {
		struct pair p;
		struct wqe w;
		u16 last = 0;

		m->ring_how = how;
		p = pair_new_attr(m, (struct qp_attr){ .log_sq = 10 }, (struct qp_attr){}, (struct qp_path){});
		for (int i = 0; i < 1000; i++) {
			wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, i == 999 ? SIGNALED : 0, 0);
			wqe_raddr(&w, p.d + 8 * i, p.rkey);
			wqe_data(&w, p.lkey, p.s + 8 * i, 8);
			last = sq_put(p.a, &w);
		}
		sq_ring(p.a);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, last);
		EXPECT_NONE(p.a->scq);
		ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 8000, 1, PAIR_OFFSET);
		ASSERT_EQ(qp_free(p.a), 0);
		ASSERT_EQ(qp_free(p.b), 0);
	}
}

/* the record is the truth: it may be ahead of the doorbell, or a doorbell may bring nothing new */
TEST("doorbells", only_the_record_counts)
{
	struct pair p = pair_new(m);
	struct wqe w;

	wqe_begin(&w, MLX5_OPCODE_NOP, SIGNALED, 0);
	sq_put(p.a, &w);
	sq_put(p.a, &w);
	/* the UAR word names the first WQE, the record covers both */
	put_unaligned_be16(0, p.a->last_ctrl + 1);
	sq_ring(p.a);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 1);
	sq_ring(p.a);
	sq_ring(p.a);
	EXPECT_NONE(p.a->scq);
	/* a WQE that the record does not cover is not there, whatever the doorbell says */
	sq_put(p.a, &w);
	p.a->sq_pi--;
	sq_ring(p.a);
	EXPECT_NONE(p.a->scq);
	p.a->sq_pi++;
	sq_ring(p.a);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 2);
	/* a doorbell that names another queue, or none at all, is a wake-up all the same */
	sq_put(p.a, &w);
	memset(p.a->last_ctrl, 0xff, 8);
	sq_ring(p.a);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 3);
	sq_put(p.a, &w);
	put_unaligned_be32(p.b->qpn << 8 | 1, p.a->last_ctrl + 4);
	sq_ring(p.a);
	hca_uar_scan(m->hca, m->uar);
	shim_run();
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 4);
	/* a scan says whether it found something */
	ASSERT_EQ(hca_uar_scan(m->hca, m->uar), false);
	sq_put(p.a, &w);
	((__be32 *)p.a->dbr.cpu)[1] = cpu_to_be32(p.a->sq_pi);
	ASSERT_EQ(hca_uar_scan(m->hca, m->uar), true);
	shim_run();
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 5);
	/* the record is 16 bits wide, libmlx5 masks; garbage above is not a position */
	ASSERT_EQ(hca_uar_scan(m->hca, 0x5555), false);
}

/* scatter and gather: random cuts of one message on both sides, up to the largest WQEs there are */
TEST("sge", random_lists_on_both_sides)
{
	struct pair p = pair_new_attr(m, (struct qp_attr){ .log_sq = 8 }, (struct qp_attr){ .log_stride = 9, .log_rq = 4 },
				      (struct qp_path){});
	struct mem src = mem_new(m, 64 * 4096), dst = mem_new(m, 64 * 4096);
	u32 lkey = mr_new(m, &src, 0x345, 60 * 4096, 0x345), rkey = mr_new(m, &dst, 0x7f1, 60 * 4096, 0x7f1);
	static u8 want[64 * 4096], message[64 * 4096];
	u32 total, len, bytes;
	unsigned int round;
	int i, n;

	mem_fill(&src, 0, src.len, 1);
	for (round = 0; round < unit_rounds(300); round++) {
		int kind = rnd(3);	/* SEND, WRITE, READ */
		int max_gather = kind == 0 ? 62 : 61;
		struct sge sge[32];
		struct wqe w;
		u64 va = 0;

		mem_fill(&dst, 0, dst.len, 2);
		for (u32 k = 0; k < dst.len; k++)
			want[k] = pattern_byte(2, k);
		n = rnd(4) ? 1 + rnd(max_gather) : max_gather;
		wqe_begin(&w, kind == 0 ? MLX5_OPCODE_SEND : kind == 1 ? MLX5_OPCODE_RDMA_WRITE : MLX5_OPCODE_RDMA_READ,
			  SIGNALED, 0);
		if (kind)
			wqe_raddr(&w, kind == 1 ? 0x7f1 + 777 : 0x345 + 999, kind == 1 ? rkey : lkey);
		for (i = 0, total = 0; i < n; i++) {
			len = 1 + rnd(rnd(3) ? 100 : 3000);
			if (kind == 2) {
				/* a READ scatters what the responder reads at 0x345 + 999 */
				va = 0x7f1 + 3500 * i + rnd(400);
				for (u32 k = 0; k < len; k++)
					want[va + k] = pattern_byte(1, 0x345 + 999 + total + k);
				wqe_data(&w, rkey, va, len);
			} else {
				va = 0x345 + rnd(200000);
				memcpy(message + total, src.cpu + va, len);
				wqe_data(&w, lkey, va, len);
			}
			total += len;
		}
		if (kind == 0) {
			/* room for it all in up to 32 pieces, the last as long as it takes */
			n = 1 + rnd(32);
			for (i = 0, bytes = 0, va = 0x7f1; i < n; i++) {
				len = i == n - 1 ? 220000 : 1 + rnd(500);
				sge[i] = (struct sge){ rkey, va, len };
				for (u32 k = 0; k < len && bytes < total; k++)
					want[va + k] = message[bytes++];
				va += len + rnd(50);
			}
			rq_post(p.b, sge, n);
		} else if (kind == 1) {
			memcpy(want + 0x7f1 + 777, message, total);
		}
		sq_post(p.a, &w);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, (u16)(p.a->sq_pi - DIV_ROUND_UP(w.len, 64)));
		if (kind == 0)
			ASSERT_EQ(be32_to_cpu(EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, (u16)(p.b->rq_pi - 1)).byte_cnt), total);
		cq_update(p.a->scq);
		cq_update(p.b->rcq);
		if (memcmp(want, dst.cpu, dst.len)) {
			for (i = 0; want[i] == dst.cpu[i]; i++)
				;
			FAIL("round %d, kind %d: first wrong byte at %#x of %u", round, kind, i, total);
		}
	}
}

TEST("inline", lengths_and_mixtures)
{
	struct pair p = pair_new_attr(m, (struct qp_attr){ .log_sq = 7 }, (struct qp_attr){}, (struct qp_path){});
	u8 data[1024], want[2048];
	struct wqe w;

	for (unsigned int i = 0; i < sizeof(data); i++)
		data[i] = pattern_byte(9, i);
	for (unsigned int len = 1; len <= 960; len += len < 70 ? 1 : 37) {
		mem_fill(&p.dst, 0, p.dst.len, 2);
		wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 0);
		wqe_raddr(&w, p.d + 3, p.rkey);
		wqe_inline(&w, data, len);
		sq_post(p.a, &w);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, (u16)(p.a->sq_pi - DIV_ROUND_UP(w.len, 64)));
		cq_update(p.a->scq);
		ASSERT(!memcmp(p.dst.cpu + PAIR_OFFSET + 3, data, len));
		ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 3 + len, 64, 2, PAIR_OFFSET + 3 + len);
	}
	/* inline needs no key, and may stand between pointers, several times */
	wqe_begin(&w, MLX5_OPCODE_SEND, SIGNALED, 0);
	wqe_inline(&w, data, 5);
	wqe_data(&w, p.lkey, p.s, 100);
	wqe_inline(&w, data + 5, 300);
	wqe_inline(&w, data + 305, 12);
	wqe_data(&w, p.lkey, p.s + 100, 33);
	memcpy(want, data, 5);
	memcpy(want + 5, p.src.cpu + PAIR_OFFSET, 100);
	memcpy(want + 105, data + 5, 312);
	memcpy(want + 417, p.src.cpu + PAIR_OFFSET + 100, 33);
	post_recv(p.b, p.rkey, p.d, 1000);
	sq_post(p.a, &w);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, (u16)(p.a->sq_pi - DIV_ROUND_UP(w.len, 64)));
	ASSERT_EQ(be32_to_cpu(EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0).byte_cnt), 450u);
	ASSERT(!memcmp(p.dst.cpu + PAIR_OFFSET, want, 450));
	/* longer than its WQE */
	wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 0);
	wqe_raddr(&w, p.d, p.rkey);
	wqe_inline(&w, data, 12);
	put_unaligned_be32(13 | MLX5_INLINE_SEG, w.b + 32);
	mem_fill(&p.dst, 0, p.dst.len, 2);
	sq_post(p.a, &w);
	EXPECT_REQ_ERR(p.a, (u16)(p.a->sq_pi - 1), QP_OP, HCA_VS_BAD_WQE);
	ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
}

/*
 * A ring of 16 basic blocks, WQEs of 1 to 15 blocks: every position of the end of the ring inside a WQE, between segments
 * and inside inline data. The ring begins in the middle of a page and its pages are no neighbours.
 */
TEST("wrap", send_queue_end_inside_a_wqe)
{
	for (int offset = 0; offset < 64; offset += 21) {
		struct pair p = pair_new_attr(m, (struct qp_attr){ .log_sq = 4, .log_rq = 1, .page_offset = offset },
					      (struct qp_attr){}, (struct qp_path){});
		u8 data[1024], want[4096];

		for (int round = 0; round < 400; round++) {
			unsigned int blocks = 1 + rnd(15), inl = 0, total = 0;
			struct wqe w;

			for (unsigned int i = 0; i < sizeof(data); i++)
				data[i] = rnd(256);
			wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 0);
			wqe_raddr(&w, p.d + 1, p.rkey);
			/* fill the blocks: pointers first, then inline to the very end, or pointers throughout */
			while (w.len < 64 * blocks) {
				if (rnd(4) == 0 && 64 * blocks - w.len > 16) {
					inl = 64 * blocks - w.len - 4 - rnd(12);
					wqe_inline(&w, data, inl);
					memcpy(want + total, data, inl);
					total += inl;
				} else {
					unsigned int at = rnd(4000), n = 1 + rnd(20);

					wqe_data(&w, p.lkey, p.s + at, n);
					memcpy(want + total, p.src.cpu + PAIR_OFFSET + at, n);
					total += n;
				}
			}
			if (w.len / 16 > 63)
				continue;
			sq_post(p.a, &w);
			EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, (u16)(p.a->sq_pi - DIV_ROUND_UP(w.len, 64)));
			cq_update(p.a->scq);
			if (memcmp(p.dst.cpu + PAIR_OFFSET + 1, want, total))
				FAIL("offset %d, round %d: WQE of %u blocks at %u", offset, round, blocks,
				     (p.a->sq_pi - blocks) & 15);
		}
		ASSERT_GT(p.a->sq_pi, 1000);
	}
}

/* the 16-bit counters wrap as well; so does the receive ring, many times */
TEST("wrap", sixteen_bit_counters)
{
	struct pair p = pair_new_attr(m, (struct qp_attr){ .log_sq = 8 }, (struct qp_attr){ .log_rq = 3 }, (struct qp_path){});
	struct wqe w;
	u32 done = 0;

	for (u32 n = 0; n < 70000; ) {
		u32 k = min(8u, 70000 - n);
		u32 i;

		for (i = 0; i < k; i++) {
			struct sge sge = { p.rkey, p.d + 16 * i, 8 };

			rq_post(p.b, &sge, 1);
			wqe_begin(&w, MLX5_OPCODE_SEND, SIGNALED, 0);
			wqe_data(&w, p.lkey, p.s + (n + i) % 512 * 8, 8);
			sq_put(p.a, &w);
		}
		sq_ring(p.a);
		for (i = 0; i < k; i++, done++) {
			EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, (u16)done);
			EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, (u16)done);
		}
		cq_update(p.a->scq);
		cq_update(p.b->rcq);
		ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 16 * (k - 1), 8, 1, PAIR_OFFSET + (n + k - 1) % 512 * 8);
		n += k;
	}
	EXPECT_NONE(p.a->scq);
	EXPECT_NONE(p.b->rcq);
}

TEST("HM-1.14", unsignalled)
{
	struct pair p = pair_new(m);
	struct wqe w;

	for (int i = 0; i < 5; i++) {
		wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, 0, 0);
		wqe_raddr(&w, p.d + 64 * i, p.rkey);
		wqe_data(&w, p.lkey, p.s + 64 * i, 64);
		sq_post(p.a, &w);
		EXPECT_NONE(p.a->scq);
	}
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 320, 1, PAIR_OFFSET);
	/* an error is told all the same, and earlier unsignalled successes are not made up for */
	wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, 0, 0);
	wqe_raddr(&w, p.d, 0x70000);
	wqe_data(&w, p.lkey, p.s, 64);
	sq_post(p.a, &w);
	EXPECT_REQ_ERR(p.a, 5, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
	EXPECT_NONE(p.a->scq);
}

TEST("HM-4.4", zero_length_messages)
{
	struct pair p = pair_new(m);
	struct wqe w;

	/* to a receive WQE with a buffer, and to one without */
	post_recv(p.b, p.rkey, p.d, 64);
	post_recv(p.b, 0, 0, 0);
	post_recv(p.b, 0, 0, 0);
	for (int i = 0; i < 2; i++) {
		post_send(p.a, 0, 0, 0);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, i);
		ASSERT_EQ(be32_to_cpu(EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, i).byte_cnt), 0u);
	}
	wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE_IMM, SIGNALED, 7);
	wqe_raddr(&w, 0xdead0000, 0xdeadbeef);
	sq_post(p.a, &w);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 2);
	ASSERT_EQ(be32_to_cpu(EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_WR_IMM, 2).byte_cnt), 0u);
	ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
	wqe_begin(&w, MLX5_OPCODE_NOP, SIGNALED, 0);
	sq_post(p.a, &w);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 3);
}

TEST("HM-2.13", the_terminator_ends_the_list)
{
	struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){ .log_stride = 6 }, (struct qp_path){});
	struct sge two[4] = { { p.rkey, p.d, 16 }, { 0x100, 0, 0 }, { p.rkey, p.d + 16, 64 }, { p.rkey, p.d + 80, 64 } };
	struct sge four[4] = { { p.rkey, p.d, 16 }, { p.rkey, p.d + 100, 16 }, { p.rkey, p.d + 200, 16 }, { p.rkey, p.d + 300, 16 } };

	rq_post(p.b, two, 4);
	post_send(p.a, p.lkey, p.s, 16);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0);
	/* a full list has none */
	rq_post(p.b, four, 4);
	post_send(p.a, p.lkey, p.s, 64);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 1);
	EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 1);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 300, 16, 1, PAIR_OFFSET + 48);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 316, 64, 2, PAIR_OFFSET + 316);
	/* what stands behind the terminator is no room */
	mem_fill(&p.dst, 0, p.dst.len, 2);
	rq_post(p.b, two, 4);
	post_send(p.a, p.lkey, p.s, 17);
	EXPECT_RSP_ERR(p.b, 2, LEN_ERR, HCA_VS_RQ_TOO_SHORT);
	EXPECT_REQ_ERR(p.a, 2, INVAL_REQ, HCA_VS_NAK_REQ);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 16, 0x1000, 2, PAIR_OFFSET + 16);
}

TEST("HM 4.7", receive_wqe_too_short)
{
	struct pair p = pair_new(m);
	struct sge sge[2] = { { p.rkey, p.d, 10 }, { p.rkey, p.d + 100, 20 } };
	struct wqe w;

	rq_post(p.b, sge, 2);
	post_send(p.a, p.lkey, p.s, 30);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0);
	rq_post(p.b, sge, 2);
	post_send(p.a, p.lkey, p.s, 31);
	EXPECT_RSP_ERR(p.b, 1, LEN_ERR, HCA_VS_RQ_TOO_SHORT);
	EXPECT_REQ_ERR(p.a, 1, INVAL_REQ, HCA_VS_NAK_REQ);
	ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_ERR);
	ASSERT_EQ(qp_state(p.b), (unsigned int)MLX5_QP_STATE_ERR);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 120, 0x1000, 2, PAIR_OFFSET + 120);
	pair_revive(&p);
	/* none needed for a WRITE_IMM, however long */
	post_recv(p.b, 0, 0, 0);
	wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE_IMM, SIGNALED, 7);
	wqe_raddr(&w, p.d, p.rkey);
	wqe_data(&w, p.lkey, p.s, 0x1000);
	sq_post(p.a, &w);
	EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_WR_IMM, 0);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	pair_revive(&p);
	/* a message of bytes to a receive WQE without any */
	post_recv(p.b, 0, 0, 0);
	post_send(p.a, p.lkey, p.s, 1);
	EXPECT_RSP_ERR(p.b, 0, LEN_ERR, HCA_VS_RQ_TOO_SHORT);
	EXPECT_REQ_ERR(p.a, 0, INVAL_REQ, HCA_VS_NAK_REQ);
}

TEST("HM 4.7", message_longer_than_the_queue_allows)
{
	struct pair p = pair_new_attr(m, (struct qp_attr){ .log_msg_max = 12 }, (struct qp_attr){ .log_msg_max = 12 },
				      (struct qp_path){});
	int op;

	post_write(p.a, p.lkey, p.s, 4096, p.rkey, p.d);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	mem_fill(&p.dst, 0, p.dst.len, 2);
	for (op = 0; op < 2; op++) {
		if (op == 0)
			post_write(p.a, p.lkey, p.s, 4097, p.rkey, p.d);
		else
			post_read(p.a, p.lkey, p.s, 4097, p.rkey, p.d);
		EXPECT_REQ_ERR(p.a, op ? 0 : 1, INVAL_REQ, HCA_VS_NAK_REQ);
		ASSERT_EQ(qp_error(p.b).vendor, HCA_VS_MSG_TOO_LONG);
		ASSERT_EQ(qp_state(p.b), (unsigned int)MLX5_QP_STATE_ERR);
		ASSERT_EQ(events_of(m, MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR, p.b->qpn), op + 1u);
		ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
		pair_revive(&p);
	}
}

/* beyond 2^31 bytes: two segments of 2^30 + 1 and 2^30 bytes of the dump key */
TEST("HM 4.7", message_longer_than_two_gigabytes)
{
	struct pair p = pair_new(m);
	struct wqe w;

	wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 0);
	wqe_raddr(&w, p.d, p.rkey);
	wqe_data(&w, 0x500, 0, 0x40000001);
	wqe_data(&w, 0x500, 0, 0x40000000);
	sq_post(p.a, &w);
	EXPECT_REQ_ERR(p.a, 0, INVAL_REQ, HCA_VS_NAK_REQ);
	ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
	pair_revive(&p);
	/* four of 2^30: exactly 2^32, which must not come out as nothing */
	wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 0);
	wqe_raddr(&w, p.d, p.rkey);
	for (int i = 0; i < 4; i++)
		wqe_data(&w, 0x500, 0, 0x40000000);
	sq_post(p.a, &w);
	EXPECT_REQ_ERR(p.a, 0, INVAL_REQ, HCA_VS_NAK_REQ);
}

/* long messages */

TEST("long", every_operation_over_many_chunks)
{
	u64 len = (3 << 20) + 0x1234;
	struct mem src = mem_new(m, 4 << 20), dst = mem_new(m, 4 << 20);
	struct pair p = pair_new(m);
	u32 lkey = mr_new(m, &src, 0x111, len + 0x100, 0x111), rkey = mr_new(m, &dst, 0xddd, len + 0x100, 0xddd);
	struct sge sge[2] = { { rkey, 0xddd, 0x100003 }, { rkey, 0xddd + 0x100003, len } };
	u64 moved = counter(m, HCA_CNT_BYTES_COPIED);

	mem_fill(&src, 0, src.len, 1);
	mem_fill(&dst, 0, dst.len, 2);
	post_write(p.a, lkey, 0x111, len, rkey, 0xddd);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_PATTERN(&dst, 0xddd, len, 1, 0x111);
	ASSERT_PATTERN(&dst, 0xddd + len, 0x100, 2, 0xddd + len);
	ASSERT_PATTERN(&dst, 0, 0xddd, 2, 0);
	ASSERT_EQ(counter(m, HCA_CNT_BYTES_COPIED) - moved, len);

	mem_fill(&dst, 0, dst.len, 3);
	post_read(p.a, lkey, 0x111, len, rkey, 0xddd);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 1);
	ASSERT_PATTERN(&src, 0x111, len, 3, 0xddd);
	ASSERT_PATTERN(&src, 0x111 + len, 0x100, 1, 0x111 + len);

	mem_fill(&src, 0, src.len, 4);
	sge[1].len = len;
	rq_post(p.b, sge, 2);
	post_send(p.a, lkey, 0x111, len);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 2);
	ASSERT_EQ(be32_to_cpu(EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0).byte_cnt), (u32)len);
	ASSERT_PATTERN(&dst, 0xddd, len, 4, 0x111);
}

/* a hole in the middle: earlier bytes may have moved, later ones never; where the hole is on either side of each operation */
TEST("HM-4.25", a_failure_midway)
{
	static const u32 holes[] = { 1, 63, 64, 65, 100, 127, 255 };
	struct mem src = mem_new(m, 1 << 20), dst = mem_new(m, 1 << 20);
	struct pair p = pair_new(m);
	u32 hole, lkey, rkey;
	u64 *mtt = calloc(256, sizeof(*mtt));

	for (size_t i = 0; i < ARRAY_SIZE(holes); i++) {
		for (int op = 0; op < 3; op++) {		/* WRITE, READ, SEND */
			for (int far = 0; far < 2; far++) {	/* the hole is on the responder's side */
				struct mem *to = op == 1 ? &src : &dst, *holed = far ? &dst : &src;
				struct key_attr a = { KEY_ALL, .mode = MLX5_MKC_ACCESS_MODE_MTT, .start = 0x345, .len = 0xff000,
						      .mtt = mtt, .nr = 256, .pg_access = true };
				u64 first;

				hole = holes[i];
				for (u32 k = 0; k < 256; k++)
					mtt[k] = holed->dma[k] | (k == hole ? 0 : 3);
				if (far) {
					rkey = key_new(m, &a);
					lkey = mr_new(m, &src, 0x345, 0xff000, 0x345);
				} else {
					lkey = key_new(m, &a);
					rkey = mr_new(m, &dst, 0x345, 0xff000, 0x345);
				}
				mem_fill(&src, 0, src.len, 1);
				mem_fill(&dst, 0, dst.len, 2);
				switch (op) {
				case 0:
					post_write(p.a, lkey, 0x345, 0xfe000, rkey, 0x345);
					break;
				case 1:
					post_read(p.a, lkey, 0x345, 0xfe000, rkey, 0x345);
					break;
				case 2:
					post_recv(p.b, rkey, 0x345, 0xff000);
					post_send(p.a, lkey, 0x345, 0xfe000);
					break;
				}
				if (hole * 4096ul >= 0x345 + 0xfe000) {
					EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
					if (op == 2)
						EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0);
				} else if (!far) {
					struct mlx5_cqe64 c;

					EXPECT_REQ_ERR(p.a, 0, LOCAL_PROT, PAGE_CODE);
					/* what becomes of the receive WQE of a message that breaks off is not said */
					while (cq_poll(p.b->rcq, &c))
						ASSERT_EQ(c.op_own >> 4, MLX5_CQE_RESP_ERR);
				} else if (op == 2) {
					EXPECT_RSP_ERR(p.b, 0, LOCAL_PROT, PAGE_CODE);
					EXPECT_REQ_ERR(p.a, 0, REMOTE_OP, HCA_VS_NAK_OP);
				} else {
					EXPECT_REQ_ERR(p.a, 0, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
					ASSERT_EQ(qp_error(p.b).vendor, PAGE_CODE);
				}
				/* nothing at or behind the hole; what stands before it is old or new, byte by byte */
				first = min(hole * 4096ul, to->len);
				if (hole * 4096ul < 0x345 + 0xfe000)
					ASSERT_PATTERN(to, first, to->len - first, op == 1 ? 1 : 2, first);
				for (u64 k = 0x345; k < min(first, 0x345 + 0xfe000ul); k++) {
					u8 is = to->cpu[k];

					if (is != pattern_byte(1, k) && is != pattern_byte(2, k))
						FAIL("byte %#llx is neither old nor new", k);
				}
				ASSERT_PATTERN(to, 0, 0x345, op == 1 ? 1 : 2, 0);
				pair_revive(&p);
				ASSERT_EQ(key_free(m, lkey), 0);
				ASSERT_EQ(key_free(m, rkey), 0);
			}
		}
	}
	free(mtt);
}

/* the whole RETH range is checked before the first byte moves: too long by one byte at the far end of many chunks */
TEST("HM-4.25", bounds_are_checked_before_the_first_byte)
{
	struct mem src = mem_new(m, 1 << 20), dst = mem_new(m, 1 << 20);
	struct pair p = pair_new(m);
	u32 lkey = mr_new(m, &src, 0, src.len, 0), rkey = mr_new(m, &dst, 0, dst.len - 1, 0);

	mem_fill(&src, 0, src.len, 1);
	mem_fill(&dst, 0, dst.len, 2);
	post_write(p.a, lkey, 0, 1 << 20, rkey, 0);
	EXPECT_REQ_ERR(p.a, 0, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
	ASSERT_PATTERN(&dst, 0, dst.len, 2, 0);
	pair_revive(&p);
	post_read(p.a, lkey, 0, 1 << 20, rkey, 0);
	EXPECT_REQ_ERR(p.a, 0, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
	ASSERT_PATTERN(&src, 0, src.len, 1, 0);
	pair_revive(&p);
	/* the same for a gather whose last segment is bad */
	post_write(p.a, rkey, 0, 1 << 20, lkey, 0);
	EXPECT_REQ_ERR(p.a, 0, LOCAL_PROT, HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS);
	ASSERT_PATTERN(&src, 0, src.len, 1, 0);
}

/* atomics */

TEST("atomics", values_in_host_order)
{
	struct pair p = pair_new(m);
	u64 *target = (u64 *)(p.dst.cpu + PAIR_OFFSET), *result = (u64 *)(p.src.cpu + PAIR_OFFSET + 0x100);
	u64 ra = p.d, la = p.s + 0x100;
	u16 n = 0;

	/* compare and swap: equal, then unequal */
	*target = 0x1122334455667788ULL;
	post_atomic(p.a, MLX5_OPCODE_ATOMIC_CS, p.lkey, la, p.rkey, ra, 0xa1a2a3a4a5a6a7a8ULL, 0x1122334455667788ULL);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, n++);
	ASSERT_EQ(*target, 0xa1a2a3a4a5a6a7a8ULL);
	ASSERT_EQ(*result, 0x1122334455667788ULL);
	post_atomic(p.a, MLX5_OPCODE_ATOMIC_CS, p.lkey, la, p.rkey, ra, 1, 0x1122334455667788ULL);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, n++);
	ASSERT_EQ(*target, 0xa1a2a3a4a5a6a7a8ULL);
	ASSERT_EQ(*result, 0xa1a2a3a4a5a6a7a8ULL);
	/* all 64 bits are compared: one bit off at either end */
	post_atomic(p.a, MLX5_OPCODE_ATOMIC_CS, p.lkey, la, p.rkey, ra, 1, 0xa1a2a3a4a5a6a7a9ULL);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, n++);
	post_atomic(p.a, MLX5_OPCODE_ATOMIC_CS, p.lkey, la, p.rkey, ra, 1, 0x21a2a3a4a5a6a7a8ULL);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, n++);
	ASSERT_EQ(*target, 0xa1a2a3a4a5a6a7a8ULL);
	/* fetch and add: the carry runs through all bytes, the sum wraps, the compare field is garbage */
	*target = 0x00000000ffffffffULL;
	post_atomic(p.a, MLX5_OPCODE_ATOMIC_FA, p.lkey, la, p.rkey, ra, 1, 0xdeadULL);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, n++);
	ASSERT_EQ(*target, 0x100000000ULL);
	ASSERT_EQ(*result, 0xffffffffULL);
	*target = ~0ULL;
	post_atomic(p.a, MLX5_OPCODE_ATOMIC_FA, p.lkey, la, p.rkey, ra, 3, 0);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, n++);
	ASSERT_EQ(*target, 2ull);
	ASSERT_EQ(*result, ~0ULL);
	/* neighbours untouched */
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 8, 0x1000, 2, PAIR_OFFSET + 8);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET + 0x108, 0x1000, 1, PAIR_OFFSET + 0x108);
	ASSERT_PATTERN(&p.src, 0, PAIR_OFFSET + 0x100, 1, 0);
}

TEST("HM-4.23", at_the_last_8_bytes)
{
	struct pair p = pair_new(m);
	u64 last = p.d + p.len - 8, page_end = 0x7f0000200ff8ULL;
	u64 *t = (u64 *)(p.dst.cpu + PAIR_OFFSET + p.len - 8), *e = (u64 *)(p.dst.cpu + 0xff8);

	*t = 5;
	*e = 6;
	post_atomic(p.a, MLX5_OPCODE_ATOMIC_FA, p.lkey, p.s, p.rkey, last, 1, 0);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_EQ(*t, 6ull);
	/* at the end of a page, and the result across one */
	post_atomic(p.a, MLX5_OPCODE_ATOMIC_FA, p.lkey, 0x10000ffc, p.rkey, page_end, 1, 0);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 1);
	ASSERT_EQ(*e, 7ull);
	ASSERT_EQ(get_unaligned((u64 *)(p.src.cpu + 0xffc)), 6ull);
	post_atomic(p.a, MLX5_OPCODE_ATOMIC_FA, p.lkey, p.s, p.rkey, last + 8, 1, 0);
	EXPECT_REQ_ERR(p.a, 2, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
	ASSERT_EQ(qp_error(p.b).vendor, HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS);
}

/* the ibv_wr interface passes the user's length: 8 bytes are used of a longer one, a shorter one is an error */
TEST("atomics", length_of_the_result_segment)
{
	struct pair p = pair_new(m);
	u64 *target = (u64 *)(p.dst.cpu + PAIR_OFFSET);
	struct wqe w;

	*target = 1;
	wqe_begin(&w, MLX5_OPCODE_ATOMIC_FA, SIGNALED, 0);
	wqe_raddr(&w, p.d, p.rkey);
	wqe_atomic(&w, 1, 0);
	wqe_data(&w, p.lkey, p.s, 16);
	sq_post(p.a, &w);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_EQ(*target, 2ull);
	ASSERT_EQ(get_unaligned((u64 *)(p.src.cpu + PAIR_OFFSET)), 1ull);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET + 8, 64, 1, PAIR_OFFSET + 8);
	mem_fill(&p.src, 0, p.src.len, 1);
	wqe_begin(&w, MLX5_OPCODE_ATOMIC_FA, SIGNALED, 0);
	wqe_raddr(&w, p.d, p.rkey);
	wqe_atomic(&w, 1, 0);
	wqe_data(&w, p.lkey, p.s, 7);
	sq_post(p.a, &w);
	ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_ERR);
	ASSERT_PATTERN(&p.src, 0, p.src.len, 1, 0);
}

/* receiver not ready */

static const u32 rnr_us[32] = {	/* IB 9.7.5.2.8, in microseconds */
	655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840, 5120, 7680, 10240, 15360,
	20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
};

TEST("rnr", a_receive_posted_in_time_is_found)
{
	struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, (struct qp_path){ .rnr_retry = 3 });

	post_send(p.a, p.lkey, p.s, 64);
	EXPECT_NONE(p.a->scq);
	shim_advance(640 * US - 1);
	post_recv(p.b, p.rkey, p.d, 64);	/* rings nothing */
	shim_run();
	EXPECT_NONE(p.a->scq);
	shim_advance(320 * US);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 64, 1, PAIR_OFFSET);
	/* each message has its retries anew */
	for (int i = 1; i < 6; i++) {
		post_send(p.a, p.lkey, p.s, 64);
		/* the third retry is due at 1.92 ms */
		shim_advance(1900 * US);
		EXPECT_NONE(p.a->scq);
		post_recv(p.b, p.rkey, p.d, 64);
		shim_advance(960 * US);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, i);
		EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, i);
	}
}

TEST("rnr", retries_are_counted)
{
	for (int retry = 0; retry < 7; retry++) {
		struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){},
					      (struct qp_path){ .rnr_retry = retry ?: 8, .min_rnr = 16 });	/* 2.56 ms */
		u64 naks = counter(m, HCA_CNT_RNR);
		struct wqe w;

		wqe_begin(&w, retry & 1 ? MLX5_OPCODE_RDMA_WRITE_IMM : MLX5_OPCODE_SEND, retry & 2 ? SIGNALED : 0, 0);
		if (retry & 1)
			wqe_raddr(&w, p.d, p.rkey);
		wqe_data(&w, p.lkey, p.s, 64);
		sq_post(p.a, &w);
		/* the first try and each retry fail 2.56 ms apart: the last one falls due at retry * 2.56 ms */
		if (retry) {
			shim_advance(retry * 2560 * US - 1);
			EXPECT_NONE(p.a->scq);
			shim_advance(retry * 1280 * US);
		}
		EXPECT_REQ_ERR(p.a, 0, RNR_EXC, HCA_VS_RNR_EXC);
		ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_ERR);
		ASSERT_EQ(qp_state(p.b), (unsigned int)MLX5_QP_STATE_RTS);
		ASSERT_EQ(counter(m, HCA_CNT_RNR) - naks, retry + 1ull);
		EXPECT_NONE(p.b->rcq);
		ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
	}
}

TEST("rnr", seven_retries_never_end)
{
	struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, (struct qp_path){ .rnr_retry = 7, .min_rnr = 16 });

	post_send(p.a, p.lkey, p.s, 64);
	shim_advance(5 * SECOND);
	EXPECT_NONE(p.a->scq);
	ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_RTS);
	post_recv(p.b, p.rkey, p.d, 64);
	shim_advance(5 * MS);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
}

TEST("rnr", every_code_of_the_timer)
{
	for (int code = 0; code < 32; code++) {
		/* the responder's timer counts */
		struct qp *a = qp_new(m, (struct qp_attr){}), *b = qp_new(m, (struct qp_attr){});
		struct mem mem = mem_new(m, 4096);
		u32 key = mr_new(m, &mem, 0, 4096, 0);
		u64 begin, ns = rnr_us[code] * US;

		qp_up(a, b->qpn, (struct qp_path){ .rnr_retry = 1, .min_rnr = code == 20 ? 1 : 20 });
		qp_up(b, a->qpn, (struct qp_path){ .rnr_retry = 1, .min_rnr = code ?: 32 });
		begin = shim_now();
		post_send(a, key, 0, 8);
		shim_advance(ns - 1 - (shim_now() - begin));
		EXPECT_NONE(a->scq);
		/* not much later either */
		shim_advance(ns / 2);
		EXPECT_REQ_ERR(a, 0, RNR_EXC, HCA_VS_RNR_EXC);
		ASSERT_EQ(qp_free(a), 0);
		ASSERT_EQ(qp_free(b), 0);
	}
}

/* WQEs behind a waiting one wait too, and then go in order */
TEST("rnr", order_is_kept)
{
	struct pair p = pair_new(m);
	int i;

	for (i = 0; i < 5; i++) {
		post_send(p.a, p.lkey, p.s + 8 * i, 8);
		post_write(p.a, p.lkey, p.s + 512 + 8 * i, 8, p.rkey, p.d + 512 + 8 * i);
	}
	EXPECT_NONE(p.a->scq);
	ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
	for (i = 0; i < 5; i++) {
		post_recv(p.b, p.rkey, p.d + 8 * i, 8);
		shim_advance(2 * MS);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 2 * i);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 2 * i + 1);
		EXPECT_NONE(p.a->scq);
		EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, i);
		ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 512, 8 * (i + 1), 1, PAIR_OFFSET + 512);
		ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 512 + 8 * (i + 1), 64, 2, PAIR_OFFSET + 512 + 8 * (i + 1));
	}
}

TEST("rnr", others_are_not_held_up)
{
	struct pair p = pair_new(m), q = pair_new(m);

	post_send(p.a, p.lkey, p.s, 8);
	/* the other direction of the same pair, and another pair */
	post_recv(p.a, p.lkey, p.s, 8);
	post_send(p.b, p.rkey, p.d, 8);
	EXPECT_CQE(p.b->scq, MLX5_CQE_REQ, 0);
	EXPECT_CQE(p.a->rcq, MLX5_CQE_RESP_SEND, 0);
	post_write(q.a, q.lkey, q.s, 8, q.rkey, q.d);
	EXPECT_CQE(q.a->scq, MLX5_CQE_REQ, 0);
	EXPECT_NONE(p.a->scq);
}

/* rule R1 of HM 11.4: who waits for a receive or for a peer holds no key */
TEST("HM-11.5", a_request_that_waits_holds_no_key)
{
	for (int gone = 0; gone < 2; gone++) {
		struct pair p = pair_new(m);
		u64 begin = shim_now();

		if (gone)
			qp_reset(p.b);
		post_send(p.a, p.lkey, p.s, 64);
		EXPECT_NONE(p.a->scq);
		ASSERT_EQ(key_free(m, p.lkey), 0);
		mem_unmap(&p.src);
		ASSERT_EQ(shim_now(), begin);
		/* when its turn comes, the key is no more */
		if (!gone)
			post_recv(p.b, p.rkey, p.d, 64);
		shim_advance(SECOND);
		EXPECT_REQ_ERR(p.a, 0, LOCAL_PROT, HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
		ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
	}
}

/* peers that do not answer */

enum absence { DESTROYED, IN_RESET, IN_INIT, IN_ERROR, OTHER_PEER, NO_SUCH_GID, NEVER_THERE, ABSENCES };

TEST("retry", a_peer_that_does_not_answer)
{
	for (int why = 0; why < ABSENCES; why++) {
		for (int retry = 0; retry < 8; retry += 3) {
			u64 t = 4096ULL << 10;	/* timeout 10: 4.19 ms */
			struct qp_path path = { .timeout = 10, .retry = retry ?: 8, .gid = why == NO_SUCH_GID ? 99 : 1 };
			struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, (struct qp_path){});
			struct qp *c = qp_new(m, (struct qp_attr){});
			struct qp_path none = {};

			qp_reset(p.a);
			qp_up(p.a, why == NEVER_THERE ? 0xabcdef : p.b->qpn, path);
			switch (why) {
			case DESTROYED:
				ASSERT_EQ(qp_free(p.b), 0);
				break;
			case IN_INIT:
				qp_reset(p.b);
				ASSERT_EQ(qp_to(p.b, MLX5_CMD_OP_RST2INIT_QP, &none, 0), 0);
				break;
			case IN_RESET:
				qp_reset(p.b);
				break;
			case IN_ERROR:
				ASSERT_EQ(qp_to(p.b, MLX5_CMD_OP_2ERR_QP, &none, 0), 0);
				break;
			case OTHER_PEER:
				qp_reset(p.b);
				qp_up(p.b, c->qpn, none);
				break;
			}
			/* unsignalled: the error is told anyway */
			if (retry & 1)
				post_write(p.a, p.lkey, p.s, 64, p.rkey, p.d);
			else
				post_read(p.a, p.lkey, p.s, 64, p.rkey, p.d);
			shim_advance((retry + 1) * t - 1);
			EXPECT_NONE(p.a->scq);
			shim_advance(3 * (retry + 1) * t);
			EXPECT_REQ_ERR(p.a, 0, RETRY_EXC, HCA_VS_RETRY_EXC);
			ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_ERR);
			ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
		}
	}
}

TEST("retry", a_timeout_of_zero_is_for_ever)
{
	struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, (struct qp_path){ .timeout = 32, .retry = 1 });

	qp_reset(p.b);
	post_write(p.a, p.lkey, p.s, 64, p.rkey, p.d);
	shim_advance(100 * SECOND);
	EXPECT_NONE(p.a->scq);
	ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_RTS);
}

TEST("retry", a_peer_that_comes_back_in_time)
{
	struct qp_path path = { .timeout = 14, .retry = 7 };
	struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, path);

	qp_reset(p.b);
	post_write(p.a, p.lkey, p.s, 64, p.rkey, p.d);
	post_recv(p.b, 0, 0, 0);
	shim_advance(300 * MS);
	EXPECT_NONE(p.a->scq);
	memset(p.b->dbr.cpu, 0, 8);
	p.b->rq_pi = 0;
	qp_up(p.b, p.a->qpn, path);
	shim_advance(300 * MS);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 64, 1, PAIR_OFFSET);
	ASSERT_GT(counter(m, HCA_CNT_RETRY), 0ull);
	/* RTR is enough for a responder */
	qp_reset(p.b);
	ASSERT_EQ(qp_to(p.b, MLX5_CMD_OP_RST2INIT_QP, &path, p.a->qpn), 0);
	ASSERT_EQ(qp_to(p.b, MLX5_CMD_OP_INIT2RTR_QP, &path, p.a->qpn), 0);
	post_write(p.a, p.lkey, p.s, 128, p.rkey, p.d);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 1);
}

/* a RoCE address may come and go */
TEST("retry", the_port_address_decides)
{
	struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, (struct qp_path){ .gid = 5 });
	u8 gid[16], zero[16] = {};

	post_write(p.a, p.lkey, p.s, 64, p.rkey, p.d);
	shim_advance(100 * MS);
	EXPECT_NONE(p.a->scq);
	gid_of(gid, 5);
	roce_address_set(m, 200, gid);
	shim_advance(100 * MS);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	roce_address_set(m, 200, zero);
	post_write(p.a, p.lkey, p.s, 64, p.rkey, p.d);
	shim_advance(100 * MS);
	EXPECT_NONE(p.a->scq);
}

/* malformed WQEs */

TEST("bad-wqe", size_index_and_opcode)
{
	/* offset of a byte of the WQE, its value, and the code */
	static const struct { const char *what; int at; u8 value; u8 vendor; } row[] = {
		{ "ds 0", 7, 0, HCA_VS_BAD_WQE },
		{ "ds 1: no remote address", 7, 1, HCA_VS_BAD_WQE },
		{ "index, low byte", 2, 0x55, HCA_VS_BAD_WQE },
		{ "index, high byte", 1, 0x55, HCA_VS_BAD_WQE },
		{ "opcode TSO", 3, 0x0e, HCA_VS_BAD_OPCODE },
		{ "opcode BIND_MW", 3, 0x18, HCA_VS_BAD_OPCODE },
		{ "opcode FMR", 3, 0x19, HCA_VS_BAD_OPCODE },
		{ "opcode LOCAL_INVAL", 3, 0x1b, HCA_VS_BAD_OPCODE },
		{ "opcode CONFIG", 3, 0x1f, HCA_VS_BAD_OPCODE },
		{ "opcode SET_PSV", 3, 0x20, HCA_VS_BAD_OPCODE },
		{ "opcode TAG_MATCHING", 3, 0x28, HCA_VS_BAD_OPCODE },
		{ "opcode FLOW_TBL", 3, 0x2c, HCA_VS_BAD_OPCODE },
		{ "opcode MMO", 3, 0x2f, HCA_VS_BAD_OPCODE },
		{ "opcode 0xff", 3, 0xff, HCA_VS_BAD_OPCODE },
		{ "opcode 0x3f", 3, 0x3f, HCA_VS_BAD_OPCODE },
	};
	struct pair p = pair_new(m);

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct wqe w;
		struct mlx5_cqe64 c;

		wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, 0, 0);
		wqe_raddr(&w, p.d, p.rkey);
		wqe_data(&w, p.lkey, p.s, 64);
		sq_put(p.a, &w);
		*sq_byte(p.a, 0, row[i].at) = row[i].value;
		sq_ring(p.a);
		if (!cq_peek(p.a->scq, &c) || c.op_own >> 4 != MLX5_CQE_REQ_ERR)
			FAIL("%s: not refused", row[i].what);
		EXPECT_REQ_ERR(p.a, 0, QP_OP, row[i].vendor);
		ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_ERR);
		ASSERT_EQ(qp_state(p.b), (unsigned int)MLX5_QP_STATE_RTS);
		ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
		pair_revive(&p);
	}
}

/* ds larger than what the record covers: blocks that were never posted */
TEST("bad-wqe", longer_than_posted)
{
	struct pair p = pair_new(m);
	struct wqe w;

	wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 0);
	wqe_raddr(&w, p.d, p.rkey);
	wqe_data(&w, p.lkey, p.s, 64);
	sq_put(p.a, &w);
	*sq_byte(p.a, 0, 7) = 5;
	sq_ring(p.a);
	EXPECT_REQ_ERR(p.a, 0, QP_OP, HCA_VS_BAD_WQE);
	ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
}

TEST("bad-wqe", a_record_ahead_of_the_ring)
{
	static const u16 ahead[] = { 65, 100, 0x7fff, 0x8000, 0xffff };

	for (size_t i = 0; i < ARRAY_SIZE(ahead); i++) {
		struct pair p = pair_new(m);
		struct mlx5_cqe64 c;

		p.a->sq_pi = ahead[i];		/* a ring of 64 blocks */
		sq_ring(p.a);
		ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_ERR);
		ASSERT_EQ(qp_error(p.a).vendor, HCA_VS_RECORD);
		while (cq_poll(p.a->scq, &c))
			ASSERT_EQ(c.op_own >> 4, MLX5_CQE_REQ_ERR);
	}
}

/* libmlx5-abi 6.2: fatal for the queue pair; the responder finds out when it wants a WQE */
TEST("bad-wqe", a_receive_record_ahead_of_the_ring)
{
	static const u16 ahead[] = { 65, 100, 0x7fff, 0x8000, 0xffff };

	for (size_t i = 0; i < ARRAY_SIZE(ahead); i++) {
		struct pair p = pair_new(m);
		struct mlx5_cqe64 c;

		((__be32 *)p.b->dbr.cpu)[0] = cpu_to_be32(ahead[i]);
		post_send(p.a, p.lkey, p.s, 8);
		shim_advance(10 * SECOND);
		if (qp_state(p.b) != MLX5_QP_STATE_ERR || qp_error(p.b).vendor != HCA_VS_RECORD)
			FAIL("record %u of a ring of 64: state %u, code %#x", ahead[i], qp_state(p.b), qp_error(p.b).vendor);
		ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
		while (cq_poll(p.b->rcq, &c))
			ASSERT_EQ(c.op_own >> 4, MLX5_CQE_RESP_ERR);
	}
}

TEST("bad-wqe", inline_data_where_memory_is_written)
{
	struct pair p = pair_new(m);
	struct wqe w;

	for (int op = 0; op < 2; op++) {
		wqe_begin(&w, op ? MLX5_OPCODE_ATOMIC_FA : MLX5_OPCODE_RDMA_READ, SIGNALED, 0);
		wqe_raddr(&w, p.d, p.rkey);
		if (op)
			wqe_atomic(&w, 1, 0);
		wqe_inline(&w, "12345678", 8);
		sq_post(p.a, &w);
		EXPECT_REQ_ERR(p.a, 0, QP_OP, HCA_VS_BAD_WQE);
		ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
		pair_revive(&p);
	}
}

/* flushing */

TEST("HM 4.7", flush_of_both_sides_in_order)
{
	struct pair p = pair_new(m);
	struct wqe w;
	int i;

	for (i = 0; i < 6; i++) {
		post_recv(p.a, p.lkey, p.s, 64);
		post_recv(p.b, p.rkey, p.d, 64);
	}
	for (i = 0; i < 8; i++) {
		wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, i & 1 ? SIGNALED : 0, 0);
		wqe_raddr(&w, p.d, i == 3 ? 0x70000 : p.rkey);
		/* two blocks each: counters are those of the first block */
		for (int k = 0; k < 3; k++)
			wqe_data(&w, p.lkey, p.s, 8);
		sq_put(p.a, &w);
	}
	sq_ring(p.a);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 2);
	EXPECT_REQ_ERR(p.a, 6, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
	/* signalled or not, each of the rest */
	for (i = 4; i < 8; i++)
		EXPECT_REQ_ERR(p.a, 2 * i, FLUSHED, HCA_VS_FLUSHED);
	EXPECT_NONE(p.a->scq);
	for (i = 0; i < 6; i++) {
		EXPECT_RSP_ERR(p.a, i, FLUSHED, HCA_VS_FLUSHED);
		EXPECT_RSP_ERR(p.b, i, FLUSHED, HCA_VS_FLUSHED);
	}
	EXPECT_NONE(p.a->rcq);
	EXPECT_NONE(p.b->rcq);
	/* what is posted to a queue in error comes back: sends by doorbell, receives before long */
	wqe_begin(&w, MLX5_OPCODE_NOP, 0, 0);
	sq_post(p.a, &w);
	EXPECT_REQ_ERR(p.a, 16, FLUSHED, HCA_VS_FLUSHED);
	post_recv(p.b, p.rkey, p.d, 64);
	post_recv(p.b, p.rkey, p.d, 64);
	shim_advance(2 * SECOND);
	EXPECT_RSP_ERR(p.b, 6, FLUSHED, HCA_VS_FLUSHED);
	EXPECT_RSP_ERR(p.b, 7, FLUSHED, HCA_VS_FLUSHED);
	sq_post(p.b, &w);
	EXPECT_REQ_ERR(p.b, 0, FLUSHED, HCA_VS_FLUSHED);
	/* much later still */
	shim_advance(100 * SECOND);
	post_recv(p.b, p.rkey, p.d, 64);
	shim_advance(2 * SECOND);
	EXPECT_RSP_ERR(p.b, 8, FLUSHED, HCA_VS_FLUSHED);
}

/* the receive that a failed message took comes first, then the others */
TEST("HM 4.7", flush_after_a_receive_error)
{
	struct pair p = pair_new(m);
	int i;

	post_recv(p.b, 0x70000, p.d, 64);
	for (i = 0; i < 3; i++)
		post_recv(p.b, p.rkey, p.d, 64);
	post_send(p.a, p.lkey, p.s, 8);
	EXPECT_REQ_ERR(p.a, 0, REMOTE_OP, HCA_VS_NAK_OP);
	EXPECT_RSP_ERR(p.b, 0, LOCAL_PROT, HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
	for (i = 1; i < 4; i++)
		EXPECT_RSP_ERR(p.b, i, FLUSHED, HCA_VS_FLUSHED);
	EXPECT_NONE(p.b->rcq);
}

/* a WQE that waits for a receiver is flushed like the others when its queue is moved to the error state */
TEST("flush", by_command)
{
	struct qp_path path = {};
	struct pair p = pair_new(m);
	int i;

	for (i = 0; i < 3; i++)
		post_send(p.a, p.lkey, p.s, 8);
	post_recv(p.a, p.lkey, p.s, 8);
	EXPECT_NONE(p.a->scq);
	ASSERT_EQ(qp_to(p.a, MLX5_CMD_OP_2ERR_QP, &path, 0), 0);
	shim_run();
	for (i = 0; i < 3; i++)
		EXPECT_REQ_ERR(p.a, i, FLUSHED, HCA_VS_FLUSHED);
	EXPECT_RSP_ERR(p.a, 0, FLUSHED, HCA_VS_FLUSHED);
	/* nothing fails a second time when the timer would have run out */
	shim_advance(10 * SECOND);
	EXPECT_NONE(p.a->scq);
	/* the peer is not concerned until it sends */
	ASSERT_EQ(qp_state(p.b), (unsigned int)MLX5_QP_STATE_RTS);
}

TEST("flush", reset_says_nothing)
{
	struct pair p = pair_new(m);

	post_send(p.a, p.lkey, p.s, 8);
	post_recv(p.a, p.lkey, p.s, 8);
	qp_reset(p.a);
	post_recv(p.b, p.rkey, p.d, 8);
	shim_advance(10 * SECOND);
	EXPECT_NONE(p.a->scq);
	EXPECT_NONE(p.a->rcq);
	EXPECT_NONE(p.b->rcq);
	ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
	ASSERT_EQ(qp_error(p.a).vendor, 0);
}

/* a queue pair that is its own peer, and several that share queues */
TEST("topology", connected_to_itself)
{
	struct pair p = pair_new(m);
	struct qp *q = qp_new(m, (struct qp_attr){});

	qp_up(q, q->qpn, (struct qp_path){});
	post_recv(q, p.rkey, p.d, 0x2000);
	post_send(q, p.lkey, p.s, 0x2000);
	EXPECT_CQE(q->scq, MLX5_CQE_REQ, 0);
	EXPECT_CQE(q->rcq, MLX5_CQE_RESP_SEND, 0);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 0x2000, 1, PAIR_OFFSET);
	post_write(q, p.lkey, p.s, 0x10, 0x70000, p.d);
	EXPECT_REQ_ERR(q, 1, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
}

TEST("topology", many_pairs_on_one_cq)
{
	struct cq *cq = cq_new(m, (struct cq_attr){ .log_size = 10 });
	struct mem mem = mem_new(m, 4096);
	u32 key = mr_new(m, &mem, 0, 4096, 0);
	struct qp *a[20], *b[20];
	unsigned int sends[20] = {}, recvs[20] = {}, i;
	struct mlx5_cqe64 c;

	for (i = 0; i < 20; i++) {
		struct qp_attr attr = { .scq = cq, .rcq = cq, .user_index = 0x1000 + i };

		a[i] = qp_new(m, attr);
		attr.user_index += 0x100;
		b[i] = qp_new(m, attr);
		qp_connect(a[i], b[i], (struct qp_path){});
	}
	for (int round = 0; round < 10; round++)
		for (i = 0; i < 20; i++) {
			post_recv(b[i], key, 0, 8);
			post_send(a[i], key, 8, 8);
		}
	while (cq_poll(cq, &c)) {
		u32 user = be32_to_cpu(c.srqn), qpn = be32_to_cpu(c.sop_drop_qpn) & 0xffffff;

		i = user & 0xff;
		ASSERT_LT(i, 20u);
		if (c.op_own >> 4 == MLX5_CQE_REQ) {
			ASSERT_EQ(user, 0x1000 + i);
			ASSERT_EQ(qpn, a[i]->qpn);
			ASSERT_EQ(be16_to_cpu(c.wqe_counter), sends[i]++);
		} else {
			ASSERT_EQ(c.op_own >> 4, MLX5_CQE_RESP_SEND);
			ASSERT_EQ(user, 0x1100 + i);
			ASSERT_EQ(qpn, b[i]->qpn);
			ASSERT_EQ(be16_to_cpu(c.wqe_counter), recvs[i]++);
		}
	}
	for (i = 0; i < 20; i++)
		ASSERT(sends[i] == 10 && recvs[i] == 10);
}

/* Found by the fuzz target wqe: source and destination are the program's affair, also when they overlap */
TEST("write", to_where_it_comes_from)
{
	struct pair p = pair_new(m);
	struct mem both = mem_new(m, 4 * 4096);
	u32 key = mr_new(m, &both, 0, both.len, 0);
	static const s32 distances[] = { 0, 1, 8, 100, 2048, -1, -8, -100, -2048 };
	u8 was[4 * 4096];

	for (size_t i = 0; i < ARRAY_SIZE(distances); i++) {
		s32 d = distances[i];

		mem_fill(&both, 0, both.len, i);
		memcpy(was, both.cpu, both.len);
		post_write(p.a, key, 2500, 1500, key, 2500 + d);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, i);
		cq_update(p.a->scq);
		/* what comes out where they overlap is nobody's promise; nothing else has changed */
		ASSERT_EQ(memcmp(both.cpu, was, min(2500, 2500 + d)), 0);
		ASSERT_EQ(memcmp(both.cpu + 4000 + max(d, 0), was + 4000 + max(d, 0), 4 * 4096 - 4000 - max(d, 0)), 0);
	}
	mem_unmap(&both);
}
