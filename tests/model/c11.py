# SPDX-License-Identifier: BSD-2-Clause
"""Every execution that C11 allows of a few short threads: what barriers.py asks.

The model is RC11 (Lahav, Vafeiadis, Kang, Hur, Dreyer: Repairing sequential consistency in C/C++11,
2017), with C++20's release sequences. Compilers' mappings of it to x86, ARMv8, POWER and RISC-V are
proved, so what it forbids happens on none of them.

A thread is a generator function.  It yields accesses and gets what they read:

    value = yield R('seq', ACQ)                  a load
    yield W('seq', 1, REL)                       a store
    old = yield U('news', lambda v: v + 1, AR)   a read-modify-write
    yield F(SC)                                  a fence

F(LIGHT) and F(HEAVY) are the fences of unequal cost of util/heavy_fence.h. A heavy fence is an SC
fence, and makes every other thread execute a full fence at some place of its program. A light fence
is before or behind that place: either what precedes it happens before what follows the heavy one,
or what precedes the heavy one happens before what follows it. By itself it orders nothing.

NA is a plain access: two of one place by different threads, one of them a store, that are not
ordered are a race, which is an error by itself. A thread that would wait for something else to
happen than it reads says `raise Cut`: such executions do not count.  What it returns is its
outcome.
"""
import collections
import functools
import itertools
import operator

NA, RLX, ACQ, REL, AR, SC = 'na', 'rlx', 'acq', 'rel', 'ar', 'sc'
LIGHT, HEAVY = 'light', 'heavy'
ACQUIRES, RELEASES = {ACQ, AR, SC, HEAVY}, {REL, AR, SC, HEAVY}

Event = collections.namedtuple('Event', 'kind loc mode value change', defaults=(None, None))


class Cut(Exception):
    """An execution that is not looked at."""


def R(loc, mode):
    return Event('R', loc, mode)


def W(loc, value, mode):
    return Event('W', loc, mode, value)


def U(loc, change, mode):
    return Event('U', loc, mode, None, change)


def F(mode):
    return Event('F', None, mode)


Done = collections.namedtuple('Done', 'thread kind loc mode read wrote')


def traces(number, thread, domain):
    """All runs of one thread, whatever its loads may return: [(events, outcome)]."""
    found, todo = [], [()]
    while todo:
        choices = todo.pop()
        given, events, run, send = iter(choices), [], thread(), None
        try:
            while True:
                e = run.send(send)
                send = None
                if e.kind in 'RU':
                    send = next(given, None)
                    if send is None:
                        todo += [choices + (v,) for v in domain[e.loc]]
                        break
                wrote = e.value if e.kind == 'W' else e.change(send) if e.kind == 'U' else None
                events.append(Done(number, e.kind, e.loc, e.mode, send, wrote))
        except Cut:
            found.append((events, Cut))
        except StopIteration as end:
            found.append((events, end.value))
    return found


def all_traces(threads, init):
    """The same for all of them, with the values that any of them may have written."""
    domain = {loc: {v} for loc, v in init.items()}
    rounds = 1
    while True:
        found = [traces(i, t, domain) for i, t in enumerate(threads)]
        runs = [events for thread in found for events, _ in thread]
        grown = {loc: vs | {e.wrote for run in runs for e in run if e.loc == loc and e.kind in 'WU'}
                 for loc, vs in domain.items()}
        # An update builds on as many others as there are.
        updates = sum(
            max((sum(e.kind == 'U' for e in run) for run, _ in thread), default=0)
            for thread in found
        )
        if grown == domain or rounds > updates + len(threads):
            return [[run for run in thread if run[1] is not Cut] for thread in found]
        domain = grown
        rounds += 1


# A relation is a list of bit sets: r[a] has bit b if a comes before b.

def compose(r, s):
    out = []
    for row in r:
        bits = 0
        for b, after in enumerate(s):
            if row >> b & 1:
                bits |= after
        out.append(bits)
    return out


def union(*relations):
    return [functools.reduce(operator.or_, rows) for rows in zip(*relations)]


def closure(r):
    r = list(r)
    for k, _ in enumerate(r):
        for a, row in enumerate(r):
            if row >> k & 1:
                r[a] |= r[k]
    return r


def optional(r):
    return [row | 1 << a for a, row in enumerate(r)]


def only(first, r, second):
    """[first]; r; [second]"""
    return [row & second if first >> a & 1 else 0 for a, row in enumerate(r)]


def loops(r):
    return any(row >> a & 1 for a, row in enumerate(r))


