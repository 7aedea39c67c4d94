#!/usr/bin/env python3
"""The peer PyTorch: dist.all_reduce over gloo, measured as bench/all_reduce/measure.h does. Its place comes from the
environment, as torchrun sets it; GLOO_SOCKET_IFNAME names the interface. Rank 0 prints microseconds by size."""
import json, statistics, time
import torch
import torch.distributed as dist

BYTES = [4, 4096, 65536, 1048576, 4194304, 16777216, 44695848, 67108864]
BLOCKS, BLOCK_S, MAX_ROUNDS = 7, 0.02, 5000


def time_rounds(data, rounds):
    dist.all_reduce(torch.zeros(1))  # a barrier
    start = time.perf_counter()
    for _ in range(rounds):
        dist.all_reduce(data)
    return (time.perf_counter() - start) / rounds


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {}
    for size in BYTES:
        data = torch.zeros(size // 4)
        rounds = torch.tensor([min(MAX_ROUNDS, max(1, int(BLOCK_S / time_rounds(data, 3))))])
        dist.broadcast(rounds, 0)
        found[size] = round(1e6 * statistics.median(time_rounds(data, int(rounds)) for _ in range(BLOCKS)), 3)
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()  # or a thread of its engine may still run when the process ends


main()
