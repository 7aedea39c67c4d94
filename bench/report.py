"""Raw results of the benchmarks, and the tables made of them.

A result is a dict {"benchmark", "machine", "settings", "rows"}; its rows hold every repeat, so that a table
can be computed from it again. bench/tables writes the tables of docs/benchmarks.md from bench/results/*.json.
"""
import json, os, platform, random, re, statistics, subprocess

median = statistics.median


# What limits oneDNN and yoke, PyTorch's own kernels, and MKL.
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


def limit_vectors(isa, settings):
    """With isa "avx2", the programs that are started leave wider vectors alone, and the settings of the result say so."""
    if isa:
        os.environ.update(AVX2)
        settings["isa"] = "AVX2"


def machine():
    """What a figure depends on: the processor, the cores, the system and the libraries."""
    def first(pattern, text, otherwise=""):
        found = re.search(pattern, text, re.M)
        return found.group(1).strip() if found else otherwise

    cpu = open("/proc/cpuinfo").read()
    flags = set(first(r"^flags\s*:(.*)", cpu).split())
    vectors = [name for flag, name in (("avx2", "AVX2"), ("avx512f", "AVX-512"), ("avx512_bf16", "AVX-512 BF16"),
                                       ("amx_bf16", "AMX")) if flag in flags]
    system = first(r'^PRETTY_NAME="?([^"\n]*)', open("/etc/os-release").read(), platform.system())
    return {"processor": first(r"^model name\s*:(.*)", cpu, platform.machine()), "vectors": vectors,
            "cores": len(os.sched_getaffinity(0)), "system": system}


def versions(build, python, env=None):
    """The versions of yoke, which runs in the environment env, of oneDNN and of PyTorch that were compared."""
    def output(*command, env=None):
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        return done.stdout if done.returncode == 0 else ""

    yoke = os.path.join(build, "yoke")
    found = {"yoke": output(yoke, "--version", env=env).replace("yoke", "").strip()}
    dnn = re.search(r"oneDNN ([0-9.]+)", output(yoke, "info", env=env))
    if dnn:
        found["oneDNN"] = dnn.group(1)
    torch = output(python, "-c", "import torch; print(torch.__version__)").strip()
    if torch:
        found["PyTorch"] = torch
    return found


def result(benchmark, settings, rows, build, python="/usr/bin/python3", env=None):
    return {"benchmark": benchmark, "machine": machine(), "versions": versions(build, python, env),
            "settings": settings, "rows": rows}


def save(found, path):
    with open(path, "w") as file:
        json.dump(found, file, indent=1)
        file.write("\n")


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def runs(settings):
    """How often each program was run."""
    if "seeds" in settings:
        return f"One run with each of {settings['seeds']} seeds"
    repeats = settings["repeats"]
    return f"Medians of {repeats} interleaved repeats" if repeats > 1 else "One run of each"


def describe(found):
    """One line: where and with what the figures were taken."""
    m, cores = found["machine"], found["machine"]["cores"]
    libraries = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    vectors = ", ".join(m["vectors"])
    if "isa" in found["settings"]:
        vectors += f"; only {found['settings']['isa']} is used"
    return (f"{runs(found['settings'])} on {cores} core{'s' * (cores > 1)} of an "
            f"{m['processor']} ({vectors}), {m['system']}; {libraries}.")


# ---- one function for each benchmark: the table of a result --------------------------------------

def step_table(found):
    """Images per second of each program, how many times as fast as PyTorch yoke is, and what it needs."""
    peers = [mode for mode in ("eager", "compile") if mode in found["rows"][0]]
    rows = []
    for row in found["rows"]:
        rate = {side: median(r["images_per_s"] for r in row[side]) for side in ["yoke", *peers]}
        peak = {side: median(r["peak_mb"] for r in row[side]) for side in ["yoke", "eager"]}
        exposed = median(100 * r["exposed_ms"] / r["step_ms"] for r in row["yoke"])
        rows.append([f"{row['arch']}, {row['batch']} of {row['image_size']}x{row['image_size']}",
                     "f32" if row["amp"] == "off" else row["amp"], f"{row['ranks']} x {row['threads']}",
                     f"{rate['yoke']:.1f}", *(f"{rate[side]:.1f} ({rate['yoke'] / rate[side]:.2f})" for side in peers),
                     f"{exposed:.1f} %" if row["ranks"] > 1 else "", f"{peak['yoke']:.0f} / {peak['eager']:.0f}"])
    return markdown(["network, images per step", "", "ranks x threads", "yoke",
                     *({"eager": "PyTorch", "compile": "torch.compile"}[mode] for mode in peers),
                     "exposed communication", "peak MB per rank: yoke / PyTorch"], rows)


