// SPDX-License-Identifier: GPL-2.0
/*
 * Bring-up, capabilities, plain numbers (PD, UAR, transport domain, RoCE addresses) and firmware pages: HM sections 2.6,
 * 3 and 7.6. Expected page counts are computed here from the rules of HM 3.2, not taken from the engine.
 */
#include <linux/jiffies.h>
#include <linux/kernel.h>

#include "unit.h"

#define MS	1000000ULL
#define SECOND	1000000000ULL

static u8 simple(struct machine *m, u16 opcode, u16 op_mod)
{
	u32 in[MLX5_ST_SZ_DW(init_hca_in)] = {}, out[MLX5_ST_SZ_DW(query_issi_out)];

	MLX5_SET(alloc_pd_in, in, opcode, opcode);
	MLX5_SET(alloc_pd_in, in, op_mod, op_mod);
	return m_exec(m, in, sizeof(in), out, sizeof(out));
}

TEST_BARE("HM-3.1", asks_for_16_boot_and_64_init_pages_and_needs_no_more)
{
	struct pair p;

	m = machine_power_on();
	ASSERT_EQ(simple(m, MLX5_CMD_OP_ENABLE_HCA, 0), 0);
	ASSERT_EQ(pages_wanted(m, 1), 16);
	ASSERT_EQ(pages_wanted(m, 2), 64);
	machine_kill(m);

	m = machine_power_on();
	machine_bring_up(m);
	ASSERT_EQ(m->fw_given, 80u);
	/* regular: what is missing to the LOW mark, never negative; 80 pages are enough to begin with */
	ASSERT_EQ(pages_wanted(m, 3), max(0, 64 - (int)pages_free_now(m)));
	p = pair_new(m);
	post_write(p.a, p.lkey, p.s, 0x1000, p.rkey, p.d);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	machine_free(m);
}

TEST_BARE("HM-3.1", init_without_pages_is_refused)
{
	m = machine_power_on();
	ASSERT_EQ(simple(m, MLX5_CMD_OP_ENABLE_HCA, 0), 0);
	ASSERT_NE(simple(m, MLX5_CMD_OP_INIT_HCA, 0), 0);
	pages_give(m, 16);
	ASSERT_NE(simple(m, MLX5_CMD_OP_INIT_HCA, 0), 0);
	pages_give(m, 63);
	ASSERT_NE(simple(m, MLX5_CMD_OP_INIT_HCA, 0), 0);
	pages_give(m, 1);
	ASSERT_EQ(simple(m, MLX5_CMD_OP_INIT_HCA, 0), 0);
	machine_kill(m);
}

TEST_BARE("wall", stages_of_life)
{
	static const u16 later[] = { MLX5_CMD_OP_ALLOC_PD, MLX5_CMD_OP_ALLOC_UAR, MLX5_CMD_OP_CREATE_EQ,
		MLX5_CMD_OP_CREATE_CQ, MLX5_CMD_OP_CREATE_QP, MLX5_CMD_OP_CREATE_MKEY, MLX5_CMD_OP_QUERY_MKEY,
		MLX5_CMD_OP_QUERY_SPECIAL_CONTEXTS, MLX5_CMD_OP_TEARDOWN_HCA, MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN,
		MLX5_CMD_OP_SET_ROCE_ADDRESS };
	u32 in[64] = {}, out[64];

	m = machine_power_on();
	for (size_t i = 0; i < ARRAY_SIZE(later); i++)
		ASSERT_NE(simple(m, later[i], 0), 0);
	ASSERT_NE(simple(m, MLX5_CMD_OP_QUERY_PAGES, 1), 0);
	ASSERT_EQ(simple(m, MLX5_CMD_OP_ENABLE_HCA, 0), 0);
	for (size_t i = 0; i < ARRAY_SIZE(later); i++)
		ASSERT_NE(simple(m, later[i], 0), 0);
	ASSERT_EQ(simple(m, MLX5_CMD_OP_QUERY_PAGES, 1), 0);

	/* a mailbox too short for any answer is no command at all */
	MLX5_SET(alloc_pd_in, in, opcode, MLX5_CMD_OP_ENABLE_HCA);
	ASSERT_EQ(hca_cmd_exec(m->hca, in, 15, out, sizeof(out)), -EINVAL);
	ASSERT_EQ(hca_cmd_exec(m->hca, in, sizeof(in), out, 15), -EINVAL);
	machine_kill(m);
}

