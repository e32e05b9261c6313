/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guarded accesses for x86-64, see nofault.h.  Leaf routines without a stack frame: `ret` is
 * correct at every instruction that may fault, so all routines share one fault exit of two
 * instructions.
 *
 *	int guard_copy(void *dst, const void *src, size_t len)			0, or 1 on a fault
 *	int guard_copy_past(void *dst, const void *src, size_t len)		the same
 *	int guard_store64(uint64_t *p, uint64_t value)
 *	int guard_cmp_swap64(uint64_t *p, uint64_t cmp, uint64_t swap, uint64_t *orig)
 *		orig is on the caller's stack
 *	int guard_fetch_add64(uint64_t *p, uint64_t add, uint64_t *orig)
 */
	.text

	.macro	entry name
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	endbr64
	.endm

	.macro	exit name
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.globl	vrb_guard_begin
	.hidden	vrb_guard_begin
vrb_guard_begin:

	entry	vrb_guard_copy_asm
	cmpq	$8, %rdx
	jb	3f
	movq	%rdx, %rcx
	subq	$8, %rcx		/* all but the last eight bytes */
	cmpq	$1024, %rcx
	jae	2f
1:	subq	$16, %rcx
	jb	4f
	movups	(%rsi), %xmm0
	movups	%xmm0, (%rdi)
	addq	$16, %rsi
	addq	$16, %rdi
	jmp	1b
4:	testb	$8, %cl			/* -16..-1: the low bits give the remainder */
	jz	5f
	movq	(%rsi), %rax
	movq	%rax, (%rdi)
	addq	$8, %rsi
	addq	$8, %rdi
5:	testb	$4, %cl
	jz	9f
	movl	(%rsi), %eax
	movl	%eax, (%rdi)
	addq	$4, %rsi
	addq	$4, %rdi
9:	testb	$2, %cl
	jz	9f
	movzwl	(%rsi), %eax
	movw	%ax, (%rdi)
	addq	$2, %rsi
	addq	$2, %rdi
9:	testb	$1, %cl
	jz	9f
	movsb
	jmp	9f
2:	rep movsb
9:	movq	(%rsi), %rax		/* a normal store is ordered after rep movsb */
	movq	%rax, (%rdi)
	xorl	%eax, %eax
	ret
3:	testb	$4, %dl
	jz	6f
	movl	(%rsi), %eax
	movl	%eax, (%rdi)
	addq	$4, %rsi
	addq	$4, %rdi
6:	testb	$2, %dl
	jz	7f
	movzwl	(%rsi), %eax
	movw	%ax, (%rdi)
	addq	$2, %rsi
	addq	$2, %rdi
7:	testb	$1, %dl
	jz	8f
	movzbl	(%rsi), %eax
	movb	%al, (%rdi)
8:	xorl	%eax, %eax
	ret
	exit	vrb_guard_copy_asm

	/* 32 bytes or more */
	entry	vrb_guard_copy_past_asm
	subq	$8, %rdx		/* all but the last eight bytes */
	movups	(%rsi), %xmm0
	movups	%xmm0, (%rdi)
	movl	%edi, %ecx		/* some of these 16 again, so that stores are aligned */
	negl	%ecx
	andl	$15, %ecx
	addq	%rcx, %rdi
	addq	%rcx, %rsi
	subq	%rcx, %rdx
1:	subq	$64, %rdx
	jb	2f
	movups	(%rsi), %xmm0
	movups	16(%rsi), %xmm1
	movups	32(%rsi), %xmm2
	movups	48(%rsi), %xmm3
	movntdq	%xmm0, (%rdi)
	movntdq	%xmm1, 16(%rdi)
	movntdq	%xmm2, 32(%rdi)
	movntdq	%xmm3, 48(%rdi)
	addq	$64, %rsi
	addq	$64, %rdi
	jmp	1b
2:	leaq	64(%rdx), %rcx
	rep movsb
	sfence				/* the last eight bytes behind all others */
	movq	(%rsi), %rax
	movq	%rax, (%rdi)
	xorl	%eax, %eax
	ret
	exit	vrb_guard_copy_past_asm

	entry	vrb_guard_store64_asm
	xchgq	%rsi, (%rdi)
	xorl	%eax, %eax
	ret
	exit	vrb_guard_store64_asm

	entry	vrb_guard_cmp_swap64_asm
	movq	%rsi, %rax
	lock cmpxchgq %rdx, (%rdi)
	movq	%rax, (%rcx)
	xorl	%eax, %eax
	ret
	exit	vrb_guard_cmp_swap64_asm

	entry	vrb_guard_fetch_add64_asm
	lock xaddq %rsi, (%rdi)
	movq	%rsi, (%rdx)
	xorl	%eax, %eax
	ret
	exit	vrb_guard_fetch_add64_asm

	.globl	vrb_guard_end
	.hidden	vrb_guard_end
vrb_guard_end:

	entry	vrb_guard_fault
	movl	$1, %eax
	ret
	exit	vrb_guard_fault

	.section .note.GNU-stack, "", @progbits
