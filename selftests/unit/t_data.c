// SPDX-License-Identifier: GPL-2.0
#include <linux/kernel.h>
#include "unit.h"

TEST("bring-up", brings_up_and_tears_down)
{
	ASSERT_EQ(m->fw_given, 80u);
}

TEST("rc", write_moves_bytes)
{
	struct pair p = pair_new(m);
	u16 i = post_write(p.a, p.lkey, p.s, 0x1000, p.rkey, p.d);

	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, i);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 0x1000, 1, PAIR_OFFSET);
}
