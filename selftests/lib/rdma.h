/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the RDMA tests share: a device, queue pairs that are connected to each
 * other, posting, and waiting. No wait in here is without a deadline.
 *
 * The device is $IBV_TEST_DEV, softhca0 if that is not set. Functions return 0 or
 * a negative errno if nothing else is said.
 */
#ifndef SELFTESTS_LIB_RDMA_H
#define SELFTESTS_LIB_RDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define WAIT_MS		15000		/* for what must happen */
#define QUIET_MS	60		/* for what must not */

#define ACCESS_ALL	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | \
			 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define ACCESS_REMOTE	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_ATOMIC)

/* A key that never is one: its index is beyond log_max_mkey */
#define NO_KEY		0x12345600

const char *dev_name(void);
uint64_t now_us(void);

/**
 * struct rdma - an open device
 * @softhca: it is ours: vendor syndromes have the meaning of <hca/syndrome.h>
 */
struct rdma {
	struct ibv_context *ctx;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index;
	bool softhca;
};

int rdma_open(struct rdma *r);
void rdma_close(struct rdma *r);

/**
 * struct qp_cfg - how a queue pair is made and connected; 0 takes the default
 * @access: what peers may do; ~0 stands for nothing
 * @timeout: 0 takes 14 (67 ms)
 * @rnr_retry: 0 takes 7, without end; ~0 stands for no retry
 */
struct qp_cfg {
	unsigned int send_wr, recv_wr, send_sge, recv_sge, max_inline;
	unsigned int access;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic;
	bool sig_all;
};

struct ibv_qp *qp_create(struct ibv_pd *pd, struct ibv_cq *scq,
			 struct ibv_cq *rcq, const struct qp_cfg *cfg);
int qp_init(struct ibv_qp *qp, const struct qp_cfg *cfg);
int qp_rtr(struct rdma *r, struct ibv_qp *qp, const struct qp_cfg *cfg,
	   uint32_t dest_qpn);
int qp_rts(struct ibv_qp *qp, const struct qp_cfg *cfg);
int qp_connect(struct rdma *r, struct ibv_qp *qp, const struct qp_cfg *cfg,
	       uint32_t dest_qpn);
int qp_to(struct ibv_qp *qp, enum ibv_qp_state state);
int qp_state(struct ibv_qp *qp);
bool qp_state_within(struct ibv_qp *qp, enum ibv_qp_state state, int ms);

/**
 * struct pair - two connected queue pairs of one process: A asks, B answers
 */
struct pair {
	struct rdma r;
	struct qp_cfg cfg;
	struct ibv_pd *pd;
	struct ibv_cq *acq, *bcq;
	struct ibv_qp *a, *b;
};

int pair_open(struct pair *p, const struct qp_cfg *cfg);
int pair_reconnect(struct pair *p);
void pair_close(struct pair *p);

/**
 * struct op - one work request; @sg overrides @laddr, @len, @lkey
 */
struct op {
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	uint64_t id;
	uint64_t laddr, raddr, swap, cmp_add;
	struct ibv_sge *sg;
	int sges;
	uint32_t len, lkey, rkey, imm;
};

int post(struct ibv_qp *qp, const struct op *op);
int post_recv(struct ibv_qp *qp, uint64_t id, uint64_t addr, uint32_t len,
	      uint32_t lkey);

/* One completion within @ms: 1, 0 at the deadline, or negative */
int wait_wc(struct ibv_cq *cq, struct ibv_wc *wc, int ms);
/* @n completions that must all be good: 0, or negative, or the bad status */
int wait_good(struct ibv_cq *cq, int n);
/* Post @op signalled and wait: its status (enum ibv_wc_status), or negative */
int run(struct ibv_qp *qp, struct ibv_cq *cq, const struct op *op,
	struct ibv_wc *wc);
/* Completions of a drained queue are counted and dropped */
int drop_wcs(struct ibv_cq *cq);

/* One asynchronous event within @ms, acknowledged: 1, 0, or negative */
int wait_async(struct rdma *r, struct ibv_async_event *event, int ms);
/* Waits for the event @type of @qp and drops others: true if it came */
bool async_of_qp(struct rdma *r, enum ibv_event_type type, struct ibv_qp *qp,
		 int ms);
/* One completion event within @ms, acknowledged: 1, 0, or negative */
int wait_comp(struct ibv_comp_channel *channel, int ms);

/* Value of a counter of the device, or -1 */
long long hw_counter(const char *name);

/* For two processes: exchange of small facts over a socket pair */
int swap_facts(int fd, const void *mine, void *theirs, size_t len);

#endif
