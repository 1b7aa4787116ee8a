/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Allocations. Each one is a malloc() of its own, so that AddressSanitizer sees its edges; all are on a list, so that a
 * test ends with a leak check; the nth can be made to fail (shim_fail_nth). An allocation that may sleep checks that it
 * may, and freeing memory with a live timer, work or lock in it aborts.
 */
#ifndef SHIM_LINUX_SLAB_H
#define SHIM_LINUX_SLAB_H

#include <string.h>
#include <linux/types.h>

#define __GFP_DIRECT_RECLAIM	1u
#define __GFP_ZERO		2u
#define __GFP_NOWARN		4u
#define __GFP_NOFAIL		8u
#define __GFP_KSWAPD_RECLAIM	16u
#define __GFP_IO		32u
#define __GFP_FS		64u
#define __GFP_ACCOUNT		128u
#define __GFP_NORETRY		256u
#define __GFP_RETRY_MAYFAIL	512u
#define __GFP_HIGH		1024u
#define GFP_ATOMIC		(__GFP_HIGH | __GFP_KSWAPD_RECLAIM)
#define GFP_NOWAIT		(__GFP_KSWAPD_RECLAIM | __GFP_NOWARN)
#define GFP_NOIO		(__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)
#define GFP_NOFS		(GFP_NOIO | __GFP_IO)
#define GFP_KERNEL		(GFP_NOFS | __GFP_FS)
#define GFP_KERNEL_ACCOUNT	(GFP_KERNEL | __GFP_ACCOUNT)
#define GFP_USER		GFP_KERNEL
#define gfpflags_allow_blocking(f) (!!((f) & __GFP_DIRECT_RECLAIM))

#define ARCH_KMALLOC_MINALIGN	8
#define KMALLOC_MAX_SIZE	(1UL << 22)
#define SLAB_HWCACHE_ALIGN	1
#define NUMA_NO_NODE		(-1)

void *shim_alloc(size_t n, size_t size, gfp_t flags, size_t max);
void *shim_realloc(const void *p, size_t size, gfp_t flags, size_t max);
void shim_free(const void *p);
size_t ksize(const void *p);

/* kmalloc() has an upper end, kvmalloc() has one that a 32-bit multiplication gone wrong still runs into */
#define kmalloc(s, f)		shim_alloc(1, s, f, KMALLOC_MAX_SIZE)
#define kmalloc_node(s, f, n)	kmalloc(s, f)
#define kzalloc(s, f)		kmalloc(s, (f) | __GFP_ZERO)
#define kzalloc_node(s, f, n)	kzalloc(s, f)
#define kmalloc_array(n, s, f)	shim_alloc(n, s, f, KMALLOC_MAX_SIZE)
#define kcalloc(n, s, f)	kmalloc_array(n, s, (f) | __GFP_ZERO)
#define krealloc(p, s, f)	shim_realloc(p, s, f, KMALLOC_MAX_SIZE)
#define SHIM_KV_MAX		(1UL << 31)
#define kvmalloc(s, f)		shim_alloc(1, s, f, SHIM_KV_MAX)
#define kvzalloc(s, f)		kvmalloc(s, (f) | __GFP_ZERO)
#define kvmalloc_array(n, s, f)	shim_alloc(n, s, f, SHIM_KV_MAX)
#define kvcalloc(n, s, f)	kvmalloc_array(n, s, (f) | __GFP_ZERO)
#define vmalloc(s)		kvmalloc(s, GFP_KERNEL)
#define vzalloc(s)		kvzalloc(s, GFP_KERNEL)
#define kmalloc_obj(T, f...)	((typeof(T) *)kmalloc(sizeof(T), shim_gfp(f)))
#define kzalloc_obj(T, f...)	((typeof(T) *)kzalloc(sizeof(T), shim_gfp(f)))
#define kmalloc_objs(T, n, f...) ((typeof(T) *)kmalloc_array(n, sizeof(T), shim_gfp(f)))
#define kzalloc_objs(T, n, f...) ((typeof(T) *)kcalloc(n, sizeof(T), shim_gfp(f)))
#define kvmalloc_obj(T, f...)	((typeof(T) *)kvmalloc(sizeof(T), shim_gfp(f)))
#define kvzalloc_obj(T, f...)	((typeof(T) *)kvzalloc(sizeof(T), shim_gfp(f)))
#define kvmalloc_objs(T, n, f...) ((typeof(T) *)kvmalloc_array(n, sizeof(T), shim_gfp(f)))
#define kvzalloc_objs(T, n, f...) ((typeof(T) *)kvcalloc(n, sizeof(T), shim_gfp(f)))
#define kzalloc_flex(T, m, n, f...) ((typeof(T) *)kzalloc(struct_size((typeof(T) *)NULL, m, n), shim_gfp(f)))
#define kvzalloc_flex(T, m, n, f...) ((typeof(T) *)kvzalloc(struct_size((typeof(T) *)NULL, m, n), shim_gfp(f)))
#define shim_gfp_(a, b, ...)	b
#define shim_gfp(f...)		shim_gfp_(0, ##f, GFP_KERNEL)
#define kfree			shim_free
#define kvfree			shim_free
#define vfree			shim_free
#define kfree_sensitive		shim_free
#define kvfree_sensitive(p, n)	shim_free(p)

static inline void *kmemdup(const void *s, size_t n, gfp_t f)
{
	void *p = kmalloc(n, f);

	return p ? memcpy(p, s, n) : NULL;
}

static inline void *kvmemdup(const void *s, size_t n, gfp_t f)
{
	void *p = kvmalloc(n, f);

	return p ? memcpy(p, s, n) : NULL;
}

static inline char *kstrdup(const char *s, gfp_t f)
{
	return kmemdup(s, strlen(s) + 1, f);
}

struct kmem_cache {
	size_t size;
};

struct kmem_cache *shim_cache(size_t size);
#define kmem_cache_create(n, s, a, f, c) shim_cache(s)
#define KMEM_CACHE(t, f)	shim_cache(sizeof(struct t))
#define kmem_cache_destroy	kfree
#define kmem_cache_alloc(c, f)	kmalloc((c)->size, f)
#define kmem_cache_zalloc(c, f)	kzalloc((c)->size, f)
#define kmem_cache_free(c, p)	kfree(p)

#define memalloc_noreclaim_save()	0u
#define memalloc_noreclaim_restore(f)	((void)(f))
#define memalloc_nofs_save()		0u
#define memalloc_nofs_restore(f)	((void)(f))
#define memalloc_noio_save()		0u
#define memalloc_noio_restore(f)	((void)(f))

/* __free(kfree) and friends */
#define DEFINE_FREE(name, type, free)	static inline void __free_##name(void *p) { type _T = *(type *)p; free; }
#define __free(name)			__attribute__((__cleanup__(__free_##name)))
#define no_free_ptr(p)			({ typeof(p) ___p = (p); (p) = NULL; ___p; })
#define return_ptr(p)			return no_free_ptr(p)
DEFINE_FREE(kfree, void *, if (_T) kfree(_T))
DEFINE_FREE(kvfree, void *, if (_T) kvfree(_T))

#endif
