// SPDX-License-Identifier: GPL-2.0
/*
 * The simulated host: see machine.h for what it guarantees. Layouts are those of libmlx5-abi 5 and 6 and of mlx5_ifc.h;
 * nothing here knows the engine beyond the wall.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/bitmap.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/unaligned.h>

#include "machine.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
/* who touches @n bytes at @p dies; the sanitizer does not need a mapping of its own for each of them */
#ifdef ASAN_POISON_MEMORY_REGION
#define forbid(p, n)				ASAN_POISON_MEMORY_REGION(p, n)
#else
#define forbid(p, n)				mprotect(p, n, PROT_NONE)
#define ASAN_POISON_MEMORY_REGION(p, n)		((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n)	((void)(p), (void)(n))
#endif

#define ARENA		(64ULL << 30)
/* poisoning writes an eighth of the size: not for memory that is mostly not there */
#define POISON_MAX	(64ULL << 20)

struct region {
	u64 dma, len, frame;
	bool poison;
};

#define die(fmt, a...)	shim_die("machine: " fmt, ##a)

/* memory */

/* number of regions that begin at or below @dma */
static size_t region_at(struct machine *m, u64 dma)
{
	size_t lo = 0, hi = m->nr_regions;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (m->regions[mid].dma <= dma)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void *bus_map(void *host, u64 dma, size_t len)
{
	struct machine *m = host;
	struct region *r;
	size_t i;
	u8 *p;

	if (!len || len > 2 << 20)
		die("bus_map of %zu bytes", len);
	m->bus_maps++;
	if (m->bus_hook)
		m->bus_hook(m, dma, len);
	i = region_at(m, dma);
	r = i ? &m->regions[i - 1] : NULL;
	if (!r || dma - r->dma >= r->len || r->len - (dma - r->dma) < len) {
		m->bus_refused++;
		return NULL;
	}
	p = m->bus + r->frame + (dma - r->dma);
	if (r->poison)
		ASAN_UNPOISON_MEMORY_REGION((void *)ALIGN_DOWN((unsigned long)p, 8),
					    ALIGN((unsigned long)p + len, 8) - ALIGN_DOWN((unsigned long)p, 8));
	return p;
}

static void region_add(struct machine *m, u64 dma, u64 len, u64 frame, bool poison)
{
	size_t i = region_at(m, dma);

	if (m->nr_regions == m->room_regions) {
		m->room_regions = max_t(size_t, 256, 2 * m->room_regions);
		m->regions = realloc(m->regions, m->room_regions * sizeof(*m->regions));
	}
	if ((i && m->regions[i - 1].dma + m->regions[i - 1].len > dma) ||
	    (i < m->nr_regions && dma + len > m->regions[i].dma))
		die("DMA address %#llx is in use", dma);
	memmove(m->regions + i + 1, m->regions + i, (m->nr_regions - i) * sizeof(*m->regions));
	m->regions[i] = (struct region){ dma, len, frame, poison };
	m->nr_regions++;
	if (poison)
		ASAN_POISON_MEMORY_REGION(m->bus + frame, len);
}

/* whoever kept a pointer to it dies */
static void region_forbid(struct machine *m, struct region *r)
{
	if (r->poison)
		forbid(m->bus + r->frame, r->len);
	else
		mprotect(m->bus + r->frame, r->len, PROT_NONE);
}

static void region_del(struct machine *m, u64 dma)
{
	size_t i = region_at(m, dma);
	struct region *r = &m->regions[i - 1];

	if (!i || r->dma != dma)
		die("unmap of %#llx, which is not mapped", dma);
	/* the address range may be somebody else's later */
	region_forbid(m, r);
	memmove(r, r + 1, (m->nr_regions - i) * sizeof(*r));
	m->nr_regions--;
}

static u64 frames_get(struct machine *m, u64 len)
{
	u64 at = m->frames_used;

	/* a page between: the CPU's view has guards too */
	m->frames_used += len + PAGE_SIZE;
	if (m->frames_used > ARENA)
		die("out of memory");
	forbid(m->cpu + at + len, PAGE_SIZE);
	return at;
}

struct mem mem_new_pages(struct machine *m, u64 len, unsigned int shift)
{
	u64 page = 1ULL << shift, base, frame;
	struct mem mem = { .m = m, .shift = shift };

	mem.len = ALIGN(len, page);
	mem.nr = mem.len >> shift;
	mem.dma = calloc(mem.nr, sizeof(*mem.dma));
	frame = frames_get(m, mem.len);
	mem.cpu = m->cpu + frame;
	base = ALIGN(m->next_dma, page);
	m->next_dma = base + 2 * mem.len + page;
	/* highest address first, with holes: pages that follow each other never do so on the bus */
	for (u64 i = mem.nr; i--; ) {
		mem.dma[i] = base + (mem.nr - 1 - i) * 2 * page;
		region_add(m, mem.dma[i], page, frame + (i << shift), mem.len <= POISON_MAX);
	}
	return mem;
}

struct mem mem_new(struct machine *m, u64 len)
{
	return mem_new_pages(m, len, PAGE_SHIFT);
}

struct mem mem_at(struct machine *m, u64 dma, u64 len)
{
	struct mem mem = { .m = m, .len = PAGE_ALIGN(len), .shift = 63, .nr = 1 };
	u64 frame = frames_get(m, mem.len);

	mem.cpu = m->cpu + frame;
	mem.dma = malloc(sizeof(*mem.dma));
	mem.dma[0] = dma;
	region_add(m, dma, mem.len, frame, mem.len <= POISON_MAX);
	return mem;
}

void mem_unmap_page(struct mem *mem, u64 page)
{
	region_del(mem->m, mem->dma[page]);
	mem->dma[page] = 0;
}

void mem_unmap(struct mem *mem)
{
	for (u64 i = 0; i < mem->nr; i++)
		if (mem->dma[i])
			mem_unmap_page(mem, i);
	free(mem->dma);
	mem->dma = NULL;
}

u64 mem_dma(const struct mem *mem, u64 offset)
{
	return mem->dma[offset >> mem->shift] + (offset & ((1ULL << mem->shift) - 1));
}

/* every 8 bytes differ, also from those of another seed */
u8 pattern_byte(u32 seed, u64 at)
{
	u64 x = (at >> 3) * 0x9e3779b97f4a7c15ULL + (seed + 1) * 0xc2b2ae3d27d4eb4fULL;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 32;
	return x >> ((at & 7) * 8);
}

void mem_fill(struct mem *mem, u64 from, u64 len, u32 seed)
{
	for (u64 i = 0; i < len; i++)
		mem->cpu[from + i] = pattern_byte(seed, from + i);
}

u64 mem_differs(const struct mem *mem, u64 from, u64 len, u32 seed, u64 pattern_from)
{
	for (u64 i = 0; i < len; i++)
		if (mem->cpu[from + i] != pattern_byte(seed, pattern_from + i))
			return i;
	return len;
}

/* commands */

u8 m_exec(struct machine *m, const void *in, size_t inlen, void *out, size_t outlen)
{
	int err;

	memset(out, 0xee, outlen);
	err = hca_cmd_exec(m->hca, in, inlen, out, outlen);
	if (err)
		die("hca_cmd_exec: %d", err);
	m->syndrome = MLX5_GET(alloc_pd_out, out, syndrome);
	return MLX5_GET(alloc_pd_out, out, status);
}

void m_must(struct machine *m, const void *in, size_t inlen, void *out, size_t outlen)
{
	u8 status = m_exec(m, in, inlen, out, outlen);

	if (status)
		die("command %#x: status %#x, syndrome %#x", MLX5_GET(alloc_pd_in, in, opcode), status, m->syndrome);
}

static void m_simple(struct machine *m, u16 opcode, u16 op_mod)
{
	u32 in[MLX5_ST_SZ_DW(init_hca_in)] = {}, out[MLX5_ST_SZ_DW(query_issi_out)];

	MLX5_SET(alloc_pd_in, in, opcode, opcode);
	MLX5_SET(alloc_pd_in, in, op_mod, op_mod);
	m_must(m, in, sizeof(in), out, sizeof(out));
}

u32 pd_new(struct machine *m)
{
	return pd_new_of(m, 0);
}

u32 pd_new_of(struct machine *m, u16 uid)
{
	u32 in[MLX5_ST_SZ_DW(alloc_pd_in)] = {}, out[MLX5_ST_SZ_DW(alloc_pd_out)];

	MLX5_SET(alloc_pd_in, in, opcode, MLX5_CMD_OP_ALLOC_PD);
	MLX5_SET(alloc_pd_in, in, uid, uid);
	m_must(m, in, sizeof(in), out, sizeof(out));
	return MLX5_GET(alloc_pd_out, out, pd);
}

u8 pd_free(struct machine *m, u32 pd)
{
	u32 in[MLX5_ST_SZ_DW(dealloc_pd_in)] = {}, out[MLX5_ST_SZ_DW(dealloc_pd_out)];

	MLX5_SET(dealloc_pd_in, in, opcode, MLX5_CMD_OP_DEALLOC_PD);
	MLX5_SET(dealloc_pd_in, in, pd, pd);
	return m_exec(m, in, sizeof(in), out, sizeof(out));
}

u32 uar_new(struct machine *m)
{
	u32 in[MLX5_ST_SZ_DW(alloc_uar_in)] = {}, out[MLX5_ST_SZ_DW(alloc_uar_out)];

	MLX5_SET(alloc_uar_in, in, opcode, MLX5_CMD_OP_ALLOC_UAR);
	m_must(m, in, sizeof(in), out, sizeof(out));
	return MLX5_GET(alloc_uar_out, out, uar);
}

u16 uctx_new(struct machine *m)
{
	u32 in[MLX5_ST_SZ_DW(create_uctx_in)] = {}, out[MLX5_ST_SZ_DW(create_uctx_out)];

	MLX5_SET(create_uctx_in, in, opcode, MLX5_CMD_OP_CREATE_UCTX);
	m_must(m, in, sizeof(in), out, sizeof(out));
	return MLX5_GET(create_uctx_out, out, uid);
}

u8 uctx_free(struct machine *m, u16 uid)
{
	u32 in[MLX5_ST_SZ_DW(destroy_uctx_in)] = {}, out[MLX5_ST_SZ_DW(destroy_uctx_out)];

	MLX5_SET(destroy_uctx_in, in, opcode, MLX5_CMD_OP_DESTROY_UCTX);
	MLX5_SET(destroy_uctx_in, in, uid, uid);
	return m_exec(m, in, sizeof(in), out, sizeof(out));
}

u8 memic_alloc(struct machine *m, u32 size, u8 log_align, u64 range, u32 range_size, u64 *addr)
{
	u32 in[MLX5_ST_SZ_DW(alloc_memic_in)] = {}, out[MLX5_ST_SZ_DW(alloc_memic_out)];
	u8 status;

	MLX5_SET(alloc_memic_in, in, opcode, MLX5_CMD_OP_ALLOC_MEMIC);
	MLX5_SET(alloc_memic_in, in, log_memic_addr_alignment, log_align);
	MLX5_SET64(alloc_memic_in, in, range_start_addr, range);
	MLX5_SET(alloc_memic_in, in, range_size, range_size);
	MLX5_SET(alloc_memic_in, in, memic_size, size);
	status = m_exec(m, in, sizeof(in), out, sizeof(out));
	*addr = MLX5_GET64(alloc_memic_out, out, memic_start_addr);
	return status;
}

u8 memic_free(struct machine *m, u64 addr, u32 size)
{
	u32 in[MLX5_ST_SZ_DW(dealloc_memic_in)] = {}, out[MLX5_ST_SZ_DW(dealloc_memic_out)];

	MLX5_SET(dealloc_memic_in, in, opcode, MLX5_CMD_OP_DEALLOC_MEMIC);
	MLX5_SET64(dealloc_memic_in, in, memic_start_addr, addr);
	MLX5_SET(dealloc_memic_in, in, memic_size, size);
	return m_exec(m, in, sizeof(in), out, sizeof(out));
}

/* firmware pages */

s32 pages_wanted(struct machine *m, unsigned int op_mod)
{
	u32 in[MLX5_ST_SZ_DW(query_pages_in)] = {}, out[MLX5_ST_SZ_DW(query_pages_out)];

	MLX5_SET(query_pages_in, in, opcode, MLX5_CMD_OP_QUERY_PAGES);
	MLX5_SET(query_pages_in, in, op_mod, op_mod);
	m_must(m, in, sizeof(in), out, sizeof(out));
	return MLX5_GET(query_pages_out, out, num_pages);
}

void pages_give(struct machine *m, unsigned int n)
{
	while (n) {
		unsigned int k = min(n, 512u);
		size_t inlen = MLX5_ST_SZ_BYTES(manage_pages_in) + 8 * k;
		u32 out[MLX5_ST_SZ_DW(manage_pages_out)];
		u32 *in = calloc(1, inlen);
		__be64 *pas = (__be64 *)MLX5_ADDR_OF(manage_pages_in, in, pas);

		MLX5_SET(manage_pages_in, in, opcode, MLX5_CMD_OP_MANAGE_PAGES);
		MLX5_SET(manage_pages_in, in, op_mod, 1 /* give */);
		MLX5_SET(manage_pages_in, in, input_num_entries, k);
		for (unsigned int i = 0; i < k; i++) {
			struct mem page = mem_new(m, PAGE_SIZE);
			u8 *bus = m->bus + (page.cpu - m->cpu);

			/* the HCA must not rely on zeros; here, for the CPU never looks at most of these pages */
			ASAN_UNPOISON_MEMORY_REGION(bus, PAGE_SIZE);
			memset(bus, 0x5a, PAGE_SIZE);
			ASAN_POISON_MEMORY_REGION(bus, PAGE_SIZE);
			if (!(m->nr_fw & (m->nr_fw - 1)))
				m->fw = realloc(m->fw, 2 * (m->nr_fw ?: 1) * sizeof(*m->fw));
			m->fw[m->nr_fw++] = (struct fw_page){ page.dma[0], page.cpu, true };
			m->fw_given++;
			pas[i] = cpu_to_be64(page.dma[0]);
			free(page.dma);
		}
		m_must(m, in, inlen, out, sizeof(out));
		free(in);
		n -= k;
	}
}

static void fw_page_back(struct machine *m, u64 dma)
{
	/* addresses only rise */
	unsigned int lo = 0, hi = m->nr_fw;

	while (lo < hi) {
		unsigned int mid = (lo + hi) / 2;

		if (m->fw[mid].dma < dma)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == m->nr_fw || m->fw[lo].dma != dma || !m->fw[lo].given)
		die("the HCA returned page %#llx, which it does not own", dma);
	m->fw[lo].given = false;
	m->fw_given--;
	region_del(m, dma);
}

unsigned int pages_take(struct machine *m, unsigned int n)
{
	u32 in[MLX5_ST_SZ_DW(manage_pages_in)] = {};
	size_t outlen = MLX5_ST_SZ_BYTES(manage_pages_out) + 8ul * n;
	u32 *out = malloc(outlen);
	__be64 *pas = (__be64 *)MLX5_ADDR_OF(manage_pages_out, out, pas);
	unsigned int got, i;

	MLX5_SET(manage_pages_in, in, opcode, MLX5_CMD_OP_MANAGE_PAGES);
	MLX5_SET(manage_pages_in, in, op_mod, 2 /* take */);
	MLX5_SET(manage_pages_in, in, input_num_entries, n);
	m_must(m, in, sizeof(in), out, outlen);
	got = MLX5_GET(manage_pages_out, out, output_num_entries);
	if (got > n)
		die("asked for %u pages, got %u", n, got);
	for (i = 0; i < got; i++)
		fw_page_back(m, be64_to_cpu(pas[i]));
	free(out);
	return got;
}

unsigned int pages_free_now(struct machine *m)
{
	unsigned int n, all = 0;

	while ((n = pages_take(m, 4096)))
		all += n;
	pages_give(m, all);
	return all;
}

static void pages_refuse(struct machine *m)
{
	u32 in[MLX5_ST_SZ_DW(manage_pages_in)] = {}, out[MLX5_ST_SZ_DW(manage_pages_out)];

	MLX5_SET(manage_pages_in, in, opcode, MLX5_CMD_OP_MANAGE_PAGES);
	MLX5_SET(manage_pages_in, in, op_mod, 0 /* cannot give */);
	m_must(m, in, sizeof(in), out, sizeof(out));
}

static void page_work(struct work_struct *work)
{
	struct machine *m = container_of(to_delayed_work(work), struct machine, page_work);

	if (m->policy == PAGES_IGNORE)
		return;
	if (m->page_request < 0)
		pages_take(m, -m->page_request);
	else if (m->policy == PAGES_REFUSE)
		pages_refuse(m);
	else
		pages_give(m, m->page_request);
}

/* events */

struct eq eq_new(struct machine *m, unsigned int log_size, unsigned int vector, u64 types)
{
	struct eq eq = { .m = m, .log_size = log_size, .vector = vector };
	u32 out[MLX5_ST_SZ_DW(create_eq_out)];
	size_t inlen;
	void *eqc;
	u32 *in;

	eq.ring = mem_new(m, 64ul << log_size);
	for (u64 i = 63; i < eq.ring.len; i += 64)
		eq.ring.cpu[i] = 1;
	inlen = MLX5_ST_SZ_BYTES(create_eq_in) + 8 * eq.ring.nr;
	in = calloc(1, inlen);
	MLX5_SET(create_eq_in, in, opcode, MLX5_CMD_OP_CREATE_EQ);
	MLX5_ARRAY_SET64(create_eq_in, in, event_bitmask, 0, types);
	eqc = MLX5_ADDR_OF(create_eq_in, in, eq_context_entry);
	MLX5_SET(eqc, eqc, log_eq_size, log_size);
	MLX5_SET(eqc, eqc, uar_page, m->uar);
	MLX5_SET(eqc, eqc, intr, vector);
	MLX5_SET(eqc, eqc, log_page_size, 0);
	for (u64 i = 0; i < eq.ring.nr; i++)
		MLX5_ARRAY_SET64(create_eq_in, in, pas, i, eq.ring.dma[i]);
	m_must(m, in, inlen, out, sizeof(out));
	free(in);
	eq.eqn = MLX5_GET(create_eq_out, out, eq_number);
	return eq;
}

bool eq_poll(struct eq *eq, struct mlx5_eqe *eqe)
{
	u32 size = 1u << eq->log_size;
	struct mlx5_eqe *e = (struct mlx5_eqe *)(eq->ring.cpu + 64ul * (eq->ci & (size - 1)));

	if ((e->owner & 1) != !!(eq->ci & size))
		return false;
	memcpy(eqe, e, sizeof(*eqe));
	eq->ci++;
	return true;
}

void eq_update(struct eq *eq, bool arm)
{
	__be32 word = cpu_to_be32((u32)eq->eqn << 24 | (eq->ci & 0xffffff));

	hca_uar_store(eq->m->hca, eq->m->uar, arm ? HCA_UAR_EQ_ARM : HCA_UAR_EQ_UPDATE, &word, 4, 0);
}

static void irq_work(struct work_struct *work)
{
	struct machine *m = container_of(work, struct machine, irq_work);
	struct mlx5_eqe eqe;

	while (eq_poll(&m->async, &eqe)) {
		m->events[m->nr_events++ % MAX_EVENTS] = eqe;
		if (eqe.type == MLX5_EVENT_TYPE_PAGE_REQUEST) {
			m->page_request = be32_to_cpu(eqe.data.req_pages.num_pages);
			m->page_requests++;
			mod_delayed_work(system_wq, &m->page_work, nsecs_to_jiffies(m->page_delay));
		}
	}
	eq_update(&m->async, true);
}

static void irq(void *host, unsigned int vector)
{
	struct machine *m = host;

	/* it comes from process context, and no lock is held: neither the engine's nor that of who rang */
	shim_might_sleep("irq callback");
	if (vector >= ARRAY_SIZE(m->irqs))
		die("irq callback for vector %u", vector);
	m->irqs[vector]++;
	if (vector == 0)
		queue_work(system_wq, &m->irq_work);
}

unsigned int events_of(struct machine *m, u8 type, u32 number)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < m->nr_events; i++) {
		struct mlx5_eqe *e = &m->events[i];
		u32 is = type == MLX5_EVENT_TYPE_CQ_ERROR ? be32_to_cpu(e->data.cq_err.cqn) :
			 type == MLX5_EVENT_TYPE_PAGE_REQUEST ? 0 : be32_to_cpu(e->data.qp_srq.qp_srq_n);

		n += e->type == type && (is & 0xffffff) == number;
	}
	return n;
}

