/* The loop of the examples that learn sequences, and count steps instead of epochs. */
#ifndef YOKE_EXAMPLES_TRAINING_H
#define YOKE_EXAMPLES_TRAINING_H

#include "common.h"

/* Rank 0 prints the mean loss of all ranks every 50 steps. */
static inline void train(yk_model *model, yk_optimizer *optimizer, yk_loader *loader,
                         yk_group *world, int64_t max_steps)
{
    yk_loss_meter *meter; /* of the steps since the last line */
    YK_CHECK(yk_loss_meter_create(&meter, model));
    int64_t step = 0;
    while (step < max_steps) {
        const yk_batch *batch = yk_loader_next(loader);
        YK_CHECK(yk_loader_status(loader));
        if (!batch) /* the end of an epoch; the next begins by itself */
            continue;
        YK_CHECK(yk_model_forward(model, batch));
        YK_CHECK(yk_model_backward(model)); /* averages the gradients over the ranks */
        YK_CHECK(yk_clip_grad_norm(optimizer, 1, NULL));
        YK_CHECK(yk_optimizer_step(optimizer));
        YK_CHECK(yk_loss_meter_update(meter, (double)batch->size));
        if (++step % 50 && step < max_steps)
            continue;
        double mean;
        YK_CHECK(yk_loss_meter_compute(&mean, meter));
        YK_CHECK(yk_mean_over_ranks(&mean, world, mean, 1));
        if (yk_group_rank(world) == 0)
            printf("Step %lld: training loss %.4f\n", (long long)step, mean);
    }
    yk_loss_meter_destroy(meter);
}

#endif