TEST("wall", unknown_opcode_and_short_mailboxes)
{
	/* no opcode at all; in an empty row; in the row of another; behind the table */
	static const u16 unknown[] = { 0, 0x21f, MLX5_CMD_OP_CREATE_MKEY | 0x40, 0x7777, 0xffff };
	u32 in[64] = {}, out[64];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(unknown); i++)
		ASSERT_CMD(m, simple(m, unknown[i], 0), MLX5_CMD_STAT_BAD_OP_ERR, unknown[i], m->syndrome & 0xff);
	/* the answer is written in full */
	MLX5_SET(alloc_pd_in, in, opcode, MLX5_CMD_OP_ALLOC_PD);
	memset(out, 0xff, sizeof(out));
	ASSERT_EQ(hca_cmd_exec(m->hca, in, 16, out, sizeof(out)), 0);
	for (i = 4; i < 64; i++)
		ASSERT_EQ(out[i], 0u);
	ASSERT_EQ(out[3], 0u);
	/* a syndrome is zero on success */
	ASSERT_EQ(out[1], 0u);

	memset(in, 0, sizeof(in));
	MLX5_SET(create_cq_in, in, opcode, MLX5_CMD_OP_CREATE_CQ);
	ASSERT_EQ(m_exec(m, in, 64, out, sizeof(out)), MLX5_CMD_STAT_BAD_INP_LEN_ERR);
	MLX5_SET(query_qp_in, in, opcode, MLX5_CMD_OP_QUERY_QP);
	ASSERT_EQ(m_exec(m, in, 64, out, 64), MLX5_CMD_STAT_BAD_OUTP_LEN_ERR);
}

TEST("wall", events_and_objects_survive_an_abrupt_power_off)
{
	struct machine *n = machine_new();
	struct pair p = pair_new(n);

	/* with everything in flight: receives posted, a sender waiting for its RNR timer, a CQ armed */
	post_recv(p.a, p.lkey, p.s, 64);
	post_send(p.a, p.lkey, p.s, 64);
	cq_arm(p.a->scq, false);
	machine_kill(n);
}

/* a PD is in use by keys and queue pairs */
TEST("numbers", numbers_are_busy_while_named)
{
	u32 pd = pd_new(m), other = pd_new(m), uar, in[16] = {}, out[16], key;
	struct key_attr a = { .mode = MLX5_MKC_ACCESS_MODE_PA, .pd = pd, .length64 = true };
	struct qp *qp;
	size_t i;

	ASSERT(pd && pd != other && pd <= 0xffffff);
	key = key_new(m, &a);
	ASSERT_EQ(pd_free(m, pd), MLX5_CMD_STAT_RES_BUSY);
	qp = qp_new(m, (struct qp_attr){ .pd = pd });
	ASSERT_EQ(key_free(m, key), 0);
	ASSERT_EQ(pd_free(m, pd), MLX5_CMD_STAT_RES_BUSY);
	ASSERT_EQ(qp_free(qp), 0);
	ASSERT_EQ(pd_free(m, pd), 0);
	ASSERT_NE(pd_free(m, pd), 0);
	ASSERT_NE(pd_free(m, 0), 0);
	ASSERT_EQ(pd_free(m, other), 0);

	/* the machine's UAR carries its EQs */
	MLX5_SET(dealloc_uar_in, in, opcode, MLX5_CMD_OP_DEALLOC_UAR);
	MLX5_SET(dealloc_uar_in, in, uar, m->uar);
	ASSERT_EQ(m_exec(m, in, 16, out, 16), MLX5_CMD_STAT_RES_BUSY);
	uar = uar_new(m);
	ASSERT(uar >= 1 && uar <= 65535 && uar != m->uar);
	MLX5_SET(dealloc_uar_in, in, uar, uar);
	ASSERT_EQ(m_exec(m, in, 16, out, 16), 0);
	ASSERT_NE(m_exec(m, in, 16, out, 16), 0);

	for (i = 0; i < 3; i++) {
		memset(in, 0, sizeof(in));
		MLX5_SET(alloc_transport_domain_in, in, opcode, MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN);
		m_must(m, in, 16, out, 16);
		MLX5_SET(dealloc_transport_domain_in, in, opcode, MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN);
		MLX5_SET(dealloc_transport_domain_in, in, transport_domain,
			 MLX5_GET(alloc_transport_domain_out, out, transport_domain));
		m_must(m, in, 16, out, 16);
		ASSERT_NE(m_exec(m, in, 16, out, 16), 0);
	}
}

