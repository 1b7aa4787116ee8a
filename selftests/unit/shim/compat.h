/* SPDX-License-Identifier: GPL-2.0 */
/* Userspace has no older kernel to be compatible with. */
