"""Data-parallel training over a network, next to PyTorch DDP with gloo: ResNet-18 (CIFAR stem, f32), 64 images per rank.

Two hosts; each has half of the cores, and its ranks share them. The programs run in turn. Exposed communication is how
much longer a step takes than its neighbours, which exchange nothing (no_sync); both sides are measured in this way
(report.exposed_ms). The ranks compute on the cores that also move the gradients, so it contains the processor time of the
exchange; what yoke reports is only how long it waits after backward. A side whose standard error is large, because the
machine was disturbed, is measured again. At a limited rate, hooks that compress gradients are compared too; yoke's bf16
with PyTorch's fp16, since gloo does not sum bf16.

What a host sends in a step is counted at its interface. Its backward without exchange takes as long as can be hidden. What
cannot be hidden is the processor time that TCP takes for these bytes (tcp.py), since no core of a host is idle, unless
the link keeps backward waiting.
"""
import json, os

import hosts, report

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, THREADS = 64, 1
TUNED = ("glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=8589934592:"
         "glibc.malloc.trim_threshold=17179869184")
PEER_HOOKS = {"bf16": "fp16"}
EXCHANGES = 20  # by TCP alone
PRECISE_MS = 10  # a standard error above this is too large


def train_yoke(site, args, local, hook):
    program = os.path.join(os.path.abspath(args.build), "bench/network/train")
    command = [program, str(BATCH), str(args.steps), str(THREADS), hook]
    return json.loads(site.run(local, lambda rank: command).splitlines()[-1])


def train_pytorch(site, args, local, hook):
    command = [args.python, os.path.join(HERE, "pytorch_train.py"), str(BATCH), str(args.steps), str(THREADS),
               PEER_HOOKS.get(hook, hook)]
    output = site.run(local, lambda rank: command, {"GLIBC_TUNABLES": TUNED, "GLOO_SOCKET_IFNAME": "eth0"})
    return json.loads([line for line in output.splitlines() if "{" in line][-1])


def measure_tcp(args, site, row):
    """Seconds of the processor, of one rank on each host, for the bytes that a host sends in a step of yoke."""
    sent = int(report.median(pair["sent"] for pair in report.pairs_of(row, "yoke")))
    command = [args.python, os.path.join(HERE, "tcp.py"), str(sent), str(EXCHANGES)]
    return json.loads(site.run(1, lambda rank: command))


SIDES = {"yoke": train_yoke, "pytorch": train_pytorch}


def measure(args, site):
    rates, locals_ = (["none"], [1]) if args.quick else (["none", "1gbit"], [1, 2])
    settings = [(rate, local, hook) for rate in rates for local in locals_
                for hook in (["none"] if rate == "none" else ["none", "bf16", "powersgd"])]
    rows = [{"ranks": local, "rate": rate, "hook": hook, "yoke": [], "pytorch": [], "tcp": []}
            for rate, local, hook in settings]
    repeats = args.repeats or 2
    for repeat in range(repeats if args.quick else 2 * repeats):
        for row in rows:
            sides = [side for side in SIDES if repeat < repeats or report.exposed_ms(row, side)[1] > PRECISE_MS]
            site.limit(None if row["rate"] == "none" else row["rate"])
            measure_row(args, site, row, sides)
    site.limit(None)
    return report.result("network_train", {"hosts": site.count, "batch": BATCH, "steps": args.steps,
                                           "repeats": repeats}, rows, args.build, args.python)


def measure_row(args, site, row, sides):
    """One repeat: a list of pairs of steps, with and without exchange, for each of these sides; then TCP alone."""
    for side in sides:
        row[side].append(SIDES[side](site, args, row["ranks"], row["hook"]))
        exposed, error = report.exposed_ms(row, side)
        hosts.progress(f"{row['ranks']} ranks, {row['rate']}, {row['hook']}: "
                       f"{side} exposes {exposed:.0f} ± {error:.0f} ms")
    row["tcp"] += measure_tcp(args, site, row)
