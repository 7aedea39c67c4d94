/*
 * `yoke run --hosts`: writes the command line of the launcher on each host. It runs in the folder
 * in which the job was started, with the same program file, the variables YOKE_* but for those that
 * concern only this host, and those of OpenMP's threads. The secret is not on the command line,
 * which other users can read: it goes through stdin.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/store.h>

#include "cli.h"
#include "common/spinning.h"
#include "launch/control.h"
#include "launch/net.h"
#include "launch/run.h"
#include "options/options.h"

extern char **environ;

/* A word for a shell. */
static void put_word(FILE *file, const char *word)
{
    fputs(" '", file);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", file);
        else
            fputc(*word, file);
    fputc('\'', file);
}

static void put_option(FILE *file, const char *option, const char *value)
{
    if (!value)
        return;
    fprintf(file, " %s", option);
    put_word(file, value);
}

static bool is_variable(const char *entry, const char *name)
{
    size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

static bool is_one_of(const char *entry, const char *const *names)
{
    while (*names && !is_variable(entry, *names))
        names++;
    return *names;
}

/* Whether an entry of the environment is for the launchers on all hosts. */
static bool is_shared(const char *entry)
{
    static const char *const own[] = {"YOKE_SECRET", "YOKE_RSH", "YOKE_LOCAL_ADDR", NULL};
    static const char *const threads[] = {"OMP_NUM_THREADS", "OMP_WAIT_POLICY", CLI_SPIN_VARIABLE,
                                          NULL};
    return is_one_of(entry, threads) || (strncmp(entry, "YOKE_", 5) == 0 && !is_one_of(entry, own));
}

static void put_environment(FILE *file)
{
    fputs("exec env " CLI_CONTROL_VARIABLE "=1", file);
    for (char **entry = environ; *entry; entry++)
        if (is_shared(*entry))
            put_word(file, *entry);
}

static void put_options(FILE *file, const cli_run_options *o)
{
    fprintf(file, " --max-restarts %lld --grace %.17g", (long long)o->max_restarts, o->grace_s);
    put_option(file, "--role", o->role);
    put_option(file, "--rdzv-id", o->run_id);
    put_option(file, "--log-dir", o->log_dir);
    put_option(file, "--redirects", o->redirects);
    put_option(file, "--tee", o->tee);
    put_option(file, "--local-ranks-filter", o->shown);
    put_option(file, "--log-line-prefix-template", cli_run_prefix_template(o));
    put_option(file, "--duplicate-stdout-filters", o->stdout_filters);
    put_option(file, "--duplicate-stderr-filters", o->stderr_filters);
    put_option(file, "--numa-binding", o->numa_binding);
    if (o->no_python)
        fputs(" --no-python", file);
    if (o->no_pin)
        fputs(" --no-pin", file);
    if (o->virtual_local_rank)
        fputs(" --virtual-local-rank", file);
}

/* Says what has failed, and why. */
static bool fail(const char *name, const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", name, what, strerror(errno));
    return false;
}

/* Where yoke is, and the folder in which it was started. */
static bool find_places(const char *name, char self[PATH_MAX], char folder[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", self, PATH_MAX - 1);
    if (length < 0)
        return fail(name, "cannot find its own program, /proc/self/exe");
    self[length] = '\0';
    return getcwd(folder, PATH_MAX) || fail(name, "cannot name the folder it was started in");
}

/*
 * Returns the command of host `node`, to be freed; NULL after an error, which is printed. Where
 * yoke cannot be started, the shell or the loader says so, and the code tells that from ranks that
 * cannot.
 */
static char *write_command(const cli_run_options *o, char *const *program, const cli_launch *launch,
                           const cli_remote *remote, int node, int port)
{
    char self[PATH_MAX], folder[PATH_MAX], *text = NULL;
    size_t size;
    if (!find_places(launch->name, self, folder))
        return NULL;
    FILE *file = open_memstream(&text, &size);
    if (!file) {
        fail(launch->name, "cannot write the commands of the hosts");
        return NULL;
    }
    fputs("cd", file);
    put_word(file, folder);
    fputs(" &&", file);
    put_word(file, self);
    fprintf(file, " --version >/dev/null || exit %d; ", CLI_EXIT_UNREACHED);
    put_environment(file);
    put_word(file, self);
    fprintf(file, " run --nnodes %d --node-rank %d --nproc-per-node %d --master-port %d",
            launch->ranks, node, remote->hosts[node].slots, port);
    put_option(file, "--master-addr", cli_host_address(&remote->hosts[0]));
    put_options(file, o);
    fputs(" --", file);
    for (; *program; program++)
        put_word(file, *program);
    fclose(file);
    return text;
}

/* A port that nothing on the first host listens at, and that is the port of no other job that was
 * started on this host, so that jobs started together do not collide. */
static int choose_port(const cli_run_options *o, const cli_host *first)
{
    enum { ATTEMPTS = 64 };
    int port = (int)o->master_port;
    bool taken = port == YK_PORT_ANY;
    for (int i = 0; i < ATTEMPTS && taken; i++) {
        if (!(port = cli_net_claim_port(CLI_NET_PORT, CLI_NET_PORTS)))
            return CLI_RUN_PORT;
        taken = !first->here && cli_net_accepts(cli_host_address(first), port);
    }
    return port;
}

/* PET_ variables have been read; the launcher on this host must not read them once more. */
static void forget_variables(const char *prefix)
{
    char name[256];
    for (char **entry = environ; *entry;) {
        size_t length = strcspn(*entry, "=");
        bool found = strncmp(*entry, prefix, strlen(prefix)) == 0 && length < sizeof name;
        if (found) {
            snprintf(name, sizeof name, "%.*s", (int)length, *entry);
            unsetenv(name);
        } else {
            entry++;
        }
    }
}

static bool is_loopback(const cli_host *host)
{
    return cli_net_look_up(cli_host_address(host)).loopback;
}

/* Returns the number of hosts; 0 after a usage error. */
static int read_hosts(const char *name, const cli_run_options *o, int slots, cli_host *hosts)
{
    char why[512];
    int count = o->hosts ? cli_hosts_parse(o->hosts, slots, hosts, why, sizeof why)
                         : cli_hosts_read(o->hostfile, slots, hosts, why, sizeof why);
    if (count == 0)
        cli_usage_error(name, "--%s %s: %s", o->hosts ? "hosts" : "hostfile",
                        o->hosts ? o->hosts : o->hostfile, why);
    else if (o->given_nnodes || o->given_node_rank || o->endpoint || o->given_backend || *o->conf ||
             o->local_address)
        cli_usage_error(name, "--hosts and --hostfile set the number of hosts and their "
                              "rendezvous: --nnodes, --node-rank, --rdzv-backend, "
                              "--rdzv-endpoint, --rdzv-conf and --local-addr do not apply");
    else if (count > 1 && strncmp(cli_host_address(&hosts[0]), "localhost", 9) == 0 &&
             is_loopback(&hosts[0]) && !is_loopback(&hosts[1]))
        cli_usage_error(name, "--hosts: give the first host the name by which the others reach "
                              "it, not localhost");
    else
        return count;
    return 0;
}

/* Where a user is named, it may be another one than here: ssh decides. */
static void find_this_host(cli_host *hosts, int count)
{
    for (int i = 0; i < count; i++)
        hosts[i].here =
            cli_host_address(&hosts[i]) == hosts[i].name && cli_net_is_this_host(hosts[i].name);
}

/* Local ranks are those of the host with the most; returns -1 or the exit code of a usage error. */
static int check_lists(const char *name, const cli_run_options *o, cli_run_lists *lists,
                       const cli_host *hosts, int count)
{
    int ranks = 0;
    for (int i = 0; i < count; i++)
        ranks = hosts[i].slots > ranks ? hosts[i].slots : ranks;
    return cli_run_read_lists(name, o, ranks, lists);
}

static int run_commands(const cli_run_options *o, cli_run_lists *lists, cli_launch *launch,
                        cli_remote *remote, char **commands)
{
    int port = choose_port(o, &remote->hosts[0]);
    remote->commands = commands;
    for (int i = 0; i < launch->ranks; i++)
        if (!(commands[i] = write_command(o, lists->program, launch, remote, i, port)))
            return CLI_EXIT_FAILED;
    forget_variables("PET_");
    launch->remote = remote;
    return cli_launch_run(launch);
}

int cli_run_on_hosts(const char *name, const cli_run_options *o, cli_run_lists *lists,
                     cli_launch *launch)
{
    cli_host *hosts = calloc(CLI_HOSTS_MAX, sizeof *hosts);
    char **commands = calloc(CLI_HOSTS_MAX, sizeof *commands);
    int code = CLI_EXIT_FAILED;
    char drawn[YK_STORE_SECRET_SIZE];
    const char *secret = getenv("YOKE_SECRET");
    bool given = secret && *secret;
    cli_remote remote = {.hosts = hosts, .secret = given ? secret : drawn};
    if (hosts && commands && (given || yk_store_secret(drawn, sizeof drawn) == YK_OK)) {
        int count = read_hosts(name, o, launch->ranks, hosts);
        launch->ranks = count;
        code = count ? check_lists(name, o, lists, hosts, count) : CLI_EXIT_USAGE;
        if (code < 0) {
            find_this_host(hosts, count);
            code = run_commands(o, lists, launch, &remote, commands);
        }
    }
    for (int i = 0; commands && i < CLI_HOSTS_MAX; i++)
        free(commands[i]);
    free(commands);
    free(hosts);
    return code;
}
