/* The runs of a sweep: every combination of the values that options of `yoke train` were given as
 * lists. */
#ifndef YOKE_CLI_SWEEP_PLAN_H
#define YOKE_CLI_SWEEP_PLAN_H

#include <stdbool.h>

enum { CLI_SWEEP_AXES = 16, CLI_SWEEP_VALUES = 64, CLI_SWEEP_RUNS = 1000, CLI_SWEEP_WORDS = 256 };

/* An option with several values. */
typedef struct cli_sweep_axis {
    char *text; /* that name and values point into */
    const char *name, *values[CLI_SWEEP_VALUES];
    int count;
} cli_sweep_axis;

typedef struct cli_sweep_plan {
    cli_sweep_axis axes[CLI_SWEEP_AXES];
    int axis_count;
    char *others[CLI_SWEEP_WORDS]; /* words of the command line that all runs share */
    int other_count;
    int runs; /* combinations */
} cli_sweep_plan;

/* From the words of a command line, whose options are those of `yoke train`; false: a usage error
 * of the command has been printed. Release the plan in either case. */
bool cli_sweep_plan_make(cli_sweep_plan *plan, const char *command, int argc, char **argv);
void cli_sweep_plan_release(cli_sweep_plan *plan);

/* What all runs are given for an option, by its name, the last time; NULL where they are not. */
const char *cli_sweep_shared(const cli_sweep_plan *plan, const char *name);
/* The value of an axis in a run; the last axis changes fastest. */
const char *cli_sweep_value(const cli_sweep_plan *plan, int run, int axis);
/* "lr-0.1_momentum-0.9", for the run's folder. */
enum { CLI_SWEEP_NAME = 240 };
void cli_sweep_name(char name[CLI_SWEEP_NAME], const cli_sweep_plan *plan, int run);

#endif
