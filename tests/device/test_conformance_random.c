/*
 * Shapes drawn at random, small images and odd sizes above all, on the cpu device against ref: the
 * tables of test_conformance.c hold the shapes that somebody thought of. Every operator, also on
 * YK_TEST_DEVICE, and of convolutions every kernel that can run them: those that rules prefer, and
 * those that measuring may choose instead. Libraries choose among many kernels by shape and dtype,
 * and some read memory that they never wrote; the machine poisons scratch memory, so a kernel that
 * does is found here. Of every second case operands count as large, so that threads share them and
 * results go past the caches.
 *
 * YOKE_TEST_DRAWS=N draws N cases of each test instead of 30, YOKE_TEST_SEED=N others.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "conformance.h"
#include "families.h"
#include "forced_kernel.h"
#include "harness.h"

typedef struct drawing {
    uint64_t seed, draws;
} drawing;

static int64_t number_from(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

/* In [least, most]. */
static int64_t draw(drawing *d, int64_t least, int64_t most)
{
    return least + (int64_t)(yki_hash3(d->seed, d->draws++, 0) % (uint64_t)(most - least + 1));
}

static uint64_t draw_seed(drawing *d)
{
    return (uint64_t)draw(d, 0, INT32_MAX);
}

/* Mostly the sizes that networks have and kernels are made for, else any. */
static int64_t draw_channels(drawing *d)
{
    static const int64_t usual[] = {1, 3, 8, 16, 24, 32, 48, 64, 64, 128, 192};
    return draw(d, 0, 3) ? usual[draw(d, 0, sizeof usual / sizeof *usual - 1)] : draw(d, 1, 70);
}

static int64_t draw_side(drawing *d)
{
    return draw(d, 0, 2) ? draw(d, 1, 4) : draw(d, 5, 14);
}

static int64_t columns_of(int64_t columns, int64_t rows)
{
    return columns == 0 ? rows : columns == NO_COLUMNS ? 0 : columns;
}

/* In one case of three, windows move otherwise across. */
static void draw_columns(drawing *d, conformance_case *c, int64_t most_padding)
{
    if (draw(d, 0, 2))
        return;
    c->column_stride = draw(d, 1, 3);
    c->column_padding = draw(d, 0, most_padding);
    if (c->column_padding == 0)
        c->column_padding = NO_COLUMNS;
}

static bool fits(const conformance_case *c)
{
    const int64_t padding[] = {c->padding, columns_of(c->column_padding, c->padding)};
    const int64_t dilation[] = {c->dilation, columns_of(c->column_dilation, c->dilation)};
    for (int i = 0; i < 2; i++)
        if (c->x[2 + i] + 2 * padding[i] < dilation[i] * (c->kernel[i] - 1) + 1)
            return false;
    return true;
}

static int64_t draw_groups(drawing *d, int64_t channels, int64_t filters)
{
    int64_t groups = draw(d, 0, 3) ? 1 : draw(d, 1, 32);
    return channels % groups == 0 && filters % groups == 0 ? groups : 1;
}

/* One draw a statement: C leaves the order within an initialiser open. */
static conformance_case draw_candidate(drawing *d)
{
    conformance_case c = {.seed = draw_seed(d)};
    c.x[0] = draw(d, 0, 3) ? draw(d, 1, 5) : draw(d, 1, 24);
    c.x[1] = draw_channels(d);
    c.x[2] = draw_side(d);
    c.x[3] = draw_side(d);
    c.filters = draw_channels(d);
    c.kernel[0] = draw(d, 1, 3);
    c.kernel[1] = draw(d, 0, 1) ? c.kernel[0] : draw(d, 1, 3);
    c.stride = draw(d, 1, 3);
    c.padding = draw(d, 0, 2);
    c.dilation = draw(d, 0, 4) ? 1 : 2;
    draw_columns(d, &c, 2);
    if (c.column_stride)
        c.column_dilation = draw(d, 1, 2);
    c.bias = draw(d, 0, 2) == 0;
    c.groups = draw_groups(d, c.x[1], c.filters);
    return c;
}

