/*
 * The commands of the program. Each gets its full name, such as "yoke train", and returns the
 * exit code: 0; 1 if it failed, after printing a one-line error; 2 for an invalid command line. The
 * launcher has more (docs/launcher.md).
 */
#ifndef YOKE_CLI_H
#define YOKE_CLI_H

enum {
    CLI_EXIT_OK = 0,
    CLI_EXIT_FAILED = 1,
    CLI_EXIT_USAGE = 2,
    CLI_EXIT_REQUEUED = 120,    /* stopped, saved, and back in Slurm's queue */
    CLI_EXIT_STOP_FAILED = 121, /* a rank failed while the job was stopping */
    CLI_EXIT_STOP_KILLED = 122  /* a rank that did not stop had to be killed */
};

int cli_cmd_train(const char *name, int argc, char **argv);
int cli_cmd_evaluate(const char *name, int argc, char **argv);
int cli_cmd_predict(const char *name, int argc, char **argv);
int cli_cmd_run(const char *name, int argc, char **argv);
int cli_cmd_ps(const char *name, int argc, char **argv);
int cli_cmd_checkpoint(const char *name, int argc, char **argv);
int cli_cmd_convert(const char *name, int argc, char **argv);
int cli_cmd_export(const char *name, int argc, char **argv);
int cli_cmd_data(const char *name, int argc, char **argv);
int cli_cmd_report(const char *name, int argc, char **argv);
int cli_cmd_compare(const char *name, int argc, char **argv);
int cli_cmd_sweep(const char *name, int argc, char **argv);
int cli_cmd_bench(const char *name, int argc, char **argv);
int cli_cmd_info(const char *name, int argc, char **argv);

#endif