/* life */

void gid_of(u8 *gid, unsigned int i)
{
	memcpy(gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\0", 16);
	gid[15] = i;
}

void roce_address_set(struct machine *m, unsigned int index, const u8 *gid)
{
	u32 in[MLX5_ST_SZ_DW(set_roce_address_in)] = {}, out[MLX5_ST_SZ_DW(set_roce_address_out)];
	void *addr = MLX5_ADDR_OF(set_roce_address_in, in, roce_address);

	MLX5_SET(set_roce_address_in, in, opcode, MLX5_CMD_OP_SET_ROCE_ADDRESS);
	MLX5_SET(set_roce_address_in, in, roce_address_index, index);
	memcpy(MLX5_ADDR_OF(roce_addr_layout, addr, source_l3_address), gid, 16);
	if (!mem_is_zero(gid, 16)) {
		MLX5_SET(roce_addr_layout, addr, source_mac_47_32, 0x0200);
		MLX5_SET(roce_addr_layout, addr, source_mac_31_0, 0xa0000000 | index);
		MLX5_SET(roce_addr_layout, addr, roce_version, 2);
	}
	m_must(m, in, sizeof(in), out, sizeof(out));
}

struct machine *machine_power_on(void)
{
	struct machine *m = calloc(1, sizeof(*m));

	m->ops.bus_map = bus_map;
	m->ops.irq = irq;
	m->fd = memfd_create("machine", 0);
	if (m->fd < 0 || ftruncate(m->fd, ARENA))
		die("no memory file");
	m->cpu = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, m->fd, 0);
	m->bus = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, m->fd, 0);
	if (m->cpu == MAP_FAILED || m->bus == MAP_FAILED)
		die("cannot map %llu bytes", ARENA);
	/* DMA addresses have nothing in common with the host's, and use more than 32 bits */
	m->next_dma = 0x1234560000000ULL;
	INIT_WORK(&m->irq_work, irq_work);
	INIT_DELAYED_WORK(&m->page_work, page_work);
	m->hca = hca_create(&m->ops, m);
	if (!m->hca) {
		if (!shim_failed())
			die("no HCA");
		machine_kill(m);
		return NULL;
	}
	return m;
}