TEST("coverage", roce_addresses_are_kept_and_cleared)
{
	u32 in[MLX5_ST_SZ_DW(query_roce_address_in)] = {}, out[MLX5_ST_SZ_DW(query_roce_address_out)];
	u8 *addr = MLX5_ADDR_OF(query_roce_address_out, out, roce_address), gid[16], zero[16] = {};
	u32 set[MLX5_ST_SZ_DW(set_roce_address_in)] = {};

	MLX5_SET(query_roce_address_in, in, opcode, MLX5_CMD_OP_QUERY_ROCE_ADDRESS);
	gid_of(gid, 77);
	roce_address_set(m, 255, gid);
	MLX5_SET(query_roce_address_in, in, roce_address_index, 255);
	m_must(m, in, sizeof(in), out, sizeof(out));
	ASSERT(!memcmp(addr, gid, 16));
	ASSERT_EQ(MLX5_GET(roce_addr_layout, addr, source_mac_31_0), 0xa00000ffu);
	ASSERT_EQ(MLX5_GET(roce_addr_layout, addr, roce_version), 2u);
	roce_address_set(m, 255, zero);
	m_must(m, in, sizeof(in), out, sizeof(out));
	ASSERT(!memcmp(addr, zero, 16));
	MLX5_SET(query_roce_address_in, in, roce_address_index, 256);
	ASSERT_NE(m_exec(m, in, sizeof(in), out, sizeof(out)), 0);
	MLX5_SET(set_roce_address_in, set, opcode, MLX5_CMD_OP_SET_ROCE_ADDRESS);
	MLX5_SET(set_roce_address_in, set, roce_address_index, 256);
	ASSERT_NE(m_exec(m, set, sizeof(set), out, sizeof(out)), 0);
}

TEST("HM-7.10", special_contexts)
{
	u32 in[MLX5_ST_SZ_DW(query_special_contexts_in)] = {}, out[MLX5_ST_SZ_DW(query_special_contexts_out)];
	u32 cap[MLX5_ST_SZ_DW(query_hca_cap_out)], q[MLX5_ST_SZ_DW(query_hca_cap_in)] = {};
	void *c = MLX5_ADDR_OF(query_hca_cap_out, cap, capability);

	MLX5_SET(query_special_contexts_in, in, opcode, MLX5_CMD_OP_QUERY_SPECIAL_CONTEXTS);
	m_must(m, in, sizeof(in), out, sizeof(out));
	MLX5_SET(query_hca_cap_in, q, opcode, MLX5_CMD_OP_QUERY_HCA_CAP);
	MLX5_SET(query_hca_cap_in, q, op_mod, MLX5_CAP_GENERAL << 1 | 1);
	m_must(m, q, sizeof(q), cap, sizeof(cap));
#define SPECIAL(field, value) do {						\
	ASSERT_EQ(MLX5_GET(query_special_contexts_out, out, field), value);	\
	ASSERT_EQ(MLX5_GET(cmd_hca_cap, c, field), 1u);			\
} while (0)
	SPECIAL(dump_fill_mkey, 0x500u);
	SPECIAL(null_mkey, 0x300u);
	SPECIAL(terminate_scatter_list_mkey, 0x100u);
	SPECIAL(repeated_mkey, 0x400u);
	ASSERT_EQ(MLX5_GET(query_special_contexts_out, out, resd_lkey), 0x200u);
}

