"""PyTorch's powerSGD_hook on the gradients that yoke's ranks had: the same results?

usage: powersgd.py FOLDER WORLD_SIZE RANK START_ITER
FOLDER holds shapes.txt (a line a gradient, in the bucket's order), local-R.bin (rank R's gradients of
all steps, weighted by 1 / WORLD_SIZE, f32) and result.bin (what yoke made of them). Two processes
run the hook over gloo. Its first factors are drawn as yoke draws them; every other line is PyTorch's.
"""
import multiprocessing
import os
import pathlib
import sys

try:
    import numpy
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
except ImportError as error:
    print(error)
    sys.exit(77)

WORD = (1 << 64) - 1
SEED, TOLERANCE = 5, 2e-4


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def draw(iteration, index):
    """src/ddp/powersgd.c's randomise(), for bucket 0."""
    bits = mix64(mix64(mix64(SEED ^ iteration << 32) ^ 0) ^ index)
    return sum((bits >> 16 * part & 0xFFFF) - 0x8000 for part in range(4)) / 0x8000


class Factors:
    """In place of torch.randn: yoke keeps each column of a factor as a run of memory."""

    def __init__(self, iteration):
        self.iteration, self.next = iteration, 0

    def __call__(self, batch, m, rank, **_):
        values = [draw(self.iteration, self.next + i) for i in range(m * rank)]
        self.next += m * rank
        return torch.tensor(values).view(rank, m).t().reshape(batch, m, rank)


class Bucket:
    def __init__(self, values, shapes):
        self.memory, self.views, at = torch.tensor(values), [], 0
        for shape in shapes:
            count = int(numpy.prod(shape))
            self.views.append(self.memory[at:at + count].view(*shape))
            at += count

    def index(self):
        return 0

    def is_last(self):
        return True

    def buffer(self):
        return self.memory

    def gradients(self):
        return self.views


def run_rank(folder, world, rank, approximation, start, results):
    dist.init_process_group("gloo", init_method="file://%s/store" % folder, rank=rank, world_size=world)
    shapes = [[int(n) for n in line.split()] for line in (folder / "shapes.txt").read_text().splitlines()]
    total = sum(int(numpy.prod(shape)) for shape in shapes)
    steps = numpy.fromfile(folder / ("local-%d.bin" % rank), dtype="f4").reshape(-1, total) * world
    state = powersgd.PowerSGDState(None, matrix_approximation_rank=approximation, start_powerSGD_iter=start,
                                   min_compression_rate=1e-9)
    for at, values in enumerate(steps):
        torch.randn = Factors(at + 1)
        bucket = Bucket(values, shapes)
        powersgd.powerSGD_hook(state, bucket).wait()
        results.append(bucket.buffer().numpy().copy())


def worker(*arguments):
    run_rank(*arguments, [])


def main():
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    folder, world, approximation, start = pathlib.Path(sys.argv[1]), *(int(a) for a in sys.argv[2:5])
    others = [multiprocessing.Process(target=worker, args=(folder, world, rank, approximation, start))
              for rank in range(1, world)]
    for process in others:
        process.start()
    theirs = []
    run_rank(folder, world, 0, approximation, start, theirs)
    for process in others:
        process.join()
    theirs = numpy.stack(theirs)
    ours = numpy.fromfile(folder / "result.bin", dtype="f4").reshape(theirs.shape)
    apart = numpy.abs(ours - theirs).max(axis=1) / numpy.abs(theirs).max(axis=1)
    print("%d steps on %d ranks, rank %d: PyTorch %s and yoke differ by up to %.2g of the largest gradient"
          % (len(ours), world, approximation, torch.__version__, apart.max()))
    sys.stdout.flush()
    # Not by way of destroy_process_group(): the hook's last callback may still hold the group in a
    # thread of gloo's, which would then be the one to destroy it, join itself and abort.
    os._exit(0 if len(ours) > start and apart.max() < TOLERANCE else 1)


main()
