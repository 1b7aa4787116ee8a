// SPDX-License-Identifier: GPL-2.0
/*
 * hold: makes one MR and two connected queue pairs, prints what an administrator should
 * see of them as name=value, then "ready=1", and holds them until it is killed.
 */
#include <stdio.h>
#include <unistd.h>
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/look.h"

int main(void)
{
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
	a = p.a->qp_num;
	b = p.b->qp_num;
	printf("key=%x\nlen=%lu\ncqe=%d\nqpns=%u %u\nmkc=", mr->lkey,
	       3 * PAGE, p.acq->cqe, a < b ? a : b, a < b ? b : a);
	for (unsigned int i = 0; i < sizeof(look.mkc); i++)
		printf("%02x", look.mkc[i]);
	puts("\nready=1");
	fflush(stdout);
	pause();
	return 0;
}