/* what 2.6 fixes; what waits for its stage is 0 */
TEST("HM-2.16", capabilities)
{
	static u32 cap[2][0x30][MLX5_ST_SZ_DW(query_hca_cap_out)];
	u32 q[MLX5_ST_SZ_DW(query_hca_cap_in)] = {};
	u8 *c, *c2, *at, *zero;
	int cur, g;

	MLX5_SET(query_hca_cap_in, q, opcode, MLX5_CMD_OP_QUERY_HCA_CAP);
	for (cur = 0; cur < 2; cur++) {
		for (g = 0; g < 0x30; g++) {
			MLX5_SET(query_hca_cap_in, q, op_mod, g << 1 | cur);
			m_must(m, q, sizeof(q), cap[cur][g], sizeof(cap[cur][g]));
		}
	}
	ASSERT(!memcmp(cap[0], cap[1], sizeof(cap[0])));
	zero = MLX5_ADDR_OF(query_hca_cap_out, cap[1][0x1], capability);
	ASSERT(mem_is_zero(zero, 0x100));
	c = MLX5_ADDR_OF(query_hca_cap_out, cap[1][MLX5_CAP_GENERAL], capability);
	c2 = MLX5_ADDR_OF(query_hca_cap_out, cap[1][MLX5_CAP_GENERAL_2], capability);
	at = MLX5_ADDR_OF(query_hca_cap_out, cap[1][MLX5_CAP_ATOMIC], capability);

#define IS(field, v)	ASSERT_EQ(MLX5_GET(cmd_hca_cap, c, field), (u32)(v))
#define IS2(field, v)	ASSERT_EQ(MLX5_GET(cmd_hca_cap_2, c2, field), (u32)(v))
	IS(log_max_mkey, 20);
	IS(dump_fill_mkey, 1);
	IS(terminate_scatter_list_mkey, 1);
	IS(log_max_mrw_sz, 64);
	IS(pg, 1);
	IS(relaxed_ordering_write, 1);
	IS(relaxed_ordering_read, 1);
	IS(atomic, 1);
	IS(release_all_pages, 1);
	IS(page_request_disable, 0);
	IS(icm_mng_function_id_mode, 0);
	IS(cqe_version, 1);
	IS(cq_resize, 1);
	IS(cq_oi, 1);
	IS(rc, 1);
	IS(num_ports, 1);
	IS(hca_cap_2, 1);
	IS2(log_min_mkey_entity_size, 12);
	IS2(max_mkey_log_entity_size_mtt, 31);
	IS(max_indirection, 4);
	IS(fixed_buffer_size, 1);
	IS(null_mkey, 1);
	IS(repeated_mkey, 1);
	IS(log_max_klm_list_size, 16);
	IS(umr_extended_translation_offset, 1);
	IS(umr_ptr_rlky, 1);
	IS(imaicl, 1);
	IS(umr_fence, 1);
	IS(relaxed_ordering_write_umr, 1);
	IS(relaxed_ordering_read_umr, 1);
	IS2(max_mkey_log_entity_size_fixed_buffer, 36);
	IS2(umr_log_entity_size_5, 1);
	IS2(min_mkey_log_entity_size_fixed_buffer, 12);
	IS2(min_mkey_log_entity_size_fixed_buffer_valid, 1);
	IS(repeated_block_disabled, 0);
	IS(crossing_vhca_mkey, 0);
	IS(data_direct, 0);
	IS(device_memory, 1);
	IS(umr_indirect_mkey_disabled, 0);
	IS(umr_modify_entity_size_disabled, 0);
	IS(umr_modify_atomic_disabled, 0);
	IS(sho, 0);
	IS(sigerr_cqe, 0);
	IS(crypto, 0);
	IS(ats, 0);
	IS(tph, 0);
	IS(mkey_pcie_tph, 0);
	IS(mkey_by_name, 0);
	/* 8-byte compare-and-swap and fetch-and-add, answered in host order */
	ASSERT_EQ(MLX5_GET(atomic_caps, at, atomic_operations) & 3, 3u);
	ASSERT_EQ(MLX5_GET(atomic_caps, at, atomic_size_qp) & 8, 8u);
}

/* a key with a table of @octwords and no entries */
static u32 table_key(struct machine *m, u32 octwords)
{
	struct key_attr a = { .mode = MLX5_MKC_ACCESS_MODE_MTT, .len = 4096, .octwords = octwords };

	return key_new(m, &a);
}

TEST("HM-3.2", one_positive_request_until_it_is_answered)
{
	unsigned int i, n;
	struct mlx5_eqe *e;

	m->policy = PAGES_IGNORE;
	n = pages_free_now(m);
	ASSERT_EQ(m->page_requests, 0u);
	/* tables of exactly a page each: down to below LOW = 64 */
	for (i = 0; n - i > 40; i++) {
		table_key(m, 256);
		shim_run();
		/* one page for the table, and one more at the first for the MPT */
		if (n - i - 2 >= 64)
			ASSERT_EQ(m->page_requests, 0u);
	}
	ASSERT_EQ(m->page_requests, 1u);
	ASSERT_EQ(m->page_request, 256);
	shim_advance(5 * SECOND);
	ASSERT_EQ(m->page_requests, 1u);

	/* its layout: HM 3.6 */
	for (i = 0; m->events[i].type != MLX5_EVENT_TYPE_PAGE_REQUEST; i++)
		ASSERT_LT(i, m->nr_events);
	e = &m->events[i];
	ASSERT_EQ(e->sub_type, 0);
	ASSERT_EQ(be16_to_cpu(e->data.req_pages.ec_function), 0);
	ASSERT_EQ(be16_to_cpu(e->data.req_pages.func_id), 0);
	ASSERT_EQ(((u8 *)e)[0x20 + 7], (u8)256);
	ASSERT_EQ(((u8 *)e)[0x20 + 6], (u8)(256 >> 8));

	/* fewer than asked for is an answer too; still below LOW, the next need may ask again */
	pages_give(m, 1);
	table_key(m, 256);
	shim_run();
	ASSERT_EQ(m->page_requests, 2u);
}

TEST_BARE("HM-3.2", a_request_waits_for_its_first_subscriber)
{
	u32 pd;

	m = machine_power_on();
	simple(m, MLX5_CMD_OP_ENABLE_HCA, 0);
	pages_give(m, 80);
	ASSERT_EQ(simple(m, MLX5_CMD_OP_INIT_HCA, 0), 0);
	m->policy = PAGES_IGNORE;
	m->uar = uar_new(m);
	pd = m->pd = pd_new(m);
	ASSERT(pd);
	/* no EQ yet */
	for (int i = 0; i < 30; i++)
		table_key(m, 256);
	shim_run();
	ASSERT_EQ(m->nr_events, 0u);
	m->async = eq_new(m, 8, 0, ~1ULL);
	eq_update(&m->async, true);
	shim_run();
	ASSERT_EQ(m->page_requests, 1u);
	ASSERT_EQ(m->page_request, 256);
	machine_kill(m);
}

