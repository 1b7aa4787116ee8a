/* SPDX-License-Identifier: GPL-2.0 */
/* Userspace has no older kernel to be compatible with. */
#define compat_set_max_fixed_buffer(cap, log) \
	MLX5_SET(cmd_hca_cap_2, cap, max_mkey_log_entity_size_fixed_buffer, log)
