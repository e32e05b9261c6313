/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs as tap points of core/base/tap.h: TAP_POINTER(alloc_pd, context) returns alloc_pd(context),
 * a function of the same file, and reports the call if a tap is attached. The variants differ in
 * how the verb fails; see wq/verb.def.
 */
#ifndef VRB_VERBS_TAP_H
#define VRB_VERBS_TAP_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/tap.h"

/* Replaces the operations of the data path by the variants that report. */
void vrb_tap_ops(struct verbs_context *vctx);
void vrb_tap_cq(struct ibv_cq_ex *cq);
void vrb_tap_qp(struct ibv_qp_ex *qp);

#define TAP_ARG_1(a) (uintptr_t)(a)
#define TAP_ARG_2(a, ...) (uintptr_t)(a), TAP_ARG_1(__VA_ARGS__)
#define TAP_ARG_3(a, ...) (uintptr_t)(a), TAP_ARG_2(__VA_ARGS__)
#define TAP_ARG_4(a, ...) (uintptr_t)(a), TAP_ARG_3(__VA_ARGS__)
#define TAP_ARG_5(a, ...) (uintptr_t)(a), TAP_ARG_4(__VA_ARGS__)
#define TAP_ARG_6(a, ...) (uintptr_t)(a), TAP_ARG_5(__VA_ARGS__)
#define TAP_PICK(a, b, c, d, e, f, count, ...) count
#define TAP_COUNT(...) TAP_PICK(__VA_ARGS__, 6, 5, 4, 3, 2, 1, 0)
#define TAP_PASTE(a, b) a##b
#define TAP_EACH(count, ...) TAP_PASTE(TAP_ARG_, count)(__VA_ARGS__)

/*
 * result_ is the verb's result, error_ its errno value, object_ the object it created. A verb that
 * succeeds leaves errno alone: wrappers in Go, for one, take a change for a failure.
 */
#define TAP_CALL(name, fails_with, error, object_made, ...)                                        \
	({                                                                                         \
		__typeof__(name(__VA_ARGS__)) result_;                                             \
		const int before_ = errno;                                                         \
                                                                                                   \
		if (likely(!tapped())) {                                                           \
			result_ = name(__VA_ARGS__);                                               \
		} else {                                                                           \
			const uint64_t arg_[] = { TAP_EACH(TAP_COUNT(__VA_ARGS__), __VA_ARGS__) }; \
			struct tap_call call_ = {                                                  \
				.verb = VERB_##name,                                               \
				.args = TAP_COUNT(__VA_ARGS__),                                    \
				.arg = arg_,                                                       \
			};                                                                         \
                                                                                                   \
			if (vrb_tap_enter(&call_)) {                                               \
				result_ = name(__VA_ARGS__);                                       \
				call_.err = (error);                                               \
			} else {                                                                   \
				errno = call_.err;                                                 \
				result_ = (fails_with);                                            \
			}                                                                          \
			call_.object = (object_made);                                              \
			vrb_tap_leave(&call_);                                                     \
		}                                                                                  \
		if (!(error))                                                                      \
			errno = before_;                                                           \
		result_;                                                                           \
	})

#define TAP_POINTER(name, ...)                                                                     \
	TAP_CALL(name, NULL, result_ ? 0 : errno, (uintptr_t)result_, __VA_ARGS__)
#define TAP_ERRNO(name, ...) TAP_CALL(name, call_.err, result_, 0, __VA_ARGS__)
#define TAP_MINUS(name, ...)                                                                       \
	TAP_CALL(name, -1, result_ < 0 ? errno : 0, result_ > 0 ? result_ : 0, __VA_ARGS__)

/* Of verbs that return nothing: the function is made to return 0. */
#define TAP_NOTHING(name, ...) ((void)TAP_CALL(name, 0, 0, 0, __VA_ARGS__))

#endif