TEST("HM-3.3", pages_per_table)
{
	static const struct { u32 octwords; unsigned int pages; } whole[] = {
		/* more than 2 KiB: whole pages; capacity is rounded up to 4 octowords */
		{ 129, 1 }, { 132, 1 }, { 253, 1 }, { 256, 1 }, { 257, 2 }, { 512, 2 }, { 2048, 8 },
	};
	unsigned int before, after, i;
	u32 key[8];

	m->policy = PAGES_IGNORE;
	pages_give(m, 1400);
	/* 1 GiB at 4 KiB: 262144 entries, 2 MiB, 512 pages, and one for the first MPT page */
	before = pages_free_now(m);
	key[0] = table_key(m, 131072);
	after = pages_free_now(m);
	ASSERT_EQ(before - after, 513u);
	key[1] = table_key(m, 131072);
	ASSERT_EQ(after - pages_free_now(m), 512u);
	ASSERT_EQ(key_free(m, key[1]), 0);
	ASSERT_EQ(pages_free_now(m), after);
	for (i = 0; i < ARRAY_SIZE(whole); i++) {
		before = pages_free_now(m);
		key[1] = table_key(m, whole[i].octwords);
		ASSERT_EQ(before - pages_free_now(m), whole[i].pages);
		ASSERT_EQ(key_free(m, key[1]), 0);
		ASSERT_EQ(pages_free_now(m), before);
	}
	/* a free key keeps its storage */
	before = pages_free_now(m);
	key[1] = key_new(m, &(struct key_attr){ .mode = MLX5_MKC_ACCESS_MODE_MTT, .free = true, .octwords = 1024 });
	ASSERT_EQ(before - pages_free_now(m), 4u);
}

/* tables up to 2 KiB share pages by power-of-two class; the MPT grows by 64 indices */
TEST("HM-3.3", small_tables_share_pages)
{
	static const struct { u32 octwords; unsigned int per_page; } class[] = {
		{ 1, 64 }, { 4, 64 }, { 5, 32 }, { 8, 32 }, { 12, 16 }, { 32, 8 }, { 64, 4 }, { 65, 2 }, { 128, 2 },
	};
	unsigned int before, i, n, mpt, used;
	u32 key[200], index, page;

	m->policy = PAGES_IGNORE;
	pages_give(m, 600);
	for (i = 0; i < ARRAY_SIZE(class); i++) {
		before = pages_free_now(m);
		mpt = 0;
		page = ~0u;
		for (n = 0; n < 200; n++) {
			key[n] = table_key(m, class[i].octwords);
			index = key[n] >> 8;
			if (index / 64 != page) {
				page = index / 64;
				/* all keys of the round before are gone, its MPT pages with them */
				mpt++;
			}
		}
		used = before - pages_free_now(m);
		ASSERT_EQ(used, mpt + DIV_ROUND_UP(200, class[i].per_page));
		for (n = 0; n < 200; n++)
			ASSERT_EQ(key_free(m, key[n]), 0);
		ASSERT_EQ(pages_free_now(m), before);
	}
}

static u8 give_raw(struct machine *m, u32 n, const u64 *pas, u32 have)
{
	u32 in[MLX5_ST_SZ_DW(manage_pages_in) + 2 * 8] = {}, out[MLX5_ST_SZ_DW(manage_pages_out)];

	MLX5_SET(manage_pages_in, in, opcode, MLX5_CMD_OP_MANAGE_PAGES);
	MLX5_SET(manage_pages_in, in, op_mod, 1);
	MLX5_SET(manage_pages_in, in, input_num_entries, n);
	for (u32 i = 0; i < have; i++)
		MLX5_ARRAY_SET64(manage_pages_in, in, pas, i, pas[i]);
	return m_exec(m, in, MLX5_ST_SZ_BYTES(manage_pages_in) + 8 * have, out, sizeof(out));
}

