#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# detect.sh KERNEL-HEADERS: prints a -DHAVE_* flag for each kernel API that these headers offer.
#
# It reads the headers instead of the version, because distributions backport APIs into stable kernels.
# Guarantees: it fails where the RDMA headers are missing, so that it never takes "not found" for "not offered".
# What the kernels of the guest offer is on record in detect.expected; `make lint` compares.
set -eu

include=$1/include
[ -f "$include/rdma/ib_verbs.h" ] || {
	echo "detect.sh: no include/rdma/ib_verbs.h in $1" >&2
	exit 1
}

# have FLAG HEADER REGEX: REGEX is matched against the header with every run of white space made one blank,
# so a prototype may span lines
have() {
	[ -f "$include/$2" ] || return 0
	if tr -s '\n\t ' '   ' <"$include/$2" | grep -qE "$3"; then
		printf ' -DHAVE_%s' "$1"
	fi
}

have IMPORT_NS_STRING linux/module.h 'define MODULE_IMPORT_NS\(ns\) MODULE_INFO\(import_ns, ns\)'
have WQ_PERCPU linux/workqueue.h 'WQ_PERCPU ='
have HRTIMER_SETUP linux/hrtimer.h 'void hrtimer_setup\('
have FAUX linux/device/faux.h 'faux_device_create\('
have DMABUF_INVALIDATE linux/dma-buf.h '\(\*invalidate_mappings\)'
have DMAH rdma/ib_verbs.h 'struct ib_dmah \{'
have CREATE_USER_CQ rdma/ib_verbs.h '\(\*create_user_cq\)'
have RESIZE_USER_CQ rdma/ib_verbs.h '\(\*resize_user_cq\)'
have DMABUF_MR_ATTRS rdma/ib_verbs.h '\(\*reg_user_mr_dmabuf\)\([^;]*uverbs_attr_bundle \*attrs\);'
have REPORT_PORT_EVENT rdma/ib_verbs.h '\(\*report_port_event\)'
have UMEM_GET_VA rdma/ib_umem.h 'ib_umem_get_va\('
have HMM_DMA rdma/ib_umem_odp.h 'struct hmm_dma_map'
have HMM_UNLOCKED linux/hmm.h 'hmm_range_fault_unlocked_timeout\('
have FRMR rdma/frmr_pools.h 'ib_frmr_pool_pop\('
have RESPOND_UDATA rdma/uverbs_ioctl.h 'define ib_respond_udata'
have DELLINK rdma/rdma_netlink.h '\(\*dellink\)'
echo
