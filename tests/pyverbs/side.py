#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""One host of a test, through rdma-core's Python wrapper (pyverbs): does what the driver asks, one
JSON line each way.

    side.py FD       FD: a connected stream socket, inherited
"""
import json
import socket
import sys

import pyverbs.device as device
import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CQEX, CqInitAttrEx, PollCqAttr
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, OpsWr, SrqAttr, SrqInitAttr, SrqInitAttrEx
from pyverbs.wr import SGE, RecvWR, SendWR

ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_WRITE |
          e.IBV_ACCESS_REMOTE_ATOMIC | e.IBV_ACCESS_MW_BIND)
DEPTH = 32


def value(name):
    """The number behind a name of the C headers."""
    return getattr(e, name) if isinstance(name, str) else name


def gid_of(address):
    return "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x" % tuple(
        int(n) for n in address.split(".")
    )


class Side:
    def __init__(self):
        self.ctx = self.pd = self.cq = self.mr = self.qp = self.srq = None
        self.windows = []
        self.send_depth = DEPTH

    # ---- objects

    def open(self, address, length=65536):
        """The device that has this IPv4 address."""
        for dev in device.get_device_list():
            self.ctx = device.Context(name=dev.name.decode())
            if self._index(address) is not None:
                break
            self.ctx.close()
            self.ctx = None
        if self.ctx is None:
            raise LookupError(f"no device has {address}")
        self.pd = PD(self.ctx)
        self.mr = MR(self.pd, length, ACCESS)
        return self.ctx.name

    def cq_plain(self):
        self.cq = CQ(self.ctx, 4 * DEPTH)

    def cq_extended(self):
        flags = (
            e.IBV_WC_EX_WITH_BYTE_LEN
            | e.IBV_WC_EX_WITH_IMM
            | e.IBV_WC_EX_WITH_QP_NUM
            | e.IBV_WC_EX_WITH_SRC_QP
            | e.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
        )
        self.cq = CQEX(self.ctx, CqInitAttrEx(cqe=4 * DEPTH, wc_flags=flags))

    def srq_plain(self):
        self.srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=DEPTH)))

    def cq_tags(self):
        self.cq = CQEX(
            self.ctx,
            CqInitAttrEx(
                cqe=4 * DEPTH, wc_flags=e.IBV_WC_STANDARD_FLAGS | e.IBV_WC_EX_WITH_TM_INFO
            ),
        )

    def srq_tags(self):
        """Matches tags; its QPs leave their send queue to the device."""
        caps = self.ctx.query_device_ex().tm_caps
        attr = SrqInitAttrEx()
        attr.comp_mask = (
            e.IBV_SRQ_INIT_ATTR_TYPE
            | e.IBV_SRQ_INIT_ATTR_PD
            | e.IBV_SRQ_INIT_ATTR_CQ
            | e.IBV_SRQ_INIT_ATTR_TM
        )
        attr.srq_type = e.IBV_SRQT_TM
        attr.pd = self.pd
        attr.cq = self.cq
        attr.max_num_tags = caps.max_num_tags
        attr.max_ops = 10
        self.srq = SRQ(self.ctx, attr)
        self.send_depth = 0

    def create_qp(self, kind, operations=None):
        cap = QPCap(
            max_send_wr=self.send_depth, max_recv_wr=DEPTH, max_send_sge=4, max_recv_sge=4,
            max_inline_data=64,
        )
        if operations is None:
            self.qp = QP(
                self.pd,
                QPInitAttr(qp_type=value(kind), scq=self.cq, rcq=self.cq, srq=self.srq, cap=cap),
            )
        else:
            mask = e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
            flags = 0
            for name in operations:
                flags |= value(name)
            self.qp = QPEx(
                self.ctx,
                QPInitAttrEx(
                    qp_type=value(kind), scq=self.cq, rcq=self.cq, srq=self.srq, cap=cap,
                    pd=self.pd, comp_mask=mask, send_ops_flags=flags,
                ),
            )
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS & ~e.IBV_ACCESS_MW_BIND
        self.qp.to_init(attr)
        return {"qpn": self.qp.qp_num, "rkey": self.mr.rkey, "addr": self.mr.buf}

    def connect(self, own, peer_address, peer):
        attr = self._connection(own, peer_address)
        attr.dest_qp_num = peer["qpn"]
        self.qp.to_rts(attr)

    def load_alternate(self, own, peer_address):
        """Asks for automatic path migration to this pair of addresses."""
        attr = QPAttr()
        attr.alt_ah_attr = self._path(own, peer_address)
        attr.alt_port_num = 1
        attr.alt_timeout = 16
        attr.path_mig_state = e.IBV_MIG_REARM
        self.qp.modify(attr, e.IBV_QP_ALT_PATH | e.IBV_QP_PATH_MIG_STATE)

    def query(self):
        attr, _ = self.qp.query(e.IBV_QP_STATE | e.IBV_QP_PATH_MIG_STATE | e.IBV_QP_AV)
        return {"state": attr.qp_state, "mig": attr.path_mig_state, "sgid": attr.ah_attr.sgid_index}

    def gid_index(self, address):
        return self._index(address)

    # ---- work

    def write_memory(self, offset, text):
        self.mr.write(text.encode("latin1"), len(text), offset)

    def read_memory(self, offset, length):
        return self.mr.read(length, offset).decode("latin1")

    def post_recv(self, wr_id, offset, length):
        wr = RecvWR(wr_id=wr_id, num_sge=1, sg=[SGE(self.mr.buf + offset, length, self.mr.lkey)])
        (self.srq or self.qp).post_recv(wr)

    def post_send(
        self, wr_id, opcode, offset, length, remote=None, remote_offset=0, atomic=None, imm=None
    ):
        wr = SendWR(wr_id=wr_id, opcode=value(opcode), num_sge=1, send_flags=e.IBV_SEND_SIGNALED,
                    sg=[SGE(self.mr.buf + offset, length, self.mr.lkey)], imm_data=imm or 0)
        if atomic:
            wr.set_wr_atomic(remote["rkey"], remote["addr"] + remote_offset, *atomic)
        elif remote:
            wr.set_wr_rdma(remote["rkey"], remote["addr"] + remote_offset)
        self.qp.post_send(wr)

    def build(self, wr_id, method, arguments, offset, length):
        """One request by the ibv_wr_* interface."""
        self.qp.wr_start()
        self.qp.wr_id = wr_id
        self.qp.wr_flags = e.IBV_SEND_SIGNALED
        getattr(self.qp, method)(*arguments)
        self.qp.wr_set_sge(SGE(self.mr.buf + offset, length, self.mr.lkey))
        self.qp.wr_complete()

    def bind_window(self, offset, length):
        """A window of type 1 that permits reading only; returns its key."""
        window = MW(self.pd, e.IBV_MW_TYPE_1)
        info = MWBindInfo(self.mr, self.mr.buf + offset, length, e.IBV_ACCESS_REMOTE_READ)
        self.qp.bind_mw(window, MWBind(info, wr_id=900, send_flags=e.IBV_SEND_SIGNALED))
        self.windows.append(window)
        return window.rkey

    def tag_add(self, wr_id, tag, mask, offset, length, unexpected):
        wr = OpsWr(
            wr_id=wr_id, opcode=e.IBV_WR_TAG_ADD, unexpected_cnt=unexpected, recv_wr_id=wr_id,
            num_sge=1, tag=tag, mask=mask,
            sg_list=[SGE(self.mr.buf + offset, length, self.mr.lkey)],
        )
        self.srq.post_srq_ops(wr)

    def tag_sync(self, wr_id, unexpected):
        self.srq.post_srq_ops(
            OpsWr(
                wr_id=wr_id, opcode=e.IBV_WR_TAG_SYNC, unexpected_cnt=unexpected,
                flags=e.IBV_OPS_SIGNALED | e.IBV_OPS_TM_SYNC,
            )
        )

    def poll_tags(self, number):
        """As poll(), with what only tag matching tells."""
        done = []
        while len(done) < number:
            if self.cq.start_poll(PollCqAttr()) == 0:
                done.append(
                    {
                        "wr_id": self.cq.wr_id,
                        "status": self.cq.status,
                        "opcode": self.cq.read_opcode(),
                        "flags": self.cq.read_wc_flags(),
                        "tag": self.cq.read_tm_info().tag,
                        "len": self.cq.read_byte_len(),
                    }
                )
                self.cq.end_poll()
        return done

    def poll(self, number):
        """Waits for that many completions."""
        done = []
        while len(done) < number:
            done += self._poll_extended() if isinstance(self.cq, CQEX) else self._poll_plain()
        return done

    def _poll_plain(self):
        _, wcs = self.cq.poll(DEPTH)
        return [{"wr_id": wc.wr_id, "status": wc.status, "opcode": wc.opcode, "len": wc.byte_len,
                 "vendor": wc.vendor_err, "imm": socket.ntohl(wc.imm_data)} for wc in wcs or []]

    def _poll_extended(self):
        done = []
        status = self.cq.start_poll(PollCqAttr())
        while status == 0:
            done.append(
                {
                    "wr_id": self.cq.wr_id,
                    "status": self.cq.status,
                    "opcode": self.cq.read_opcode(),
                    "len": self.cq.read_byte_len(),
                    "vendor": self.cq.read_vendor_err(),
                    "stamp": self.cq.read_timestamp(),
                }
            )
            status = self.cq.poll_next()
        if done:
            self.cq.end_poll()
        return done

    def events(self, number):
        """Waits for that many asynchronous events and names them."""
        names = []
        while len(names) < number:
            event = self.ctx.get_async_event()
            names.append(next(name for name in dir(e) if name.startswith("IBV_EVENT_") and
                              getattr(e, name) == event.event_type))
            event.ack()
        return names

    def close(self):
        for window in self.windows:
            window.close()
        for thing in (self.qp, self.srq, self.cq, self.mr, self.pd, self.ctx):
            if thing is not None:
                thing.close()
        self.__init__()

    # ---- addresses

    def _index(self, address):
        wanted = gid_of(address)
        port = self.ctx.query_port(1)
        for i in range(port.gid_tbl_len):
            if str(self.ctx.query_gid(1, i)) == wanted:
                return i
        return None

    def _path(self, own, peer):
        route = GlobalRoute(dgid=GID(gid_of(peer)), sgid_index=self._index(own), hop_limit=64)
        return AHAttr(gr=route, is_global=1, port_num=1)

    def _connection(self, own, peer):
        attr = QPAttr(port_num=1)
        attr.ah_attr = self._path(own, peer)
        attr.path_mtu = e.IBV_MTU_1024
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 16
        attr.min_rnr_timer = 12
        attr.timeout = 15  # 0.13 s, seven times: longer than a busy machine keeps the peer away
        attr.retry_cnt = attr.rnr_retry = 6
        attr.rq_psn = attr.sq_psn = 0xFFFFF0
        attr.qp_access_flags = ACCESS & ~e.IBV_ACCESS_MW_BIND
        return attr


def serve(channel):
    side = Side()
    lines = channel.makefile("rw", encoding="utf-8")
    for line in lines:
        call = json.loads(line)
        try:
            answer = {
                "result": getattr(side, call["method"])(*call["arguments"], **call["options"])
            }
        except Exception as problem:  # whatever it is, the driver tells it
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(answer), file=lines, flush=True)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
