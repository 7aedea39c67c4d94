/* See recurrent.h. */
#include "recurrent.h"

#include <stdlib.h>
#include <string.h>

bool is_recurrent(const problem *p)
{
    return strcmp(p->name, "lstm") == 0 || strcmp(p->name, "gru") == 0;
}

void recurrent_init(recurrent *r, const problem *p, int threads)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x =
        yk_input(graph, "x", YK_F32, p->x.ndim, (int64_t[]){YK_BATCH, p->x.dims[1], p->x.dims[2]});
    yk_nn_recurrent_options layers = YK_NN_RECURRENT_OPTIONS_INIT;
    layers.num_layers = p->other.dims[1];
    const int64_t hidden = p->other.dims[0];
    yk_value *y = strcmp(p->name, "lstm") == 0 ? yk_nn_lstm(x, "rnn", hidden, &layers)
                                               : yk_nn_gru(x, "rnn", hidden, &layers);
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.threads = threads;
    options.amp = p->dtype == YK_BF16 ? YK_AMP_BF16 : YK_AMP_OFF;
    YK_CHECK(yk_model_create(&r->model, yk_reduce_loss(y, YK_LOSS_SUM), &options));
    const size_t count = (size_t)(p->x.dims[0] * p->x.dims[1] * p->x.dims[2]);
    float *data = malloc(count * sizeof *data);
    if (!data)
        exit(1);
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(i * 7919 % 2001) / 1000 - 1;
    r->input = (yk_tensor){.data = data, .dtype = YK_F32, .ndim = p->x.ndim};
    memcpy(r->input.dims, p->x.dims, sizeof p->x.dims);
}

void recurrent_forward(const recurrent *r)
{
    static const char *const names[] = {"x"};
    const yk_batch batch = {
        .size = r->input.dims[0], .count = 1, .names = names, .tensors = (yk_tensor *)&r->input};
    YK_CHECK(yk_model_forward(r->model, &batch));
}

void recurrent_backward(const recurrent *r)
{
    yk_model_zero_grad(r->model);
    YK_CHECK(yk_model_backward(r->model));
}

void recurrent_fini(recurrent *r)
{
    yk_model_destroy(r->model);
    free(r->input.data);
}
