/*
 * The commands of the program. Each gets argv[0] = "yoke COMMAND" and returns the exit code: 0; 1
 * if it failed, after printing a one-line error; 2 for an invalid command line. The launcher has
 * more (docs/launcher.md).
 */
#ifndef YOKE_CLI_H
#define YOKE_CLI_H

enum {
    CLI_EXIT_OK = 0,
    CLI_EXIT_FAILED = 1,
    CLI_EXIT_USAGE = 2,
    CLI_EXIT_STOP_FAILED = 121, /* a rank failed while the job was stopping */
    CLI_EXIT_STOP_KILLED = 122  /* a rank that did not stop had to be killed */
};

/* The purpose of a command, such as "yoke train", in a phrase. */
const char *cli_command_purpose(const char *full_name);

int cli_cmd_train(int argc, char **argv);
int cli_cmd_evaluate(int argc, char **argv);
int cli_cmd_run(int argc, char **argv);
int cli_cmd_checkpoint(int argc, char **argv);
int cli_cmd_convert(int argc, char **argv);
int cli_cmd_data(int argc, char **argv);
int cli_cmd_bench(int argc, char **argv);
int cli_cmd_info(int argc, char **argv);

#endif