/* all that is offered, by SET_HCA_CAP */
static void odp_enable(struct machine *m)
{
	u32 in[MLX5_ST_SZ_DW(set_hca_cap_in)] = {}, out[MLX5_ST_SZ_DW(query_hca_cap_out)];

	MLX5_SET(query_hca_cap_in, in, opcode, MLX5_CMD_OP_QUERY_HCA_CAP);
	MLX5_SET(query_hca_cap_in, in, op_mod, MLX5_CAP_ODP << 1);
	m_must(m, in, MLX5_ST_SZ_BYTES(query_hca_cap_in), out, sizeof(out));
	MLX5_SET(set_hca_cap_in, in, opcode, MLX5_CMD_OP_SET_HCA_CAP);
	memcpy(MLX5_ADDR_OF(set_hca_cap_in, in, capability), MLX5_ADDR_OF(query_hca_cap_out, out, capability),
	       MLX5_ST_SZ_BYTES(odp_cap));
	m_must(m, in, sizeof(in), out, sizeof(out));
}

void machine_bring_up(struct machine *m)
{
	u32 in[MLX5_ST_SZ_DW(set_issi_in)] = {}, out[MLX5_ST_SZ_DW(query_issi_out)];
	u8 gid[16];

	m_simple(m, MLX5_CMD_OP_ENABLE_HCA, 0);
	m_simple(m, MLX5_CMD_OP_QUERY_ISSI, 0);
	MLX5_SET(set_issi_in, in, opcode, MLX5_CMD_OP_SET_ISSI);
	MLX5_SET(set_issi_in, in, current_issi, 1);
	m_must(m, in, sizeof(in), out, sizeof(out));
	if (m->odp)
		odp_enable(m);
	pages_give(m, pages_wanted(m, 1));
	pages_give(m, pages_wanted(m, 2));
	m_simple(m, MLX5_CMD_OP_INIT_HCA, 0);
	m->up = true;
	m->uar = uar_new(m);
	m->pd = pd_new(m);
	m->async = eq_new(m, 8, 0, ~1ULL);
	m->comp = eq_new(m, 8, 1, 0);
	eq_update(&m->async, true);
	gid_of(gid, 1);
	roce_address_set(m, 0, gid);
}

