/* See program.h. Values are kept as doubles, dense in the order of dims, and rounded to the type of
 * the tensor that they are in. */
#include "program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libraries/cudnn_calls.h"
#include "tensor/element.h"

static yk_dtype dtype_of(int type)
{
    return type == CUDNN_DATA_DOUBLE     ? YK_F64
           : type == CUDNN_DATA_HALF     ? YK_F16
           : type == CUDNN_DATA_BFLOAT16 ? YK_BF16
                                         : YK_F32;
}

static int64_t count_of(const fake_tensor *t)
{
    return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct value {
    const fake_tensor *tensor;
    double *numbers;
    void *memory; /* NULL: virtual */
} value;

typedef struct machine {
    value values[FAKE_TENSORS];
    int count;
} machine;

static int64_t place(const fake_tensor *t, int64_t i)
{
    int64_t at = 0;
    for (int d = 3; d >= 0; d--) {
        at += i % t->dims[d] * t->strides[d];
        i /= t->dims[d];
    }
    return at;
}

static value *value_of(machine *m, const fake_tensor *tensor, int count, const int64_t *ids,
                       void *const *memory)
{
    for (int i = 0; i < m->count; i++)
        if (m->values[i].tensor->id == tensor->id)
            return &m->values[i];
    value *made = &m->values[m->count++];
    *made = (value){.tensor = tensor, .numbers = calloc((size_t)count_of(tensor), sizeof(double))};
    for (int i = 0; i < count; i++)
        if (ids[i] == tensor->id)
            made->memory = memory[i];
    for (int64_t i = 0; made->memory && i < count_of(tensor); i++)
        made->numbers[i] = yki_element_get(dtype_of(tensor->type), made->memory, place(tensor, i));
    return made;
}

static void round_and_store(const value *v, double factor)
{
    yk_dtype dtype = dtype_of(v->tensor->type);
    for (int64_t i = 0; i < count_of(v->tensor); i++) {
        double rounded;
        yki_element_set(dtype, &rounded, 0, factor * v->numbers[i]);
        v->numbers[i] = yki_element_get(dtype, &rounded, 0);
        if (v->memory)
            yki_element_set(dtype, v->memory, place(v->tensor, i), v->numbers[i]);
    }
}

/* ---- operations ------------------------------------------------------------------------------ */

/* A row of output pixels, whose windows have one tap of a filter in the input row x. */
static void convolve_row(const fake_operation *op, double *x, double *w, double *y, int64_t width,
                         int64_t outputs, int64_t first)
{
    double sum = 0;
    for (int64_t q = 0; q < outputs; q++) {
        int64_t at = q * op->stride[1] + first;
        if (at < 0 || at >= width)
            continue;
        if (op->kind == FAKE_FORWARD)
            y[q] += x[at] * *w;
        else if (op->kind == FAKE_BACKWARD_DATA)
            x[at] += y[q] * *w;
        else
            sum += x[at] * y[q];
    }
    *w += sum;
}

/* One input channel and one filter, in one image. */
static void convolve_plane(const fake_operation *op, double *x, double *w, double *y)
{
    int64_t height = op->a.dims[2], width = op->a.dims[3];
    for (int64_t r = 0; r < op->b.dims[2]; r++)
        for (int64_t s = 0; s < op->b.dims[3]; s++)
            for (int64_t p = 0; p < op->c.dims[2]; p++) {
                int64_t row = p * op->stride[0] - op->padding[0] + r * op->dilation[0];
                if (row >= 0 && row < height)
                    convolve_row(op, x + row * width, w + r * op->b.dims[3] + s,
                                 y + p * op->c.dims[3], width, op->c.dims[3],
                                 s * op->dilation[1] - op->padding[1]);
            }
}

static void convolve(const fake_operation *op, double *x, double *w, double *y)
{
    const int64_t *filter = op->b.dims;
    int64_t taps = filter[2] * filter[3], groups = op->a.dims[1] / filter[1];
    int64_t in = op->a.dims[2] * op->a.dims[3], out = op->c.dims[2] * op->c.dims[3];
    for (int64_t n = 0; n < op->a.dims[0]; n++)
        for (int64_t k = 0; k < filter[0]; k++)
            for (int64_t c = 0; c < filter[1]; c++) {
                int64_t channel = k / (filter[0] / groups) * filter[1] + c;
                convolve_plane(op, x + (n * op->a.dims[1] + channel) * in,
                               w + (k * filter[1] + c) * taps, y + (n * filter[0] + k) * out);
            }
}

static void run_pointwise(const fake_operation *op, const double *a, const double *b, double *c)
{
    int64_t pixels = op->c.dims[2] * op->c.dims[3];
    for (int64_t i = 0; i < count_of(&op->c); i++)
        c[i] = a[i] + (b ? b[i / pixels % op->c.dims[1]] : 0);
}

static void run_statistics(const fake_operation *op, const double *a, double *sum, double *squares)
{
    int64_t pixels = op->a.dims[2] * op->a.dims[3];
    for (int64_t i = 0; i < count_of(&op->a); i++) {
        int64_t channel = i / pixels % op->a.dims[1];
        sum[channel] += a[i];
        squares[channel] += a[i] * a[i];
    }
}

static void clear(const value *v)
{
    memset(v->numbers, 0, (size_t)count_of(v->tensor) * sizeof *v->numbers);
}

void fake_program_run(const fake_program *program, int count, const int64_t *ids,
                      void *const *memory, void *workspace)
{
    machine m = {0};
    for (int i = 0; i < program->count; i++) {
        const fake_operation *op = &program->operations[i];
        bool binary = op->kind != FAKE_IDENTITY;
        value *a = value_of(&m, &op->a, count, ids, memory);
        value *b = binary ? value_of(&m, &op->b, count, ids, memory) : NULL;
        value *c = value_of(&m, &op->c, count, ids, memory);
        value *made = op->kind == FAKE_BACKWARD_DATA ? a : op->kind == FAKE_BACKWARD_FILTER ? b : c;
        clear(made);
        if (op->kind == FAKE_STATISTICS) {
            clear(b);
            run_statistics(op, a->numbers, b->numbers, c->numbers);
            round_and_store(b, program->factor);
        } else if (op->kind < FAKE_ADD)
            convolve(op, a->numbers, b->numbers, c->numbers);
        else
            run_pointwise(op, a->numbers, b ? b->numbers : NULL, c->numbers);
        round_and_store(made, program->factor);
    }
    if (workspace)
        memset(workspace, 0xee, (size_t)program->workspace);
    for (int i = 0; i < m.count; i++)
        free(m.values[i].numbers);
}

static void add_tensor(const fake_tensor *tensor, const fake_tensor **tensors, int *count)
{
    for (int i = 0; i < *count; i++)
        if (tensors[i]->id == tensor->id)
            return;
    if (!tensor->is_virtual)
        tensors[(*count)++] = tensor;
}

int fake_program_tensors(const fake_program *program, const fake_tensor *tensors[FAKE_TENSORS])
{
    int count = 0;
    for (int i = 0; i < program->count; i++) {
        const fake_operation *op = &program->operations[i];
        add_tensor(&op->a, tensors, &count);
        if (op->kind != FAKE_IDENTITY)
            add_tensor(&op->b, tensors, &count);
        add_tensor(&op->c, tensors, &count);
    }
    return count;
}
