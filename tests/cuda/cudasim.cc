/* The simulator of cudasim.h: fibers, and the barriers between them. */
#include "cudasim.h"

#include <stdio.h>
#include <stdlib.h>

#include <vector>

#include "arguments.h"
#include "simulator.h"

#if defined __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

/* Of a stack, translated PTX takes 40 kB (ptx): each of its registers is a variable. */
enum { WARP = 32, WARPS = YKI_CUDA_THREADS / WARP, STACK = 256 << 10 };

/* ---- contexts: a stack, and where its code goes on ------------------------------------------- */

/* Saves the registers that calls preserve on the stack, stores its pointer, and goes on with the
 * other stack. swapcontext() would do the same with two system calls. */
#if defined __x86_64__
extern "C" void yk_sim_switch(void **from, void *to);
asm(".text\n"
    ".globl yk_sim_switch\n"
    ".type yk_sim_switch, @function\n"
    "yk_sim_switch:\n"
    "    push %rbp\n"
    "    push %rbx\n"
    "    push %r12\n"
    "    push %r13\n"
    "    push %r14\n"
    "    push %r15\n"
    "    mov %rsp, (%rdi)\n"
    "    mov %rsi, %rsp\n"
    "    pop %r15\n"
    "    pop %r14\n"
    "    pop %r13\n"
    "    pop %r12\n"
    "    pop %rbx\n"
    "    pop %rbp\n"
    "    ret\n"
    ".size yk_sim_switch, .-yk_sim_switch\n");

struct context {
    void *top;
};

static void make(context *c, char *stack, void (*entry)())
{
    uintptr_t top = ((uintptr_t)stack + STACK) & ~(uintptr_t)15;
    void **at = (void **)top;
    *--at = nullptr;       /* where entry would return to; it never does */
    *--at = (void *)entry; /* so that on entry rsp is 8 less than a multiple of 16 */
    for (int i = 0; i < 6; i++)
        *--at = nullptr;
    c->top = at;
}

static void swap(context *from, context *to)
{
    yk_sim_switch(&from->top, to->top);
}
#else
#include <ucontext.h>

struct context {
    ucontext_t of;
};

static void make(context *c, char *stack, void (*entry)())
{
    getcontext(&c->of);
    c->of.uc_stack.ss_sp = stack;
    c->of.uc_stack.ss_size = STACK;
    c->of.uc_link = nullptr;
    makecontext(&c->of, entry, 0);
}

static void swap(context *from, context *to)
{
    swapcontext(&from->of, &to->of);
}
#endif

/* ---- a block --------------------------------------------------------------------------------- */

enum state { NEW, READY, AT_BARRIER, IN_WARP, DONE };

struct fiber {
    enum state state;
    sim::index thread;
    sim::place at; /* where it waits */
    int turn;      /* of its warp's two mailboxes */
    context code;
    char *stack;
    void *fake; /* AddressSanitizer's own stack of the fiber */
};

struct allocation {
    const void *key;
    size_t bytes;
    void *memory;
};

/* Stacks that no fiber uses; they are freed when the program ends. */
struct stack_pool : std::vector<char *> {
    ~stack_pool()
    {
        for (char *stack : *this)
            free(stack);
    }
};

static struct {
    fiber fibers[YKI_CUDA_THREADS];
    int current;
    context scheduler;
    void *fake;
    const void *bottom; /* the scheduler's stack */
    size_t size;
    stack_pool stacks;
    std::vector<allocation> memory;
    uint64_t mail[WARPS][2][WARP];
    const sim::kernel *kernel;
    const void *args;
    uint64_t random;
    bool failed;
    char error[256];
} s;

namespace sim
{
const index *thread;
index block, grid;
} // namespace sim

static sim::kernel *kernels;
static size_t most_blocks; /* of a launch; 0: all */

static unsigned draw(unsigned below)
{
    s.random = s.random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(((s.random >> 32) * below) >> 32);
}

/* Tells AddressSanitizer that the stack changes; `leaving` a fiber for good frees its fake stack.
 */
static void enter_fiber(fiber *f)
{
    sim::thread = &f->thread;
#if defined __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&s.fake, f->stack, STACK);
#endif
    swap(&s.scheduler, &f->code);
#if defined __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(s.fake, nullptr, nullptr);
#endif
}