static conformance_case draw_convolution(drawing *d)
{
    conformance_case c = draw_candidate(d);
    while (!fits(&c))
        c = draw_candidate(d);
    return c;
}

static void draw_convolutions(const conformance_setting *setting)
{
    drawing d = {.seed = (uint64_t)number_from("YOKE_TEST_SEED", 8)};
    for (int64_t left = number_from("YOKE_TEST_DRAWS", 30); left > 0; left--) {
        conformance_case c = draw_convolution(&d);
        conformance_device(&(conformance_family){family_conv2d.build, &c, 1}, setting);
    }
}

YK_TEST(random_conv2d)
{
    draw_convolutions(&(conformance_setting){
        .device = "cpu", .dtype = YK_F32, .threads = 2, .tolerance = 1e-3, .winograd = true});
}

YK_TEST(random_conv2d_bf16)
{
    draw_convolutions(&(conformance_setting){
        .device = "cpu", .dtype = YK_BF16, .threads = 2, .tolerance = 1e-2, .winograd = true});
}

YK_TEST(random_conv2d_f16)
{
    draw_convolutions(&(conformance_setting){
        .device = "cpu", .dtype = YK_F16, .threads = 2, .tolerance = 4e-3, .winograd = true});
}

/* ---- transposed ------------------------------------------------------------------------------ */

static conformance_case draw_transposed(drawing *d)
{
    conformance_case c = draw_candidate(d);
    while (c.dilation * (c.kernel[0] - 1) < 2 * c.padding ||
           columns_of(c.column_dilation, c.dilation) * (c.kernel[1] - 1) <
               2 * columns_of(c.column_padding, c.padding))
        c = draw_candidate(d);
    c.output_padding = draw(d, 0, c.stride - 1);
    if (c.column_stride)
        c.column_output_padding = c.column_stride > 1 ? 1 : NO_COLUMNS;
    return c;
}

static void draw_all_transposed(yk_dtype dtype, double tolerance)
{
    drawing d = {.seed = (uint64_t)number_from("YOKE_TEST_SEED", 8)};
    for (int64_t left = number_from("YOKE_TEST_DRAWS", 30); left > 0; left--) {
        conformance_case c = draw_transposed(&d);
        conformance_setting setting = {
            .device = "cpu", .dtype = dtype, .tolerance = tolerance, .winograd = true};
        setting.threads = (int)draw(&d, 1, 3);
        conformance_device(&(conformance_family){family_conv_transpose2d.build, &c, 1}, &setting);
    }
}

YK_TEST(random_conv_transpose2d)
{
    draw_all_transposed(YK_F32, 1e-3);
    draw_all_transposed(YK_BF16, 1e-2);
    draw_all_transposed(YK_F16, 4e-3);
}

YK_TEST(random_conv_transpose2d_with_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    draw_all_transposed(YK_F32, 1e-3);
    draw_all_transposed(YK_BF16, 1e-2);
}

/* ---- every kernel of a convolution ----------------------------------------------------------- */

/* Also more threads than cores. */
enum { MOST_THREADS = 6 };

static const char *draw_kernel(drawing *d)
{
    int64_t count = 0;
    while (yki_device_cpu.kernels[count])
        count++;
    const char *name = NULL;
    while (!name)
        name = yki_device_cpu.kernels[draw(d, 0, count - 1)]->name;
    return name;
}

/* Kernels that rules would not choose may be slow. */
static conformance_case draw_small_convolution(drawing *d)
{
    const int64_t most = 4000000; /* products of forward */
    conformance_case c = draw_convolution(d);
    while (c.x[0] * c.x[1] / c.groups * c.x[2] * c.x[3] * c.filters * c.kernel[0] * c.kernel[1] /
               (c.stride * columns_of(c.column_stride, c.stride)) >
           most)
        c = draw_convolution(d);
    return c;
}