struct machine *machine_new(void)
{
	struct machine *m = machine_power_on();

	machine_bring_up(m);
	return m;
}

void machine_kill(struct machine *m)
{
	if (m->hca)
		hca_destroy(m->hca);
	cancel_work_sync(&m->irq_work);
	cancel_delayed_work_sync(&m->page_work);
	for (size_t i = 0; i < m->nr_regions; i++)
		if (m->regions[i].poison)
			ASAN_UNPOISON_MEMORY_REGION(m->bus + m->regions[i].frame, m->regions[i].len);
	munmap(m->cpu, ARENA);
	munmap(m->bus, ARENA);
	close(m->fd);
	free(m->async.ring.dma);
	free(m->comp.ring.dma);
	free(m->regions);
	free(m->fw);
	free(m);
}

void machine_teardown(struct machine *m)
{
	unsigned int n;

	m->policy = PAGES_IGNORE;
	m_simple(m, MLX5_CMD_OP_TEARDOWN_HCA, 0);
	m->up = false;
	m->bus_maps_up = m->bus_maps;
	while ((n = pages_take(m, 64)))
		;
	if (m->fw_given)
		die("%u firmware pages did not come back", m->fw_given);
	for (size_t i = 0; i < m->nr_regions; i++)
		region_forbid(m, &m->regions[i]);
}

void machine_free(struct machine *m)
{
	shim_run();
	if (m->up)
		machine_teardown(m);
	/* longer than any timer that could have been left behind */
	shim_advance(10 * NSEC_PER_SEC);
	m_simple(m, MLX5_CMD_OP_DISABLE_HCA, 0);
	hca_destroy(m->hca);
	m->hca = NULL;
	if (m->bus_maps != m->bus_maps_up)
		die("%lu accesses to the bus after the teardown", m->bus_maps - m->bus_maps_up);
	machine_kill(m);
}

/* completion queues */

struct cq *cq_new(struct machine *m, struct cq_attr a)
{
	struct cq *cq = calloc(1, sizeof(*cq));
	u32 out[MLX5_ST_SZ_DW(create_cq_out)];
	unsigned int shift = 12 + a.log_page;
	size_t inlen;
	void *cqc;
	u32 *in;

	cq->m = m;
	cq->log_size = a.log_size ?: 6;
	cq->log_cqe = a.cqe128 ? 7 : 6;
	cq->offset = a.page_offset << (shift - 6);
	cq->ring = mem_new_pages(m, cq->offset + (1ul << (cq->log_size + cq->log_cqe)), shift);
	for (u64 i = 63; i < cq->ring.len; i += 64)
		cq->ring.cpu[i] = MLX5_CQE_INVALID << 4;
	cq->dbr = mem_new(m, 8);
	/* libmlx5-abi 5.6: zeros would read as a valid arm */
	((__be32 *)cq->dbr.cpu)[1] = cpu_to_be32(2u << 28);

	inlen = MLX5_ST_SZ_BYTES(create_cq_in) + 8 * cq->ring.nr;
	in = calloc(1, inlen);
	MLX5_SET(create_cq_in, in, opcode, MLX5_CMD_OP_CREATE_CQ);
	cqc = MLX5_ADDR_OF(create_cq_in, in, cq_context);
	MLX5_SET(cqc, cqc, cqe_sz, a.cqe128);
	MLX5_SET(cqc, cqc, oi, a.ignore_overrun);
	MLX5_SET(cqc, cqc, log_cq_size, cq->log_size);
	MLX5_SET(cqc, cqc, uar_page, m->uar);
	MLX5_SET(cqc, cqc, c_eqn_or_apu_element, m->comp.eqn);
	MLX5_SET(cqc, cqc, log_page_size, a.log_page);
	MLX5_SET(cqc, cqc, page_offset, a.page_offset);
	MLX5_SET64(cqc, cqc, dbr_addr, cq->dbr.dma[0]);
	for (u64 i = 0; i < cq->ring.nr; i++)
		MLX5_ARRAY_SET64(create_cq_in, in, pas, i, cq->ring.dma[i]);
	m_must(m, in, inlen, out, sizeof(out));
	free(in);
	cq->cqn = MLX5_GET(create_cq_out, out, cqn);
	return cq;
}

