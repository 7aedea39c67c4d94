/*
 * One step of training: forward and backward of this rank's batches, the ranks' exchange of news,
 * the update, and what is told of it.
 */
#include <string.h>

#include "clock.h"
#include "setup.h"
#include "train/train.h"

enum { NEWS = sizeof(cli_step_totals) / sizeof(double) };

/* Of this rank's samples alone. */
static double own_loss(const cli_trainer *t)
{
    double loss = 0, samples = 0;
    for (int i = 0; i < t->shares; i++) {
        loss += t->news[i].loss;
        samples += t->news[i].samples;
    }
    return samples > 0 ? loss / samples : 0;
}

/* Adds up the news of all ranks' shares, into the first. */
static bool share_news(const cli_trainer *t)
{
    t->news->stopping = yk_stop_signal() != 0;
    return cli_sum_shares(t->world, &t->news->loss, t->shares, NEWS, &t->news[t->shares].loss);
}

static bool report_step(cli_trainer *t, cli_epoch_times *times, const cli_step_totals *news,
                        double begin_s, double data_s, double exposed_s, const cli_update *update)
{
    double step_s = cli_clock_s() - begin_s;
    yk_step_record record = {.epoch = t->state.epoch + 1,
                             .step = t->state.step,
                             .loss = news->loss / news->samples,
                             .lr = t->state.lr,
                             .has_grad_norm = t->options.recipe.clip_grad_norm > 0,
                             .grad_norm = update->grad_norm,
                             .images_per_s = news->samples / step_s,
                             .data_s = data_s,
                             .compute_s = step_s - data_s - exposed_s,
                             .exposed_comm_s = exposed_s,
                             .scale = update->scale,
                             .skipped = t->scaler && yk_grad_scaler_found_inf(t->scaler)};
    t->state.epoch_loss += news->loss;
    t->state.epoch_samples += news->samples;
    times->data_s += record.data_s;
    times->compute_s += record.compute_s;
    times->exposed_comm_s += record.exposed_comm_s;
    if (!t->leads)
        return true;
    cli_progress_step(t->progress, &record, t->state.epoch_batch);
    return cli_ok(yk_metrics_step(t->metrics, &record));
}

/* Of the last forward and backward: what a device by itself would not have to do. */
static double data_parallel_s(const cli_trainer *t)
{
    if (!t->dp)
        return 0;
    yk_data_parallel_stats stats = yk_data_parallel_last_stats(t->dp);
    return stats.scatter_s + stats.replicate_s + stats.gather_s + stats.reduce_s;
}

/*
 * Forward and backward of a step's batches, of which `batch` is the first: of each share, and of
 * the micro-batches that a share is cut into; an epoch's last step may have fewer of these.
 * Gradients travel with the last. Fills t->news and adds up the seconds waited for data, and
 * those between devices.
 */
static bool run_batches(cli_trainer *t, const yk_batch *batch, double *data_s, double *exposed_s)
{
    int64_t all = t->options.accumulate * t->shares, before = t->state.epoch_batch * all;
    memset(t->news, 0, (size_t)t->shares * sizeof *t->news);
    for (int64_t done = 1;; done++) {
        bool last = done == all || before + done == t->batches_per_epoch;
        cli_step_totals *news = &t->news[(done - 1) % t->shares];
        if (t->ddp && t->shares == 1)
            yk_ddp_set_no_sync(t->ddp, !last);
        if (!cli_ok(yk_model_forward(t->model, batch)) || !cli_ok(yk_model_backward(t->model)))
            return false;
        news->loss += yk_model_loss(t->model) * (double)batch->size;
        news->samples += (double)batch->size;
        *data_s += yk_loader_wait_s(t->train);
        *exposed_s += data_parallel_s(t);
        if (last)
            return true;
        batch = yk_loader_next(t->train);
        if (!batch)
            return cli_ok(yk_loader_status(t->train)) && cli_complain("the data ended early");
    }
}

bool cli_trainer_step(cli_trainer *t, const yk_batch *batch, cli_epoch_times *times, double begin_s,
                      bool *stopping)
{
    cli_update update = {0};
    double data_s = 0, exposed_s = 0;
    if (!run_batches(t, batch, &data_s, &exposed_s))
        return false;
    double exchange_s = cli_clock_s(), loss = own_loss(t);
    yk_trace_begin("share the loss");
    if (!share_news(t))
        return false;
    yk_trace_end();
    exchange_s = cli_clock_s() - exchange_s;
    if (!cli_trainer_check_loss(t, t->news->loss, loss))
        return false;
    if (!cli_trainer_update_weights(t, &update))
        return false;
    t->state.step++;
    t->state.epoch_batch++;
    if (t->ddp)
        exposed_s = yk_ddp_last_stats(t->ddp).exposed_s + exchange_s;
    *stopping = t->news->stopping > 0;
    return report_step(t, times, t->news, begin_s, data_s, exposed_s, &update) &&
           cli_trainer_check_divergence(t);
}
