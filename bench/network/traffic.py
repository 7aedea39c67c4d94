"""What a host sends for an all-reduce and for an all-gather, by the counters of its interface, headers included. At the
least, with H hosts, it is 2 (H - 1) / H of the buffer and (H - 1) / H of the result."""
import os

import hosts, report

BYTES, ROUNDS = 64 << 20, 5
OPERATIONS = {"all-reduce": [], "all-gather": ["all_gather"]}  # and the arguments that ask for it
LAYOUTS = [(2, 1, "tcp"), (2, 2, "shm+tcp"), (4, 2, "shm+tcp")]  # hosts, ranks on each, backend


def sent(args, site, local, backend, operation, rounds):
    """Bytes, on average over the hosts."""
    program = os.path.join(os.path.abspath(args.build), "bench/all_reduce/ours")
    before = [site.sent(host) for host in range(site.count)]
    site.run(local, lambda rank: [program, backend, str(BYTES), str(rounds), *OPERATIONS[operation]])
    return sum(site.sent(host) - old for host, old in enumerate(before)) / site.count


def measure(args):
    rows = []
    for count, local, backend in LAYOUTS[:1] if args.quick else LAYOUTS:
        with hosts.Hosts(count) as site:
            for operation in OPERATIONS:
                all_but_rounds = sent(args, site, local, backend, operation, 0)
                of_buffer = (sent(args, site, local, backend, operation, ROUNDS) - all_but_rounds) / ROUNDS / BYTES
                rows.append({"operation": operation, "hosts": count, "ranks": local, "backend": backend,
                             "of_buffer": of_buffer})
                hosts.progress(f"{operation}, {count} x {local}, {backend}: {of_buffer:.3f} of the buffer")
    return report.result("network_traffic", {"bytes": BYTES, "repeats": 1}, rows, args.build, args.python)
