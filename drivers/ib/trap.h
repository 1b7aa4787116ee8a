/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Decoding the instruction that stores to a UAR page (trap_x86.c).
 *
 * Invariant: the decoder is a pure function over bytes; it includes nothing of
 * the kernel but types, so that a unit test can compile it.
 */
#ifndef SHCA_TRAP_H
#define SHCA_TRAP_H

#include <linux/types.h>

#define SHCA_INSN_MAX		15	/* bytes, the architecture's limit */
#define SHCA_REG_NONE		0xff
#define SHCA_REG_IP		0xfe	/* the address behind the instruction */

/**
 * struct shca_store_insn - a plain 8-byte store of a register
 * @len: length of the instruction in bytes
 * @reg: number of the register that is stored, 0 (rax) .. 15
 * @base: number of the base register, SHCA_REG_IP or SHCA_REG_NONE
 * @index: number of the index register or SHCA_REG_NONE
 * @shift: the index is shifted left by so many bits
 * @disp: displacement in bytes
 */
struct shca_store_insn {
	u8 len;
	u8 reg;
	u8 base;
	u8 index;
	u8 shift;
	s32 disp;
};

bool shca_decode_store(const u8 *code, unsigned int avail, struct shca_store_insn *insn);

#endif /* SHCA_TRAP_H */