/* Where the kernel cannot run a case, the device's own choice does. */
static void draw_kernels(yk_dtype dtype, double tolerance)
{
    drawing d = {.seed = (uint64_t)number_from("YOKE_TEST_SEED", 8)};
    for (int64_t left = 2 * number_from("YOKE_TEST_DRAWS", 30); left > 0; left--) {
        conformance_case c = draw_small_convolution(&d);
        conformance_setting setting = {
            .device = "cpu", .dtype = dtype, .tolerance = tolerance, .winograd = true};
        setting.type = forced_kernel_type(draw_kernel(&d));
        if (left % 2)
            setting.type = with_small_sizes(setting.type);
        setting.threads = (int)draw(&d, 1, MOST_THREADS);
        conformance_device(&(conformance_family){family_conv2d.build, &c, 1}, &setting);
    }
}

YK_TEST(random_conv2d_kernels)
{
    draw_kernels(YK_F32, 1e-3);
}

YK_TEST(random_conv2d_kernels_bf16)
{
    draw_kernels(YK_BF16, 1e-2);
}

YK_TEST(random_conv2d_kernels_f16)
{
    draw_kernels(YK_F16, 4e-3);
}

/* oneDNN reads the variable when it is first used, and each test is a process. */
YK_TEST(random_conv2d_kernels_with_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    draw_kernels(YK_F32, 1e-3);
    draw_kernels(YK_BF16, 1e-2);
}

/* ---- all other operators --------------------------------------------------------------------- */

static void draw_image(drawing *d, conformance_case *c)
{
    c->x[0] = draw(d, 1, 5);
    c->x[1] = draw_channels(d);
    c->x[2] = draw_side(d);
    c->x[3] = draw_side(d);
}

/* More dimensions, of few places, at the end. */
static void draw_more_dims(drawing *d, conformance_case *c)
{
    for (int64_t i = 2; i < 4; i++)
        c->x[i] = draw(d, 1, 6);
    for (int64_t i = 4; i < draw(d, 5, YK_MAX_DIMS); i++)
        c->x[i] = draw(d, 1, 6);
}

/* From one to all dimensions. */
static void draw_any_shape(drawing *d, conformance_case *c)
{
    draw_image(d, c);
    const int64_t ndim = draw(d, 1, 5);
    for (int64_t i = ndim; i < 4; i++)
        c->x[i] = 0;
    if (ndim > 4)
        draw_more_dims(d, c);
}

static int64_t count_of(const int64_t dims[YK_MAX_DIMS])
{
    int64_t count = 1;
    for (int i = 0; i < conformance_rank(dims); i++)
        count *= dims[i];
    return count;
}

/* Of any shape, half of them with rows of several vectors and a rest. */
static void draw_any_rows(drawing *d, conformance_case *c)
{
    draw_any_shape(d, c);
    if (draw(d, 0, 1))
        c->x[conformance_rank(c->x) - 1] = draw(d, 1, 150);
}

/* Of a row of two values, dx is zero but for eps, whatever the values are: what devices give is
 * nothing but rounding, times an invstd without bound. Tables hold such rows. */
enum { LEAST_OF_ROW = 3 };

static void draw_norm_of_rows(drawing *d, conformance_case *c)
{
    draw_any_rows(d, c);
    int64_t *last = &c->x[conformance_rank(c->x) - 1];
    *last = *last < LEAST_OF_ROW ? LEAST_OF_ROW : *last;
}

static void draw_group_norm(drawing *d, conformance_case *c)
{
    draw_any_shape(d, c);
    if (!c->x[1])
        c->x[1] = draw(d, 2, 40);
    const int64_t pixels = count_of(c->x) / c->x[0] / c->x[1];
    if (pixels * c->x[1] < LEAST_OF_ROW)
        c->x[1] = LEAST_OF_ROW;
    c->groups = draw(d, 1, c->x[1]);
    while (c->x[1] % c->groups || pixels * c->x[1] / c->groups < LEAST_OF_ROW)
        c->groups--;
    c->plain = draw(d, 0, 3) == 0;
}

