# SPDX-License-Identifier: BSD-2-Clause
"""Programs that load the library when they run: by either of its names, symbols by version or
without, closed and opened again.

    loading.py LIB_DIR
"""
import ctypes
import os
import subprocess
import sys

# What collective libraries ask for with dlvsym(), all of IBVERBS_1.1.
SYMBOLS = """
    ibv_get_device_list ibv_free_device_list ibv_get_device_name ibv_open_device ibv_close_device
    ibv_get_async_event ibv_ack_async_event ibv_query_device ibv_query_port ibv_query_gid
    ibv_query_qp ibv_alloc_pd ibv_dealloc_pd ibv_reg_mr ibv_dereg_mr ibv_create_cq ibv_destroy_cq
    ibv_create_qp ibv_modify_qp ibv_destroy_qp ibv_fork_init ibv_event_type_str ibv_create_ah
    ibv_create_srq ibv_get_cq_event ibv_ack_cq_events
""".split()


def inside(lib):
    libc = ctypes.CDLL(None)
    libc.dlvsym.restype = libc.dlsym.restype = ctypes.c_void_p
    for name in "libibverbs.so", "libibverbs.so.1":
        handle = ctypes.c_void_p(ctypes.CDLL(name)._handle)
        with open("/proc/self/maps", encoding="utf-8") as maps:
            found = {line.split()[-1] for line in maps if "libibverbs.so" in line}
        assert found == {os.path.realpath(os.path.join(lib, name))}, (name, found)
        for symbol in SYMBOLS:
            versioned = libc.dlvsym(handle, symbol.encode(), b"IBVERBS_1.1")
            assert versioned, f"{name}: no {symbol}@IBVERBS_1.1"
            assert (
                libc.dlsym(handle, symbol.encode()) == versioned
            ), f"{name}: {symbol} has another default"
        assert libc.dlclose(handle) == 0
    print(f"{len(SYMBOLS)} symbols by both names")


def main():
    if len(sys.argv) > 2:
        return inside(sys.argv[1])
    return sys.exit(subprocess.run([sys.executable, __file__, sys.argv[1], "inside"], check=False,
                                   env={**os.environ, "LD_LIBRARY_PATH": sys.argv[1]}).returncode)


if __name__ == "__main__":
    main()