class Execution:
    """Events of all threads, the store that each load reads, and the order of stores by place."""

    def __init__(self, events, rf, orders, forced=()):
        n = range(len(events))
        self.events, self.orders, self.hb = events, orders, None
        self.sb = [
            sum(
                1 << b
                for b in n
                if a < b and e.thread in (-1, events[b].thread) and events[b].thread != -1
            )
            for a, e in enumerate(events)
        ]
        self.rf, self.mo, self.rb = [0 for _ in n], [0 for _ in n], [0 for _ in n]
        for order in orders.values():
            for i, w in enumerate(order):
                self.mo[w] = sum(1 << later for later in order[i + 1:])
        for r, w in rf.items():
            self.rf[w] |= 1 << r
            self.rb[r] = self.mo[w] & ~(1 << r)
        self.source, self.forced = rf, forced

    def synchronizes(self):
        ev, sw = self.events, [0] * len(self.events)
        for a, b in self.forced:
            sw[a] |= 1 << b
        for r, w in self.source.items():
            if ev[r].mode == NA:
                continue
            ends = [r] if ev[r].mode in ACQUIRES else []
            ends += [
                f
                for f, e in enumerate(ev)
                if e.kind == 'F' and e.mode in ACQUIRES and self.sb[r] >> f & 1
            ]
            while True:  # back along the release sequence
                starts = [w] if ev[w].mode in RELEASES else []
                starts += [
                    f
                    for f, e in enumerate(ev)
                    if e.kind == 'F' and e.mode in RELEASES and self.sb[f] >> w & 1
                ]
                for a in starts if ev[w].mode != NA else []:
                    sw[a] |= sum(1 << b for b in ends)
                if ev[w].kind != 'U':
                    break
                w = self.source[w]
        return sw

    def consistent(self):
        if loops(closure(union(self.sb, self.rf))):
            return False
        self.hb = closure(union(self.sb, self.synchronizes()))
        eco = closure(union(self.rf, self.mo, self.rb))
        if loops(self.hb) or loops(compose(self.hb, optional(eco))):
            return False
        for (
            u,
            w,
        ) in self.source.items():  # nothing comes between what an update reads and what it writes
            if self.events[u].kind == 'U' and (
                not self.mo[w] >> u & 1
                or any(self.mo[w] >> x & 1 and self.mo[x] >> u & 1 for x in range(len(self.events)))
            ):
                return False
        return not loops(closure(self.sequential(eco)))

    def sequential(self, eco):
        ev, hb = self.events, self.hb
        sc = sum(1 << a for a, e in enumerate(ev) if e.mode == SC and e.kind != 'F')
        fences = sum(1 << a for a, e in enumerate(ev) if e.mode in (SC, HEAVY) and e.kind == 'F')
        every = (1 << len(ev)) - 1
        same = [
            sum(1 << b for b, f in enumerate(ev) if e.loc is not None and e.loc == f.loc)
            for e in ev
        ]
        hb_same = [row & same[a] for a, row in enumerate(hb)]
        apart = [row & ~same[a] for a, row in enumerate(self.sb)]
        scb = union(self.sb, compose(compose(apart, hb), apart), hb_same, self.mo, self.rb)
        near = optional(hb)
        base = only(sc, scb, sc)
        base = union(base, only(sc, compose(scb, only(every, near, fences)), every))
        base = union(base, compose(only(fences, near, every), only(every, scb, sc)))
        base = union(
            base, compose(compose(only(fences, near, every), scb), only(every, near, fences))
        )
        return union(base, only(fences, union(hb, compose(compose(hb, eco), hb)), fences))

    def race(self):
        for a, e in enumerate(self.events):
            for b, f in enumerate(self.events[:a]):
                if (
                    e.loc == f.loc is not None
                    and NA in (e.mode, f.mode)
                    and {e.kind, f.kind} != {'R'}
                    and -1 not in (e.thread, f.thread)
                    and e.thread != f.thread
                    and not self.hb[a] >> b & 1
                    and not self.hb[b] >> a & 1
                ):
                    return e.loc
        return None

    def last(self):
        """What each place holds at the end."""
        return {loc: self.events[order[-1]].wrote for loc, order in self.orders.items()}


def forced_fences(events):
    """For each light and heavy fence of different threads, both ways to be ordered."""
    fences = [(i, e) for i, e in enumerate(events) if e.kind == 'F']
    return itertools.product(*(
        ((a, b), (b, a))
        for a, light in fences
        for b, heavy in fences
        if (light.mode, heavy.mode) == (LIGHT, HEAVY) and light.thread != heavy.thread
    ))


def executions(threads, init):
    """(execution, outcomes of the threads) for all that C11 allows."""
    start = [Done(-1, 'W', loc, RLX, None, v) for loc, v in init.items()]
    for runs in itertools.product(*all_traces(threads, init)):
        events = start + [e for run, _ in runs for e in run]
        writes = {
            loc: [i for i, e in enumerate(events) if e.loc == loc and e.kind in 'WU']
            for loc in init
        }
        reads = [i for i, e in enumerate(events) if e.kind in 'RU']
        sources = [
            [w for w in writes[events[r].loc] if w != r and events[w].wrote == events[r].read]
            for r in reads
        ]
        for orders in itertools.product(
            *([(ws[0], *rest) for rest in itertools.permutations(ws[1:])] for ws in writes.values())
        ):
            for chosen, forced in itertools.product(
                itertools.product(*sources), forced_fences(events)
            ):
                x = Execution(events, dict(zip(reads, chosen)), dict(zip(writes, orders)), forced)
                if x.consistent():
                    yield x, [outcome for _, outcome in runs]


def wrong(threads, init, bad):
    """How it can go wrong: bad(outcomes, last values) or a race; None if it cannot."""
    for x, outcomes in executions(threads, init):
        if x.race() is not None:
            return f'a race for {x.race()}'
        if bad(outcomes, x.last()):
            return f'{outcomes}, {x.last()}'
    return None