static void draw_matmul(drawing *d, conformance_case *c)
{
    const int64_t rows = draw(d, 1, 40), inner = draw(d, 1, 40), columns = draw(d, 1, 40);
    c->heads = draw(d, 0, 2) ? 1 : draw(d, 2, 5);
    c->transposed[0] = draw(d, 0, 1);
    c->transposed[1] = draw(d, 0, 1);
    c->x[0] = c->other[0] = draw(d, 1, 40);
    c->x[1] = c->heads * (c->transposed[0] ? inner : rows);
    c->x[2] = c->transposed[0] ? rows : inner;
    c->other[1] = c->heads * (c->transposed[1] ? columns : inner);
    c->other[2] = c->transposed[1] ? inner : columns;
}

static void draw_rows(drawing *d, conformance_case *c)
{
    c->x[0] = draw(d, 1, 40);
    c->x[1] = draw(d, 2, 150);
}

static void draw_product(drawing *d, conformance_case *c)
{
    draw_rows(d, c);
    if (draw(d, 0, 1))
        c->x[2] = draw(d, 1, 70);
    c->filters = draw(d, 1, 100);
    c->bias = draw(d, 0, 1);
}

static void draw_pool(drawing *d, conformance_case *c)
{
    draw_image(d, c);
    c->kernel[0] = draw(d, 0, 3) ? draw(d, 1, 3) : draw(d, 4, 18);
    c->stride = draw(d, 1, 4);
    c->padding = draw(d, 0, c->kernel[0] / 2);
    c->ties = draw(d, 0, 1);
    c->kernel[1] = draw(d, 0, 2) ? c->kernel[0] : draw(d, 1, 5);
    draw_columns(d, c, c->kernel[1] / 2);
    if (c->column_padding == 0 && c->padding > c->kernel[1] / 2)
        c->column_padding = NO_COLUMNS;
    for (int i = 0; i < 2; i++)
        if (c->x[2 + i] < c->kernel[i])
            c->x[2 + i] = c->kernel[i];
    c->ceil_mode = draw(d, 0, 1);
    c->skips_padding = draw(d, 0, 1);
}

/* An image that has the size already is left as it is, without an operator. */
static void draw_adaptive(drawing *d, conformance_case *c)
{
    draw_image(d, c);
    c->kernel[0] = draw(d, 1, 9);
    c->kernel[1] = draw(d, 1, 9);
    c->x[2] += c->kernel[0] == c->x[2] && c->kernel[1] == c->x[3];
}

static void draw_interpolate(drawing *d, conformance_case *c)
{
    draw_image(d, c);
    c->kernel[0] = draw(d, 1, 30);
    c->kernel[1] = draw(d, 1, 30);
    c->bilinear = draw(d, 0, 2);
    c->align_corners = c->bilinear && draw(d, 0, 1);
}

/* Of at least four values a channel: the dx of two is only rounding. */
static void draw_norm(drawing *d, conformance_case *c)
{
    draw_image(d, c);
    if (draw(d, 0, 4) == 0)
        c->x[2] = c->x[3] = 0;
    c->x[0] += 3;
    c->activation = (yki_fused)draw(d, YKI_FUSED_NONE, YKI_FUSED_HARDSWISH);
    if (yki_fused_clamps(c->activation)) {
        c->residual = draw(d, 0, 1);
        c->y = c->activation && draw(d, 0, 1);
    }
    c->dy2 = draw(d, 0, 1);
    c->evaluation = draw(d, 0, 2) == 0;
}

/* The last dimensions of x, some of them 1. */
static void draw_broadcast(drawing *d, conformance_case *c)
{
    draw_image(d, c);
    if (draw(d, 0, 3) == 0)
        draw_more_dims(d, c);
    const int64_t ndim = conformance_rank(c->x), first = draw(d, 0, ndim - 1);
    for (int64_t i = first; i < ndim; i++)
        c->other[i - first] = draw(d, 0, 1) ? 1 : c->x[i];
}