u8 cq_free(struct cq *cq)
{
	u32 in[MLX5_ST_SZ_DW(destroy_cq_in)] = {}, out[MLX5_ST_SZ_DW(destroy_cq_out)];
	u8 status;

	MLX5_SET(destroy_cq_in, in, opcode, MLX5_CMD_OP_DESTROY_CQ);
	MLX5_SET(destroy_cq_in, in, cqn, cq->cqn);
	status = m_exec(cq->m, in, sizeof(in), out, sizeof(out));
	if (status)
		return status;
	mem_unmap(&cq->ring);
	mem_unmap(&cq->dbr);
	free(cq);
	return 0;
}

static u8 *cqe_at(struct cq *cq, u32 index)
{
	u32 size = 1u << cq->log_size;

	/* the 64-byte structure is the upper half of a 128-byte CQE */
	return cq->ring.cpu + cq->offset + ((u64)(index & (size - 1)) << cq->log_cqe) + (cq->log_cqe == 7 ? 64 : 0);
}

bool cq_peek(struct cq *cq, struct mlx5_cqe64 *cqe)
{
	u8 *p = cqe_at(cq, cq->ci);

	if (p[63] >> 4 == MLX5_CQE_INVALID || (p[63] & 1) != !!(cq->ci & (1u << cq->log_size)))
		return false;
	memcpy(cqe, p, sizeof(*cqe));
	return true;
}

bool cq_poll(struct cq *cq, struct mlx5_cqe64 *cqe)
{
	if (!cq_peek(cq, cqe))
		return false;
	cq->ci++;
	return true;
}

void cq_update(struct cq *cq)
{
	((__be32 *)cq->dbr.cpu)[0] = cpu_to_be32(cq->ci & 0xffffff);
}

struct store {
	struct machine *m;
	unsigned int offset, len;
	u8 data[8];
};

static DEFINE_SPINLOCK(callers_lock);

static void do_store(void *arg)
{
	struct store *s = arg;

	hca_uar_store(s->m->hca, s->m->uar, s->offset, s->data, s->len, 0);
}

static void uar_store(struct machine *m, unsigned int offset, const void *data)
{
	struct store s = { m, offset, 8 };

	memcpy(s.data, data, 8);
	switch (m->ring_how) {
	case RING_SCAN:
		hca_uar_scan(m->hca, m->uar);
		break;
	case RING_IRQ:
		shim_call_in_irq(do_store, &s);
		break;
	case RING_LOCKED:
		spin_lock_irq(&callers_lock);
		do_store(&s);
		spin_unlock_irq(&callers_lock);
		break;
	case RING_HINTLESS:
		s.offset = 0x900;
		s.len = 4;
		memset(s.data, 0, 8);
		do_store(&s);
		break;
	default:
		hca_uar_store(m->hca, m->uar, offset, data, 8, m->ring_how == RING_INLINE ? HCA_STORE_INLINE : 0);
	}
	shim_settle();
}

void cq_arm(struct cq *cq, bool solicited)
{
	__be32 word[2];

	cq_update(cq);
	word[0] = cpu_to_be32((cq->sn & 3) << 28 | (u32)solicited << 24 | (cq->ci & 0xffffff));
	word[1] = cpu_to_be32(cq->cqn);
	((__be32 *)cq->dbr.cpu)[1] = word[0];
	uar_store(cq->m, HCA_UAR_CQ_DOORBELL, word);
}

unsigned int comp_events(struct machine *m, u32 cqn)
{
	struct mlx5_eqe eqe;
	unsigned int n = 0;

	shim_run();
	while (eq_poll(&m->comp, &eqe)) {
		if (eqe.type != MLX5_EVENT_TYPE_COMP)
			die("event %#x in the completion EQ", eqe.type);
		n += (be32_to_cpu(eqe.data.comp.cqn) & 0xffffff) == cqn;
	}
	eq_update(&m->comp, true);
	return n;
}

u8 cq_resize(struct cq *cq, unsigned int log_size)
{
	struct mem ring = mem_new(cq->m, 1ul << (log_size + cq->log_cqe));
	size_t inlen = MLX5_ST_SZ_BYTES(modify_cq_in) + 8 * ring.nr;
	u32 out[MLX5_ST_SZ_DW(modify_cq_out)], *in = calloc(1, inlen), i;
	struct cq new = *cq;
	u8 status;
	void *cqc;

	for (u64 at = 63; at < ring.len; at += 64)
		ring.cpu[at] = MLX5_CQE_INVALID << 4;
	MLX5_SET(modify_cq_in, in, opcode, MLX5_CMD_OP_MODIFY_CQ);
	MLX5_SET(modify_cq_in, in, op_mod, MLX5_CQ_OPMOD_RESIZE);
	MLX5_SET(modify_cq_in, in, cqn, cq->cqn);
	MLX5_SET(modify_cq_in, in, modify_field_select_resize_field_select.resize_field_select.resize_field_select,
		 MLX5_MODIFY_CQ_MASK_LOG_SIZE | MLX5_MODIFY_CQ_MASK_PG_OFFSET | MLX5_MODIFY_CQ_MASK_PG_SIZE);
	cqc = MLX5_ADDR_OF(modify_cq_in, in, cq_context);
	MLX5_SET(cqc, cqc, log_cq_size, log_size);
	MLX5_SET(cqc, cqc, cqe_sz, cq->log_cqe == 7);
	for (u64 p = 0; p < ring.nr; p++)
		MLX5_ARRAY_SET64(modify_cq_in, in, pas, p, ring.dma[p]);
	status = m_exec(cq->m, in, inlen, out, sizeof(out));
	free(in);
	if (status) {
		mem_unmap(&ring);
		return status;
	}
	/* libmlx5-abi 5.5: entries before the RESIZE CQE move one slot on, which takes their number past it */
	new.ring = ring;
	new.offset = 0;
	new.log_size = log_size;
	for (i = cq->ci; ; i++) {
		u8 *old = cqe_at(cq, i), *to = cqe_at(&new, i + 1);

		if (i - cq->ci > 1u << cq->log_size)
			die("no RESIZE CQE in the old ring");
		if (old[63] >> 4 == MLX5_CQE_RESIZE_CQ) {
			if ((old[63] & 1) != !!(i & (1u << cq->log_size)))
				die("the RESIZE CQE has not the owner bit of the old ring");
			break;
		}
		memcpy(to, old, 64);
		to[63] = (old[63] & ~1) | !!((i + 1) & (1u << log_size));
	}
	mem_unmap(&cq->ring);
	new.ci++;
	*cq = new;
	return 0;
}

/* keys */

