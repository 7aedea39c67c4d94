/*
 * The depthwise and grouped convolutions of networks that yoke brings, forward and gradients, with
 * the packing of weights. It is driven by `run`, in turns with pytorch_groups.py.
 *
 * usage: groups SIDE              prints the different convolutions for images of SIDE x SIDE, a
 *                                 line each: NETWORK and the numbers of a problem
 *        groups THREADS BATCH     reads problems, a line each, and prints the ms of a run:
 *            f32|bf16 forward|data|weight
 *            CHANNELS FILTERS SIDE KERNEL STRIDE PADDING DILATION GROUPS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/yoke.h>

#include "base/clock.h"
#include "graph/graph.h"
#include "prepared.h"

enum { LINE = 160, MOST_CONVOLUTIONS = 256, MOST_RUNS = 8192 };

/* Of each answer. What else has just run on these cores is over after the first of them: idle
 * threads wait for more work before they sleep. */
static const double warm_up_s = 0.015, measured_s = 0.025;

/* Images and filters are square in all networks. */
typedef struct convolution {
    int64_t channels, filters, side, kernel, stride, padding, dilation, groups;
} convolution;

/* ---- the convolutions of the networks -------------------------------------------------------- */

typedef struct list {
    convolution of[MOST_CONVOLUTIONS];
    size_t count;
} list;

static bool has(const list *all, const convolution *one)
{
    for (size_t i = 0; i < all->count; i++)
        if (memcmp(&all->of[i], one, sizeof *one) == 0)
            return true;
    return false;
}

static void print_new(list *all, const char *network, const yki_node *node)
{
    const yk_value *x = node->in[YKI_CONV2D_X], *weight = node->in[YKI_CONV2D_WEIGHT];
    const yki_attrs *a = &node->attrs;
    convolution c = {x->dims[1],   weight->dims[0], x->dims[2],     weight->dims[2],
                     a->stride[0], a->padding[0],   a->dilation[0], a->groups};
    if (has(all, &c) || all->count == MOST_CONVOLUTIONS)
        return;
    all->of[all->count++] = c;
    printf("%s %lld %lld %lld %lld %lld %lld %lld %lld\n", network, (long long)c.channels,
           (long long)c.filters, (long long)c.side, (long long)c.kernel, (long long)c.stride,
           (long long)c.padding, (long long)c.dilation, (long long)c.groups);
}

static void print_network(list *all, const char *network, int64_t side)
{
    yk_graph *graph = yk_graph_create();
    yk_value *in = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, side, side});
    yk_arch_find(network)(in, 10);
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op == &yki_op_conv2d && graph->nodes[i]->attrs.groups > 1)
            print_new(all, network, graph->nodes[i]);
    yk_graph_destroy(graph);
}

/* Of most families one size, as the others have much the same shapes. A convolution that several
 * have counts as the first one's: append to the list, so that results keep their names. */
static const char *const networks[] = {
    "resnext50-32x4d",    "resnext101-32x8d",   "resnext101-64x4d", "mobilenet-v2",
    "mobilenet-v3-large", "mobilenet-v3-small", "efficientnet-b0",  "convnext-tiny",
    "mnasnet1-0",         "shufflenet-v2-x1-0", "regnet-y-1-6gf"};

static int print_all(int64_t side)
{
    list all = {.count = 0};
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        print_network(&all, networks[i], side);
    return 0;
}

/* ---- a problem ------------------------------------------------------------------------------- */

/* False if the line is none. */
static bool read_problem(const char *line, const yki_device *device, int64_t batch, prepared *p)
{
    static const char *const ways[] = {"forward", "data", "weight"};
    char dtype[8], way[8];
    long long v[8];
    if (sscanf(line, "%7s %7s %lld %lld %lld %lld %lld %lld %lld %lld", dtype, way, &v[0], &v[1],
               &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) != 10)
        return false;
    convolution c = {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]};
    yk_dtype of = strcmp(dtype, "bf16") == 0 ? YK_BF16 : YK_F32;
    int64_t side = (c.side + 2 * c.padding - c.dilation * (c.kernel - 1) - 1) / c.stride + 1;
    yki_operand w = {YK_F32, 4, {c.filters, c.channels / c.groups, c.kernel, c.kernel}, YKI_PLAIN};
    *p = (prepared){.attrs = {.stride = {c.stride, c.stride},
                              .padding = {c.padding, c.padding},
                              .dilation = {c.dilation, c.dilation},
                              .groups = c.groups},
                    .desc = {.attrs = &p->attrs, .training = true}};
    for (direction d = FORWARD; d <= WEIGHT; d++)
        if (strcmp(way, ways[d]) == 0)
            describe_product(&p->desc, false, d, images(device, of, batch, c.channels, c.side), w,
                             images(device, of, batch, c.filters, side));
    return p->desc.op != NULL;
}

/* Repeats runs for so many seconds; the median of their ms. */
static double repeat(const prepared *p, double seconds)
{
    static double ms[MOST_RUNS];
    size_t count = 0;
    double begin = yki_now(), now = begin;
    while (count == 0 || (count < MOST_RUNS && now < begin + seconds)) {
        double start = now;
        pack(p);
        run(p);
        now = yki_now();
        ms[count++] = (now - start) * 1e3;
    }
    qsort(ms, count, sizeof *ms, by_value);
    return ms[count / 2];
}

static int answer(int threads, int64_t batch)
{
    yki_device *device;
    check(yki_device_create(&device, "cpu",
                            &(yki_device_options){.threads = threads, .winograd = true}));
    device->type->enter(device);
    char line[LINE], last[LINE] = "";
    prepared p = {.kernel = NULL};
    while (fgets(line, sizeof line, stdin)) {
        if (!p.kernel || strcmp(line, last) != 0) {
            if (p.kernel)
                release(&p, device);
            if (!read_problem(line, device, batch, &p)) {
                fprintf(stderr, "groups: this is no problem: %s", line);
                return 1;
            }
            prepare(&p, device);
            memcpy(last, line, sizeof last);
        }
        repeat(&p, warm_up_s);
        printf("%.5f\n", repeat(&p, measured_s));
        fflush(stdout);
    }
    if (p.kernel)
        release(&p, device);
    yki_device_destroy(device);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && atoi(argv[1]) > 0)
        return print_all(atoi(argv[1]));
    if (argc == 3 && atoi(argv[1]) > 0 && atoi(argv[2]) > 0)
        return answer(atoi(argv[1]), atoi(argv[2]));
    fprintf(stderr, "usage: groups SIDE | groups THREADS BATCH\n");
    return 2;
}