def size_text(size):
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size / 1e6:.1f} MB" if size > 1e6 else f"{size} B"


def time_text(us):
    return f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:.0f}"


def all_reduce_table(found):
    programs = found["rows"]
    rows = []
    for size in programs["yoke"][0]:
        times = [median(repeat[size] for repeat in programs[name]) for name in programs]
        rows.append([size_text(int(size)), time_text(times[0])] +
                    [f"{time_text(us)} ({us / times[0]:.1f})" for us in times[1:]])
    return markdown(["", *programs], rows)


def all_reduce_bound_table(found):
    """Microseconds, and in brackets the bound's share of them. Small sums, which mostly wait, have no bound."""
    header = [""] + [f"{row['ranks']} ranks, {row['buffers']}" for row in found["rows"]]
    rows = []
    for at, first in enumerate(found["rows"][0]["repeats"][0]):
        if first["bound_microseconds"] is None:
            continue
        cells = []
        for row in found["rows"]:
            times = [repeat[at]["microseconds"][0] for repeat in row["repeats"]]
            shares = [repeat[at]["bound_microseconds"] / repeat[at]["microseconds"][0] for repeat in row["repeats"]]
            cells.append(f"{time_text(median(times))} ({100 * median(shares):.0f} %)")
        rows.append([size_text(first["bytes"])] + cells)
    return markdown(header, rows)


def rate_of(rate):
    """Bits per second of a rate such as 1gbit."""
    return 1e9 * float(rate.removesuffix("gbit"))


def link_seconds(size, hosts, rate):
    """What a link of this rate, e.g. 1gbit, needs at the least for an all-reduce among the hosts."""
    return 2 * (hosts - 1) / hosts * size * 8 / rate_of(rate)


def network_table(found):
    programs, peers, rate = found["rows"], found["settings"]["peers"], found["settings"].get("rate")
    header = [""] + [f"{name} (/ {peers[name]})" if name in peers else name for name in programs]
    rows = []
    for size in next(iter(programs.values()))[0]:
        times = {name: median(repeat[size] for repeat in repeats) for name, repeats in programs.items()}
        row = [size_text(int(size))] + [time_text(us) + (f" ({us / times[peers[name]]:.2f})" if name in peers else "")
                                        for name, us in times.items()]
        if rate:
            row.append(time_text(1e6 * link_seconds(int(size), found["settings"]["hosts"], rate)))
        rows.append(row)
    return markdown(header + (["the link alone"] if rate else []), rows)


def pairs_of(row, side):
    """All pairs of steps, with and without exchange, that were measured."""
    return [pair for repeat in row[side] for pair in repeat]


def middle_mean(values):
    """The mean of the middle half: as robust as the median against few disturbed steps, and more precise."""
    ordered = sorted(values)
    cut = len(ordered) // 4
    return statistics.mean(ordered[cut:len(ordered) - cut])


def with_error(values):
    """Their middle mean and its standard error, from samples of the samples."""
    draw = random.Random(1)
    means = [middle_mean(draw.choices(values, k=len(values))) for _ in range(500)]
    return middle_mean(values), statistics.stdev(means)


def exposed_ms(row, side):
    """By how much steps are longer than the steps without exchange before and after them, whose mean follows the drift of
    the machine's speed. The time of a step is the slowest rank's on both sides: to wait for a slower rank is no cost of the
    exchange. The middle mean, and its standard error."""
    return with_error([1e3 * (pair["slowest_step_s"] - (before["slowest_apart_s"] + pair["slowest_apart_s"]) / 2)
                       for repeat in row[side] for before, pair in zip(repeat, repeat[1:])])


def processor_ms(row, side):
    """How much more processor time rank 0 takes for a step with exchange."""
    return middle_mean([1e3 * (pair["processor_s"] - pair["processor_apart_s"]) for pair in pairs_of(row, side)])


def exposed_bound(row):
    """Milliseconds: what the link needs for what a host sends, at a limited rate; how long backward takes, in which it can
    be hidden; what TCP alone takes of the processor, which cannot be, unless the link keeps backward waiting; and what is
    then exposed at the least."""
    pairs, limited = pairs_of(row, "yoke"), row["rate"] != "none"
    link = 8e3 * median(pair["sent"] for pair in pairs) / rate_of(row["rate"]) if limited else 0
    hidden, tcp = 1e3 * median(pair["backward_s"] for pair in pairs), 1e3 * median(row["tcp"])
    return [f"{link:.0f}" if limited else "", f"{hidden:.0f}", f"{tcp:.1f}", f"{max(link - hidden, tcp):.0f}"]


