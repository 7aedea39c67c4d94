/* Images of another size on the cpu: every layout and width of vectors against ref, with infinities
 * that only their neighbours may see. */
#include "cpu_check.h"

typedef struct resize {
    int64_t from[4], to[4];
} resize;

/* Enlarged, reduced, both; rows of fewer numbers than a vector has, of whole vectors, and of more;
 * pixels that no pixel of the other image has anything of. */
static const resize sizes[] = {
    {{2, 3, 6, 5}, {2, 3, 12, 10}},   {{1, 17, 21, 40}, {1, 17, 7, 9}},
    {{2, 3, 33, 35}, {2, 3, 16, 64}}, {{1, 5, 3, 37}, {1, 5, 29, 16}},
    {{3, 19, 1, 1}, {3, 19, 2, 3}},   {{2, 2, 4, 70}, {2, 2, 4, 3}},
};

/* Of a gradient, what comes in has the size `to`. */
static void resized(check_case start, const resize *size, bool is_gradient, const double *infinity)
{
    const int64_t *x = is_gradient ? size->to : size->from,
                  *y = is_gradient ? size->from : size->to;
    for (int mode = 0; mode < 3; mode++) {
        check_case c = start;
        c.op = is_gradient ? &yki_op_interpolate_backward : &yki_op_interpolate;
        c.attrs = (yki_attrs){.bilinear = mode > 0, .align_corners = mode > 1};
        double *values = check_in(&c, c.dtype, 4, x, 1, 0);
        for (int64_t i = 0; infinity && i < yki_operand_count(&c.in[0].operand); i += 23)
            values[i] = *infinity;
        check_out(&c, c.dtype, 4, y);
        check(&c);
    }
}

static void resized_all(check_case start)
{
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int is_gradient = 0; is_gradient < 2; is_gradient++) {
            resized(start, &sizes[s], is_gradient, NULL);
            resized(start, &sizes[s], is_gradient, &(double){INFINITY});
            resized(start, &sizes[s], is_gradient, &(double){NAN});
        }
}

YK_TEST(images_of_another_size_equal_refs)
{
    check_everywhere(resized_all);
}
