// SPDX-License-Identifier: GPL-2.0
/*
 * Bring-up and registration of a device, and the verbs without an object of their
 * own: the twin of main.c and of core/main.c.
 *
 * Invariants:
 *  - What user space is told of limits and abilities comes from QUERY_HCA_CAP.
 *  - Everything is torn down in the reverse order of its creation, by the unwinding
 *    of shca_add() before the registration, by shca_dealloc_driver() after it.
 *  - The platform device outlives the engine, and the engine every queue.
 */
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/mlx5/qp.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/uverbs_std_types.h>

#include "shca.h"

#define UVERBS_MODULE_NAME shca_main
#include <rdma/uverbs_named_ioctl.h>

#define SHCA_VENDOR_ID		0x02c9
#define SHCA_CONNECTX7		4129

/* The firmware that the engine is. */
#define SHCA_FW_MAJOR		28
#define SHCA_FW_MINOR		0
#define SHCA_FW_SUBMINOR	1

#define SHCA_NODE_DESC		"softhca"
#define SHCA_PKEY_DEFAULT	0xffff

static unsigned int vendor_part_id = SHCA_CONNECTX7;
module_param(vendor_part_id, uint, 0444);
MODULE_PARM_DESC(vendor_part_id, "device id to report (default 4129, ConnectX-7)");

static bool shca_has_atomics(struct shca_dev *dev)
{
	const u32 ops = MLX5_ATOMIC_OPS_CMP_SWAP | MLX5_ATOMIC_OPS_FETCH_ADD;

	return SHCA_CAP_GEN(dev, atomic) &&
	       (SHCA_CAP_ATOMIC(dev, atomic_operations) & ops) == ops &&
	       SHCA_CAP_ATOMIC(dev, atomic_size_qp) & MLX5_ATOMIC_CAPS_ATOMIC_SIZE_QP_8_BYTES;
}

static int shca_query_device(struct ib_device *ibdev, struct ib_device_attr *props,
			     struct ib_udata *uhw)
{
	struct mlx5_ib_query_device_resp resp = {};
	struct shca_dev *dev = to_sdev(ibdev);
	u32 max_sq_desc;
	int err;

	if (uhw && uhw->outlen &&
	    uhw->outlen < offsetofend(struct mlx5_ib_query_device_resp, response_length))
		return -EINVAL;
	err = ib_is_udata_in_empty(uhw);
	if (err)
		return err;

	props->fw_ver = (u64)SHCA_FW_MAJOR << 32 | SHCA_FW_MINOR << 16 | SHCA_FW_SUBMINOR;
	props->sys_image_guid = dev->sys_image_guid;
	props->vendor_id = SHCA_VENDOR_ID;
	props->vendor_part_id = vendor_part_id;
	props->device_cap_flags = IB_DEVICE_PORT_ACTIVE_EVENT | IB_DEVICE_SYS_IMAGE_GUID |
				  IB_DEVICE_RC_RNR_NAK_GEN;
	props->kernel_cap_flags = IBK_ALLOW_USER_UNREG;
	props->max_mr_size = ~0ull;
	props->page_size_cap = ~(BIT_ULL(SHCA_CAP_GEN(dev, log_pg_sz)) - 1);
	props->max_pkeys = 1;
	props->max_qp = BIT(SHCA_CAP_GEN(dev, log_max_qp));
	/*
	 * libmlx5 reserves 4 blocks for the smallest send request of an RC QP: room
	 * for the segments of a UMR (libmlx5-abi 6.1).
	 */
	props->max_qp_wr = BIT(SHCA_CAP_GEN(dev, log_max_qp_sz)) / 4;
	max_sq_desc = min_t(u32, SHCA_CAP_GEN(dev, max_wqe_sz_sq), 512);
	props->max_send_sge = (max_sq_desc - sizeof(struct mlx5_wqe_ctrl_seg) -
			       sizeof(struct mlx5_wqe_raddr_seg)) /
			      sizeof(struct mlx5_wqe_data_seg);
	props->max_recv_sge = SHCA_CAP_GEN(dev, max_wqe_sz_rq) / sizeof(struct mlx5_wqe_data_seg);
	props->max_sge_rd = props->max_send_sge;
	props->max_cq = BIT(SHCA_CAP_GEN(dev, log_max_cq));
	props->max_cqe = BIT(SHCA_CAP_GEN(dev, log_max_cq_sz)) - 1;
	props->max_mr = BIT(SHCA_CAP_GEN(dev, log_max_mkey));
	if (SHCA_CAP_GEN(dev, imaicl)) {
		/* Never type 2A beside 2B (HM 10.1). */
		props->device_cap_flags |= IB_DEVICE_MEM_WINDOW | IB_DEVICE_MEM_WINDOW_TYPE_2B;
		props->max_mw = props->max_mr;
	}
	props->max_pd = BIT(SHCA_CAP_GEN(dev, log_max_pd));
	props->max_ah = INT_MAX;
	if (SHCA_CAP_DEV_MEM(dev, memic))
		props->max_dm_size = SHCA_CAP_DEV_MEM(dev, max_memic_size);
	props->max_qp_rd_atom = BIT(SHCA_CAP_GEN(dev, log_max_ra_req_qp));
	props->max_qp_init_rd_atom = BIT(SHCA_CAP_GEN(dev, log_max_ra_res_qp));
	props->max_res_rd_atom = props->max_qp_rd_atom * props->max_qp;
	props->atomic_cap = shca_has_atomics(dev) ? IB_ATOMIC_HCA : IB_ATOMIC_NONE;
	props->masked_atomic_cap = IB_ATOMIC_NONE;
	if (dev->odp_caps.general_caps & IB_ODP_SUPPORT)
		props->kernel_cap_flags |= IBK_ON_DEMAND_PAGING;
	props->odp_caps = dev->odp_caps;

