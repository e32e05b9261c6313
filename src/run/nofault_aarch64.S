/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guarded accesses for AArch64, see nofault.h and nofault_x86_64.S.  Leaf routines that keep the
 * link register, so `ret` is correct at every instruction that may fault.
 */
	.text

	.macro	entry name
	.globl	\name
	.hidden	\name
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	hint	#34			/* bti c */
	.endm

	.macro	exit name
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.globl	vrb_guard_begin
	.hidden	vrb_guard_begin
vrb_guard_begin:

	entry	vrb_guard_copy_asm
	cmp	x2, #8
	b.lo	3f
	sub	x3, x2, #8		/* all but the last eight bytes */
1:	subs	x3, x3, #16
	b.lo	4f
	ldp	x4, x5, [x1], #16
	stp	x4, x5, [x0], #16
	b	1b
4:	tbz	x3, #3, 5f
	ldr	x4, [x1], #8
	str	x4, [x0], #8
5:	and	x3, x3, #7
2:	cbz	x3, 9f
	ldrb	w4, [x1], #1
	strb	w4, [x0], #1
	sub	x3, x3, #1
	b	2b
9:	ldr	x4, [x1]
	dmb	ish			/* the last eight bytes behind all others */
	str	x4, [x0]
	mov	w0, #0
	ret
3:	tbz	x2, #2, 6f
	ldr	w4, [x1], #4
	dmb	ish			/* behind what was copied before, even in another call */
	str	w4, [x0], #4
6:	tbz	x2, #1, 7f
	ldrh	w4, [x1], #2
	dmb	ish
	strh	w4, [x0], #2
7:	tbz	x2, #0, 8f
	ldrb	w4, [x1]
	dmb	ish
	strb	w4, [x0]
8:	mov	w0, #0
	ret
	exit	vrb_guard_copy_asm

	entry	vrb_guard_store64_asm
	dmb	ish
	str	x1, [x0]
	dmb	ish
	mov	w0, #0
	ret
	exit	vrb_guard_store64_asm

	entry	vrb_guard_cmp_swap64_asm
1:	ldaxr	x4, [x0]
	cmp	x4, x1
	csel	x6, x2, x4, eq		/* stores always: read-only memory is a fault */
	stlxr	w5, x6, [x0]
	cbnz	w5, 1b
	dmb	ish
	str	x4, [x3]
	mov	w0, #0
	ret
	exit	vrb_guard_cmp_swap64_asm

	entry	vrb_guard_fetch_add64_asm
1:	ldaxr	x4, [x0]
	add	x6, x4, x1
	stlxr	w5, x6, [x0]
	cbnz	w5, 1b
	dmb	ish
	str	x4, [x2]
	mov	w0, #0
	ret
	exit	vrb_guard_fetch_add64_asm

	.globl	vrb_guard_end
	.hidden	vrb_guard_end
vrb_guard_end:

	entry	vrb_guard_fault
	mov	w0, #1
	ret
	exit	vrb_guard_fault

	.section .note.GNU-stack, "", %progbits
