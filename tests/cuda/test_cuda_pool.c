/* Max pooling by kernels for one size of windows gives the bits of those for any. */
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "harness.h"
#include "sim_device.h"
#include "tensor/bf16.h"

enum { BATCH = 2, CHANNELS = 16, WIDTH = 8 };

typedef struct pool_case {
    int kernel, stride, padding, h, w;
} pool_case;

/* Strips and cells that are cut off, pixels in no window, images of one pixel. */
static const pool_case cases[] = {{2, 2, 0, 8, 7},   {2, 2, 1, 9, 6}, {3, 2, 1, 12, 11},
                                  {3, 2, 1, 19, 8},  {3, 2, 0, 9, 8}, {3, 3, 0, 11, 10},
                                  {3, 3, 1, 13, 12}, {3, 2, 1, 1, 1}, {2, 2, 1, 1, 2}};

typedef struct images {
    uint16_t *x, *y, *dx;
    uint8_t *index;
    size_t x_count, y_count;
} images;

/* With many that are equal, and all that compare in a way of their own. */
static void draw(uint16_t *values, size_t count)
{
    static const float drawn[] = {NAN,   -INFINITY, -INFINITY, -INFINITY, INFINITY, 0,
                                  -0.0f, 1,         1,         -1.5f,     -1.5f,    1e-40f};
    for (size_t i = 0; i < count; i++)
        values[i] =
            yki_bf16_from_float(drawn[yki_hash3(1, count, i) % (sizeof drawn / sizeof *drawn)]);
}

static images images_of(const yki_cuda_pool_args *args)
{
    images made = {.x_count = (size_t)(args->batch * args->h * args->w * args->columns),
                   .y_count = (size_t)(args->batch * args->p * args->q * args->columns)};
    made.x = calloc(made.x_count, sizeof *made.x);
    made.dx = calloc(made.x_count, sizeof *made.dx);
    made.y = calloc(made.y_count, sizeof *made.y);
    made.index = calloc(made.y_count, 1);
    draw(made.x, made.x_count);
    return made;
}

static void free_images(images *made)
{
    free(made->x);
    free(made->y);
    free(made->dx);
    free(made->index);
}

static void launch(const char *kernel, yki_cuda_pool_args args, int64_t down, int64_t across)
{
    args.down = (int32_t)down;
    args.across = (int32_t)across;
    int64_t threads = args.batch * down * across * (args.columns / WIDTH);
    sim_launch(kernel, yki_cuda_grid_of(threads), &args, sizeof args);
}

/* y and index of x, then dx, whose dy has the values of x. */
static void run(images *made, yki_cuda_pool_args args, bool fixed)
{
    char name[64], back[64];
    snprintf(name, sizeof name, fixed ? "max_pool_%d_%d_bf16" : "max_pool_bf16", args.kernel[0],
             args.stride[0]);
    snprintf(back, sizeof back, fixed ? "max_pool_backward_%d_%d_bf16" : "max_pool_backward_bf16",
             args.kernel[0], args.stride[0]);
    args.in = made->x;
    args.out = made->y;
    args.index = made->index;
    launch(name, args, fixed ? yki_cuda_blocks(args.p, YKI_CUDA_STRIP) : args.p, args.q);
    uint16_t *dy = calloc(made->y_count, sizeof *dy);
    draw(dy, made->y_count);
    int64_t cells = yki_cuda_blocks(args.h + args.padding[0], args.stride[0]);
    int64_t across = yki_cuda_blocks(args.w + args.padding[1], args.stride[1]);
    args.in = dy;
    args.out = made->dx;
    launch(back, args, fixed ? yki_cuda_blocks(cells, YKI_CUDA_STRIP) : args.h,
           fixed ? across : args.w);
    free(dy);
}

YK_TEST(windows_of_a_constant_size_have_the_bits_of_any)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pool_case *c = &cases[i];
        yki_cuda_pool_args args = {.batch = BATCH,
                                   .columns = CHANNELS,
                                   .h = c->h,
                                   .w = c->w,
                                   .p = (c->h + 2 * c->padding - c->kernel) / c->stride + 1,
                                   .q = (c->w + 2 * c->padding - c->kernel) / c->stride + 1,
                                   .kernel = {c->kernel, c->kernel},
                                   .stride = {c->stride, c->stride},
                                   .padding = {c->padding, c->padding}};
        images any = images_of(&args), fixed = images_of(&args);
        run(&any, args, false);
        run(&fixed, args, true);
        assert_memory_equal(any.y, fixed.y, any.y_count * sizeof *any.y);
        assert_memory_equal(any.index, fixed.index, any.y_count);
        assert_memory_equal(any.dx, fixed.dx, any.x_count * sizeof *any.dx);
        free_images(&any);
        free_images(&fixed);
    }
}