	if (!uhw || !uhw->outlen)
		return 0;
	/* All zero: none of the offloads that it describes is offered (libmlx5-abi 3.1). */
	resp.response_length = min(uhw->outlen, sizeof(resp));
	return ib_respond_udata(uhw, resp);
}

static int shca_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *props)
{
	struct shca_dev *dev = to_sdev(ibdev);
	struct net_device *ndev;

	props->max_mtu = IB_MTU_4096;
	/*
	 * A segment of 2^31 bytes would be taken for inline data (libmlx5 stores the
	 * length as it is), so the port promises half of what a message may have.
	 */
	props->max_msg_sz = BIT(SHCA_CAP_GEN(dev, log_max_msg) - 1);
	props->gid_tbl_len = SHCA_CAP_ROCE(dev, roce_address_table_size);
	props->pkey_tbl_len = 1;
	props->port_cap_flags = IB_PORT_CM_SUP;
	props->ip_gids = true;
	/* Memory has no line rate: what a ConnectX-7 with 200 Gb/s would say. */
	props->active_width = IB_WIDTH_4X;
	props->active_speed = IB_SPEED_HDR;
	props->state = IB_PORT_DOWN;
	props->phys_state = IB_PORT_PHYS_STATE_DISABLED;
	props->active_mtu = IB_MTU_4096;

	ndev = ib_device_get_netdev(ibdev, port);
	if (!ndev)
		return 0;
	if (netif_running(ndev) && netif_carrier_ok(ndev)) {
		props->state = IB_PORT_ACTIVE;
		props->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	}
	props->active_mtu = min(props->max_mtu, iboe_get_mtu(ndev->mtu));
	dev_put(ndev);
	return 0;
}

static int shca_get_port_immutable(struct ib_device *ibdev, u32 port,
				   struct ib_port_immutable *immutable)
{
	struct shca_dev *dev = to_sdev(ibdev);

	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	immutable->gid_tbl_len = SHCA_CAP_ROCE(dev, roce_address_table_size);
	immutable->pkey_tbl_len = 1;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static enum rdma_link_layer shca_get_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static int shca_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = SHCA_PKEY_DEFAULT;
	return 0;
}

static void shca_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "%d.%d.%04d", SHCA_FW_MAJOR, SHCA_FW_MINOR,
		 SHCA_FW_SUBMINOR);
}

static int shca_add_gid(const struct ib_gid_attr *attr, void **context)
{
	u8 l3_type = ipv6_addr_v4mapped((const struct in6_addr *)&attr->gid) ?
		     MLX5_ROCE_L3_TYPE_IPV4 : MLX5_ROCE_L3_TYPE_IPV6;
	u8 mac[ETH_ALEN];
	int err;

	err = rdma_read_gid_l2_fields(attr, NULL, mac);
	if (err)
		return err;
	return shca_cmd_roce_gid_set(to_sdev(attr->device), attr->index, MLX5_ROCE_VERSION_2,
				     l3_type, attr->gid.raw, mac);
}

