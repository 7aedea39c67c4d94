"""What tests/gpu/verify and bench/gpu/run ask of the GPU itself: the driver's calls, NVIDIA's libraries, our kernels."""
import ctypes, glob, os, statistics, sys, threading, time
from ctypes import c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p


class Failure(Exception):
    pass


# ---- the driver ---------------------------------------------------------------------------------

class Driver:
    """The calls of CUDA 12.0, as the driver itself finds them."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name, *arguments):
        address, found = c_void_p(), c_int()
        if self.library.cuGetProcAddress_v2(name.encode(), ctypes.byref(address), 12000, c_uint64(0),
                                            ctypes.byref(found)) or not address.value:
            raise Failure(f"the driver has no {name}")
        status = ctypes.CFUNCTYPE(c_int)(address.value)(*arguments)
        if status:
            raise Failure(f"{name} returned {status}")


def open_driver():
    """The driver with a context on the first GPU, or why there is none."""
    count, context = c_int(), c_void_p()
    try:
        driver = Driver()
        driver("cuInit", 0)
        driver("cuDeviceGetCount", ctypes.byref(count))
        if count.value == 0:
            return None, "the driver shows none"
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        driver("cuCtxSetCurrent", context)
        return driver, None
    except (OSError, AttributeError, Failure) as error:
        return None, str(error)


def count(driver):
    found = c_int()
    driver("cuDeviceGetCount", ctypes.byref(found))
    return found.value


class Watch:
    """How much of the GPU's memory all processes use, from time to time while it is open."""

    def __init__(self, driver, seconds):
        self.driver, self.seconds, self.used = driver, seconds, []
        self.done, self.thread = threading.Event(), threading.Thread(target=self.look, daemon=True)

    def look(self):
        context, free, total = c_void_p(), c_size_t(), c_size_t()
        self.driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.driver("cuCtxSetCurrent", context)
        while not self.done.wait(self.seconds):
            self.driver("cuMemGetInfo", ctypes.byref(free), ctypes.byref(total))
            self.used.append(total.value - free.value)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()


def call(library, name, *arguments):
    status = getattr(library, name)(*arguments)
    if status:
        raise Failure(f"{name} returned {status}")


# ---- libraries ----------------------------------------------------------------------------------

LIBRARIES = ("libcudnn.so.9", "libcublasLt.so.13", "libnvrtc.so.13", "libnccl.so.2")


def folders_of(name):
    """Where the library lies: in YOKE_CUDA_LIBS, in PyTorch's packages, in CUDA's folders."""
    named = [f for f in os.environ.get("YOKE_CUDA_LIBS", "").split(":") if f]
    packages = [f for path in sys.path for f in sorted(glob.glob(os.path.join(path, "nvidia", "*", "lib")))]
    toolkits = sorted(glob.glob("/usr/local/cuda*/lib64") + glob.glob("/usr/local/cuda*/lib"))
    return [f for f in named + packages + toolkits if os.path.exists(os.path.join(f, name))]


def find_library(name):
    """Where yoke finds it, and what it is called there."""
    named = [f for f in folders_of(name) if f in os.environ.get("YOKE_CUDA_LIBS", "").split(":")]
    for path in [os.path.join(f, name) for f in named] + [name] + [os.path.join(f, name) for f in folders_of(name)]:
        try:
            return ctypes.CDLL(path), path
        except OSError:
            pass
    return None, None


def environment(build):
    """Of yoke's programs: its own libraries, where tests/gpu/pack has put them, and those of NVIDIA that the loader
    does not find by itself."""
    env = dict(os.environ)
    own = os.path.join(build, "libs")
    if os.path.isdir(own):
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, (build, own, env.get("LD_LIBRARY_PATH"))))
    env.setdefault("YOKE_MODULES", build)
    if not env.get("YOKE_CUDA_LIBS"):
        found = [folders_of(name)[0] for name in LIBRARIES if folders_of(name)]
        env["YOKE_CUDA_LIBS"] = ":".join(dict.fromkeys(found))
    return env


# ---- measuring ----------------------------------------------------------------------------------

