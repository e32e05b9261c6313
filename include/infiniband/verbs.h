/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs programming interface: what a program sees of an RDMA device.
 *
 * Source and binary compatible with the header of the same name in rdma-core 44, plus the additions
 * of later releases that leave its layouts alone.  The calls are documented where they are
 * declared, in the chapters included below; "ibv_xxx(3)" names the manual page whose rules they
 * follow.
 *
 * Conventions, valid wherever a call does not say otherwise:
 *
 *   Results     A call that returns int gives 0, or the errno value of its failure (positive; errno
 *               itself may be stale).  A call that returns a pointer gives NULL on failure and sets
 *               errno.  The exceptions (-1, counts) are named.
 *   Errors      EINVAL: an invalid argument.  ENOMEM: out of memory, or a limit of the device is
 *               reached.  EOPNOTSUPP: a call or an option that this device does not have.  ENODEV:
 *               the object's context was closed, or the object is that of the parent process.
 *               ENOENT: not, or no longer, an object of the kind that the call takes (calls of the
 *               data path do not check).  Only other codes are listed per call.
 *   Ownership   Every object belongs to the caller until it is destroyed.  An object that another
 *               one still uses is not destroyed: EBUSY.  Attribute structures are read or filled
 *               during the call only.
 *   Threads     Every call may be made from any thread at any time, on the same object too; only
 *               the destruction of an object must not race with its use.  Queues created in a
 *               parent domain with a thread domain are the exception: one thread at a time.
 *   Units       Lengths are bytes.  Addresses on the network are uint64_t.  Types __be16, __be32
 *               and __be64 hold network byte order, everything else host order.
 *   comp_mask   says which optional members of a structure are meaningful.  Unknown bits are
 *               refused with EINVAL or EOPNOTSUPP, so zero the structure first.
 *   Ranges      port_num: 1 to phys_port_cnt.  Indices into the tables of a port: 0 to the table's
 *               length less one.  Sizes and counts: 0 to the limit in ibv_device_attr.
 *   Source      Each call names its manual page.  Values and encodings that reach the network are
 *               those of the InfiniBand Architecture Specification (IBTA), volume 1.
 *
 * The old XRC interface of OFED (ibv_open_xrc_domain() and friends) appears if VERBENA_LEGACY_XRC
 * is defined before this header is included: it lengthens ibv_qp_init_attr and ibv_srq.  The
 * ibv_exp_* interface is in verbs_exp.h.
 */
#ifndef INFINIBAND_VERBS_H
#define INFINIBAND_VERBS_H

#include <infiniband/verbs/context.h>
#include <infiniband/verbs/device.h>
#include <infiniband/verbs/memory.h>
#include <infiniband/verbs/address.h>
#include <infiniband/verbs/cq.h>
#include <infiniband/verbs/srq.h>
#include <infiniband/verbs/qp.h>
#include <infiniband/verbs/wr.h>
#include <infiniband/verbs/flow.h>
#ifdef VERBENA_LEGACY_XRC
#include <infiniband/verbs/legacy_xrc.h>
#endif

#endif
