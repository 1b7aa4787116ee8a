/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every difference between the kernels that softhca supports, and nothing else:
 * the rest of the driver is written to the newest API.
 *
 * Invariants:
 *  - What a kernel offers is looked up in its headers (scripts/detect.sh sets
 *    HAVE_*), never derived from its version.
 *  - On an older kernel the names of the newer API mean the older one, with the
 *    same behaviour towards user space.
 */
#ifndef SOFTHCA_COMPAT_H
#define SOFTHCA_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/uaccess.h>
#include <linux/mlx5/device.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* linux/hrtimer.h: initialisation and function in one call */
#ifndef HAVE_HRTIMER_SETUP
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

/* linux/dma-buf.h: name of the callback that the exporter takes a mapping away with */
#ifndef HAVE_DMABUF_INVALIDATE
#define invalidate_mappings	move_notify
#endif

/* linux/module.h: whether the name of a namespace is a string */
#ifdef HAVE_IMPORT_NS_STRING
#define COMPAT_IMPORT_NS_DMA_BUF	MODULE_IMPORT_NS("DMA_BUF")
#else
#define COMPAT_IMPORT_NS_DMA_BUF	MODULE_IMPORT_NS(DMA_BUF)
#endif

/* linux/mlx5/device.h: how lists that a UMR points to are aligned */
#ifndef MLX5_UMR_ALIGN
#define MLX5_UMR_ALIGN		2048
#endif

/* rdma/ib_verbs.h: the DMA handle argument of reg_user_mr() */
#ifdef HAVE_DMAH
#define COMPAT_DMAH_PARAM	struct ib_dmah *dmah,
#define compat_has_dmah		(!!dmah)
#else
#define COMPAT_DMAH_PARAM
#define compat_has_dmah		false
#endif

/* rdma/ib_verbs.h: CQs of user space have their own operation */
#ifndef HAVE_CREATE_USER_CQ
#define create_user_cq		create_cq
#endif

/* rdma/ib_verbs.h: name and type of the resize operation */
#ifdef HAVE_RESIZE_USER_CQ
#define COMPAT_CQE_TYPE		unsigned int
#else
#define COMPAT_CQE_TYPE		int
#define resize_user_cq		resize_cq
#endif

/* rdma/ib_verbs.h: who tells the clients that the port went up or down */
#ifdef HAVE_REPORT_PORT_EVENT
#define COMPAT_CORE_REPORTS_PORT	true
#else
#define COMPAT_CORE_REPORTS_PORT	false
#endif

/* rdma/ib_umem.h: pinned user memory, also named by an ioctl attribute */
#ifdef HAVE_UMEM_GET_VA
static inline struct ib_umem *
compat_umem_get_qp_buf(struct ib_device *device,
		       const struct uverbs_attr_bundle *attrs, u64 addr,
		       size_t size, int access)
{
	return ib_umem_get_attr_or_va(device, attrs,
				      UVERBS_ATTR_CREATE_QP_BUF_UMEM, addr,
				      size, access);
}
#else
static inline struct ib_umem *ib_umem_get_va(struct ib_device *device,
					     unsigned long addr, size_t size,
					     int access)
{
	return ib_umem_get(device, addr, size, access);
}

static inline struct ib_umem *
ib_umem_get_cq_buf_or_va(struct ib_device *device,
			 const struct uverbs_attr_bundle *attrs, u64 addr,
			 size_t size, int access)
{
	return ib_umem_get(device, addr, size, access);
}

static inline struct ib_umem *
compat_umem_get_qp_buf(struct ib_device *device,
		       const struct uverbs_attr_bundle *attrs, u64 addr,
		       size_t size, int access)
{
	return ib_umem_get(device, addr, size, access);
}
#endif

/* rdma/uverbs_ioctl.h: requests may be longer than we know, replies shorter */
#ifndef HAVE_RESPOND_UDATA
static inline int compat_copy_udata_in(struct ib_udata *udata, void *req,
				       size_t size, size_t min_size)
{
	if (udata->inlen < min_size)
		return -EINVAL;
	if (udata->inlen > size &&
	    !ib_is_udata_cleared(udata, size, udata->inlen - size))
		return -EOPNOTSUPP;
	memset(req, 0, size);
	return ib_copy_from_udata(req, udata, min(udata->inlen, size));
}

static inline int compat_respond_udata(struct ib_udata *udata, void *resp,
				       size_t size)
{
	int err;

	err = ib_copy_to_udata(udata, resp, min(udata->outlen, size));
	if (err)
		return err;
	if (udata->outlen > size &&
	    clear_user(udata->outbuf + size, udata->outlen - size))
		return -EFAULT;
	return 0;
}

static inline int ib_is_udata_in_empty(struct ib_udata *udata)
{
	if (!udata || ib_is_udata_cleared(udata, 0, udata->inlen))
		return 0;
	return -EOPNOTSUPP;
}

#define ib_copy_validate_udata_in(udata, req, last)			\
	compat_copy_udata_in(udata, &(req), sizeof(req),		\
			     offsetofend(typeof(req), last))
#define ib_respond_udata(udata, resp)					\
	compat_respond_udata(udata, &(resp), sizeof(resp))
#endif

#endif /* SOFTHCA_COMPAT_H */