void klm_put(void *list, u32 index, struct klm e)
{
	u8 *p = (u8 *)list + 16ul * index;

	put_unaligned_be32(e.count, p);
	put_unaligned_be32(e.key, p + 4);
	put_unaligned_be64(e.addr, p + 8);
}

struct key_cmd key_cmd(struct machine *m, const struct key_attr *a)
{
	u32 actual = a->klm ? a->nr : (a->nr + 1) / 2, octwords = a->octwords ?: actual;
	struct key_cmd c;
	void *mkc, *list;

	c.inlen = MLX5_ST_SZ_BYTES(create_mkey_in) + 16ul * actual;
	c.in = calloc(1, c.inlen);
	list = (u8 *)c.in + MLX5_ST_SZ_BYTES(create_mkey_in);
	MLX5_SET(create_mkey_in, c.in, opcode, MLX5_CMD_OP_CREATE_MKEY);
	MLX5_SET(create_mkey_in, c.in, uid, a->uid);
	MLX5_SET(create_mkey_in, c.in, pg_access, a->pg_access);
	MLX5_SET(create_mkey_in, c.in, translations_octword_actual_size, actual);
	mkc = MLX5_ADDR_OF(create_mkey_in, c.in, memory_key_mkey_entry);
	MLX5_SET(mkc, mkc, free, a->free);
	MLX5_SET(mkc, mkc, access_mode_4_2, a->mode >> 2);
	MLX5_SET(mkc, mkc, access_mode_1_0, a->mode & 3);
	MLX5_SET(mkc, mkc, umr_en, a->umr_en);
	MLX5_SET(mkc, mkc, lr, !a->no_lr);
	MLX5_SET(mkc, mkc, lw, a->lw);
	MLX5_SET(mkc, mkc, rr, a->rr);
	MLX5_SET(mkc, mkc, rw, a->rw);
	MLX5_SET(mkc, mkc, a, a->a);
	MLX5_SET(mkc, mkc, en_rinval, a->en_rinval);
	MLX5_SET(mkc, mkc, qpn, 0xffffff);
	MLX5_SET(mkc, mkc, mkey_7_0, a->variant);
	MLX5_SET(mkc, mkc, length64, a->length64);
	MLX5_SET(mkc, mkc, pd, a->pd ?: m->pd);
	MLX5_SET64(mkc, mkc, start_addr, a->start);
	MLX5_SET64(mkc, mkc, len, a->len);
	MLX5_SET(mkc, mkc, translations_octword_size, octwords);
	MLX5_SET(mkc, mkc, log_page_size, a->log_page ?: (a->mode == MLX5_MKC_ACCESS_MODE_MTT ? 12 : 0));
	for (u32 i = 0; i < a->nr; i++) {
		if (a->klm)
			klm_put(list, i, a->klm[i]);
		else
			((__be64 *)list)[i] = cpu_to_be64(a->mtt[i]);
	}
	return c;
}

u8 key_try(struct machine *m, const struct key_attr *a, u32 *key)
{
	struct key_cmd c = key_cmd(m, a);
	u32 out[MLX5_ST_SZ_DW(create_mkey_out)];
	u8 status = m_exec(m, c.in, c.inlen, out, sizeof(out));

	free(c.in);
	if (!status)
		*key = MLX5_GET(create_mkey_out, out, mkey_index) << 8 | a->variant;
	return status;
}

u32 key_new(struct machine *m, const struct key_attr *a)
{
	u32 key;

	if (key_try(m, a, &key))
		die("CREATE_MKEY: syndrome %#x", m->syndrome);
	return key;
}

u8 key_free(struct machine *m, u32 key)
{
	u32 in[MLX5_ST_SZ_DW(destroy_mkey_in)] = {}, out[MLX5_ST_SZ_DW(destroy_mkey_out)];

	MLX5_SET(destroy_mkey_in, in, opcode, MLX5_CMD_OP_DESTROY_MKEY);
	MLX5_SET(destroy_mkey_in, in, mkey_index, key >> 8);
	return m_exec(m, in, sizeof(in), out, sizeof(out));
}

u8 key_query(struct machine *m, u32 key, bool pg_access, void *out, size_t outlen)
{
	u32 in[MLX5_ST_SZ_DW(query_mkey_in)] = {};

	MLX5_SET(query_mkey_in, in, opcode, MLX5_CMD_OP_QUERY_MKEY);
	MLX5_SET(query_mkey_in, in, mkey_index, key >> 8);
	MLX5_SET(query_mkey_in, in, pg_access, pg_access);
	return m_exec(m, in, sizeof(in), out, outlen);
}

u32 klm_new(struct machine *m, const struct klm *list, u32 nr)
{
	static u8 variant;
	struct key_attr a = { .mode = MLX5_MKC_ACCESS_MODE_KLMS, KEY_ALL, .variant = variant += 11, .klm = list, .nr = nr };

	for (u32 i = 0; i < nr; i++)
		a.len += list[i].count;
	return key_new(m, &a);
}

u32 mr_new_attr(struct machine *m, const struct mem *mem, u64 offset, u64 len, u64 iova, struct key_attr a)
{
	u64 page = 1ULL << mem->shift, first = offset >> mem->shift;
	u64 nr = DIV_ROUND_UP((offset & (page - 1)) + len, page);
	u64 *mtt = calloc(nr, sizeof(*mtt));
	u32 key;

	if ((iova ^ offset) & (page - 1))
		die("iova and memory differ in their place in the page");
	for (u64 i = 0; i < nr; i++)
		mtt[i] = mem->dma[first + i];
	a.mode = MLX5_MKC_ACCESS_MODE_MTT;
	a.start = iova;
	a.len = len;
	a.log_page = mem->shift;
	a.mtt = mtt;
	a.nr = nr;
	key = key_new(m, &a);
	free(mtt);
	return key;
}

u32 mr_new(struct machine *m, const struct mem *mem, u64 offset, u64 len, u64 iova)
{
	static u8 variant;

	return mr_new_attr(m, mem, offset, len, iova, (struct key_attr){ KEY_ALL, .variant = variant += 7 });
}

/* queue pairs */

struct qp *qp_new(struct machine *m, struct qp_attr a)
{
	struct qp *qp = calloc(1, sizeof(*qp));
	u32 out[MLX5_ST_SZ_DW(create_qp_out)];
	unsigned int shift = 12 + a.log_page;
	static u32 user_index = 0x700;
	u64 rq_bytes, sq_bytes;
	size_t inlen;
	void *qpc;
	u32 *in;

	qp->m = m;
	qp->st = a.st ?: MLX5_QP_ST_RC;
	qp->pd = qp->st == MLX5_QP_ST_REG_UMR ? 0 : a.pd ?: m->pd;
	qp->user_index = a.user_index ?: user_index++;
	qp->scq = a.scq ?: cq_new(m, (struct cq_attr){});
	qp->rcq = a.rcq ?: a.scq ?: cq_new(m, (struct cq_attr){});
	qp->log_msg_max = a.log_msg_max ?: 31;
	qp->log_sq = a.log_sq ?: 6;
	qp->log_rq = a.log_rq ?: 6;
	qp->log_stride = a.log_stride ?: 6;
	rq_bytes = a.no_rq ? 0 : 1ul << (qp->log_rq + qp->log_stride);
	sq_bytes = a.no_sq ? 0 : 64ul << qp->log_sq;
	qp->rq_offset = a.page_offset << (shift - 6);
	qp->sq_offset = qp->rq_offset + rq_bytes;
	qp->ring = mem_new_pages(m, qp->rq_offset + rq_bytes + sq_bytes, shift);
	qp->dbr = mem_new(m, 8);