/* The same, of sides that are often equal. */
static void draw_tied(drawing *d, conformance_case *c)
{
    draw_broadcast(d, c);
    c->ties = true;
    c->alpha = 0.5 * (double)draw(d, 0, 2);
    c->p = (double)draw(d, 0, 1);
}

/* A value, and one of its dimensions: most often channels. */
static void draw_dim(drawing *d, conformance_case *c)
{
    draw_any_shape(d, c);
    int64_t dim = draw(d, 0, conformance_rank(c->x) - 1);
    c->dim = draw(d, 0, 1) && c->x[1] ? 1 : dim;
}

static void draw_concat(drawing *d, conformance_case *c)
{
    draw_dim(d, c);
    c->filters = c->dim == 1 ? draw_channels(d) : draw(d, 1, 9);
    c->values = (int)draw(d, 2, 8);
}

static void draw_amax(drawing *d, conformance_case *c)
{
    draw_dim(d, c);
    c->ties = draw(d, 0, 1);
}

/* A part of one dimension, as slice and pad have them. */
static void draw_part(drawing *d, conformance_case *c)
{
    draw_dim(d, c);
    c->other[0] = draw(d, 0, c->x[c->dim] - 1);
    c->other[1] = draw(d, 1, c->x[c->dim] - c->other[0]);
}

static void draw_sum(drawing *d, conformance_case *c)
{
    draw_any_shape(d, c);
    if (!c->x[1])
        c->x[1] = draw(d, 1, 40);
    c->filters = draw(d, 1, conformance_rank(c->x) - 1);
}

static void draw_permute(drawing *d, conformance_case *c)
{
    draw_any_shape(d, c);
    for (int i = 0; i < conformance_rank(c->x); i++) {
        const int64_t before = draw(d, 0, i); /* a place to which this dimension moves */
        for (int j = i; j > before; j--)
            c->other[j] = c->other[j - 1];
        c->other[before] = i + 1;
    }
}

static void draw_norm_of_wide_rows(drawing *d, conformance_case *c)
{
    draw_image(d, c);
    c->x[3] = c->x[3] < LEAST_OF_ROW ? LEAST_OF_ROW : c->x[3];
    const int64_t first = draw(d, 1, 3);
    for (int64_t i = first; i < 4; i++)
        c->other[i - first] = c->x[i];
}

static void draw_soft_loss(drawing *d, conformance_case *c)
{
    if (draw(d, 0, 1))
        draw_rows(d, c);
    else
        draw_image(d, c);
    c->last = draw(d, 0, 3) == 0;
    int64_t *classes = &c->x[c->last && c->x[2] ? 2 : 1];
    *classes += *classes == 1; /* of one class, the gradient is nothing but rounding */
    if (c->last) {
        c->x[3] = 0;
        c->classes = *classes;
    }
    c->smoothing = draw(d, 0, 1) ? 0 : (double)draw(d, 1, 10) / 10;
    c->weighted = draw(d, 0, 1);
    c->sum = draw(d, 0, 1);
}

/* A mean divides by the sum of the weights, which would be arbitrarily small. */
static void draw_loss(drawing *d, conformance_case *c)
{
    draw_soft_loss(d, c);
    c->sum |= c->weighted;
}

