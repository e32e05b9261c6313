#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The barrier pairs of docs/SHM.md and of the progress thread, in every execution that C11 allows
(c11.py).

Each protocol is written with the orders that the sources use, by name.  As they are it cannot go
wrong; with one of them weakened, as its row says, it can: so the model sees what it is asked about.

usage: barriers.py
"""
import sys

from c11 import ACQ, AR, HEAVY, LIGHT, NA, REL, RLX, SC, Cut, F, R, U, W, wrong

NONE = None     # in place of a fence
PROTOCOLS = []


def fences(mode):
    if mode:
        yield F(mode)


def protocol(label, init, orders, weaker):
    """Registers fn(orders) -> (threads, bad). weaker: {name: order that is too weak}."""
    def register(fn):
        PROTOCOLS.append((label, fn, init, orders, weaker))
        return fn
    return register


@protocol('L2 doorbell (lane.h, local_tx_end, local_sleep)', {'seq': 0, 'asleep': 0},
          {'sender fence': SC, 'owner fence': SC}, {'sender fence': AR, 'owner fence': AR})
def doorbell(o):
    def sender():
        yield W('seq', 1, REL)
        yield F(o['sender fence'])
        return (yield R('asleep', RLX)) == 1

    def owner():
        yield W('asleep', 1, RLX)
        yield F(o['owner fence'])
        return (yield R('seq', ACQ)) == 0
    # Sleeps, and no doorbell rang.
    return [sender, owner], lambda out, last: out[1] and not out[0]


@protocol(
    'L2: the same while the owner polls, and after (local_tx_end, local_ring_bells, local_sleep)',
    {'seq': 0, 'asleep': 0, 'polled': 1},
    {'light fence': LIGHT, 'full fence': SC, 'first sleep': HEAVY, 'next sleep': SC},
    {'light fence': NONE, 'full fence': AR, 'first sleep': SC, 'next sleep': AR},
)
def polled_doorbell(o):
    def sender():
        rang = []
        for n in 1, 2:
            yield W('seq', n, REL)
            yield from fences(o['light fence'])
            if not (yield R('polled', RLX)):
                yield F(o['full fence'])
            rang.append((yield R('asleep', RLX)) == 1)
        return rang

    def owner():
        yield W('asleep', 1, RLX)
        yield W('polled', 0, RLX)
        yield F(o['first sleep'])
        seen = yield R('seq', ACQ)
        if seen:
            yield W('asleep', 0, RLX)
            yield W('asleep', 1, RLX)
            yield F(o['next sleep'])
            if (yield R('seq', ACQ)) != seen:
                raise Cut   # stays awake
        return seen
    # Sleeps, and no doorbell rang for what it has not seen.
    return [sender, owner], lambda out, last: out[1] < 2 and not any(out[0][out[1]:])


@protocol(
    'L5 and L7: slots (lane_tx_put, lane_rx_get, lane_rx_free)',
    {'slot': 0, 'seq': 0, 'tail': 0},
    {'put': REL, 'get': ACQ, 'done': REL, 'look': ACQ},
    {'put': RLX, 'get': RLX, 'done': RLX, 'look': RLX},
)
def slots(o):
    def sender():
        yield W('slot', 1, NA)
        yield W('seq', 1, o['put'])
        if (yield R('tail', o['look'])) == 1:
            yield W('slot', 2, NA)
            yield W('seq', 2, o['put'])

    def receiver():
        seq = yield R('seq', o['get'])
        if seq != 1:
            raise Cut
        value = yield R('slot', NA)
        yield W('tail', 1, o['done'])
        return value
    return [sender, receiver], lambda out, last: out[1] != 1


@protocol(
    'L7: bytes of the ring (look_at_tail, lane_rx_free)',
    {'bytes': 1, 'tail': 0, 'ring_tail': 0},
    {'done': REL, 'look': ACQ},
    {'done': RLX, 'look': RLX},
)
def ring(o):
    def sender():
        yield R('tail', ACQ)
        if (yield R('ring_tail', o['look'])) == 1:
            yield W('bytes', 2, NA)

    def receiver():
        value = yield R('bytes', NA)
        yield W('ring_tail', 1, o['done'])
        yield W('tail', 1, REL)
        return value
    return [sender, receiver], lambda out, last: out[1] != 1


@protocol(
    'L6: a lane from its dead sender to the next (clear_lane, claim_lane)',
    {'slot': 7, 'sender': 9},
    {'clear': REL, 'claim': AR},
    {'clear': RLX, 'claim': RLX},
)
def claim(o):
    def owner():
        yield W('slot', 0, NA)
        yield W('sender', 0, o['clear'])

    def sender():
        if (yield U('sender', lambda v: v or 1, o['claim'])):
            raise Cut
        yield W('slot', 1, NA)
    return [owner, sender], lambda out, last: last['slot'] != 1


@protocol('L6: news of a lane (announce, read_news)', {'identity': 0, 'opened': 0, 'news': 0},
          {'announce': AR, 'look': ACQ}, {'announce': RLX, 'look': RLX})
def news(o):
    def sender():
        yield W('identity', 5, RLX)
        yield U('opened', lambda v: 1, RLX)
        yield U('news', lambda v: v + 1, o['announce'])

    def owner():
        if (yield R('news', o['look'])) == 0:
            raise Cut
        opened = yield U('opened', lambda v: 0, RLX)
        return opened, (yield R('identity', RLX))
    return [sender, owner], lambda out, last: out[1] != (1, 5)


@protocol('L4: a QP entry is read whole (write_entry, copy_qp)', {'gen': 0, 'a': 0, 'b': 0},
          {'odd': SC, 'even': REL, 'first': ACQ, 'second': ACQ},
          {'odd': NONE, 'even': RLX, 'first': RLX, 'second': NONE})
def entry(o):
    def owner():
        yield W('gen', 1, RLX)
        yield from fences(o['odd'])
        yield W('a', 1, RLX)
        yield W('b', 1, RLX)
        yield W('gen', 2, o['even'])

    def reader():
        gen = yield R('gen', o['first'])
        if gen % 2:
            raise Cut
        a = yield R('a', RLX)
        b = yield R('b', RLX)
        yield from fences(o['second'])
        if (yield R('gen', RLX)) != gen:
            raise Cut
        return gen, a, b
    return [owner, reader], lambda out, last: out[1] not in ((0, 0, 0), (2, 1, 1))


@protocol('L8: a key in use against its deregistration (claim_key, claim_known, mr_entry_retract, '
          'wait_hazards, wait_own)', {'live': 1, 'claimed': 0, 'hazard': 0, 'memory': 0},
          {'claim fence': SC, 'wait fence': SC, 'end': REL, 'wait': ACQ},
          {'claim fence': AR, 'wait fence': AR, 'end': RLX, 'wait': RLX})
def key(o):
    def requester():
        yield U('claimed', lambda v: 1, AR)     # the lane, the first time
        yield W('hazard', 1, RLX)
        yield F(o['claim fence'])
        if (yield R('live', ACQ)):
            yield W('memory', 1, NA)
        yield W('hazard', 0, o['end'])

    def owner():
        yield W('live', 0, RLX)
        yield F(o['wait fence'])
        if (
            (yield R('claimed', ACQ))
            and (yield R('hazard', o['wait']))
            and (yield R('hazard', o['wait']))
        ):
            raise Cut   # goes on waiting
        yield W('memory', 2, NA)    # is the program's again
    return [requester, owner], lambda out, last: last['memory'] != 2


@protocol(
    'L8: the same with a light fence (claim_fence, map_region, revocation_fence)',
    {'live': 1, 'maps': 0, 'hazard': 0, 'memory': 0},
    {'map fence': SC, 'claim fence': LIGHT, 'wait fence': SC, 'revocation': HEAVY, 'end': REL,
     'wait': ACQ},
    {'map fence': AR, 'wait fence': AR, 'revocation': SC, 'claim fence': NONE, 'end': RLX,
     'wait': RLX},
)
def light_key(o):
    def requester():
        yield W('maps', 1, RLX)         # the region is mapped
        yield F(o['map fence'])
        yield W('hazard', 1, RLX)
        yield from fences(o['claim fence'])
        if (yield R('live', ACQ)):
            yield W('memory', 1, NA)
        yield W('hazard', 0, o['end'])

    def owner():
        yield W('live', 0, RLX)
        yield F(o['wait fence'])
        if (yield R('maps', RLX)):
            yield F(o['revocation'])
        if (yield R('hazard', o['wait'])) and (yield R('hazard', o['wait'])):
            raise Cut   # goes on waiting
        yield W('memory', 2, NA)    # is the program's again
    return [requester, owner], lambda out, last: last['memory'] != 2


@protocol(
    'L8: a QP that stops listening (onesided_begin, peer_map_qp_stands, vrb_peer_publish)',
    {'gen': 0, 'hazard': 0, 'memory': 0},
    {'claim fence': SC, 'wait fence': SC, 'end': REL},
    {'claim fence': AR, 'wait fence': AR, 'end': RLX},
)
def deaf(o):
    def requester():
        if (yield R('gen', ACQ)):
            raise Cut
        yield W('hazard', 1, RLX)
        yield F(o['claim fence'])
        if (yield R('gen', ACQ)) == 0:
            yield W('memory', 1, NA)
        yield W('hazard', 0, o['end'])

    def owner():
        yield W('gen', 2, REL)
        yield F(o['wait fence'])
        if (yield R('hazard', ACQ)):
            raise Cut
        yield W('memory', 2, NA)
    return [requester, owner], lambda out, last: last['memory'] != 2


@protocol('L9: a piece that the sender copied (help_report, help_await)', {'piece': 0, 'done': 0},
          {'report': REL, 'await': ACQ}, {'report': RLX, 'await': RLX})
def piece(o):
    def sender():
        yield W('piece', 1, NA)
        yield W('done', 1, o['report'])

    def receiver():
        if not (yield R('done', o['await'])):
            raise Cut
        return (yield R('piece', NA))
    return [sender, receiver], lambda out, last: out[1] != 1


@protocol(
    'L9: a receiver that gives up (local_split_copy, split_copy_close, wait_hazards)',
    {'hazard': 0, 'claim': 0, 'memory': 0},
    {'claim': AR, 'close': AR, 'end': REL, 'wait': ACQ},
    {'claim': RLX, 'close': RLX, 'end': RLX, 'wait': RLX},
)
def gives_up(o):
    def sender():
        yield W('hazard', 1, RLX)
        if (yield U('claim', lambda v: v or 1, o['claim'])):
            raise Cut
        yield W('memory', 1, NA)
        yield W('hazard', 0, o['end'])

    def receiver():
        yield U('claim', lambda v: v or 2, o['close'])
        if (yield R('hazard', o['wait'])):
            raise Cut   # goes on waiting
        yield W('memory', 2, NA)    # is the program's again
    return [sender, receiver], lambda out, last: last['memory'] != 2


@protocol(
    'L2: a doorbell that waits, and an answer (local_ring_bells, local_tx_end)',
    {'tail': 0, 'delayed': 0, 'asleep': 0},
    {'bell fence': SC, 'owner fence': SC},
    {'bell fence': AR, 'owner fence': AR},
)
def waiting_bell(o):
    def receiver():
        yield W('tail', 1, REL)
        yield F(o['bell fence'])
        if (yield R('asleep', RLX)) == 0:
            return False
        yield W('delayed', 1, RLX)
        return (yield R('delayed', RLX)) == 1      # rings later

    def answer():
        if (yield R('delayed', RLX)):
            yield W('delayed', 0, RLX)
        yield F(SC)
        return (yield R('asleep', RLX)) == 1

    def owner():
        yield W('asleep', 1, RLX)
        yield F(o['owner fence'])
        return (yield R('tail', ACQ)) == 0
    # Sleeps, and neither rings, now or later.
    return [receiver, answer, owner], lambda out, last: out[2] and not out[0] and not out[1]


@protocol(
    'L11: a payload that the receiver has read (message_publish, message_published)',
    {'payload': 1, 'progress': 0},
    {'publish': REL, 'look': ACQ},
    {'publish': RLX, 'look': RLX},
)
def executed(o):
    def receiver():
        value = yield R('payload', NA)
        yield W('progress', 1, o['publish'])
        return value

    def sender():
        if not (yield R('progress', o['look'])):
            raise Cut
        yield W('payload', 2, NA)   # the program's again
    return [receiver, sender], lambda out, last: out[0] != 1


@protocol(
    'L11 and L7: a slot that was taken has its word '
    '(lane_rx_free, message_next, message_published)',
    {'progress': 0, 'tail': 0},
    {'done': REL, 'tail': ACQ},
    {'done': RLX, 'tail': RLX},
)
def taken(o):
    def receiver():
        yield W('progress', 1, REL)
        yield W('tail', 1, o['done'])

    def sender():
        if not (yield R('tail', o['tail'])):
            raise Cut
        return (yield R('progress', ACQ))
    return [receiver, sender], lambda out, last: out[1] != 1


@protocol(
    'L11: an entry that becomes another QP\'s (message_published, segment_retract_qp)',
    {'qpn': 1, 'progress': 1},
    {'publish': REL, 'look': ACQ},
    {'publish': RLX, 'look': RLX},
)
def foreign(o):
    def owner():
        yield W('qpn', 9, REL)
        yield W('progress', 0, RLX)
        yield W('qpn', 2, REL)
        yield W('progress', 2, o['publish'])

    def sender():
        progress = yield R('progress', o['look'])
        return progress, (yield R('qpn', RLX))
    # The other's progress under the number of the one before.
    return [owner, sender], lambda out, last: out[1] == (2, 1)


@protocol(
    'L11: a QP that gets another peer (message_published, segment_publish_qp)',
    {'dest_qpn': 1, 'progress': 1},
    {'publish': REL, 'look': ACQ},
    {'publish': RLX, 'look': RLX},
)
def reconnected(o):
    def owner():
        yield W('progress', 0, RLX)
        yield W('dest_qpn', 2, RLX)
        yield W('progress', 2, o['publish'])

    def sender():
        progress = yield R('progress', o['look'])
        return progress, (yield R('dest_qpn', RLX))
    # What was executed for the other peer, as if for this one.
    return [owner, sender], lambda out, last: out[1] == (2, 1)


@protocol(
    'L11 and L4: a new QP has no old progress (segment_publish_qp, peer_map_qp)',
    {'qpn': 9, 'progress': 1},
    {'publish': REL, 'learn': ACQ},
    {'publish': RLX, 'learn': RLX},
)
def fresh(o):
    def owner():
        yield W('progress', 0, RLX)
        yield W('qpn', 2, o['publish'])

    def sender():
        if (yield R('qpn', o['learn'])) != 2:
            raise Cut
        return (yield R('progress', ACQ))
    return [owner, sender], lambda out, last: out[1] != 0


@protocol(
    'references on a key (mr_entry_get, mr_entry_put, mr_entry_retract)',
    {'refs': 8, 'memory': 0},
    {'get': AR, 'put': REL, 'retract': AR, 'drain': ACQ},
    {'put': RLX, 'drain': RLX},
)
def refs(o):
    def access():
        if (yield U('refs', lambda v: v + 1, o['get'])) & 8:
            yield W('memory', 1, NA)
        yield U('refs', lambda v: v - 1, o['put'])

    def owner():
        yield U('refs', lambda v: v & ~8, o['retract'])
        if (yield R('refs', o['drain'])):
            raise Cut
        yield W('memory', 2, NA)
    return [access, owner], lambda out, last: last['memory'] != 2


@protocol('a key goes live (mr_entry_publish, mr_entry_get)', {'refs': 0, 'entry': 0},
          {'publish': AR, 'get': AR}, {'publish': RLX, 'get': RLX})
def publish(o):
    def owner():
        yield W('entry', 1, NA)
        yield U('refs', lambda v: v | 8, o['publish'])

    def access():
        if not (yield U('refs', lambda v: v + 1, o['get'])) & 8:
            raise Cut
        return (yield R('entry', NA))
    return [owner, access], lambda out, last: out[1] != 1


@protocol(
    'the progress thread sleeps, a deadline comes nearer (run_once, progress_hurry)',
    {'deadline': 9, 'sleep_until': 0},
    {'sleep fence': SC, 'hurry fence': SC},
    {'sleep fence': AR, 'hurry fence': AR},
)
def hurry(o):
    def thread():
        yield W('sleep_until', 9, RLX)
        yield F(o['sleep fence'])
        return (yield R('deadline', RLX)) == 9

    def caller():
        yield W('deadline', 5, RLX)
        yield F(o['hurry fence'])
        return (yield R('sleep_until', RLX)) > 5
    # Sleeps too long, and no wake-up came.
    return [thread, caller], lambda out, last: out[0] and not out[1]


@protocol(
    'pollers take over from the progress thread (claim, look_around, local_sleep)',
    {'asleep': 1, 'yield': 0},
    {'ask': AR, 'heed': AR},
    {'ask': RLX, 'heed': RLX},
)
def stand_back(o):
    def poller():
        yield W('asleep', 0, RLX)
        yield U('yield', lambda v: 1, o['ask'])

    def thread():
        if not (yield U('yield', lambda v: 0, o['heed'])):
            raise Cut
        yield W('asleep', 1, RLX)   # it comes back, and sleeps
    # Asleep, and peers believe that a thread polls.
    return [poller, thread], lambda out, last: last['asleep'] == 0


@protocol(
    'L3 and util/lock.h: a lock',
    {'taken': 0, 'data': 0},
    {'take': AR, 'give': REL},
    {'take': RLX, 'give': RLX},
)
def lock(o):
    def thread():
        if (yield U('taken', lambda v: 1, o['take'])):
            raise Cut
        data = yield R('data', NA)
        yield W('data', data + 1, NA)
        yield W('taken', 0, o['give'])
    return [thread, thread], lambda out, last: last['data'] != 2


@protocol(
    'a lock that is passed to a sleeper (util/lock.c)',
    {'taken': 1, 'data': 0},
    {'give': REL, 'receive': AR},
    {'give': RLX, 'receive': RLX},
)
def passed(o):
    free, taken, handed = range(3)

    def releaser():
        yield W('data', 1, NA)
        yield W('taken', free, o['give'])
        yield U('taken', lambda v: handed if v == free else v, RLX)

    def sleeper():
        if (yield U('taken', lambda v: taken if v == handed else v, o['receive'])) != handed:
            raise Cut
        return (yield R('data', NA))
    return [releaser, sleeper], lambda out, last: out[1] != 1


@protocol(
    'a lock and its owner (lock_taken_by_owner, end_ownership)',
    {'owner': 1, 'held': 0, 'data': 0},
    {'light fence': LIGHT, 'heavy fence': HEAVY, 'give': REL, 'wait': ACQ},
    {'light fence': NONE, 'heavy fence': SC, 'give': RLX, 'wait': RLX},
)
def owned(o):
    def owner():
        yield W('held', 1, RLX)     # its first look at `owner` may have been long ago
        yield from fences(o['light fence'])
        if (yield R('owner', RLX)):
            yield W('data', 1, NA)
        yield W('held', 0, o['give'])

    def other():                    # has `taken`
        yield W('owner', 0, RLX)
        yield F(o['heavy fence'])
        if (yield R('held', o['wait'])):
            raise Cut
        yield W('data', 2, NA)
    return [owner, other], lambda out, last: last['data'] != 2


@protocol(
    'a lock whose owner another thread gave up to end (end_ownership)',
    {'taken': 0, 'owner': 1, 'held': 0, 'data': 0},
    {'owner again': RLX},
    {'owner again': NONE},
)
def given_up(o):
    def owner():
        yield W('held', 1, RLX)
        yield F(LIGHT)
        if (yield R('owner', RLX)):
            yield W('data', 1, NA)
        yield W('held', 0, REL)

    def trier():
        if (yield U('taken', lambda v: 1, AR)):
            raise Cut
        yield W('owner', 0, RLX)
        yield F(HEAVY)
        if not (yield R('held', ACQ)):
            raise Cut
        if o['owner again']:
            yield W('owner', 1, o['owner again'])
        yield W('taken', 0, REL)

    def next_one():
        if (yield U('taken', lambda v: 1, AR)):
            raise Cut
        if (yield R('owner', RLX)):
            yield W('owner', 0, RLX)
            yield F(HEAVY)
            if (yield R('held', ACQ)):
                raise Cut
        yield W('data', 2, NA)
    return [owner, trier, next_one], lambda out, last: last['data'] != 2


@protocol(
    'a lock that gets an owner (become_owner, lock_take)',
    {'taken': 1, 'owner': 0, 'held': 0, 'data': 0},
    {'free': REL, 'take': AR},
    {'free': RLX, 'take': RLX},
)
def becomes(o):
    def owner():
        yield W('held', 1, RLX)
        yield W('owner', 1, RLX)
        yield W('taken', 0, o['free'])
        yield W('data', 1, NA)
        yield W('held', 0, REL)

    def other():
        if (yield U('taken', lambda v: 1, o['take'])):
            raise Cut
        if (yield R('owner', RLX)):
            yield W('owner', 0, RLX)
            yield F(HEAVY)
            if (yield R('held', ACQ)):
                raise Cut
        yield W('data', 2, NA)
    return [owner, other], lambda out, last: last['data'] != 2


@protocol(
    'completion counters (core/cq/comp_cntr.c, verbs/comp_cntr.c)',
    {'data': 0, 'done': 0},
    {'count': REL, 'read': ACQ},
    {'count': RLX, 'read': RLX},
)
def counter(o):
    def device():
        yield W('data', 1, NA)
        yield U('done', lambda v: v + 1, o['count'])

    def program():
        if not (yield R('done', o['read'])):
            raise Cut
        return (yield R('data', NA))
    return [device, program], lambda out, last: out[1] != 1


def check(label, fn, init, orders, weaker):
    found = wrong(*with_init(fn(orders), init))
    if found:
        yield f'{label}: goes wrong: {found}'
    for name, order in weaker.items():
        if not wrong(*with_init(fn({**orders, name: order}), init)):
            yield f'{label}: {name} may as well be {order}'


def with_init(model, init):
    threads, bad = model
    return threads, init, bad


def main():
    bad = [line for row in PROTOCOLS for line in check(*row)]
    print('\n'.join(bad) or f'{len(PROTOCOLS)} protocols hold, and weaker ones do not')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
