/* matmul: y = a b for each pair of matrices, either of which may be transposed in memory. */
#include "device/matmul.h"
#include "device/ref/ref.h"

/* Where element (row, column) of a matrix is that is (rows, columns) to the product. */
static int64_t at(int64_t rows, int64_t columns, bool is_transposed, int64_t row, int64_t column)
{
    return is_transposed ? column * rows + row : row * columns + column;
}

static yk_status ref_matmul(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_ref_kernel *k = (const yki_ref_kernel *)kernel;
    yk_tensor a = yki_ref_in(kernel, run, YKI_MATMUL_A);
    yk_tensor b = yki_ref_in(kernel, run, YKI_MATMUL_B);
    yk_tensor y = yki_ref_out(kernel, run, YKI_MATMUL_Y);
    yki_kernel_desc desc = k->desc;
    desc.attrs = &k->attrs;
    const yki_matmul m = yki_matmul_of(&desc);
    const int64_t rows = m.rows, inner = m.inner, columns = m.columns;
    for (int64_t i = 0; i < m.count * rows * columns; i++) {
        const int64_t product = i / (rows * columns), row = i / columns % rows,
                      column = i % columns;
        double sum = 0;
        for (int64_t n = 0; n < inner; n++)
            sum +=
                yki_ref_get(&a, product * rows * inner + at(rows, inner, m.transpose_a, row, n)) *
                yki_ref_get(&b, product * inner * columns +
                                    at(inner, columns, m.transpose_b, n, column));
        yki_ref_set(&y, i, sum);
    }
    return YK_OK;
}

YKI_REF_IMPL(matmul, 0);