static int shca_del_gid(const struct ib_gid_attr *attr, void **context)
{
	return shca_cmd_roce_gid_set(to_sdev(attr->device), attr->index, 0, 0, NULL, NULL);
}

static void shca_set_ucontext_resp(struct shca_dev *dev, struct shca_ucontext *context,
				   struct mlx5_ib_alloc_ucontext_resp *resp)
{
	if (SHCA_CAP_GEN(dev, dump_fill_mkey)) {
		resp->dump_fill_mkey = dev->mkeys.dump_fill_mkey;
		resp->comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY;
	}
	resp->qp_tab_size = BIT(SHCA_CAP_GEN(dev, log_max_qp));
	resp->cache_line_size = cache_line_size();
	resp->max_sq_desc_sz = SHCA_CAP_GEN(dev, max_wqe_sz_sq);
	resp->max_rq_desc_sz = SHCA_CAP_GEN(dev, max_wqe_sz_rq);
	resp->max_send_wqebb = BIT(SHCA_CAP_GEN(dev, log_max_qp_sz));
	resp->max_recv_wr = BIT(SHCA_CAP_GEN(dev, log_max_qp_sz));
	resp->num_ports = 1;
	resp->cqe_version = context->cqe_version;
	resp->cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE |
			      MLX5_USER_CMDS_SUPP_UHW_CREATE_AH;
	resp->eth_min_inline = MLX5_USER_INLINE_MODE_NONE;
	/* A UAR is one page; bf_reg_size and tot_bfregs stay 0: no BlueFlame, no static UARs. */
	resp->log_uar_size = PAGE_SHIFT;
	resp->num_uars_per_page = 1;
}

static int shca_alloc_ucontext(struct ib_ucontext *uctx, struct ib_udata *udata)
{
	struct shca_ucontext *context = to_sucontext(uctx);
	struct mlx5_ib_alloc_ucontext_resp resp = {};
	struct mlx5_ib_alloc_ucontext_req_v2 req;
	struct shca_dev *dev = to_sdev(uctx->device);
	int err;

	/* The first version of the request is the beginning of the second. */
	err = ib_copy_validate_udata_in(udata, req, num_low_latency_bfregs);
	if (err)
		return err;
	if (req.flags & ~MLX5_IB_ALLOC_UCTX_DEVX)
		return -EOPNOTSUPP;
	if (req.comp_mask || req.reserved0 || req.reserved1 || req.reserved2)
		return -EOPNOTSUPP;
	if (!(req.lib_caps & MLX5_LIB_CAP_DYN_UAR))
		return -EOPNOTSUPP;
	context->cqe_version = min_t(u8, SHCA_CAP_GEN(dev, cqe_version), req.max_cqe_version);
	/* Without user indices in the CQE the library would look QPs up by other rules. */
	if (!context->cqe_version)
		return -EOPNOTSUPP;

	if (req.flags & MLX5_IB_ALLOC_UCTX_DEVX) {
		if (!SHCA_CAP_GEN(dev, log_max_uctx))
			return -EINVAL;
		err = shca_cmd_create_uctx(dev, &context->devx_uid);
		if (err)
			return err;
	}

	xa_init(&context->uars);
	INIT_LIST_HEAD(&context->db_page_list);
	mutex_init(&context->db_page_mutex);
	err = shca_cmd_alloc_transport_domain(dev, context->devx_uid, &context->tdn);
	if (err)
		goto destroy_uctx;

	shca_set_ucontext_resp(dev, context, &resp);
	resp.response_length = min(udata->outlen, sizeof(resp));
	err = ib_respond_udata(udata, resp);
	if (err)
		goto dealloc_td;
	return 0;

dealloc_td:
	shca_cmd_dealloc_transport_domain(dev, context->devx_uid, context->tdn);
destroy_uctx:
	if (context->devx_uid)
		shca_cmd_destroy_uctx(dev, context->devx_uid);
	return err;
}

static void shca_dealloc_ucontext(struct ib_ucontext *uctx)
{
	struct shca_ucontext *context = to_sucontext(uctx);
	struct shca_dev *dev = to_sdev(uctx->device);

	shca_cmd_dealloc_transport_domain(dev, context->devx_uid, context->tdn);
	if (context->devx_uid)
		shca_cmd_destroy_uctx(dev, context->devx_uid);
	WARN_ON(!xa_empty(&context->uars));
	WARN_ON(!list_empty(&context->db_page_list));
}

