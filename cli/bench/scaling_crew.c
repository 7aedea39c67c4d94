/*
 * See scaling_crew.h. Each training is a separate job, whose store rank 0 of the crew serves on a
 * free port; rank 0 then tells the other ranks its address. The trainings do not inherit the
 * launcher's variables for ranks, world size and rendezvous, which describe the crew.
 */
#define _GNU_SOURCE
#include "bench/scaling_crew.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <yoke/store.h>

#include "cli.h"
#include "common/errors.h"

extern char **environ;

enum { ADDRESSES = 8, ADDRESS = 64, ADDED = 8 };

static const double longest_row_s = 7 * 24 * 3600.0, answer_s = 2;

/* What rank 0 tells about the job of a row. */
typedef struct crew_job {
    char folder[CLI_SCALING_FOLDER]; /* the same path on all hosts; "" if the job cannot begin */
    char secret[YK_STORE_SECRET_SIZE];
    char addresses[ADDRESSES][ADDRESS]; /* of its host */
    int port;
} crew_job;

/* ---- where the ranks of a job meet ----------------------------------------------------------- */

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

/* IPv4 first; this host's own loopback address last, for ranks of a host without a network. */
static void list_addresses(char list[ADDRESSES][ADDRESS])
{
    static const int families[] = {AF_INET, AF_INET6};
    struct ifaddrs *all = NULL;
    int count = 0;
    getifaddrs(&all);
    for (int f = 0; f < 2; f++)
        for (const struct ifaddrs *one = all; one && count < ADDRESSES - 1; one = one->ifa_next) {
            socklen_t size = f ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
            if ((one->ifa_flags & IFF_UP) && one->ifa_addr &&
                one->ifa_addr->sa_family == families[f] &&
                getnameinfo(one->ifa_addr, size, list[count], ADDRESS, NULL, 0, NI_NUMERICHOST) ==
                    0)
                count += !is_loopback(list[count]);
        }
    freeifaddrs(all);
    snprintf(list[count], ADDRESS, "127.0.0.1");
}

/* The address at which this rank reaches the store, or NULL. */
static const char *find_store(const crew_job *job)
{
    for (int i = 0; i < ADDRESSES && job->addresses[i][0]; i++) {
        yk_store *store;
        if (yk_store_connect(&store, job->addresses[i], job->port, job->secret, answer_s) ==
            YK_OK) {
            yk_store_destroy(store);
            return job->addresses[i];
        }
    }
    return NULL;
}

static void prepare_job(crew_job *job, yk_store_server **server)
{
    *job = (crew_job){.port = YK_PORT_ANY};
    list_addresses(job->addresses);
    if (!cli_ok(yk_store_secret(job->secret, sizeof job->secret)) ||
        !cli_ok(yk_store_serve(server, "*", &job->port, job->secret)))
        return;
    cli_scaling_make_folder(job->folder);
}

/* ---- the environment of a training ----------------------------------------------------------- */