static void draw_attention(drawing *d, conformance_case *c)
{
    bool packed = draw(d, 0, 1), masked = draw(d, 0, 1);
    c->kv_heads = draw(d, 1, 5);
    c->heads = c->kv_heads * (draw(d, 0, 1) ? 1 : draw(d, 1, 4));
    c->causal = draw(d, 0, 1);
    c->p = draw(d, 0, 1) ? 0 : (double)draw(d, 1, 9) / 10;
    c->alpha = (double)draw(d, 0, 1);
    c->spread = 1;
    c->x[0] = draw(d, 1, 3);
    c->x[1] = draw(d, 1, 110);
    const int64_t width = draw(d, 1, 70);
    c->x[2] = (c->heads + (packed ? 2 * c->kv_heads : 0)) * width;
    if (!packed) {
        c->other[0] = c->x[0];
        c->other[1] = draw(d, 1, 110);
        c->other[2] = c->kv_heads * width;
        c->filters = c->kv_heads * draw(d, 1, 70);
    }
    if (masked) {
        const int64_t scores[] = {c->x[0], c->heads, c->x[1], packed ? c->x[1] : c->other[1]};
        for (int i = 0; i < 4; i++)
            c->mask[i] = draw(d, 0, 1) ? scores[i] : 1;
    }
    /* Where queries see one key each, dq and dk are zero, whatever the operands are, and on devices
     * the rounding of products of numbers up to 1. */
    if ((packed ? c->x[1] : c->other[1]) == 1 || (c->causal && c->x[1] == 1))
        c->floor = sqrt((double)count_of(c->x));
}

static void draw_cell(drawing *d, conformance_case *c)
{
    c->x[0] = draw(d, 1, 20);
    c->x[1] = draw(d, 1, 150);
}

static void draw_recurrent(drawing *d, conformance_case *c)
{
    c->x[0] = draw(d, 1, 20);
    c->x[1] = draw(d, 1, 6);
    c->x[2] = draw(d, 1, 100);
    c->states = draw(d, 0, 1);
    c->reverse = draw(d, 0, 1);
    c->lengths = draw(d, 0, 1);
    c->classes = c->x[1];
    c->spread = 2 / sqrt((double)c->x[2]);
}

static void draw_rotary(drawing *d, conformance_case *c)
{
    const int64_t width = draw(d, 2, 90);
    c->heads = draw(d, 1, 5);
    c->interleaved = draw(d, 0, 1);
    c->filters = 2 * draw(d, 1, width / 2);
    c->alpha = (double)draw(d, 2, 100000);
    c->padding = draw(d, 0, 100);
    c->x[0] = draw(d, 1, 3);
    c->x[1] = draw(d, 1, 110);
    c->x[2] = c->heads * width;
}

static void draw_embedding(drawing *d, conformance_case *c)
{
    c->wide = draw(d, 0, 1);
    c->x[0] = draw(d, 1, 40);
    c->x[1] = draw(d, 0, 20);
    c->classes = draw(d, 1, 70);
    c->filters = draw(d, 1, 300);
}

static void draw_take(drawing *d, conformance_case *c)
{
    draw_dim(d, c);
    c->wide = draw(d, 0, 1);
    c->plain = draw(d, 0, 1);
    c->classes = c->x[c->dim];
    int ndim = 0;
    for (; !c->plain && ndim < c->dim; ndim++)
        c->other[ndim] = c->x[ndim];
    if (ndim == 0 || draw(d, 0, 2))
        c->other[ndim] = draw(d, 1, 40);
}

/* The operators of a family, and how its cases are drawn. */
typedef struct operators {
    const conformance_family *family;
    void (*draw)(drawing *d, conformance_case *c);
    bool is_full; /* never in 16 bit */
} operators;