/* Also frees the memory that it stood for. */
static void shca_mmap_free(struct rdma_user_mmap_entry *rdma_entry)
{
	struct shca_user_mmap_entry *mentry = to_smmap(rdma_entry);

	if (mentry->mmap_flag == SHCA_MMAP_TYPE_UAR)
		shca_uar_mmap_free(mentry);
	else
		shca_dm_mmap_free(mentry);
}

/* mmap_lock held for write. Unknown offsets are also those of libmlx5's static mode. */
static int shca_mmap(struct ib_ucontext *ibcontext, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma_entry;
	struct shca_user_mmap_entry *mentry;
	int err;

	if (!(vma->vm_flags & VM_SHARED))
		return -EPERM;
	rdma_entry = rdma_user_mmap_entry_get(ibcontext, vma);
	if (!rdma_entry)
		return -EINVAL;

	mentry = to_smmap(rdma_entry);
	if (mentry->mmap_flag == SHCA_MMAP_TYPE_UAR)
		err = shca_uar_mmap(mentry, vma);
	else
		err = shca_dm_mmap(ibcontext, mentry, vma);
	rdma_user_mmap_entry_put(rdma_entry);
	return err;
}

static int shca_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct shca_ucontext *context =
		rdma_udata_to_drv_context(udata, struct shca_ucontext, ibucontext);
	struct shca_dev *dev = to_sdev(ibpd->device);
	struct mlx5_ib_alloc_pd_resp resp = {};
	struct shca_pd *pd = to_spd(ibpd);
	int err;

	err = ib_is_udata_in_empty(udata);
	if (err)
		return err;
	pd->uid = context ? context->devx_uid : 0;
	err = shca_cmd_alloc_pd(dev, pd->uid, &pd->pdn);
	if (err || !udata)
		return err;

	resp.pdn = pd->pdn;
	err = ib_respond_udata(udata, resp);
	if (err)
		shca_cmd_dealloc_pd(dev, pd->uid, pd->pdn);
	return err;
}

static int shca_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct shca_pd *pd = to_spd(ibpd);

	return shca_cmd_dealloc_pd(to_sdev(ibpd->device), pd->uid, pd->pdn);
}

/* All of on-demand paging that the HCA offers, which is off until asked for (HM 6.2). */
static int handle_hca_cap_odp(struct shca_dev *dev)
{
	int err;

	if (!SHCA_CAP_GEN(dev, pg))
		return 0;
	err = shca_cmd_query_hca_cap(dev, MLX5_CAP_ODP, dev->caps.odp);
	if (err)
		return err;
	return shca_cmd_set_hca_cap(dev, MLX5_CAP_ODP, dev->caps.odp);
}

static int shca_query_caps(struct shca_dev *dev)
{
	int err;

	err = shca_cmd_query_hca_cap(dev, MLX5_CAP_GENERAL, dev->caps.general);
	if (err)
		return err;
	if (SHCA_CAP_GEN(dev, hca_cap_2)) {
		err = shca_cmd_query_hca_cap(dev, MLX5_CAP_GENERAL_2, dev->caps.general_2);
		if (err)
			return err;
	}
	if (SHCA_CAP_GEN(dev, atomic)) {
		err = shca_cmd_query_hca_cap(dev, MLX5_CAP_ATOMIC, dev->caps.atomic);
		if (err)
			return err;
	}
	err = handle_hca_cap_odp(dev);
	if (err)
		return err;
	if (SHCA_CAP_GEN(dev, device_memory)) {
		err = shca_cmd_query_hca_cap(dev, MLX5_CAP_DEV_MEM, dev->caps.device_mem);
		if (err)
			return err;
	}
	return shca_cmd_query_hca_cap(dev, MLX5_CAP_ROCE, dev->caps.roce);
}

/* From power-on to a working HCA: mlx5_function_setup() of core/main.c. */
static int shca_function_setup(struct shca_dev *dev)
{
	int err;

	err = shca_cmd_enable_hca(dev);
	if (err)
		return err;
	err = shca_cmd_set_issi(dev);
	if (err)
		goto disable_hca;
	err = shca_satisfy_startup_pages(dev, true);
	if (err)
		goto disable_hca;
	err = shca_query_caps(dev);
	if (err)
		goto reclaim_pages;
	err = shca_satisfy_startup_pages(dev, false);
	if (err)
		goto reclaim_pages;
	err = shca_cmd_init_hca(dev);
	if (err)
		goto reclaim_pages;
	err = shca_cmd_query_special_mkeys(dev);
	if (err)
		goto teardown_hca;
	return 0;

teardown_hca:
	shca_cmd_teardown_hca(dev);
reclaim_pages:
	shca_reclaim_startup_pages(dev);
disable_hca:
	shca_cmd_disable_hca(dev);
	return err;
}

