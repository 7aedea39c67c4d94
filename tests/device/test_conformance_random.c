/*
 * Shapes drawn at random, small images and odd sizes above all, on the cpu device against ref: the
 * tables of test_conformance.c hold the shapes that somebody thought of. Libraries choose among
 * many kernels by shape and dtype, and some read memory that they never wrote; the machine poisons
 * scratch memory, so a kernel that does is found here.
 *
 * YOKE_TEST_DRAWS=N draws N cases of each test instead of 30, YOKE_TEST_SEED=N others.
 */
#include <stdlib.h>

#include "base/random.h"
#include "conformance.h"
#include "families.h"
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

static bool fits(const conformance_case *c)
{
    for (int i = 0; i < 2; i++)
        if (c->x[2 + i] + 2 * c->padding < c->dilation * (c->kernel[i] - 1) + 1)
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
    conformance_case c = {.floor = 1e-3}; /* a sum of a few products may all but cancel */
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
