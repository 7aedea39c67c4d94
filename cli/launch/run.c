/* `yoke run`: the launcher with torchrun's options. */
#define _GNU_SOURCE
#include "launch/run.h"
#include "cli.h"
#include "options/options.h"

#include <stdlib.h>

static const char summary[] =
    "Starts PROGRAM once per rank on one host or several, sets the environment variables that\n"
    "torchrun sets (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, ...), and waits\n"
    "for all ranks. When a rank fails, the others are stopped and the last lines of the failed\n"
    "rank are repeated. No process of the job outlives the launcher.\n"
    "\n"
    "Every option can also be set by torchrun's environment variable: PET_NPROC_PER_NODE for\n"
    "--nproc-per-node. Options on the command line take precedence.";

static const char examples[] = "  yoke run --nproc-per-node 4 ./my_program --its-own options\n"
                               "  yoke run --standalone --nproc_per_node=auto -- ./my_program\n"
                               "  yoke run --hosts head:4,node1:4 -- ./my_program\n"
                               "  yoke run --nnodes 2 -n 4 --rdzv-endpoint head:29400 ./my_program";

static cli_run_options given = {.nproc = {1, false},
                                .nnodes = "1",
                                .backend = "static",
                                .conf = "",
                                .master_address = "127.0.0.1",
                                .role = "default",
                                .run_id = "none",
                                .redirects = "0",
                                .tee = "0",
                                .grace_s = 30};

static const cli_option options[] = {
    CLI_GROUP("Ranks"),
    CLI_RANKS("nproc-per-node",
              "number of ranks; auto or cpu starts one per core, gpu\none per GPU [1]",
              &given.nproc, NULL, CLI_RUN_RANKS_MAX),
    CLI_TEXT(0, "nnodes", "N",
             "number of hosts; run the same command on each of\n"
             "them. MIN:MAX continues with fewer after a failure\n"
             "and lets others in again [1]",
             &given.nnodes, &given.given_nnodes),
    CLI_TEXT(0, "hosts", "HOST:RANKS,...",
             "start the job on these hosts through ssh, or the\n"
             "program in YOKE_RSH; a host without a number gets\n"
             "--nproc-per-node ranks",
             &given.hosts, NULL),
    CLI_TEXT(0, "hostfile", "FILE", "the same, with a line `HOST slots=RANKS` per host",
             &given.hostfile, NULL),
    CLI_INT(0, "node-rank", "INDEX", "index of this host (static rendezvous) [0]", &given.node_rank,
            &given.given_node_rank, 0, CLI_HOSTS_MAX - 1),
    CLI_SWITCH(0, "no-pin",
               "do not pin ranks to cores; by default each rank\n"
               "gets its own set of cores",
               &given.no_pin),
    CLI_CHOICE(0, "numa-binding", CLI_NUMA_MODES,
               "pin each rank near its GPU instead: to the NUMA node\n"
               "or the socket of the GPU, to physical cores of the\n"
               "node that no other rank has, or to cores of the node\n"
               "that share a cache",
               &given.numa_binding, NULL),
    CLI_GROUP("Rendezvous"),
    CLI_CHOICE(0, "rdzv-backend", "static|c10d",
               "how hosts find each other: static, by --node-rank\n"
               "and --master-addr; or c10d, where the host of\n"
               "--rdzv-endpoint serves the rendezvous [c10d if\n"
               "--rdzv-endpoint is given without --node-rank]",
               &given.backend, &given.given_backend),
    CLI_TEXT(0, "rdzv-endpoint", "HOST:PORT", "host of the rendezvous [port 29400]",
             &given.endpoint, NULL),
    CLI_TEXT(0, "rdzv-id", "NAME", "name of the job: TORCHELASTIC_RUN_ID [none]", &given.run_id,
             NULL),
    CLI_TEXT(0, "rdzv-conf", "KEY=VALUE,...",
             "secret, join_timeout [600], last_call_timeout\n"
             "[30], is_host",
             &given.conf, NULL),
    CLI_TEXT(0, "master-addr", "ADDRESS", "address of the rendezvous [127.0.0.1]",
             &given.master_address, NULL),
    CLI_INT(0, "master-port", "PORT",
            "port of the rendezvous [a free one; 29500 with\n"
            "several hosts]",
            &given.master_port, NULL, 0, 65535),
    CLI_TEXT(0, "local-addr", "ADDRESS",
             "address of this host, for the others [that of\n"
             "its connection to the rendezvous]",
             &given.local_address, NULL),
    CLI_SWITCH(0, "standalone",
               "one host and a free port (the default), whatever\n"
               "is said about hosts and their rendezvous",
               &given.standalone),
    CLI_SWITCH(
        0, "virtual-local-rank",
        "every rank gets LOCAL_RANK=0, and its own device\nas the only one of CUDA_VISIBLE_DEVICES",
        &given.virtual_local_rank),
    CLI_TEXT(0, "role", "NAME", "role of the ranks: ROLE_NAME [default]", &given.role, NULL),
    CLI_GROUP("Programs in Python"),
    CLI_SWITCH('m', "module",
               "PROGRAM is the name of a module: starts\n"
               "`python3 -u -m PROGRAM`; PYTHON_EXEC names another\nPython",
               &given.module),
    CLI_SWITCH(0, "run-path", "PROGRAM is a script: starts `python3 -u PROGRAM`", &given.run_path),
    CLI_SWITCH(0, "no-python",
               "start PROGRAM itself, even if it is a file *.py that\n"
               "is not executable or does not begin with #!; such\n"
               "files are started as with --run-path by default",
               &given.no_python),
    CLI_GROUP("Failing and stopping"),
    CLI_INT(0, "max-restarts", "N",
            "restart all ranks after a failure, at most N\n"
            "times; TORCHELASTIC_RESTART_COUNT counts them. Not\n"
            "after exit code 2 in the first attempt, which means\n"
            "wrong options [0]",
            &given.max_restarts, NULL, 0, 1e6),
    CLI_REAL(0, "grace", "SECONDS",
             "how long ranks may take to stop after ^C or\n"
             "SIGTERM before they are killed\n"
             "[TORCH_ELASTIC_SHUTDOWN_TIMEOUT or 30]",
             &given.grace_s, NULL, 0, 86400),
    CLI_REAL(0, "shutdown-timeout", "SECONDS", "torchrun's name for --grace", &given.grace_s, NULL,
             0, 86400),
    CLI_TEXT(0, "signals-to-handle", "LIST",
             "signals that ask the launcher to stop the job\n"
             "[SIGTERM,SIGINT,SIGHUP,SIGQUIT]",
             &given.signals, NULL),
    CLI_GROUP("Output"),
    CLI_TEXT(0, "log-dir", "FOLDER",
             "write log files and error.json below this folder:\n"
             "RUN_ID_xxxxxx/attempt_N/LOCAL_RANK/stdout.log",
             &given.log_dir, NULL),
    CLI_TEXT('r', "redirects", "STREAMS",
             "write outputs to log files instead of printing\n"
             "them: 1 stdout, 2 stderr, 3 both; or per local\n"
             "rank, such as 0:1,1:3 [0]",
             &given.redirects, NULL),
    CLI_TEXT('t', "tee", "STREAMS", "write outputs to log files and print them too [0]", &given.tee,
             NULL),
    CLI_TEXT(0, "log-line-prefix-template", "TEXT",
             "what printed lines begin with, with ${rank},\n"
             "${local_rank}, ${role_name}, ${hostname} [[rank N] ]",
             &given.prefix_template, NULL),
    CLI_TEXT(0, "local-ranks-filter", "RANKS",
             "print the output of these local ranks only,\n"
             "such as 0,2",
             &given.shown, NULL),
    CLI_TEXT(0, "duplicate-stdout-filters", "TEXTS",
             "also write the printed lines of stdout that contain\n"
             "one of these texts to filtered_stdout.log in the\n"
             "folder of the attempt: warning,error (a double\n"
             "comma is a comma of the text)",
             &given.stdout_filters, NULL),
    CLI_TEXT(0, "duplicate-stderr-filters", "TEXTS", "the same for stderr: filtered_stderr.log",
             &given.stderr_filters, NULL),
    CLI_GROUP("Options of torchrun that have no effect"),
    CLI_REAL(0, "monitor-interval", "SECONDS", "the end of a rank is seen at once",
             &given.monitor_s, &given.given_monitor, 0, 86400),
    CLI_TEXT(0, "start-method", "NAME", "ranks are always separate programs", &given.start_method,
             &given.given_start),
    CLI_TEXT(0, "event-log-handler", "NAME", "events are not recorded", &given.event_log_handler,
             &given.given_events),
    CLI_GROUP("Options of torchrun that are refused"),
    CLI_TEXT(0, "logs-specs", "NAME",
             "there are no plug-ins: --log-dir, --redirects;\n\"default\" is accepted",
             &given.logs_specs, NULL),
    CLI_TEXT(0, "print-completion", "SHELL", "completions are installed with yoke",
             &given.print_completion, NULL),
};