TEST("HM-3.4", a_bad_page_spoils_the_whole_gift)
{
	struct mem page[3] = { mem_new(m, 4096), mem_new(m, 4096), mem_new(m, 4096) };
	u64 good[3], pas[4], owned;
	unsigned int before, i;
	struct { const char *what; u64 pa; } bad[] = {
		{ "duplicate", 0 }, { "owned already", 0 }, { "unaligned", 0 }, { "zero", 0 }, { "not on the bus", 0 },
	};

	for (i = 0; i < 3; i++)
		good[i] = page[i].dma[0];
	before = pages_free_now(m);
	owned = 0;
	for (i = 0; i < m->nr_fw; i++)
		if (m->fw[i].given)
			owned = m->fw[i].dma;
	bad[0].pa = good[0];
	bad[1].pa = owned;
	bad[2].pa = good[2] + 8;
	bad[3].pa = 0;
	bad[4].pa = good[0] + 0x800000000000ULL;
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		for (unsigned int at = 0; at < 3; at++) {
			unsigned int k = 0;

			if (i == 0 && at == 0)
				continue;
			memcpy(pas, good, sizeof(good));
			pas[at] = bad[i].pa;
			/* the other two are good ones */
			for (unsigned int j = 0; j < 3; j++)
				if (j != at)
					pas[j] = good[k++];
			if (give_raw(m, 3, pas, 3) != MLX5_CMD_STAT_BAD_PARAM_ERR)
				FAIL("%s at %u: status is not BAD_PARAM", bad[i].what, at);
		}
	}
	ASSERT_EQ(give_raw(m, 0, good, 3), MLX5_CMD_STAT_BAD_INP_LEN_ERR);
	ASSERT_EQ(give_raw(m, 4, good, 3), MLX5_CMD_STAT_BAD_INP_LEN_ERR);
	ASSERT_EQ(give_raw(m, 0x20000000, good, 3), MLX5_CMD_STAT_BAD_INP_LEN_ERR);
	/* none was taken: they are not owned, and no more pages are free than before */
	ASSERT_EQ(pages_free_now(m), before);
	for (i = 0; i < 3; i++)
		mem_unmap_page(&page[i], 0);
	ASSERT_EQ(pages_free_now(m), before);
}

TEST("HM-3.4", other_functions_are_refused)
{
	u32 in[MLX5_ST_SZ_DW(manage_pages_in)] = {}, out[MLX5_ST_SZ_DW(manage_pages_out) + 16];

	MLX5_SET(manage_pages_in, in, opcode, MLX5_CMD_OP_MANAGE_PAGES);
	MLX5_SET(manage_pages_in, in, op_mod, 2);
	MLX5_SET(manage_pages_in, in, input_num_entries, 1);
	MLX5_SET(manage_pages_in, in, function_id, 1);
	ASSERT_NE(m_exec(m, in, sizeof(in), out, sizeof(out)), 0);
	MLX5_SET(manage_pages_in, in, function_id, 0);
	MLX5_SET(manage_pages_in, in, embedded_cpu_function, 1);
	ASSERT_NE(m_exec(m, in, sizeof(in), out, sizeof(out)), 0);
	MLX5_SET(manage_pages_in, in, embedded_cpu_function, 0);
	MLX5_SET(manage_pages_in, in, op_mod, 3);
	ASSERT_NE(m_exec(m, in, sizeof(in), out, sizeof(out)), 0);
	/* taking none is legal */
	MLX5_SET(manage_pages_in, in, op_mod, 2);
	MLX5_SET(manage_pages_in, in, input_num_entries, 0);
	m_must(m, in, sizeof(in), out, sizeof(out));
	ASSERT_EQ(MLX5_GET(manage_pages_out, out, output_num_entries), 0u);
}

TEST("HM-3.5", a_refusal_fails_the_waiting_command_and_nothing_else)
{
	struct pair p = pair_new(m);
	struct key_attr a = { .mode = MLX5_MKC_ACCESS_MODE_MTT, .len = 1, .octwords = 131072 };
	u64 begin = shim_now();
	unsigned int free;
	u32 key;

	free = pages_free_now(m);
	m->policy = PAGES_REFUSE;
	ASSERT_CMD(m, key_try(m, &a, &key), MLX5_CMD_STAT_NO_RES_ERR, MLX5_CMD_OP_CREATE_MKEY, 21);
	/* the refusal came at once, so did the answer */
	ASSERT_LT(shim_now() - begin, 100 * MS);
	ASSERT_EQ(pages_free_now(m), free);
	/* what it asked for: what was missing, and LOW on top (one page more or less for the MPT) */
	ASSERT_GE(m->page_request, (int)(512 - free + 64));
	ASSERT_LE(m->page_request, (int)(513 - free + 64));
	post_write(p.a, p.lkey, p.s, 0x1000, p.rkey, p.d);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 0x1000, 1, PAIR_OFFSET);
	m->policy = PAGES_GIVE;
	ASSERT_EQ(key_try(m, &a, &key), 0);
}

