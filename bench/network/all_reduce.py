"""yoke's all-reduce over a network, that of other engines, and PyTorch's.

Hosts with `local` ranks each. The programs run in turn, A B C A B C ...; the table shows medians over the
repeats, in microseconds. What was not built, or is not installed, is left out. Where a host may send only so much,
yoke's backends are compared with each other, and with the time that the link needs at the least.
"""
import json, os, shutil, sys, tempfile

import hosts, report

HERE = os.path.dirname(os.path.abspath(__file__))

# What a column is compared with: yoke's own network with gloo's benchmark, and yoke on MPI with that MPI's.
PEERS = {"yoke tcp": "gloo", "yoke Open MPI": "Open MPI", "yoke MPICH": "MPICH", "yoke shm+tcp": "gloo",
         "yoke shm+mpi": "Open MPI"}


def figures(output):
    lines = [line for line in output.splitlines() if "{" in line]
    if not lines:
        sys.exit("no figures in:\n" + output)
    return {int(size): us for size, us in json.loads(lines[-1][lines[-1].index("{"):]).items()}


def share_cores(site, local):
    return site.count * local > len({core for cores in site.cores for core in cores})


def mpi_commands(site, local, program):
    """mpirun of each kind; a host is limited to its cores by the wrapper, so that no MPI binds ranks itself."""
    ranks, names = site.count * local, ",".join(f"n{i + 1}:{local}" for i in range(site.count))
    share = os.path.join(site.folder, "share")
    with open(share, "w") as file:
        cases = "".join(f"n{i + 1}) exec taskset -c {','.join(map(str, cores))} \"$@\" ;;\n"
                        for i, cores in enumerate(site.cores))
        file.write(f"#!/bin/sh\ncase $(hostname) in\n{cases}esac\n")
    os.chmod(share, 0o755)
    # Open MPI's ranks wait busily, which takes ten times as long where ranks share a core.
    crowded = str(int(share_cores(site, local)))
    return {"Open MPI": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca",
                         "mpi_yield_when_idle", crowded, "--mca",
                         "plm_rsh_agent", site.ssh, "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include",
                         "eth0", "-np", str(ranks), "--host", names, share, *program],
            "MPICH": ["mpirun.mpich", "-launcher", "ssh", "-launcher-exec", site.ssh, "-iface", "eth0", "-bind-to",
                      "none", "-np", str(ranks), "-hosts", names, share, *program]}


def gloo(site, local, program, algorithm):
    with tempfile.TemporaryDirectory() as store:
        return site.run(local, lambda rank: [program, str(rank), str(site.count * local), store,
                                             f"10.77.0.{rank // local + 1}", algorithm])


def programs(args, site, local):
    """Name to a function that measures once."""
    folder = os.path.join(os.path.abspath(args.build), "bench/all_reduce")
    ours, engine = os.path.join(folder, "ours"), os.path.join(folder, "gloo")
    found = {}

    def add_mpi(name, mpi, program):
        module = {"Open MPI": "openmpi", "MPICH": "mpich"}[mpi]
        if (os.path.exists(program[0]) and shutil.which(f"mpirun.{module}")
                and os.path.exists(os.path.join(args.build, f"libyoke-mpi-{module}.so"))):
            found[name] = lambda: site.run_one(mpi_commands(site, local, program)[mpi])

    if local > 1:
        found["yoke shm+tcp"] = lambda: site.run(local, lambda rank: [ours, "shm+tcp"])
    found["yoke tcp"] = lambda: site.run(local, lambda rank: [ours, "tcp"])
    if os.path.exists(engine):
        algorithm = "ring" if site.count * local == 2 else "bcube"  # the faster one
        found["gloo"] = lambda: gloo(site, local, engine, algorithm)
    if local == 1:
        script = os.path.join(HERE, "pytorch_all_reduce.py")
        found["PyTorch gloo"] = lambda: site.run(local, lambda rank: [args.python, script],
                                                 {"GLOO_SOCKET_IFNAME": "eth0"})
    if local > 1:
        add_mpi("yoke shm+mpi", "Open MPI", [ours, "shm+mpi"])
    add_mpi("yoke Open MPI", "Open MPI", [ours, "mpi"])
    add_mpi("Open MPI", "Open MPI", [os.path.join(folder, "ompi-c")])
    if not share_cores(site, local):  # MPICH's ranks always wait busily
        add_mpi("yoke MPICH", "MPICH", [ours, "mpi"])
        add_mpi("MPICH", "MPICH", [os.path.join(folder, "mpich")])
    return found


def measure(args, site, local, rate=None):
    """What bench/network/run saves: `local` ranks on each host, which sends `rate` at the most."""
    running = programs(args, site, local)
    if rate:
        running = {name: run for name, run in running.items() if name.startswith("yoke")}
    if args.columns:
        running = {name: run for name, run in running.items() if name in args.columns}
    rows, repeats = {name: [] for name in running}, args.repeats or (5 if local == 1 else 3)
    site.limit(rate)
    for _ in range(repeats):
        for name, run in running.items():
            rows[name].append(figures(run()))
            hosts.progress(f"{name}: {rows[name][-1]}")
    own = {"yoke shm+tcp": "yoke tcp", "yoke shm+mpi": "yoke Open MPI"} if rate else PEERS
    peers = {name: peer for name, peer in own.items() if name in rows and peer in rows}
    return report.result("network", {"hosts": site.count, "ranks": local, "rate": rate, "repeats": repeats,
                                     "peers": peers}, rows, args.build, args.python)