def network_train_table(found):
    hosts, batch, sides = found["settings"]["hosts"], found["settings"]["batch"], ("yoke", "pytorch")
    rows = []
    for row in found["rows"]:
        step = {side: median(pair["step_s"] for pair in pairs_of(row, side)) for side in sides}
        exposed = {side: exposed_ms(row, side) for side in sides}
        images = hosts * row["ranks"] * batch
        waits = 1e3 * median(pair["reported_exposed_s"] for pair in pairs_of(row, "yoke"))
        ours, theirs = exposed["yoke"][0], exposed["pytorch"][0]
        rows.append([f"{hosts} x {row['ranks']}", "veth" if row["rate"] == "none" else row["rate"], row["hook"],
                     f"{images / step['yoke']:.1f}", f"{images / step['pytorch']:.1f}",
                     f"{step['pytorch'] / step['yoke']:.2f}", *(f"{mean:.0f} ± {error:.0f}" for mean, error in exposed.values()),
                     f"{ours / theirs:.2f}" if theirs > 0 else "",
                     " / ".join(f"{processor_ms(row, side):.0f}" for side in sides), f"{waits:.0f}", *exposed_bound(row)])
    return markdown(["hosts x ranks", "link", "hook", "yoke, images/s", "PyTorch", "ratio", "yoke, exposed ms", "PyTorch",
                     "ratio", "processor ms: yoke / PyTorch", "yoke waits, ms", "the link needs, ms", "backward, ms",
                     "TCP alone, processor ms", "exposed at the least, ms"], rows)


def network_traffic_table(found):
    times = {"all-reduce": 2, "all-gather": 1}
    rows = [[row["operation"], f"{row['hosts']} x {row['ranks']}", row["backend"], f"{row['of_buffer']:.3f}",
             f"{times[row['operation']] * (row['hosts'] - 1) / row['hosts']:.3f}"] for row in found["rows"]]
    return markdown(["", "hosts x ranks", "backend", "sent by a host, of the buffer", "at the least"], rows)


def network_local_sgd_table(found):
    """Images per second of each way to train, and how many times as fast as the first it is."""
    ways = list(found["rows"][0]["images_per_s"])
    rows = []
    for row in found["rows"]:
        rates = [median(row["images_per_s"][way]) for way in ways]
        rows.append(["veth" if row["rate"] == "none" else row["rate"], f"{rates[0]:.1f}",
                     *(f"{rate:.1f} ({rate / rates[0]:.2f})" for rate in rates[1:])])
    return markdown(["link", *ways], rows)


def network_startup_table(found):
    return markdown(["a job of 2 x 2 ranks", "seconds"],
                    [["from exec of the launchers to the end of the first step", f"{median(found['rows']['first step']):.2f}"],
                     ["the whole job of one step", f"{median(found['rows']['whole job']):.2f}"]])


def network_faults_table(found):
    return markdown(["fault", "seconds until the remaining hosts have ended"],
                    [[name, f"{median(seconds):.1f}"] for name, seconds in found["rows"].items()])


def features_table(found):
    rows = []
    for row in found["rows"]:
        without, with_it = (median(row[side]) for side in ("without", "with"))
        rows.append([f"`{row['feature']}`", f"{without:.0f}", f"{with_it:.0f}", f"{100 * (with_it / without - 1):+.1f} %"])
    return markdown(["with", "ms per step without it", "ms per step with it", "cost"], rows)


def startup_table(found):
    return markdown(["", "seconds"],
                    [["yoke: from exec to the end of the first step, minus one step",
                      f"{median(found['rows']['yoke']):.2f}"],
                     ["PyTorch: `import torch` alone", f"{median(found['rows']['pytorch']):.2f}"]])


def scaling_table(found):
    rows = [[row["name"], f"{row['images_per_s']:.1f}", f"{row['speedup']:.2f}", f"{100 * row['efficiency']:.0f} %",
             f"{row['exposed_percent']:.1f} %"] for row in found["rows"]]
    return markdown(["", "images/s", "speed-up", "efficiency", "exposed communication"], rows)


def accuracy_table(found):
    rows = []
    for row in found["rows"]:
        means = [statistics.mean(seed[epoch] for seed in row["seeds"]) for epoch in range(len(row["seeds"][0]))]
        rows.append([row["name"]] + [", ".join(f"{value:.1f}" for value in values) for values in [*row["seeds"], means]])
    return markdown([""] + [f"seed {i}" for i in range(len(found["rows"][0]["seeds"]))] + ["mean"], rows)