static void leave_fiber(fiber *f, bool for_good)
{
#if defined __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(for_good ? nullptr : &f->fake, s.bottom, s.size);
#else
    (void)for_good;
#endif
    swap(&f->code, &s.scheduler);
#if defined __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(f->fake, &s.bottom, &s.size);
#endif
}

static void entry()
{
#if defined __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, &s.bottom, &s.size);
#endif
    s.kernel->run(s.args);
    fiber *f = &s.fibers[s.current];
    f->state = DONE;
    leave_fiber(f, true);
}

static void wait_as(enum state state, sim::place at)
{
    fiber *f = &s.fibers[s.current];
    f->state = state;
    f->at = at;
    leave_fiber(f, false);
}

void sim::barrier(place at)
{
    wait_as(AT_BARRIER, at);
}

int sim::lane()
{
    return s.current % WARP;
}

/* Mailboxes alternate: no lane comes to use this one again before all have left the next. */
const uint64_t *sim::exchange(place at, uint64_t mine)
{
    fiber *f = &s.fibers[s.current];
    uint64_t *mail = s.mail[s.current / WARP][f->turn];
    f->turn = !f->turn;
    mail[lane()] = mine;
    wait_as(IN_WARP, at);
    return mail;
}

void *sim::shared(const void *key, size_t bytes)
{
    for (const allocation &one : s.memory)
        if (one.key == key && one.bytes == bytes)
            return one.memory;
    void *memory = malloc(bytes);
    if (!memory)
        abort();
    memset(memory, 0xff, bytes);
    s.memory.push_back({key, bytes, memory});
    return memory;
}

/* ---- the scheduler --------------------------------------------------------------------------- */

static void fail(const fiber *f, const char *what)
{
    const char *name = strrchr(f->at.file, '/');
    snprintf(s.error, sizeof s.error, "%s: thread %u of block (%u, %u, %u), %s:%d: %s",
             s.kernel->name, f->thread.x, sim::block.x, sim::block.y, sim::block.z,
             name ? name + 1 : f->at.file, f->at.line, what);
    s.failed = true;
}

static bool same_place(const fiber *a, const fiber *b)
{
    return a->at.line == b->at.line &&
           (a->at.file == b->at.file || strcmp(a->at.file, b->at.file) == 0);
}

void sim::check(place at, bool holds, const char *mistake)
{
    if (holds)
        return;
    s.fibers[s.current].at = at;
    fail(&s.fibers[s.current], mistake);
}

/* Lets `count` threads go on if all wait in the same way; fails if they can never come together. */
static void release(fiber *first, int count, enum state state)
{
    const fiber *waiting = nullptr, *gone = nullptr;
    for (int i = 0; i < count; i++) {
        if (first[i].state == DONE)
            gone = &first[i];
        else if (first[i].state != state)
            return;
        else if (waiting && !same_place(waiting, &first[i]))
            fail(waiting, "another thread waits at another place");
        else
            waiting = &first[i];
    }
    if (!waiting)
        return;
    if (gone)
        fail(waiting, "another thread has left the kernel");
    for (int i = 0; i < count; i++)
        first[i].state = READY;
}

static void release_all()
{
    release(s.fibers, YKI_CUDA_THREADS, AT_BARRIER);
    for (int warp = 0; warp < WARPS && !s.failed; warp++)
        release(s.fibers + warp * WARP, WARP, IN_WARP);
}

static bool can_run(const fiber *f)
{
    return f->state == NEW || f->state == READY;
}

static void run_one(int number)
{
    fiber *f = &s.fibers[number];
    if (f->state == NEW) {
        if (s.stacks.empty())
            s.stacks.push_back((char *)malloc(STACK));
        f->stack = s.stacks.back();
        s.stacks.pop_back();
        f->state = READY;
        make(&f->code, f->stack, entry);
    }
    s.current = number;
    enter_fiber(f);
    if (f->state == DONE) {
        s.stacks.push_back(f->stack);
        f->stack = nullptr;
    }
}

/* Each thread that can run runs once, in a random order. But those of some warps do not, so that
 * other warps overtake them. */