	inlen = MLX5_ST_SZ_BYTES(create_qp_in) + 8 * qp->ring.nr;
	in = calloc(1, inlen);
	MLX5_SET(create_qp_in, in, opcode, MLX5_CMD_OP_CREATE_QP);
	qpc = MLX5_ADDR_OF(create_qp_in, in, qpc);
	MLX5_SET(qpc, qpc, st, qp->st);
	MLX5_SET(qpc, qpc, pm_state, MLX5_QP_PM_MIGRATED);
	MLX5_SET(qpc, qpc, pd, qp->pd);
	MLX5_SET(qpc, qpc, fre, a.fre);
	MLX5_SET(qpc, qpc, uar_page, m->uar);
	MLX5_SET(qpc, qpc, log_page_size, a.log_page);
	MLX5_SET(qpc, qpc, page_offset, a.page_offset);
	MLX5_SET(qpc, qpc, rlky, a.rlky);
	MLX5_SET(qpc, qpc, user_index, qp->user_index);
	MLX5_SET(qpc, qpc, cqn_snd, qp->scq->cqn);
	MLX5_SET(qpc, qpc, cqn_rcv, qp->rcq->cqn);
	MLX5_SET(qpc, qpc, log_msg_max, qp->log_msg_max);
	if (a.no_rq) {
		MLX5_SET(qpc, qpc, rq_type, MLX5_ZERO_LEN_RQ);
	} else {
		MLX5_SET(qpc, qpc, rq_type, MLX5_NON_ZERO_RQ);
		MLX5_SET(qpc, qpc, log_rq_size, qp->log_rq);
		MLX5_SET(qpc, qpc, log_rq_stride, qp->log_stride - 4);
	}
	if (a.no_sq)
		MLX5_SET(qpc, qpc, no_sq, 1);
	else
		MLX5_SET(qpc, qpc, log_sq_size, qp->log_sq);
	MLX5_SET64(qpc, qpc, dbr_addr, qp->dbr.dma[0]);
	for (u64 i = 0; i < qp->ring.nr; i++)
		MLX5_ARRAY_SET64(create_qp_in, in, pas, i, qp->ring.dma[i]);
	m_must(m, in, inlen, out, sizeof(out));
	free(in);
	qp->qpn = MLX5_GET(create_qp_out, out, qpn);
	return qp;
}

u8 qp_free(struct qp *qp)
{
	u32 in[MLX5_ST_SZ_DW(destroy_qp_in)] = {}, out[MLX5_ST_SZ_DW(destroy_qp_out)];
	u8 status;

	MLX5_SET(destroy_qp_in, in, opcode, MLX5_CMD_OP_DESTROY_QP);
	MLX5_SET(destroy_qp_in, in, qpn, qp->qpn);
	status = m_exec(qp->m, in, sizeof(in), out, sizeof(out));
	if (status)
		return status;
	mem_unmap(&qp->ring);
	mem_unmap(&qp->dbr);
	free(qp);
	return 0;
}

void *qp_cmd(u32 *in, struct qp *qp, u16 opcode, u32 opt_mask)
{
	memset(in, 0, 4 * QP_CMD_DW);
	MLX5_SET(rst2init_qp_in, in, opcode, opcode);
	MLX5_SET(rst2init_qp_in, in, qpn, qp->qpn);
	MLX5_SET(rst2init_qp_in, in, opt_param_mask, opt_mask);
	return MLX5_ADDR_OF(rst2init_qp_in, in, qpc);
}

u8 qp_modify(struct qp *qp, const u32 *in)
{
	u32 out[MLX5_ST_SZ_DW(rst2init_qp_out)];

	return m_exec(qp->m, in, 4 * QP_CMD_DW, out, sizeof(out));
}

void qp_fill(struct qp *qp, void *qpc, const struct qp_path *path, u32 remote_qpn)
{
	void *ads = MLX5_ADDR_OF(qpc, qpc, primary_address_path);

	MLX5_SET(qpc, qpc, st, qp->st);
	MLX5_SET(qpc, qpc, pm_state, MLX5_QP_PM_MIGRATED);
	MLX5_SET(qpc, qpc, mtu, 5);
	MLX5_SET(ads, ads, vhca_port_num, 1);
	if (qp->st == MLX5_QP_ST_REG_UMR) {
		/* no peer; the PD that the driver names here is of no meaning (HM 8.6) */
		MLX5_SET(qpc, qpc, log_msg_max, 12);
		MLX5_SET(qpc, qpc, pd, qp->m->pd);
		return;
	}
	MLX5_SET(qpc, qpc, log_msg_max, qp->log_msg_max);
	MLX5_SET(qpc, qpc, remote_qpn, remote_qpn);
	MLX5_SET(qpc, qpc, next_send_psn, 0x123456);
	MLX5_SET(qpc, qpc, next_rcv_psn, 0x123456);
	MLX5_SET(qpc, qpc, log_rra_max, 4);
	MLX5_SET(qpc, qpc, log_sra_max, 4);
	MLX5_SET(qpc, qpc, rre, !path->no_rre);
	MLX5_SET(qpc, qpc, rwe, !path->no_rwe);
	MLX5_SET(qpc, qpc, rae, !path->no_rae);
	MLX5_SET(qpc, qpc, retry_count, path->retry == 8 ? 0 : path->retry ?: 7);
	MLX5_SET(qpc, qpc, rnr_retry, path->rnr_retry == 8 ? 0 : path->rnr_retry ?: 7);
	MLX5_SET(qpc, qpc, min_rnr_nak, path->min_rnr == 32 ? 0 : path->min_rnr ?: 12);
	MLX5_SET(ads, ads, ack_timeout, path->timeout == 32 ? 0 : path->timeout ?: 14);
	MLX5_SET(ads, ads, hop_limit, 64);
	gid_of(MLX5_ADDR_OF(ads, ads, rgid_rip), path->gid ?: 1);
}

u8 qp_to(struct qp *qp, u16 opcode, const struct qp_path *path, u32 remote_qpn)
{
	u32 in[QP_CMD_DW];
	u32 opt = MLX5_QP_OPTPAR_RRE | MLX5_QP_OPTPAR_RWE | MLX5_QP_OPTPAR_RAE;

	if (opcode == MLX5_CMD_OP_2ERR_QP || opcode == MLX5_CMD_OP_2RST_QP)
		qp_cmd(in, qp, opcode, 0);
	else if (qp->st == MLX5_QP_ST_REG_UMR)
		qp_fill(qp, qp_cmd(in, qp, opcode, 0), path, 0);
	else
		qp_fill(qp, qp_cmd(in, qp, opcode, opt), path, remote_qpn);
	return qp_modify(qp, in);
}

void qp_up(struct qp *qp, u32 remote_qpn, struct qp_path path)
{
	static const u16 way[] = { MLX5_CMD_OP_RST2INIT_QP, MLX5_CMD_OP_INIT2RTR_QP, MLX5_CMD_OP_RTR2RTS_QP };

	for (size_t i = 0; i < ARRAY_SIZE(way); i++)
		if (qp_to(qp, way[i], &path, remote_qpn))
			die("transition %#x: syndrome %#x", way[i], qp->m->syndrome);
}

