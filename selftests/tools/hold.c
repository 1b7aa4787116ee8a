// SPDX-License-Identifier: GPL-2.0
/*
 * hold [all]: makes one MR and two connected queue pairs, prints what an administrator
 * should see of them as name=value, then "ready=1", and holds them until it is killed.
 * With "all" it also holds what mlx5dv offers: device memory, which it goes on
 * reading and writing, an indirect key, and memory for queues.
 */
#include <stdio.h>
#include <unistd.h>
#include <infiniband/mlx5dv.h>
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/look.h"

/* Device memory that is mapped, or NULL */
static volatile uint32_t *hold_all(struct pair *p, char *buf)
{
	struct mlx5dv_mkey_init_attr key = {
		.pd = p->pd, .max_entries = 4,
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
	};
	struct ibv_alloc_dm_attr attr = { .length = 2 * PAGE };
	struct mlx5dv_dm out = { };
	struct mlx5dv_obj obj = { .dm = { .out = &out } };

	obj.dm.in = ibv_alloc_dm(p->r.ctx, &attr);
	if (!obj.dm.in || mlx5dv_init_obj(&obj, MLX5DV_OBJ_DM) ||
	    !ibv_reg_dm_mr(p->pd, obj.dm.in, 0, PAGE,
			   ACCESS_ALL | IBV_ACCESS_ZERO_BASED) ||
	    !mlx5dv_create_mkey(&key) ||
	    !mlx5dv_devx_umem_reg(p->r.ctx, buf, PAGE, IBV_ACCESS_LOCAL_WRITE))
		return NULL;
	return out.buf;
}

int main(int argc, char **argv)
{
	volatile uint32_t *memory = NULL;
	struct ibv_mr *mr;
	struct look look;
	struct pair p;
	uint32_t a, b;
	char *buf;

	if (pair_open(&p, NULL))
		return 1;
	buf = mem_scattered(4 * PAGE);
	mr = buf ? ibv_reg_mr(p.pd, buf + 100, 3 * PAGE, ACCESS_ALL) : NULL;
	if (!mr || look_mr(mr, &look))
		return 1;
	if (argc > 1) {
		memory = hold_all(&p, buf);
		if (!memory)
			return 1;
	}
	a = p.a->qp_num;
	b = p.b->qp_num;
	printf("key=%x\nlen=%lu\ncqe=%d\nqpns=%u %u\nmkc=", mr->lkey,
	       3 * PAGE, p.acq->cqe, a < b ? a : b, a < b ? b : a);
	for (unsigned int i = 0; i < sizeof(look.mkc); i++)
		printf("%02x", look.mkc[i]);
	puts("\nready=1");
	fflush(stdout);
	while (memory) {
		memory[PAGE / 4] = memory[0] + 1;
		usleep(1000);
	}
	pause();
	return 0;
}
