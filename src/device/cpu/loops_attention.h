/* What attention computes with on a head: products of small matrices in f32, and the softmax of
 * their rows. Included by loops_table.h alone. */
#include <math.h>

/* Rows of c that are summed in registers, in two vectors each. */
enum { PRODUCT_ROWS = YKI_WIDTH == 16 ? 12 : 6 };

/* `rows` is a constant in every call. */
YKI_FORCE_INLINE void multiply_tile(const yki_small_product *p, int64_t row, int64_t column,
                                    int rows)
{
    yki_lanes sum[PRODUCT_ROWS][2] = {{{0}}};
    const float *a = p->a + row * p->a_row, *b = p->b + column;
    float *c = p->c + row * p->c_pitch + column;
    for (int64_t k = 0; k < p->inner; k++) {
        const yki_lanes b0 = yki_load_lanes(b, k * p->b_pitch, YK_F32);
        const yki_lanes b1 = yki_load_lanes(b, k * p->b_pitch + YKI_WIDTH, YK_F32);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            const float factor = a[r * p->a_row + k * p->a_inner];
            sum[r][0] += factor * b0;
            sum[r][1] += factor * b1;
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < 2; j++) {
            float *to = c + r * p->c_pitch + j * YKI_WIDTH;
            yki_lanes before = p->add ? yki_load_lanes(to, 0, YK_F32) : yki_splat(0);
            yki_store_lanes(to, 0, before + sum[r][j], YK_F32);
        }
}

static void multiply(const yki_small_product *p)
{
    for (int64_t column = 0; column < p->columns; column += YKI_PACK) {
        int64_t row = 0;
        for (; row + PRODUCT_ROWS <= p->rows; row += PRODUCT_ROWS)
            multiply_tile(p, row, column, PRODUCT_ROWS);
        for (; row + 4 <= p->rows; row += 4)
            multiply_tile(p, row, column, 4);
        for (; row < p->rows; row++)
            multiply_tile(p, row, column, 1);
    }
}

static float sum_of_floats(yki_lanes x)
{
    float sum = 0;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        sum += x[lane];
    return sum;
}

static int64_t whole_packs(int64_t count)
{
    return (count + YKI_PACK - 1) / YKI_PACK * YKI_PACK;
}

static void fill_from(float *x, int64_t first, int64_t end, float value)
{
    for (int64_t i = first; i < end; i++)
        x[i] = value;
}

static float masked_softmax(float *x, int64_t count, int64_t columns)
{
    const int64_t used = whole_packs(count);
    fill_from(x, count, used, -INFINITY);
    yki_lanes most = yki_splat(-INFINITY), sum = {0};
    for (int64_t i = 0; i < used; i += YKI_WIDTH) {
        yki_lanes value = yki_load_lanes(x, i, YK_F32);
        most = yki_select((yki_bits)(value > most), value, most);
    }
    float largest = most[0];
    for (int lane = 1; lane < YKI_WIDTH; lane++)
        largest = most[lane] > largest ? most[lane] : largest;
    for (int64_t i = 0; i < used; i += YKI_WIDTH) {
        yki_lanes value = yki_exp(yki_load_lanes(x, i, YK_F32) - largest);
        yki_store_lanes(x, i, value, YK_F32);
        sum += value;
    }
    const float total = sum_of_floats(sum), factor = 1 / total;
    for (int64_t i = 0; i < used; i += YKI_WIDTH)
        yki_store_lanes(x, i, yki_load_lanes(x, i, YK_F32) * factor, YK_F32);
    fill_from(x, count, columns, 0);
    return largest + logf(total);
}

static void masked_softmax_slopes(float *x, float *slopes, int64_t count, int64_t columns,
                                  float log_sum)
{
    const int64_t used = whole_packs(count);
    yki_lanes sum = {0};
    for (int64_t i = 0; i < used; i += YKI_WIDTH)
        yki_store_lanes(x, i, yki_exp(yki_load_lanes(x, i, YK_F32) - log_sum), YK_F32);
    fill_from(x, count, columns, 0);
    for (int64_t i = 0; i < used; i += YKI_WIDTH)
        sum += yki_load_lanes(x, i, YK_F32) * yki_load_lanes(slopes, i, YK_F32);
    const float mean = sum_of_floats(sum);
    for (int64_t i = 0; i < columns; i += YKI_WIDTH)
        yki_store_lanes(slopes, i,
                        yki_load_lanes(x, i, YK_F32) * (yki_load_lanes(slopes, i, YK_F32) - mean),
                        YK_F32);
}