void qp_connect(struct qp *a, struct qp *b, struct qp_path path)
{
	qp_up(a, b->qpn, path);
	qp_up(b, a->qpn, path);
	a->peer = b;
	b->peer = a;
}

struct qp *umr_qp_new(struct machine *m)
{
	struct qp *qp = qp_new(m, (struct qp_attr){ .st = MLX5_QP_ST_REG_UMR, .no_rq = true, .rlky = true, .fre = true });

	qp_up(qp, 0, (struct qp_path){});
	return qp;
}

u8 qp_query(struct qp *qp, u32 *qpc)
{
	u32 in[MLX5_ST_SZ_DW(query_qp_in)] = {}, out[MLX5_ST_SZ_DW(query_qp_out)];
	u8 status;

	MLX5_SET(query_qp_in, in, opcode, MLX5_CMD_OP_QUERY_QP);
	MLX5_SET(query_qp_in, in, qpn, qp->qpn);
	status = m_exec(qp->m, in, sizeof(in), out, sizeof(out));
	memcpy(qpc, MLX5_ADDR_OF(query_qp_out, out, qpc), MLX5_ST_SZ_BYTES(qpc));
	return status;
}

unsigned int qp_state(struct qp *qp)
{
	u32 qpc[MLX5_ST_SZ_DW(qpc)];

	if (qp_query(qp, qpc))
		die("QUERY_QP: syndrome %#x", qp->m->syndrome);
	return MLX5_GET(qpc, qpc, state);
}

struct hca_qp_error qp_error(struct qp *qp)
{
	struct hca_qp_error e;

	if (hca_qp_error(qp->m->hca, qp->qpn, &e))
		die("hca_qp_error: no such QP");
	return e;
}

/* send WQEs */

void wqe_begin(struct wqe *w, u8 opcode, u8 fm_ce_se, u32 imm)
{
	memset(w, 0, sizeof(*w));
	w->b[3] = opcode;
	w->b[11] = fm_ce_se;
	put_unaligned_be32(imm, w->b + 12);
	w->len = 16;
}

static u8 *wqe_more(struct wqe *w, unsigned int len)
{
	u8 *p = w->b + w->len;

	w->len += len;
	if (w->len > sizeof(w->b))
		die("WQE of %u bytes", w->len);
	return p;
}

void wqe_raddr(struct wqe *w, u64 addr, u32 rkey)
{
	u8 *p = wqe_more(w, 16);

	put_unaligned_be64(addr, p);
	put_unaligned_be32(rkey, p + 8);
}

void wqe_atomic(struct wqe *w, u64 swap_add, u64 compare)
{
	u8 *p = wqe_more(w, 16);

	put_unaligned_be64(swap_add, p);
	put_unaligned_be64(compare, p + 8);
}

void wqe_data(struct wqe *w, u32 lkey, u64 addr, u32 len)
{
	u8 *p = wqe_more(w, 16);

	put_unaligned_be32(len, p);
	put_unaligned_be32(lkey, p + 4);
	put_unaligned_be64(addr, p + 8);
}

void wqe_inline(struct wqe *w, const void *data, unsigned int len)
{
	u8 *p = wqe_more(w, ALIGN(4 + len, 16));

	put_unaligned_be32(len | MLX5_INLINE_SEG, p);
	memcpy(p + 4, data, len);
}

void wqe_umr(struct wqe *w, const struct umr *u)
{
	u32 len = u->list_len ?: 16u * u->octwords;
	u8 *ctrl;

	wqe_begin(w, MLX5_OPCODE_UMR, u->fm_ce_se ?: SIGNALED, u->key);
	ctrl = wqe_more(w, 48);
	ctrl[0] = u->flags;
	put_unaligned_be16(u->octwords, ctrl + 4);
	put_unaligned_be16(u->to, ctrl + 6);
	put_unaligned_be64(u->mask, ctrl + 8);
	put_unaligned_be32(u->to >> 16, ctrl + 16);
	memcpy(wqe_more(w, sizeof(u->mkc)), u->mkc, sizeof(u->mkc));
	if (u->list)
		memcpy(wqe_more(w, len), u->list, len);
	if (u->byte_count)
		wqe_data(w, u->lkey, u->addr, u->byte_count);
}

u8 *sq_byte(struct qp *qp, u16 index, unsigned int at)
{
	u32 bytes = 64u << qp->log_sq;

	return qp->ring.cpu + qp->sq_offset + ((index * 64u + at) & (bytes - 1));
}

u16 sq_put(struct qp *qp, struct wqe *w)
{
	u16 index = qp->sq_pi;

	put_unaligned_be16(index, w->b + 1);
	put_unaligned_be32(qp->qpn << 8 | DIV_ROUND_UP(w->len, 16), w->b + 4);
	for (unsigned int i = 0; i < ALIGN(w->len, 64); i++)
		*sq_byte(qp, index, i) = w->b[i];
	memcpy(qp->last_ctrl, w->b, 8);
	qp->sq_pi += DIV_ROUND_UP(w->len, 64);
	return index;
}

void sq_ring(struct qp *qp)
{
	((__be32 *)qp->dbr.cpu)[MLX5_SND_DBR] = cpu_to_be32(qp->sq_pi);
	uar_store(qp->m, 0x800, qp->last_ctrl);
}

u16 sq_post(struct qp *qp, struct wqe *w)
{
	u16 index = sq_put(qp, w);

	sq_ring(qp);
	return index;
}

/* receive WQEs */

u8 *rq_wqe(struct qp *qp, u16 index)
{
	return qp->ring.cpu + qp->rq_offset + ((u64)(index & ((1u << qp->log_rq) - 1)) << qp->log_stride);
}

u16 rq_put(struct qp *qp, const struct sge *sge, unsigned int n)
{
	unsigned int max = (1u << qp->log_stride) / 16;
	u16 index = qp->rq_pi++;
	u8 *p = rq_wqe(qp, index);

	if (n > max)
		die("%u SGEs in a receive WQE for %u", n, max);
	/* what libmlx5 leaves behind: stale segments of the previous lap */
	memset(p + 16 * n, 0xbb, 16 * (max - n));
	for (unsigned int i = 0; i < n; i++, p += 16) {
		put_unaligned_be32(sge[i].len, p);
		put_unaligned_be32(sge[i].lkey, p + 4);
		put_unaligned_be64(sge[i].addr, p + 8);
	}
	if (n < max) {
		put_unaligned_be32(0, p);
		put_unaligned_be32(0x100, p + 4);
		put_unaligned_be64(0, p + 8);
	}
	return index;
}

u16 rq_post(struct qp *qp, const struct sge *sge, unsigned int n)
{
	u16 index = rq_put(qp, sge, n);

	((__be32 *)qp->dbr.cpu)[MLX5_RCV_DBR] = cpu_to_be32(qp->rq_pi);
	return index;
}

u64 counter(struct machine *m, enum hca_counter c)
{
	u64 values[HCA_CNT_MAX];

	hca_read_counters(m->hca, values);
	return values[c];
}