TEST("HM-3.5", no_answer_for_two_seconds_is_a_refusal)
{
	struct key_attr a = { .mode = MLX5_MKC_ACCESS_MODE_MTT, .len = 1, .octwords = 131072 };
	u64 begin = shim_now();
	u32 key;

	m->policy = PAGES_IGNORE;
	ASSERT_CMD(m, key_try(m, &a, &key), MLX5_CMD_STAT_NO_RES_ERR, MLX5_CMD_OP_CREATE_MKEY, 21);
	ASSERT_GE(shim_now() - begin, 2 * SECOND);
	ASSERT_LE(shim_now() - begin, 2 * SECOND + 20 * MS);
}

struct late {
	struct machine *m;
	struct key_attr a;
	u8 status;
	u32 key;
};

static void late_create(void *arg)
{
	struct late *l = arg;

	l->status = key_try(l->m, &l->a, &l->key);
}

TEST("HM-3.6", late_pages_are_waited_for_and_others_go_on)
{
	struct late l = { m, { .mode = MLX5_MKC_ACCESS_MODE_MTT, .len = 1, .octwords = 131072 }, 0xff, 0 };
	struct pair p = pair_new(m);
	struct shim_fiber *f;
	u32 pd, key;

	m->page_delay = 1500 * MS;
	f = shim_spawn(late_create, &l, "CREATE_MKEY");
	shim_run();
	ASSERT(!shim_done(f));
	/* commands, small keys and data do not wait for it */
	pd = pd_new(m);
	ASSERT_EQ(pd_free(m, pd), 0);
	key = mr_new(m, &p.dst, 0, 4096, 0);
	post_write(p.a, p.lkey, p.s, 0x100, key, 0);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT(!shim_done(f));
	shim_advance(1400 * MS);
	ASSERT(!shim_done(f));
	shim_advance(200 * MS);
	ASSERT(shim_done(f));
	ASSERT_EQ(l.status, 0);
	ASSERT_EQ(key_free(m, l.key), 0);
}

TEST("HM-3.6", two_commands_wait_at_once)
{
	struct late l[2];
	struct shim_fiber *f[2];

	m->page_delay = 500 * MS;
	for (int i = 0; i < 2; i++) {
		l[i] = (struct late){ m, { .mode = MLX5_MKC_ACCESS_MODE_MTT, .len = 1, .octwords = 131072 }, 0xff, 0 };
		f[i] = shim_spawn(late_create, &l[i], "CREATE_MKEY");
	}
	shim_advance(1900 * MS);
	ASSERT(shim_done(f[0]) && shim_done(f[1]));
	ASSERT_EQ(l[0].status, 0);
	ASSERT_EQ(l[1].status, 0);
	ASSERT_NE(l[0].key, l[1].key);
}

TEST("HM-3.5", after_a_refusal_a_second_of_silence)
{
	unsigned int i;

	m->policy = PAGES_REFUSE;
	for (i = 0; i < 30; i++) {
		table_key(m, 256);
		shim_run();
	}
	/* it went below LOW, asked, was refused, and keeps quiet: no command waits */
	ASSERT_EQ(m->page_requests, 1u);
	shim_advance(1100 * MS);
	table_key(m, 256);
	shim_run();
	ASSERT_EQ(m->page_requests, 2u);
}

TEST("HM-3.7", surplus_goes_back_after_a_second)
{
	u32 key[3];
	unsigned int free;
	int i;

	for (i = 0; i < 3; i++)
		key[i] = table_key(m, 131072);
	shim_advance(3 * SECOND);
	m->page_requests = 0;
	for (i = 0; i < 3; i++)
		ASSERT_EQ(key_free(m, key[i]), 0);
	m->policy = PAGES_IGNORE;
	shim_advance(950 * MS);
	ASSERT_EQ(m->page_requests, 0u);
	shim_advance(200 * MS);
	ASSERT_EQ(m->page_requests, 1u);
	ASSERT_LT(m->page_request, 0);
	/* answered by taking so many: HIGH = 512 remain */
	free = m->fw_given;
	ASSERT_EQ(pages_take(m, -m->page_request), (unsigned int)-m->page_request);
	ASSERT_EQ(m->fw_given, free + m->page_request);
	ASSERT_EQ(pages_free_now(m), 512u);
	shim_advance(3 * SECOND);
	ASSERT_EQ(m->page_requests, 1u);
}

TEST("HM-3.7", surplus_begins_above_high_plus_256)
{
	unsigned int free = pages_free_now(m);

	m->policy = PAGES_IGNORE;
	pages_give(m, 768 - free);
	shim_advance(3 * SECOND);
	ASSERT_EQ(m->page_requests, 0u);
	pages_give(m, 1);
	shim_advance(3 * SECOND);
	ASSERT_EQ(m->page_requests, 1u);
	ASSERT_EQ(m->page_request, -257);
}