class Room:
    """A stream, two events, and memory that is freed at the end."""

    def __init__(self, driver):
        self.driver, self.memory = driver, []
        self.stream, self.events = c_void_p(), (c_void_p * 2)()

    def __enter__(self):
        self.driver("cuStreamCreate", ctypes.byref(self.stream), 1)
        for i in range(2):
            self.driver("cuEventCreate", ctypes.byref(self.events, 8 * i), 0)
        return self

    def __exit__(self, *_):
        for address in self.memory:
            try:
                self.driver("cuMemFree", c_uint64(address))
            except Failure:
                pass

    def alloc(self, size, byte=0):
        address = c_uint64()
        self.driver("cuMemAlloc", ctypes.byref(address), c_size_t(size))
        self.memory.append(address.value)
        self.driver("cuMemsetD8Async", address, ctypes.c_ubyte(byte), c_size_t(size), self.stream)
        return address.value

    def upload(self, data):
        address = self.alloc(len(data))
        self.driver("cuMemcpyHtoDAsync", c_uint64(address), data, c_size_t(len(data)), self.stream)
        self.driver("cuStreamSynchronize", self.stream)
        return address

    def randomize(self, address, size):
        """Numbers of 16 bits, below 2: copies of one block, which is larger than what a thread block reads."""
        block = bytearray(os.urandom(min(size, 1 << 20)))
        block[1::2] = bytes(block[1::2]).translate(bytes(byte & 0xbf for byte in range(256)))
        drawn = self.upload(bytes(block))
        for at in range(0, size, len(block)):
            self.driver("cuMemcpyDtoDAsync", c_uint64(address + at), c_uint64(drawn),
                        c_size_t(min(len(block), size - at)), self.stream)

    def milliseconds(self, work, repeats=7):
        """The median of several runs, after one that does not count."""
        times = []
        for _ in range(repeats + 1):
            elapsed = ctypes.c_float()
            self.driver("cuEventRecord", c_void_p(self.events[0]), self.stream)
            work()
            self.driver("cuEventRecord", c_void_p(self.events[1]), self.stream)
            self.driver("cuEventSynchronize", c_void_p(self.events[1]))
            self.driver("cuEventElapsedTime", ctypes.byref(elapsed), c_void_p(self.events[0]), c_void_p(self.events[1]))
            times.append(elapsed.value)
        return max(statistics.median(times[1:]), 1e-6)


def copy_rate(driver, size):
    """In GB/s, read and written."""
    with Room(driver) as room:
        a, b = room.alloc(size), room.alloc(size)
        ms = room.milliseconds(lambda: driver("cuMemcpyDtoDAsync", c_uint64(b), c_uint64(a), c_size_t(size),
                                              room.stream))
    return 2 * size / ms / 1e6


# ---- our kernels: the structs of modules/cuda/kernels/arguments.h --------------------------------

def struct(*fields):
    """P: a pointer, l: 64 bits, i: 32 bits, r: two of 32 bits, of rows and of columns, d: a double."""
    types = {"P": c_void_p, "l": c_int64, "i": c_int32, "r": c_int32 * 2, "d": c_double}
    return type("Arguments", (ctypes.Structure,),
                {"_fields_": [(name, types[kind]) for kind, names in fields for name in names.split()]})


RELU = 1  # of yki_fused
MAP = struct(("P", "a b y"), ("l", "count"), ("d", "alpha beta"))
AT = (("l", "rows slice"), ("i", "columns tile"))
MEASURE = struct(*AT, ("P", "x partial"))
APPLY = struct(*AT, ("P", "x residual mean invstd weight bias y"), ("i", "activation"))
BACKWARD = struct(*AT, ("P", "x y dy dy2 mean invstd weight bias"), ("i", "activation"), ("P", "partial vectors"),
                  ("i", "world none"), ("P", "dx dresidual"))
POOL = struct(("P", "input out index"), ("i", "batch h w p q columns"), ("r", "kernel stride padding"),
              ("i", "count_include_pad down across"))
SPAN = struct(("P", "value gradient momentum fourth fifth"), ("l", "count"), ("i", "dtype group"))
DROPOUT = struct(("P", "x y"), ("l", "rows image"), ("i", "columns"), ("d", "p"), ("l", "salt"), ("P", "seed step"))
CHUNK = struct(("l", "begin"), ("i", "count span"))
SWEEP = struct(("P", "spans chunks"), ("l", "span_count chunk_count"), ("P", "coefficients partial result"))

THREADS, STRIP = 256, 4