static void shca_function_teardown(struct shca_dev *dev)
{
	shca_cmd_teardown_hca(dev);
	shca_reclaim_startup_pages(dev);
	shca_cmd_disable_hca(dev);
}

/* What needs an interrupt or a UAR: mlx5_load() of core/main.c. */
static int shca_load(struct shca_dev *dev)
{
	int err;

	err = shca_cmd_alloc_uar(dev, 0, &dev->uar_id);
	if (err)
		return err;
	err = shca_eq_table_create(dev);
	if (err)
		goto dealloc_uar;
	err = shca_umr_init(dev);
	if (err)
		goto destroy_eqs;
	err = shca_frmr_pools_init(dev);
	if (err)
		goto cleanup_umr;
	shca_odp_init_one(dev);
	return 0;

cleanup_umr:
	shca_umr_cleanup(dev);
destroy_eqs:
	shca_eq_table_destroy(dev);
dealloc_uar:
	shca_cmd_dealloc_uar(dev, 0, dev->uar_id);
	return err;
}

static void shca_unload(struct shca_dev *dev)
{
	shca_odp_destroy_eq(dev);
	shca_frmr_pools_cleanup(dev);
	shca_umr_cleanup(dev);
	shca_eq_table_destroy(dev);
	shca_cmd_dealloc_uar(dev, 0, dev->uar_id);
}

static int shca_create_parent(struct shca_dev *dev)
{
	const struct platform_device_info info = {
		.name = SHCA_DEV_NAME,
		.id = PLATFORM_DEVID_AUTO,
		.dma_mask = DMA_BIT_MASK(64),
	};
	int err;

	dev->pdev = platform_device_register_full(&info);
	if (IS_ERR(dev->pdev))
		return PTR_ERR(dev->pdev);

	/* Not only the mask: this call finds out that no mapping needs a sync. */
	err = dma_set_mask_and_coherent(&dev->pdev->dev, DMA_BIT_MASK(64));
	if (!err) {
		dma_set_max_seg_size(&dev->pdev->dev, UINT_MAX);
		err = shca_bus_selftest(dev);
	}
	if (err) {
		dev_err(&dev->pdev->dev, "DMA addresses are not memory addresses here (%d)\n",
			err);
		platform_device_unregister(dev->pdev);
	}
	return err;
}

static int shca_power_on(struct shca_dev *dev)
{
	int err;

	err = shca_create_parent(dev);
	if (err)
		return err;
	dev->wq = alloc_workqueue("softhca", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!dev->wq) {
		err = -ENOMEM;
		goto unregister_parent;
	}
	shca_pagealloc_init(dev);
	dev->hca = hca_create(&shca_host_ops, dev);
	if (!dev->hca) {
		err = -ENOMEM;
		goto destroy_wq;
	}
	err = shca_function_setup(dev);
	if (err)
		goto destroy_hca;
	err = shca_load(dev);
	if (err)
		goto teardown_function;
	return 0;

teardown_function:
	shca_function_teardown(dev);
destroy_hca:
	hca_destroy(dev->hca);
	shca_pagealloc_cleanup(dev);
destroy_wq:
	destroy_workqueue(dev->wq);
unregister_parent:
	platform_device_unregister(dev->pdev);
	return err;
}

static void shca_power_off(struct shca_dev *dev)
{
	shca_unload(dev);
	/* A page request may still be in the queue. */
	flush_workqueue(dev->wq);
	shca_function_teardown(dev);
	hca_destroy(dev->hca);
	shca_pagealloc_cleanup(dev);
	destroy_workqueue(dev->wq);
	platform_device_unregister(dev->pdev);
}

static void shca_dealloc_driver(struct ib_device *ibdev)
{
	struct shca_dev *dev = to_sdev(ibdev);

	shca_power_off(dev);
	WARN_ON(!xa_empty(&dev->cqs));
	WARN_ON(!xa_empty(&dev->qps));
	WARN_ON(!xa_empty(&dev->odp_mkeys));
	shca_dev_list_del(dev);
}

static const struct uapi_definition shca_defs[] = {
	UAPI_DEF_CHAIN(shca_uar_defs),
	UAPI_DEF_CHAIN(shca_create_cq_defs),
	UAPI_DEF_CHAIN(shca_devx_defs),
	UAPI_DEF_CHAIN(shca_dm_defs),
	UAPI_DEF_CHAIN(shca_dmabuf_defs),
	UAPI_DEF_CHAIN(shca_explain_defs),
	{}
};

