/* `yoke run`: the launcher with torchrun's options, for one machine. */
#include "cli.h"
#include "launch/launch.h"
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/system.h>

enum { MAX_RANKS = 1024 };

typedef struct run_options {
    const char *nproc, *nnodes, *master_address, *role, *run_id;
    int64_t node_rank, master_port, max_restarts;
    double grace_s;
    bool standalone, no_python, no_pin;
} run_options;

static const char summary[] =
    "Starts PROGRAM once per rank on this machine, sets the environment variables that\n"
    "torchrun sets (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, ...), and waits\n"
    "for all ranks. When a rank fails, the others are stopped and the last lines of the failed\n"
    "rank are repeated. No process of the job outlives the launcher.";

static const char examples[] = "  yoke run --nproc-per-node 4 ./my_program --its-own options\n"
                               "  yoke run --standalone --nproc_per_node=auto -- ./my_program";

static int parse_run_options(int argc, char **argv, run_options *o, char **program, int *words)
{
    const cli_option options[] = {
        CLI_GROUP("Ranks"),
        CLI_TEXT('n', "nproc-per-node", "N", "number of ranks; auto starts one per core [1]",
                 &o->nproc, NULL),
        CLI_TEXT(0, "nnodes", "1", "number of machines; only 1 is supported [1]", &o->nnodes, NULL),
        CLI_INT(0, "node-rank", "0", "index of this machine; only 0 is supported [0]",
                &o->node_rank, NULL, 0, 1e6),
        CLI_SWITCH(0, "no-pin",
                   "do not pin ranks to cores; by default each rank\n"
                   "gets its own set of cores",
                   &o->no_pin),
        CLI_GROUP("Rendezvous"),
        CLI_TEXT(0, "master-addr", "ADDRESS", "address of the rendezvous [127.0.0.1]",
                 &o->master_address, NULL),
        CLI_INT(0, "master-port", "PORT", "port of the rendezvous [a free one]", &o->master_port,
                NULL, 0, 65535),
        CLI_SWITCH(0, "standalone", "use a free port (the default)", &o->standalone),
        CLI_TEXT(0, "rdzv-id", "NAME", "name of the job: TORCHELASTIC_RUN_ID [none]", &o->run_id,
                 NULL),
        CLI_TEXT(0, "role", "NAME", "role of the ranks: ROLE_NAME [default]", &o->role, NULL),
        CLI_GROUP("Stopping"),
        CLI_REAL(0, "grace", "SECONDS",
                 "how long ranks may take to stop after ^C or\n"
                 "SIGTERM before they are killed [30]",
                 &o->grace_s, NULL, 0, 86400),
        CLI_INT(0, "max-restarts", "0", "number of restarts; only 0 is supported [0]",
                &o->max_restarts, NULL, 0, 1e6),
        CLI_GROUP("Other"),
        CLI_SWITCH(0, "no-python", "ignored: PROGRAM is always executed directly", &o->no_python),
    };
    const cli_command command = {.name = argv[0],
                                 .operands = "[--] PROGRAM [ARGUMENT...]",
                                 .summary = summary,
                                 .exit_codes = CLI_LAUNCH_EXIT_CODES,
                                 .examples = examples,
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .max_operands = argc,
                                 .stop_at_operand = true};
    return cli_options_parse(&command, argc, argv, program, words);
}

/* Returns the number of ranks, or 0 if the text is not a valid number of ranks. */
static int rank_count(const char *text)
{
    if (strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0)
        return yk_threads_default(1);
    char *end;
    long count = strtol(text, &end, 10);
    return end == text || *end || count < 1 || count > MAX_RANKS ? 0 : (int)count;
}

/* Returns -1 if all options are supported, otherwise the exit code of a usage error. */
static int check_run_options(const char *name, const run_options *o, int words)
{
    if (!rank_count(o->nproc))
        return cli_usage_error(name, "--nproc-per-node %s: expected a number from 1 to %d, or auto",
                               o->nproc, MAX_RANKS);
    if (strcmp(o->nnodes, "1") != 0 && strcmp(o->nnodes, "1:1") != 0)
        return cli_usage_error(name, "--nnodes %s: this launcher starts ranks on one machine only",
                               o->nnodes);
    if (o->node_rank != 0)
        return cli_usage_error(name, "--node-rank %d: expected 0, since there is one machine",
                               (int)o->node_rank);
    if (o->max_restarts != 0)
        return cli_usage_error(name, "--max-restarts %d: restarts are not supported",
                               (int)o->max_restarts);
    if (o->standalone && o->master_port)
        return cli_usage_error(name, "--standalone uses a free port and cannot be combined "
                                     "with --master-port");
    if (words == 0)
        return cli_usage_error(name, "missing PROGRAM; put it after the options");
    return -1;
}

int cli_cmd_run(int argc, char **argv)
{
    int words;
    char **program = calloc((size_t)argc + 1, sizeof *program);
    if (!program)
        return CLI_EXIT_FAILED;
    run_options o = {.nproc = "1",
                     .nnodes = "1",
                     .master_address = "127.0.0.1",
                     .role = "default",
                     .run_id = "none",
                     .grace_s = 30};
    int code = parse_run_options(argc, argv, &o, program, &words);
    if (code < 0)
        code = check_run_options(argv[0], &o, words);
    if (code < 0)
        code = cli_launch_run(&(cli_launch){.name = argv[0],
                                            .ranks = rank_count(o.nproc),
                                            .program = program,
                                            .master_address = o.master_address,
                                            .master_port = (int)o.master_port,
                                            .role = o.role,
                                            .run_id = o.run_id,
                                            .grace_s = o.grace_s,
                                            .no_pin = o.no_pin});
    free(program);
    return code;
}