def blocks(items, of_block):
    return -(-items // of_block)


def divide(rows, columns, width):
    """yki_cuda_divide: the grid, and `at`."""
    vectors = columns // width
    tile = min(vectors, THREADS)
    across = blocks(vectors, tile)
    slices = max(min(blocks(rows, 8 * (THREADS // tile)), 512 // across), 1)
    slice_rows = max(blocks(rows, slices), 1)
    return (across, blocks(rows, slice_rows), 1), {"rows": rows, "slice": slice_rows, "columns": columns, "tile": tile}


class Kernels:
    def __init__(self, room, build):
        self.room, self.modules = room, []
        for path in sorted(glob.glob(os.path.join(build, "cuda", "*.fatbin"))):
            with open(path, "rb") as file:
                module, image = c_void_p(), file.read()
            room.driver("cuModuleLoadDataEx", ctypes.byref(module), image, 0, None, None)
            self.modules.append(module)
        if not self.modules:
            raise Failure("the build has no cuda/*.fatbin")

    def find(self, name):
        for module in self.modules:
            function = c_void_p()
            try:
                self.room.driver("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
                return function
            except Failure:
                pass
        raise Failure(f"there is no kernel {name}")

    def rate(self, name, grid, arguments, moved):
        """In GB/s, of so many bytes."""
        function, driver = self.find(name), self.room.driver
        parameters = (c_void_p * 1)(ctypes.addressof(arguments))
        return moved / self.room.milliseconds(
            lambda: driver("cuLaunchKernel", function, *map(ctypes.c_uint, (*grid, THREADS, 1, 1, 0)), self.room.stream,
                           parameters, None)) / 1e6


def kernel_rates(driver, build, small):
    """(name, GB/s) of kernels that a ResNet's step consists of, in bf16, on more than the caches hold."""
    rows, columns = (64, 64) if small else (256 * 56 * 56, 256)
    count, width = rows * columns, 8
    with Room(driver) as room:
        kernels = Kernels(room, build)
        x, y, z, w = (room.alloc(2 * count, 0x3c) for _ in range(4))
        vectors = [room.alloc(4 * columns, 0x3c) for _ in range(4)]
        statistic = dict(zip(("mean", "invstd", "weight", "bias"), vectors))
        grid, at = divide(rows, columns, 4)
        partial = room.alloc(8 * 2 * columns * grid[1])
        maps = (blocks(count, THREADS * 4 * width), 1, 1)
        yield "relu", kernels.rate("relu_bf16", maps, MAP(a=x, y=y, count=count), 4 * count)
        yield "add", kernels.rate("add_bf16", maps, MAP(a=x, b=y, y=z, count=count), 6 * count)
        yield "norm_measure", kernels.rate("norm_measure_bf16", grid, MEASURE(x=x, partial=partial, **at), 2 * count)
        yield "norm_apply", kernels.rate("norm_apply_bf16", grid, APPLY(x=x, y=y, activation=RELU, **statistic, **at), 4 * count)
        yield "norm_apply+add", kernels.rate("norm_apply_bf16", grid,
                                             APPLY(x=x, residual=z, y=y, activation=RELU, **statistic, **at), 6 * count)
        backward = {"x": x, "dy": y, "activation": RELU, "partial": partial, **statistic, **at}
        yield "norm_reduce", kernels.rate("norm_reduce_bf16", grid, BACKWARD(**backward), 4 * count)
        yield "norm_backward", kernels.rate("norm_backward_bf16", grid, BACKWARD(dx=z, **backward), 6 * count)
        yield "norm_reduce+add", kernels.rate("norm_reduce_bf16", grid, BACKWARD(dresidual=w, **backward), 6 * count)
        yield "dropout", dropout_rate(room, kernels, rows, columns, x, y)
        room.randomize(x, 2 * count)
        yield from pool_rates(room, kernels, small, x, y)
        yield "sgd", sgd_rate(room, kernels, small)


def dropout_rate(room, kernels, rows, columns, x, y):
    count, numbers = rows * columns, room.upload(bytes(16))
    args = DROPOUT(x=x, y=y, rows=rows, image=min(rows, 56 * 56), columns=columns, p=0.1, salt=1, seed=numbers,
                   step=numbers + 8)
    return kernels.rate("dropout_bf16", (blocks(count // 8, THREADS), 1, 1), args, 4 * count)


def pool_rates(room, kernels, small, x, y):
    """The pooling of a ResNet's stem."""
    batch, side, columns = (1, 8, 64) if small else (256, 112, 64)
    large, less = batch * side * side * columns, batch * side * side // 4 * columns
    index, half = room.alloc(less), side // 2
    shape = {"batch": batch, "h": side, "w": side, "p": half, "q": half, "columns": columns, "kernel": (3, 3),
             "stride": (2, 2), "padding": (1, 1)}
    for name, first, out, places in ("max_pool", x, y, half), ("max_pool_backward", y, x, half + 1):
        down, across = blocks(places, STRIP), places
        grid = (blocks(batch * down * across * columns // 8, THREADS), 1, 1)
        args = POOL(input=first, out=out, index=index, down=down, across=across, **shape)
        yield name, kernels.rate(name + "_3_2_bf16", grid, args, 2 * large + 3 * less)


def sgd_rate(room, kernels, small):
    count, chunk = (1 << 15, 1 << 14) if small else (1 << 27, 1 << 14)
    tensors = [room.alloc(4 * count, 0x3c) for _ in range(3)]
    spans = SPAN(value=tensors[0], gradient=tensors[1], momentum=tensors[2], count=count)
    chunks = (CHUNK * (count // chunk))(*[CHUNK(begin=i * chunk, count=chunk) for i in range(count // chunk)])
    coefficients = (c_double * 8)(0.1, 0.9, 0.9, 1, 1e-4)
    args = SWEEP(spans=room.upload(bytes(spans)), chunks=room.upload(bytes(chunks)), span_count=1,
                 chunk_count=count // chunk, coefficients=room.upload(bytes(coefficients)))
    return kernels.rate("sweep_sgd", (count // chunk, 1, 1), args, 20 * count)


# ---- NCCL, as modules/nccl uses it ---------------------------------------------------------------

def record_all_reduce(driver, library, seconds=20):
    """On one rank: opens a communicator that does not block, records an all-reduce, replays it. Its version."""
    SUCCESS, IN_PROGRESS, FLOAT32, SUM, UNSET = 0, 7, 7, 0, -2**31

    class Id(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_char * 128)]

    class Config(ctypes.Structure):
        _fields_ = [("size", c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("blocking", c_int),
                    ("cga", c_int), ("least", c_int), ("most", c_int), ("net", ctypes.c_char_p), ("share", c_int)]

    def settle(status):
        end = time.monotonic() + seconds
        while status in (SUCCESS, IN_PROGRESS):
            now = c_int()
            call(library, "ncclCommGetAsyncError", comm, ctypes.byref(now))
            if now.value != IN_PROGRESS:
                status = now.value
                break
            if time.monotonic() > end:
                raise Failure(f"NCCL is in progress for {seconds} s")
        if status != SUCCESS:
            raise Failure(f"NCCL returned {status}")

    version, unique, comm = c_int(), Id(), c_void_p()
    config = Config(ctypes.sizeof(Config), 0xcafebeef, 21800, 0, UNSET, UNSET, UNSET, None, UNSET)
    call(library, "ncclGetVersion", ctypes.byref(version))
    call(library, "ncclGetUniqueId", ctypes.byref(unique))
    settle(library.ncclCommInitRankConfig(ctypes.byref(comm), 1, unique, 0, ctypes.byref(config)))
    with Room(driver) as room:
        a, b, result = room.alloc(4096, 0x3c), room.alloc(4096), (ctypes.c_ubyte * 4096)()
        graph, instance = c_void_p(), c_void_p()
        settle(library.ncclAllReduce(c_void_p(a), c_void_p(b), c_size_t(1024), FLOAT32, SUM, comm, room.stream))
        driver("cuMemsetD8Async", c_uint64(b), ctypes.c_ubyte(0), c_size_t(4096), room.stream)
        driver("cuStreamSynchronize", room.stream)
        driver("cuStreamBeginCapture", room.stream, 2)
        settle(library.ncclAllReduce(c_void_p(a), c_void_p(b), c_size_t(1024), FLOAT32, SUM, comm, room.stream))
        driver("cuStreamEndCapture", room.stream, ctypes.byref(graph))
        driver("cuGraphInstantiateWithFlags", ctypes.byref(instance), graph, c_uint64(0))
        driver("cuGraphLaunch", instance, room.stream)
        driver("cuMemcpyDtoHAsync", result, c_uint64(b), c_size_t(4096), room.stream)
        driver("cuStreamSynchronize", room.stream)
        if bytes(result) != b"\x3c" * 4096:
            raise Failure("the recorded all-reduce did not copy")
        driver("cuGraphExecDestroy", instance)
        driver("cuGraphDestroy", graph)
    settle(library.ncclCommFinalize(comm))
    call(library, "ncclCommDestroy", comm)
    return version.value