/* Whether a variable tells of ranks and where they meet, or is a launcher's. */
static bool is_of_launcher(const char *entry)
{
    static const char *const prefixes[] = {"RANK=",
                                           "WORLD_SIZE=",
                                           "LOCAL_RANK=",
                                           "LOCAL_WORLD_SIZE=",
                                           "MASTER_ADDR=",
                                           "MASTER_PORT=",
                                           "YOKE_SECRET=",
                                           "YOKE_USE_LAUNCHER_STORE=",
                                           "GROUP_",
                                           "ROLE_",
                                           "YOKE_STORE_PORT=",
                                           "YOKE_STORE_PREFIX=",
                                           "JOB_COMPLETION_INDEX=",
                                           "OMPI_",
                                           "PMI_",
                                           "PMIX_",
                                           "MPI_LOCAL",
                                           "MV2_",
                                           "TORCHELASTIC_",
                                           "SLURM_",
                                           "PET_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

__attribute__((format(printf, 2, 3))) static bool add(char ***at, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool added = vasprintf(*at, format, arguments) >= 0;
    va_end(arguments);
    *at += added;
    return added;
}

static void free_environment(char **environment)
{
    for (char **at = environment; at && *at; at++)
        free(*at);
    free(environment);
}

static bool fill_environment(char **at, const cli_crew *crew, const cli_scaling_row *row,
                             const crew_job *job, const char *address)
{
    bool fine = true;
    for (char **entry = environ; *entry && fine; entry++)
        if (!is_of_launcher(*entry) && (row->ranks > 1 || strncmp(*entry, "YOKE_BACKEND=", 13)))
            fine = add(&at, "%s", *entry);
    if (row->kind == CLI_SINGLE)
        return fine;
    return fine && add(&at, "RANK=%d", crew->rank) && add(&at, "WORLD_SIZE=%d", row->ranks) &&
           add(&at, "MASTER_ADDR=%s", address) && add(&at, "MASTER_PORT=%d", job->port) &&
           add(&at, "YOKE_SECRET=%s", job->secret) && add(&at, "YOKE_USE_LAUNCHER_STORE=1");
}

/* NULL if there is no memory. */
static char **make_environment(const cli_crew *crew, const cli_scaling_row *row,
                               const crew_job *job, const char *address)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **environment = calloc(count + ADDED, sizeof *environment);
    if (environment && fill_environment(environment, crew, row, job, address))
        return environment;
    free_environment(environment);
    cli_complain("no memory for the environment of a training");
    return NULL;
}

/* ---- a row ----------------------------------------------------------------------------------- */

/* This rank's part; returns its exit code. */
static int take_part(const cli_crew *crew, cli_scaling_result *result,
                     const cli_scaling_options *options, const cli_scaling_row *row,
                     const crew_job *job)
{
    const char *address = row->kind == CLI_SINGLE ? "" : find_store(job);
    if (!address) {
        cli_complain("rank %d does not reach rank 0 at any of its addresses, such as %s, port %d",
                     crew->rank, job->addresses[0], job->port);
        return CLI_EXIT_FAILED;
    }
    char **environment = make_environment(crew, row, job, address);
    int code = environment
                   ? cli_scaling_train_as_rank(result, options, row, job->folder, environment)
                   : CLI_EXIT_FAILED;
    free_environment(environment);
    return code;
}

/* The highest exit code, and the processor time of all. */
static bool gather_ends(const cli_crew *crew, int *code, double *cpu_s)
{
    int32_t highest = *code;
    if (!cli_ok(yk_all_reduce(crew->group, &highest, 1, YK_I32, YK_REDUCE_MAX, NULL)) ||
        !cli_ok(yk_all_reduce(crew->group, cpu_s, 1, YK_F64, YK_REDUCE_SUM, NULL)))
        return false;
    *code = highest;
    return true;
}

static bool share_code(const cli_crew *crew, int *code)
{
    int32_t shared = *code;
    bool fine = cli_ok(yk_broadcast(crew->group, &shared, 1, YK_I32, 0, NULL));
    *code = fine ? shared : CLI_EXIT_FAILED;
    return fine;
}

static int run_row(cli_crew *crew, cli_scaling_result *result, const cli_scaling_options *options,
                   const cli_scaling_row *row, const crew_job *job)
{
    int code = CLI_EXIT_OK;
    cli_scaling_result own = {.steps = 0};
    if (crew->rank < row->ranks)
        code = take_part(crew, &own, options, row, job);
    double cpu_s = own.cpu_s;
    if (!gather_ends(crew, &code, &cpu_s))
        return CLI_EXIT_FAILED;
    if (code == CLI_EXIT_OK && crew->rank == 0) {
        code = cli_scaling_read(result, job->folder) ? CLI_EXIT_OK : CLI_EXIT_FAILED;
        result->wall_s = own.wall_s;
        result->cpu_s = cpu_s;
    }
    share_code(crew, &code);
    return code;
}

int cli_crew_train(cli_crew *crew, cli_scaling_result *result, const cli_scaling_options *options,
                   const cli_scaling_row *row)
{
    crew_job job;
    yk_store_server *server = NULL;
    int code = CLI_EXIT_FAILED;
    if (crew->rank == 0)
        prepare_job(&job, &server);
    if (cli_ok(yk_broadcast(crew->group, &job, sizeof job, YK_U8, 0, NULL)) && job.folder[0]) {
        code = run_row(crew, result, options, row, &job);
        cli_scaling_remove_folder(job.folder); /* that of another host has copies of checkpoints */
    }
    yk_store_server_destroy(server);
    return code;
}

/* ---- the crew -------------------------------------------------------------------------------- */

/* Ranks that are missing at the start are reported as ever; those that take no part in a row wait
 * for its end in a second group, without a limit. */
bool cli_crew_join(cli_crew *crew)
{
    yk_group_options options = YK_GROUP_OPTIONS_INIT;
    *crew = (cli_crew){.group = NULL};
    if (!cli_ok(yk_group_init(&crew->group, &options)))
        return false;
    yk_group_destroy(crew->group);
    options.timeout_s = longest_row_s;
    if (!cli_ok(yk_group_init(&crew->group, &options)))
        return false;
    crew->rank = yk_group_rank(crew->group);
    crew->size = yk_group_size(crew->group);
    crew->local_size = yk_group_local_size(crew->group);
    cli_scaling_hold_signals();
    return true;
}

void cli_crew_leave(cli_crew *crew)
{
    yk_group_destroy(crew->group);
}