static void run_some()
{
    int order[YKI_CUDA_THREADS], count = 0;
    const unsigned late = draw(1u << WARPS) & draw(1u << WARPS);
    for (int i = 0; i < YKI_CUDA_THREADS; i++)
        if (can_run(&s.fibers[i]) && !(late >> i / WARP & 1))
            order[count++] = i;
    for (; count > 0; count--) {
        int at = (int)draw((unsigned)count), number = order[at];
        order[at] = order[count - 1];
        run_one(number);
    }
}

/* Whether any thread is left; fails if none of them can ever run. */
static bool is_running()
{
    const fiber *left = nullptr;
    for (const fiber &f : s.fibers)
        if (can_run(&f))
            return true;
        else if (f.state != DONE)
            left = &f;
    if (left)
        fail(left, "other threads wait elsewhere");
    return false;
}

static void run_block()
{
    for (unsigned i = 0; i < YKI_CUDA_THREADS; i++)
        s.fibers[i] = fiber{NEW, {i, 0, 0}, {"", 0}, 0, {}, nullptr, nullptr};
    do {
        run_some();
        release_all();
    } while (!s.failed && is_running());
    for (fiber &f : s.fibers)
        if (f.stack)
            s.stacks.push_back(f.stack);
    for (const allocation &one : s.memory)
        free(one.memory);
    s.memory.clear();
}

/* ---- launching ------------------------------------------------------------------------------- */

sim::kernel::kernel(const char *name_, void (*run_)(const void *), size_t bytes_)
    : name(name_), run(run_), bytes(bytes_), next(kernels)
{
    kernels = this;
}

/* The one that came first: a library that is loaded before the program replaces kernels (ptx). */
const yk_sim_kernel *yk_sim_find(const char *name)
{
    const sim::kernel *found = nullptr;
    for (const sim::kernel *k = kernels; k; k = k->next)
        if (strcmp(k->name, name) == 0)
            found = k;
    return (const yk_sim_kernel *)found;
}

size_t yk_sim_argument_bytes(const yk_sim_kernel *kernel)
{
    return ((const sim::kernel *)kernel)->bytes;
}

void yk_sim_run_some(size_t most)
{
    most_blocks = most;
}

/* The numbers of the blocks that are run, in a random order. */
static std::vector<size_t> choose_blocks(size_t blocks)
{
    const bool all = most_blocks == 0 || blocks <= most_blocks;
    std::vector<size_t> order(all ? blocks : most_blocks);
    for (size_t i = 0; i < order.size(); i++)
        order[i] = all || i == 0 ? i : i == 1 ? blocks - 1 : draw((unsigned)blocks);
    for (size_t i = order.size() - 1; i > 0; i--)
        std::swap(order[i], order[draw((unsigned)i + 1)]);
    return order;
}

const char *yk_sim_launch(const yk_sim_kernel *kernel, const unsigned grid[3], const void *args,
                          size_t bytes, uint64_t seed)
{
    const sim::kernel *k = (const sim::kernel *)kernel;
    s.kernel = k;
    s.args = args;
    s.random = seed;
    s.failed = false;
    sim::grid = {grid[0], grid[1], grid[2]};
    size_t blocks = (size_t)grid[0] * grid[1] * grid[2];
    if (bytes != k->bytes || blocks == 0) {
        snprintf(s.error, sizeof s.error, "%s: %zu bytes of arguments, not %zu, for %zu blocks",
                 k->name, bytes, k->bytes, blocks);
        return s.error;
    }
    if (grid[0] > INT32_MAX || grid[1] > 65535 || grid[2] > 65535) {
        snprintf(s.error, sizeof s.error,
                 "%s: a grid of (%u, %u, %u) blocks; x ends at 2^31 - 1, y and z end at 65535",
                 k->name, grid[0], grid[1], grid[2]);
        return s.error;
    }
    for (size_t number : choose_blocks(blocks)) {
        sim::block = {(unsigned)(number % grid[0]), (unsigned)(number / grid[0] % grid[1]),
                      (unsigned)(number / grid[0] / grid[1])};
        run_block();
        if (s.failed)
            break;
    }
    return s.failed ? s.error : nullptr;
}
