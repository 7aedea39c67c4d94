/* `yoke run`, for its own files: run.c has the options, run_launch.c reads their values. */
#ifndef YOKE_CLI_LAUNCH_RUN_H
#define YOKE_CLI_LAUNCH_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/launch.h"
#include "options/ranks.h"

enum {
    CLI_RUN_RANKS_MAX = 1024,
    CLI_RUN_PORT = 29500,
    CLI_RUN_ELASTIC_PORT = 29400,
    CLI_RUN_PYTHON_WORDS = 3,
    CLI_RUN_ADDRESS = 256
};

typedef struct cli_run_options {
    cli_ranks nproc;
    const char *nnodes, *master_address, *role, *run_id;
    const char *backend, *endpoint, *conf, *local_address;
    const char *log_dir, *redirects, *tee, *shown, *signals, *prefix_template;
    const char *stdout_filters, *stderr_filters;
    const char *numa_binding;                     /* one of CLI_NUMA_MODES, or NULL */
    const char *logs_specs, *print_completion;    /* of torchrun, refused */
    const char *start_method, *event_log_handler; /* of torchrun, without effect */
    int64_t node_rank, master_port, max_restarts;
    double grace_s, monitor_s;
    bool standalone, no_python, no_pin, virtual_local_rank, module, run_path;
    const char *hosts, *hostfile;
    bool given_backend, given_node_rank, given_nnodes;
    bool given_start, given_events, given_monitor;
} cli_run_options;

/* What the options say about each rank of this host, and the program's words. */
typedef struct cli_run_lists {
    int redirects[CLI_RUN_RANKS_MAX], tee[CLI_RUN_RANKS_MAX];
    bool shown[CLI_RUN_RANKS_MAX];
    cli_binding bindings[CLI_RUN_RANKS_MAX];
    char **program; /* with room for CLI_RUN_PYTHON_WORDS before it */
    int words;
    char host[CLI_RUN_ADDRESS]; /* of --rdzv-endpoint or --master-addr */
    char local_address[CLI_RUN_ADDRESS], conf[1024];
    char secret[256]; /* that came through stdin */
} cli_run_lists;

/* Fills launch from the options; returns -1 or the exit code of a usage error. */
int cli_run_read_launch(const char *name, const cli_run_options *o, cli_run_lists *lists,
                        cli_launch *launch);
/* Fills what the options say about local ranks, which are below `ranks`; returns -1 or the exit
 * code of a usage error. */
int cli_run_read_lists(const char *name, const cli_run_options *o, int ranks, cli_run_lists *lists);
/* Puts Python before the program where needed; returns -1 or the exit code of a usage error. */
int cli_run_read_program(const char *name, const cli_run_options *o, cli_run_lists *lists);
/* The template of the ranks' lines, from the options or the environment; NULL: there is none. */
const char *cli_run_prefix_template(const cli_run_options *o);
/* Starts the same job on the hosts of --hosts or --hostfile; returns the exit code. */
int cli_run_on_hosts(const char *name, const cli_run_options *o, cli_run_lists *lists,
                     cli_launch *launch);

#endif
