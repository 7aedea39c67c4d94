"""Data-parallel training over a network, next to PyTorch DDP with gloo: ResNet-18 (CIFAR stem, f32), 64 images per rank.

Two hosts; each has half of the cores, and its ranks share them. The programs run in turn. Exposed communication is how
much longer a step takes than the next one, which exchanges nothing (no_sync); both sides are measured in this way. The
ranks compute on the cores that also move the gradients, so it contains the processor time of the exchange; what yoke
reports is only how long it waits after backward. A step of rank 0 that exchanges also waits for the other ranks, whose
own steps vary; the steps of the slowest rank, which are kept too, do not differ by that. At a limited rate, hooks that compress gradients are compared too;
yoke's bf16 with PyTorch's fp16, since gloo does not sum bf16.

What a host sends in a step is counted at its interface. Its backward without exchange takes as long as can be hidden.
"""
import json, os, statistics

import hosts, report

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, THREADS = 64, 1
TUNED = ("glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=8589934592:"
         "glibc.malloc.trim_threshold=17179869184")
PEER_HOOKS = {"bf16": "fp16"}


def train_yoke(site, args, local, hook):
    program = os.path.join(os.path.abspath(args.build), "bench/network/train")
    command = [program, str(BATCH), str(args.steps), str(THREADS), hook]
    return json.loads(site.run(local, lambda rank: command).splitlines()[-1])


def train_pytorch(site, args, local, hook):
    command = [args.python, os.path.join(HERE, "pytorch_train.py"), str(BATCH), str(args.steps), str(THREADS),
               PEER_HOOKS.get(hook, hook)]
    output = site.run(local, lambda rank: command, {"GLIBC_TUNABLES": TUNED, "GLOO_SOCKET_IFNAME": "eth0"})
    return json.loads([line for line in output.splitlines() if "{" in line][-1])


SIDES = {"yoke": train_yoke, "pytorch": train_pytorch}


def measure(args, site):
    rates, locals_ = (["none"], [1]) if args.quick else (["none", "1gbit"], [1, 2])
    settings = [(rate, local, hook) for rate in rates for local in locals_
                for hook in (["none"] if rate == "none" else ["none", "bf16", "powersgd"])]
    rows = [{"ranks": local, "rate": rate, "hook": hook, "yoke": [], "pytorch": []} for rate, local, hook in settings]
    for _ in range(args.repeats or 3):
        for row in rows:
            site.limit(None if row["rate"] == "none" else row["rate"])
            measure_row(args, site, row)
    site.limit(None)
    return report.result("network_train", {"hosts": site.count, "batch": BATCH, "steps": args.steps,
                                           "repeats": args.repeats or 3}, rows, args.build, args.python)


def measure_row(args, site, row):
    """One repeat: a list of pairs of steps, with and without exchange, for each side."""
    for side, train in SIDES.items():
        row[side].append(train(site, args, row["ranks"], row["hook"]))
    middle = lambda side, time: statistics.median(pair[time] for pair in row[side][-1])
    hosts.progress(f"{row['ranks']} ranks, {row['rate']}, {row['hook']}: " + ", ".join(
        f"{side} {middle(side, 'step_s'):.3f} s, without exchange {middle(side, 'apart_s'):.3f} s" for side in SIDES))
