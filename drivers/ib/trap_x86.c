// SPDX-License-Identifier: GPL-2.0
/*
 * The instruction decoder of the doorbell trap (doorbells.md).
 *
 * Invariants:
 *  - Exactly one form is accepted: REX.W 89 /r, mov %r64 -> memory, without any
 *    other prefix, in 64-bit mode. It is what a compiler makes of libmlx5's
 *    64-bit MMIO write. Whatever else a program uses is refused, never guessed.
 *  - No byte beyond @avail is read.
 */
#include "trap.h"

#define REX_W_MASK	0xf8
#define REX_W		0x48
#define REX_R		0x04
#define REX_X		0x02
#define REX_B		0x01
#define OPCODE_MOV_STORE 0x89

#define MODRM_RM_SIB	4	/* a SIB byte follows */
#define MODRM_RM_DISP32	5	/* with mod 0: RIP-relative */
#define SIB_NO_INDEX	4
#define SIB_NO_BASE	5	/* with mod 0: disp32 alone */

/**
 * shca_decode_store() - decode a store of a 64-bit register to memory
 * @code: instruction bytes, as fetched from the program
 * @avail: how many of them are valid
 * @insn: filled in on success
 *
 * Context: any.
 * Return: true if it is such a store, and complete within @avail bytes.
 */
bool shca_decode_store(const u8 *code, unsigned int avail, struct shca_store_insn *insn)
{
	unsigned int pos = 3, disp_len, i;
	u8 rex, mod, rm, sib;
	u32 disp = 0;

	if (avail < pos)
		return false;
	rex = code[0];
	if ((rex & REX_W_MASK) != REX_W || code[1] != OPCODE_MOV_STORE)
		return false;

	mod = code[2] >> 6;
	rm = code[2] & 7;
	if (mod == 3)
		return false;

	insn->reg = (code[2] >> 3 & 7) | (rex & REX_R ? 8 : 0);
	insn->index = SHCA_REG_NONE;
	insn->shift = 0;
	disp_len = mod == 1 ? 1 : mod == 2 ? 4 : 0;

	if (rm == MODRM_RM_SIB) {
		if (avail <= pos)
			return false;
		sib = code[pos++];
		rm = sib & 7;
		if ((sib >> 3 & 7) != SIB_NO_INDEX || rex & REX_X) {
			insn->index = (sib >> 3 & 7) | (rex & REX_X ? 8 : 0);
			insn->shift = sib >> 6;
		}
		if (rm == SIB_NO_BASE && mod == 0) {
			insn->base = SHCA_REG_NONE;
			disp_len = 4;
		} else {
			insn->base = rm | (rex & REX_B ? 8 : 0);
		}
	} else if (rm == MODRM_RM_DISP32 && mod == 0) {
		insn->base = SHCA_REG_IP;
		disp_len = 4;
	} else {
		insn->base = rm | (rex & REX_B ? 8 : 0);
	}

	if (avail < pos + disp_len)
		return false;
	for (i = 0; i < disp_len; i++)
		disp |= (u32)code[pos + i] << (8 * i);
	insn->disp = disp_len == 1 ? (s8)disp : (s32)disp;
	insn->len = pos + disp_len;
	return true;
}