static const struct ib_device_ops shca_dev_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_MLX5,
	.uverbs_abi_ver = MLX5_IB_UVERBS_ABI_VERSION,

	.add_gid = shca_add_gid,
	.advise_mr = shca_advise_mr,
	.alloc_mw = shca_alloc_mw,
	.alloc_pd = shca_alloc_pd,
	.alloc_ucontext = shca_alloc_ucontext,
	.create_user_ah = shca_create_ah,
	.create_qp = shca_create_qp,
	.create_user_cq = shca_create_user_cq,
	.dealloc_driver = shca_dealloc_driver,
	.dealloc_mw = shca_dealloc_mw,
	.dealloc_pd = shca_dealloc_pd,
	.dealloc_ucontext = shca_dealloc_ucontext,
	.del_gid = shca_del_gid,
	.dereg_mr = shca_dereg_mr,
	.destroy_ah = shca_destroy_ah,
	.destroy_cq = shca_destroy_cq,
	.destroy_qp = shca_destroy_qp,
	.disassociate_ucontext = shca_disassociate_ucontext,
	.get_dev_fw_str = shca_get_dev_fw_str,
	.get_link_layer = shca_get_link_layer,
	.get_port_immutable = shca_get_port_immutable,
	.mmap = shca_mmap,
	.mmap_free = shca_mmap_free,
	.modify_qp = shca_modify_qp,
	.query_device = shca_query_device,
	.query_pkey = shca_query_pkey,
	.query_port = shca_query_port,
	.query_qp = shca_query_qp,
	.reg_user_mr = shca_reg_user_mr,
	.reg_user_mr_dmabuf = shca_reg_user_mr_dmabuf,
	.rereg_user_mr = shca_rereg_user_mr,
	.resize_user_cq = shca_resize_cq,

	INIT_RDMA_OBJ_SIZE(ib_ah, shca_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, shca_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, shca_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, shca_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, shca_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, shca_ucontext, ibucontext),
};

/**
 * shca_add() - create and register a device
 * @ndev: Ethernet interface whose addresses become its GIDs
 * @name: name of the device, not a pattern
 *
 * Context: process, without RTNL.
 * Return: 0, -EOPNOTSUPP on a machine whose DMA addresses are not those of the
 * memory, or an errno. After success the device can already be gone.
 */
int shca_add(struct net_device *ndev, const char *name)
{
	struct shca_dev *dev;
	int err;

	dev = ib_alloc_device(shca_dev, ib_dev);
	if (!dev)
		return -ENOMEM;
	xa_init_flags(&dev->cqs, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->qps, XA_FLAGS_LOCK_IRQ);
	mutex_init(&dev->slow_path_mutex);
	dev->ndev = ndev;
	dev->ib_dev.num_comp_vectors = min_t(unsigned int, num_online_cpus(),
					     SHCA_MAX_COMP_VECTORS);

	err = shca_power_on(dev);
	if (err)
		goto dealloc_device;

	dev->ib_dev.dev.parent = &dev->pdev->dev;
	dev->ib_dev.node_type = RDMA_NODE_IB_CA;
	dev->ib_dev.phys_port_cnt = 1;
	dev->ib_dev.driver_def = shca_defs;
	strscpy(dev->ib_dev.node_desc, SHCA_NODE_DESC, sizeof(dev->ib_dev.node_desc));
	addrconf_addr_eui48((u8 *)&dev->sys_image_guid, ndev->dev_addr);
	dev->ib_dev.node_guid = dev->sys_image_guid;
	ib_set_device_ops(&dev->ib_dev, &shca_dev_ops);
	shca_dm_init(dev);
	shca_restrack_init(dev);
	shca_counters_init(dev);
	shca_dev_list_add(dev);

	/* From here on ib_dealloc_device() does all the rest, through shca_dealloc_driver(). */
	err = ib_device_set_netdev(&dev->ib_dev, ndev, 1);
	if (err)
		goto dealloc_device;
	ib_mark_name_assigned_by_user(&dev->ib_dev);
	err = ib_register_device(&dev->ib_dev, name, &dev->pdev->dev);
	if (err)
		goto dealloc_device;
	return 0;

dealloc_device:
	ib_dealloc_device(&dev->ib_dev);
	return err;
}
