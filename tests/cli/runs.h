/* Runs for the tests of the commands that read them, without training. */
#ifndef YK_TEST_RUNS_H
#define YK_TEST_RUNS_H

#include <stdio.h>
#include <string.h>

#include "harness.h"

/* A run of so many steps on `ranks` ranks in a folder of the test's; returns the folder. */
static inline const char *write_run(const char *name, const char *options, int64_t ranks,
                                    double accuracy)
{
    static char folder[256];
    char path[300];
    yk_metrics *metrics;
    enum { STEPS = 40, EPOCH = 20 };
    snprintf(folder, sizeof folder, "%s/%s", yk_test_directory(), name);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    assert_ok(yk_metrics_open(&metrics, path));
    assert_ok(yk_metrics_header(metrics, &(yk_header_record){.arch = "mlp",
                                                             .data = "synthetic",
                                                             .options = options,
                                                             .ranks = ranks,
                                                             .threads = 1,
                                                             .batch_size = 64}));
    for (int64_t step = 1; step <= STEPS; step++) {
        assert_ok(yk_metrics_step(metrics, &(yk_step_record){.epoch = 1 + (step - 1) / EPOCH,
                                                             .step = step,
                                                             .loss = 2.0 / (double)step,
                                                             .lr = 0.1,
                                                             .images_per_s = 100.0 * (double)ranks,
                                                             .data_s = 0.01,
                                                             .compute_s = 0.08,
                                                             .exposed_comm_s = 0.01}));
        if (step % EPOCH == 0)
            assert_ok(yk_metrics_epoch(
                metrics, &(yk_epoch_record){.epoch = step / EPOCH,
                                            .step = step,
                                            .train_loss = 1,
                                            .val_loss = 2.0 / (double)step,
                                            .val_accuracy = accuracy - (step == STEPS ? 0.125 : 0),
                                            .epoch_s = 33,
                                            .slowest_rank = ranks > 1 ? 1 : -1,
                                            .waited_s = ranks > 1 ? 2.5 : 0}));
    }
    yk_metrics_close(metrics);
    return folder;
}

#endif
