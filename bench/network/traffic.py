"""What a host sends for an all-reduce, by the counters of its interface, headers included; at the least, with H hosts,
it is 2 (H - 1) / H of the buffer."""
import os

import hosts, report

BYTES, ROUNDS = 64 << 20, 5
LAYOUTS = [(2, 1, "gloo"), (2, 2, "shm+gloo"), (4, 2, "shm+gloo")]  # hosts, ranks on each, backend


def sent(args, site, local, backend, rounds):
    """Bytes, on average over the hosts."""
    program = os.path.join(os.path.abspath(args.build), "bench/all_reduce/ours")
    before = [site.sent(host) for host in range(site.count)]
    site.run(local, lambda rank: [program, backend, str(BYTES), str(rounds)])
    return sum(site.sent(host) - old for host, old in enumerate(before)) / site.count


def measure(args):
    rows = []
    for count, local, backend in LAYOUTS[:1] if args.quick else LAYOUTS:
        with hosts.Hosts(count) as site:
            all_but_rounds = sent(args, site, local, backend, 0)
            of_buffer = (sent(args, site, local, backend, ROUNDS) - all_but_rounds) / ROUNDS / BYTES
        rows.append({"hosts": count, "ranks": local, "backend": backend, "of_buffer": of_buffer})
        hosts.progress(f"{count} x {local}, {backend}: {of_buffer:.3f} of the buffer")
    return report.result("network_traffic", {"bytes": BYTES, "repeats": 1}, rows, args.build, args.python)