def loader_table(found):
    rate = {name: median(values) for name, values in found["rows"].items()}
    rows = [(title, rate[name], rate[peer], words) for title, name, peer, words in (
        ("JPEG file to pixels", "yoke", "libjpeg-turbo", "libjpeg-turbo alone"),
        ("1600 x 1200, of which 224 are wanted", "large_yoke_224", "large_libjpeg-turbo", "libjpeg-turbo, all pixels"),
        ("JPEG files to batches, random resized crops", "loader", "torchvision", "torchvision with Pillow"),
        ("the same, packed as JPEG", "packed_jpeg", "torchvision", "torchvision with Pillow"),
        ("the same, packed as pixels", "packed_pixels", "torchvision", "torchvision with Pillow"),
        ("packed pixels to batches, random crops", "packed_cropped", "memcpy", "memcpy of the same bytes"))]
    return markdown(["", "yoke", "peer", "ratio", "the peer"],
                    [[title, f"{ours:.0f}", f"{theirs:.0f}", f"{ours / theirs:.2f}", words]
                     for title, ours, theirs, words in rows])


def kernel_ratio(row):
    """How many times as fast as the faster of PyTorch's layouts yoke is."""
    return min(median(row[layout]) for layout in ("contiguous", "channels_last")) / median(row["yoke"])


def operator_ratio(row):
    """How many times as fast as the fastest form of PyTorch's operator yoke's is."""
    return min(median(times) for times in row["pytorch"].values()) / median(row["yoke"])


def operators_table(found):
    """A row for each operator and shape; in each cell the ratios forward and of the gradient."""
    measured = {(row["threads"], row["dtype"]) for row in found["rows"]}
    columns = [(threads, dtype) for threads in (1, 2) for dtype in ("f32", "bf16") if (threads, dtype) in measured]
    cells, names = {}, {}
    for row in found["rows"]:
        shape = (row["operator"], row["shape"], row["other"])
        names[shape] = f"`{row['operator']}` {row['shape']}" + f" and {row['other']}" * (row["other"] != "1")
        cells.setdefault((shape, row["threads"], row["dtype"]), []).append(f"{operator_ratio(row):.2f}")
    ratios = [operator_ratio(row) for row in found["rows"]]
    fast = sum(ratio >= 1 for ratio in ratios)
    return (f"{fast} of {len(ratios)} are at least as fast as PyTorch's; the slowest of all reaches {min(ratios):.2f} "
            "of its speed.\n\n" + markdown(
                ["operator"] + [f"{dtype}, {threads} thread{'s' * (threads > 1)}" for threads, dtype in columns],
                [[name, *(", ".join(cells.get((shape, *column), [])) for column in columns)]
                 for shape, name in names.items()]))


def groups_table(found):
    """A row for each shape; in each cell the ratios forward, of the gradient of x and of that of the weights."""
    columns = [(threads, dtype) for threads in (1, 2) for dtype in ("f32", "bf16")]
    cells, names = {}, {}
    for row in found["rows"]:
        channels, _, side, kernel, stride, _, _, groups = shape = tuple(row["shape"])
        kind = "depthwise" if groups == channels else f"in {groups} groups"
        names[shape] = f"{channels} {kind}, {kernel}x{kernel} at {side}x{side}{', stride 2' * (stride == 2)}"
        cells.setdefault((shape, row["threads"], row["dtype"]), []).append(f"{kernel_ratio(row):.2f}")
    ratios = [kernel_ratio(row) for row in found["rows"]]
    fast = sum(ratio >= 1 for ratio in ratios)
    return (f"{fast} of {len(ratios)} kernels are at least as fast as PyTorch's; the slowest of all reaches {min(ratios):.2f} "
            "of its speed.\n\n" + markdown(
                ["channels, filters, images"] + [f"{dtype}, {threads} thread{'s' * (threads > 1)}" for threads, dtype in columns],
                [[name, *(", ".join(cells.get((shape, *column), [])) for column in columns)]
                 for shape, name in names.items()]))


def freeze_table(found):
    rows = []
    for name, title in (("yoke", "yoke"), ("pytorch", "PyTorch")):
        trained, frozen = (median(found["rows"][name][mode]) for mode in ("trained", "frozen"))
        rows.append([title, f"{trained:.0f}", f"{frozen:.0f}", f"{trained / frozen:.2f}"])
    return markdown(["", "all trained", "backbone frozen", "ratio"], rows)


TABLES = {"step": step_table, "freeze": freeze_table, "groups": groups_table, "operators": operators_table, "all_reduce": all_reduce_table, "network": network_table,
          "network_train": network_train_table,
          "network_traffic": network_traffic_table, "network_startup": network_startup_table,
          "network_local_sgd": network_local_sgd_table,
          "network_faults": network_faults_table, "features": features_table, "startup": startup_table,
          "all_reduce_bound": all_reduce_bound_table,
          "scaling": scaling_table, "accuracy": accuracy_table, "loader": loader_table}


def table(found):
    return TABLES[found["benchmark"]](found)
