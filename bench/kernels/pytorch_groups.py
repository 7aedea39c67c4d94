#!/usr/bin/env python3
"""The peer of groups.c: the same convolutions in PyTorch, with both layouts.

usage: pytorch_groups.py THREADS BATCH

Reads lines of LAYOUT (contiguous or channels_last) and a problem as in groups.c, and prints the ms of a run. Weights have
the dtype of the activations already.
"""
import statistics, sys, time
import torch

WARM_UP_S, MEASURED_S = 0.015, 0.025  # as in groups.c
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def prepare(layout, dtype, way, channels, filters, side, kernel, stride, padding, dilation, groups, batch):
    """A function that runs the problem once."""
    def draw(*shape):
        return (torch.rand(shape) * 2 - 1).to(DTYPES[dtype]).contiguous(memory_format=LAYOUTS[layout])

    x, weight = draw(batch, channels, side, side), draw(filters, channels // groups, kernel, kernel)
    settings = ([stride] * 2, [padding] * 2, [dilation] * 2)
    y = torch.nn.functional.conv2d(x, weight, None, *settings, groups)
    if way == "forward":
        return lambda: torch.nn.functional.conv2d(x, weight, None, *settings, groups)
    dy = draw(*y.shape)
    wanted = [way == "data", way == "weight", False]
    return lambda: torch.ops.aten.convolution_backward(dy, x, weight, None, *settings, False, [0, 0], groups, wanted)


def repeat(run, seconds):
    """Repeats runs for so many seconds; the median of their ms."""
    begin = now = time.perf_counter()
    ms = []
    while not ms or now < begin + seconds:
        start = now
        run()
        now = time.perf_counter()
        ms.append(1e3 * (now - start))
    return statistics.median(ms)


def main():
    threads, batch = map(int, sys.argv[1:3])
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    prepared, problem = {}, None
    for line in sys.stdin:
        layout, *words = line.split()
        if words != problem:
            prepared, problem = {}, words
        if layout not in prepared:
            prepared[layout] = prepare(layout, *words[:2], *map(int, words[2:]), batch)
        repeat(prepared[layout], WARM_UP_S)
        print(f"{repeat(prepared[layout], MEASURED_S):.5f}", flush=True)


main()
