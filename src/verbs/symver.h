/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Symbol versions that a version script cannot express: a further version of a symbol, besides its
 * default one.
 *
 * Default versions come from lib/libibverbs.map alone: a function of an exported name, defined
 * plainly, gets the version of the node that lists it. A symbol exported by the macros below must
 * not be listed there, and its node must not hide by "*".
 */
#ifndef VRB_VERBS_SYMVER_H
#define VRB_VERBS_SYMVER_H

#define VRB_EXPORT __attribute__((visibility("default")))

/* An archive has no versions (VRB_ARCHIVE): programs linked with it find only the plain names. */
#ifdef VRB_ARCHIVE
#define VRB_SYMVER(fn, name, node) VRB_EXPORT extern __typeof__(fn) fn
#define VRB_SYMVER_PRIVATE(fn) VRB_EXPORT extern __typeof__(fn) fn
#else

/* Exports `fn` as name@node, which only programs linked against that version find. */
#define VRB_SYMVER(fn, name, node) __asm__(".symver " #fn ", " #name "@" #node)

/*
 * Exports `fn` as IBVERBS_PRIVATE_34, the default, and under the later names of that node. Place it
 * between declaration and definition of the function in the same file. It renames the function: the
 * linker drops a plain symbol that has versioned twins.
 */
#define VRB_SYMVER_PRIVATE(fn)                                                                     \
	extern __typeof__(fn) fn __asm__("vrb_private_" #fn);                                      \
	__asm__(".symver vrb_private_" #fn ", " #fn "@@IBVERBS_PRIVATE_34");                       \
	VRB_SYMVER(vrb_private_##fn, fn, IBVERBS_PRIVATE_57);                                      \
	VRB_SYMVER(vrb_private_##fn, fn, IBVERBS_PRIVATE_59);                                      \
	VRB_SYMVER(vrb_private_##fn, fn, IBVERBS_PRIVATE_64);                                      \
	VRB_SYMVER(vrb_private_##fn, fn, IBVERBS_PRIVATE_65)

#endif
#endif
