/* A training run as its folder describes it: what metrics.jsonl has recorded, and what follows from
 * that. */
#ifndef YOKE_CLI_RUN_FOLDER_H
#define YOKE_CLI_RUN_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include <yoke/report.h>

enum { CLI_MAX_RUNS = 1000 }; /* as many as a sweep may have */

/* An option of the run or, such as the number of ranks, a property. */
typedef struct cli_setting {
    const char *name, *value;
} cli_setting;

/* NaN where it is not known. */
typedef struct cli_results {
    double accuracy, best_accuracy; /* of the last evaluation, and the highest; 0 to 1 */
    double best_epoch;
    double val_loss, train_loss;                 /* of the last evaluation */
    double images_per_s;                         /* median over the steps */
    double data, compute, waiting, exposed_comm; /* shares of the time of all steps, 0 to 1 */
    double seconds;                              /* of all epochs */
    double slowest_rank;   /* the one that the others waited for in the most epochs */
    double slowest_epochs; /* how many those are */
    double waited_s;       /* how long, in these epochs */
} cli_results;

typedef struct cli_run {
    char *folder, *name; /* name: as short as it can be to tell the runs apart */
    yk_metrics_history *history;
    cli_setting *settings; /* the options given come after what every run has */
    size_t setting_count;
    char *setting_text; /* that they point into */
    cli_results results;
} cli_run;

/* Reads the runs in these folders (or of these metrics.jsonl). Of several folders, those without
 * records are left out, as of runs of a sweep that have failed, and it says so; *count becomes the
 * number of runs, which is not 0. False: it has said why. Release the runs in either case. */
bool cli_runs_read(cli_run *runs, char **paths, int *count);
void cli_runs_release(cli_run *runs, int count);

/* The value of a setting, or NULL. */
const char *cli_run_setting(const cli_run *run, const char *name);

/* The names of the settings of all runs, each once, in the order of their appearance; with
 * `differing`, only of those that are not the same in all runs. The array is to be freed; NULL when
 * memory runs out. */
const char **cli_runs_settings(const cli_run *runs, int count, bool differing, size_t *name_count);

#endif