TEST("HM-3.7", a_short_surplus_is_kept)
{
	unsigned int free = pages_free_now(m);
	u32 key;

	m->policy = PAGES_IGNORE;
	pages_give(m, 1200 - free);
	shim_advance(500 * MS);
	key = table_key(m, 131072);
	shim_advance(3 * SECOND);
	ASSERT_EQ(m->page_requests, 0u);
	ASSERT_EQ(key_free(m, key), 0);
}

TEST("HM-3.7", a_dip_begins_the_second_anew)
{
	u32 key[2] = { table_key(m, 131072), table_key(m, 131072) };

	shim_advance(3 * SECOND);
	m->page_requests = 0;
	m->policy = PAGES_IGNORE;
	ASSERT_EQ(key_free(m, key[0]), 0);
	ASSERT_EQ(key_free(m, key[1]), 0);
	shim_advance(500 * MS);
	key[0] = table_key(m, 131072);
	shim_advance(400 * MS);
	ASSERT_EQ(key_free(m, key[0]), 0);
	shim_advance(500 * MS);
	ASSERT_EQ(m->page_requests, 0u);
	shim_advance(600 * MS);
	ASSERT_EQ(m->page_requests, 1u);
	ASSERT_LT(m->page_request, 0);
}

TEST("HM-3.8", teardown_returns_every_page)
{
	struct pair p = pair_new(m);
	unsigned int n, total = m->fw_given, got = 0;

	total = 0;
	table_key(m, 131072);
	post_recv(p.b, p.rkey, p.d, 64);
	total = m->fw_given;
	ASSERT_GT(total, 512u);
	m->policy = PAGES_IGNORE;
	ASSERT_EQ(simple(m, MLX5_CMD_OP_TEARDOWN_HCA, 0), 0);
	/* in portions, as mlx5_reclaim_root_pages does */
	while ((n = pages_take(m, 50)))
		got += n;
	ASSERT_EQ(got, total);
	ASSERT_EQ(m->fw_given, 0u);
	ASSERT_EQ(simple(m, MLX5_CMD_OP_DISABLE_HCA, 0), 0);
	/* a reset HCA can be brought up again */
	m->policy = PAGES_GIVE;
	machine_bring_up(m);
	p = pair_new(m);
	post_write(p.a, p.lkey, p.s, 0x1000, p.rkey, p.d);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
}

/* pages_take() unmaps what it gets: any further look at them kills the test */
TEST("HM-3.9", returned_pages_are_dead)
{
	struct pair p = pair_new(m);
	u32 key[100], mkc[MLX5_ST_SZ_DW(query_mkey_out)];
	unsigned int i;

	pages_give(m, 600);
	key[0] = table_key(m, 131072);
	for (i = 1; i < 100; i++)
		key[i] = table_key(m, i);
	for (i = 0; i < 100; i += 2)
		ASSERT_EQ(key_free(m, key[i]), 0);
	m->policy = PAGES_IGNORE;
	ASSERT_GT(pages_take(m, 4096), 500u);
	ASSERT_EQ(pages_take(m, 4096), 0u);
	for (i = 1; i < 100; i += 2)
		ASSERT_EQ(key_query(m, key[i], false, mkc, sizeof(mkc)), 0);
	post_write(p.a, p.lkey, p.s, 0x2000, p.rkey, p.d);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 0x2000, 1, PAIR_OFFSET);
	for (i = 1; i < 100; i += 2)
		ASSERT_EQ(key_free(m, key[i]), 0);
	ASSERT_EQ(qp_free(p.a), 0);
	ASSERT_EQ(qp_free(p.b), 0);
}

TEST("HM-3.10", traffic_takes_no_page)
{
	struct pair p = pair_new(m);
	unsigned int free = pages_free_now(m), i;

	for (i = 0; i < 100; i++) {
		post_recv(p.b, p.rkey, p.d, 0x2000);
		post_send(p.a, p.lkey, p.s, 0x1800);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 2 * i);
		EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, i);
		post_read(p.a, p.lkey, p.s, 0x1000, p.rkey, p.d);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 2 * i + 1);
		cq_update(p.a->scq);
		cq_update(p.b->rcq);
	}
	ASSERT_EQ(pages_free_now(m), free);
	ASSERT_EQ(m->page_requests, 0u);
}

/* every allocation of the driver's bring-up fails once: no crash, no leak, and a status for each command */
TEST_BARE("faults", creation_with_no_memory)
{
	unsigned long n;

	for (n = 1; ; n++) {
		shim_fail_nth(n);
		m = machine_power_on();
		if (m) {
			shim_fail_nth(0);
			machine_kill(m);
			break;
		}
		ASSERT(shim_failed());
	}
	ASSERT_GT(n, 1ul);
	ASSERT_EQ(shim_allocs_alive(), 0ul);
}