static const operators all_operators[] = {
    {&family_linear, draw_product, false},
    {&family_flatten, draw_image, false},
    {&family_batch_norm, draw_norm, false},
    {&family_batch_norm_apply, draw_norm, false},
    {&family_max_pool2d, draw_pool, false},
    {&family_avg_pool2d, draw_pool, false},
    {&family_global, draw_image, false},
    {&family_adaptive, draw_adaptive, false},
    {&family_interpolate, draw_interpolate, false},
    {&family_broadcast_add, draw_broadcast, false},
    {&family_broadcast_subtract, draw_broadcast, false},
    {&family_broadcast_multiply, draw_broadcast, false},
    {&family_broadcast_divide, draw_broadcast, false},
    {&family_maximum, draw_broadcast, false},
    {&family_minimum, draw_broadcast, false},
    {&family_tied_maximum, draw_tied, false},
    {&family_tied_minimum, draw_tied, false},
    {&family_compare, draw_tied, false},
    {&family_masked_fill, draw_broadcast, false},
    {&family_kept, draw_broadcast, false},
    {&families_elementwise[FAMILIES_CONCAT], draw_concat, false},
    {&family_slice, draw_part, false},
    {&family_pad, draw_part, false},
    {&family_cross_entropy, draw_loss, false},
    {&family_soft_cross_entropy, draw_soft_loss, false},
    {&family_mse_loss, draw_any_shape, true},
    {&family_reduce_loss, draw_any_shape, true},
    {&family_smooth_l1_loss, draw_any_shape, true},
    {&family_bce, draw_any_shape, true},
    {&family_attention, draw_attention, false},
    {&family_rotary, draw_rotary, false},
    {&family_embedding, draw_embedding, true},
    {&family_take, draw_take, false},
    {&family_lstm_cell, draw_cell, false},
    {&family_gru_cell, draw_cell, false},
    {&family_lstm, draw_recurrent, false},
    {&family_gru, draw_recurrent, false},
    {&family_group_norm, draw_group_norm, false},
    {&family_matmul, draw_matmul, false},
    {&family_softmax, draw_any_rows, true},
    {&family_log_softmax, draw_any_rows, true},
    {&family_amax, draw_amax, false},
    {&family_amin, draw_amax, false},
    {&family_layer_norm, draw_norm_of_rows, true},
    {&family_rms_norm, draw_norm_of_rows, true},
    {&family_layer_norm_wide, draw_norm_of_wide_rows, true},
    {&family_rms_norm_wide, draw_norm_of_wide_rows, true},
    {&family_sum, draw_sum, true},
    {&family_permute, draw_permute, false}};

static conformance_setting draw_setting(drawing *d, bool is_full)
{
    static const conformance_setting precisions[] = {{.dtype = YK_F32, .tolerance = 1e-5},
                                                     {.dtype = YK_BF16, .tolerance = 1e-2},
                                                     {.dtype = YK_F16, .tolerance = 2e-3}};
    conformance_setting setting = precisions[is_full ? 0 : draw(d, 0, 2)];
    setting.device = yk_test_device("cpu");
    setting.threads = (int)draw(d, 1, MOST_THREADS);
    return setting;
}

static void draw_operators(void)
{
    enum { KINDS = sizeof all_operators / sizeof *all_operators };
    drawing d = {.seed = (uint64_t)number_from("YOKE_TEST_SEED", 8)};
    const bool on_cpu = strcmp(yk_test_device("cpu"), "cpu") == 0; /* simulators take longer */
    int64_t left = (on_cpu ? 12 : 3) * number_from("YOKE_TEST_DRAWS", 30);
    for (; left > 0; left--) {
        int64_t kind = draw(&d, 0, KINDS + FAMILIES_ELEMENTWISE - 1);
        conformance_case c = {.seed = draw_seed(&d), .alpha = 1.5, .p = 0.3, .spread = 4};
        conformance_family family = {.cases = &c, .count = 1};
        bool is_full = kind < KINDS && all_operators[kind].is_full;
        if (kind < KINDS) {
            family.build = all_operators[kind].family->build;
            all_operators[kind].draw(&d, &c);
        } else if (kind - KINDS != FAMILIES_CONCAT) {
            family.build = families_elementwise[kind - KINDS].build;
            draw_any_shape(&d, &c);
        } else
            continue;
        conformance_setting setting = draw_setting(&d, is_full);
        if (on_cpu && left % 2)
            setting.type = with_small_sizes(&yki_device_cpu);
        conformance_device(&family, &setting);
    }
}

YK_TEST(random_operators)
{
    draw_operators();
}

YK_TEST(random_operators_with_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    draw_operators();
}

YK_TEST(random_operators_without_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    draw_operators();
}