/* Returns -1, or the exit code of a usage error. */
static int read_default_grace(const char *name)
{
    static const char variable[] = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
    const char *text = getenv(variable);
    char *end;
    if (!text || !*text)
        return -1;
    given.grace_s = strtod(text, &end);
    return end != text && !*end && given.grace_s >= 0 && given.grace_s <= 86400
               ? -1
               : cli_usage_error(name, "%s %s: expected 0 to 86400 seconds", variable, text);
}

static int parse_run_options(const char *name, int argc, char **argv, char **program, int *words)
{
    int code = read_default_grace(name);
    if (code >= 0)
        return code;
    const cli_command command = {.name = name,
                                 .operands = "[--] PROGRAM [ARGUMENT...]",
                                 .summary = summary,
                                 .exit_codes = CLI_LAUNCH_EXIT_CODES,
                                 .examples = examples,
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .max_operands = argc,
                                 .stop_at_operand = true,
                                 .environment = "PET_"};
    return cli_options_parse(&command, argc, argv, program, words);
}

int cli_cmd_run(const char *name, int argc, char **argv)
{
    cli_run_lists *lists = calloc(1, sizeof *lists);
    char **words = calloc((size_t)argc + 1 + CLI_RUN_PYTHON_WORDS, sizeof *words);
    cli_launch launch;
    const cli_run_options *o = &given;
    int code = CLI_EXIT_FAILED;
    if (lists && words) {
        lists->program = words + CLI_RUN_PYTHON_WORDS;
        code = parse_run_options(name, argc, argv, lists->program, &lists->words);
        if (code < 0)
            code = cli_run_read_launch(name, o, lists, &launch);
        if (code < 0)
            code = o->hosts || o->hostfile ? cli_run_on_hosts(name, o, lists, &launch)
                                           : cli_launch_run(&launch);
    }
    free(lists);
    free(words);
    return code;
}
