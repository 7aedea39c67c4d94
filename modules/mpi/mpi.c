/*
 * Opening and closing the mpi backend, and MPI itself.
 *
 * The exchange of messages at the beginning of a call does not block: there a call waits for late
 * ranks, sleeps where the process computes meanwhile, and can be cancelled. A cancelled call that
 * is already moving data cannot be interrupted, so its thread is left behind.
 *
 * MPI is initialised for the first group, or earlier where the ranks need it to meet. MPI_Init
 * waits for all ranks without a limit, so it has a thread of its own, which is left behind if a
 * rank does not come in time. MPI is finalised when the process exits with 0, unless a group is
 * still open or was cancelled then: MPI_Finalize would wait for ranks that may be dead, and without
 * it mpirun ends the others.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mpi_engine.h"

#ifdef OPEN_MPI
#define LAUNCHER "mpirun.openmpi"
static const char *const signs[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"};
#else
#define LAUNCHER "mpirun.mpich"
static const char *const signs[] = {"PMI_SIZE", "PMI_RANK"};
#endif

#define CANCELLED_CALL_S 1.0
#define LONGEST_INIT_S   1e9 /* also where ranks wait for each other without limit */

enum {
    /* What a rank receives in a small call, at most. Measured with Open MPI between two hosts:
     * small calls are faster than MPI's collectives up to 128 KiB with 2 ranks, 96 KiB with 4. */
    SMALL_BYTES = 128 * 1024,
    SMALL_RANKS = 8 /* with more ranks, their messages pass through a tree */
};

/* Of the process. */
static pthread_mutex_t mpi_lock = PTHREAD_MUTEX_INITIALIZER;
static bool several_threads, broken;
static int open_engines;
static unsigned created;

/* MPI_Init, in its thread. */
typedef enum phase { UNUSED, STARTING, STARTED } phase;
static phase initialising;
static pthread_cond_t initialised = PTHREAD_COND_INITIALIZER;
static int init_code;

yk_status mpi_engine_failed(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return yk_set_error(YK_ERROR_NETWORK, "%s (%s): %.200s", what, LIBRARY, text);
}

/* ---- MPI itself ------------------------------------------------------------------------------ */

/* At the end of the process. A rank that fails must not wait for the others here. */
static void finalise(int exit_status, void *unused)
{
    (void)unused;
    pthread_mutex_lock(&mpi_lock);
    bool orderly = exit_status == 0 && open_engines == 0 && !broken, only_met = created == 0;
    pthread_mutex_unlock(&mpi_lock);
    int over = 0;
    MPI_Finalized(&over);
    if (orderly && !over)
        mpi_engine_finalise(only_met);
}

/* Whether the launcher of this MPI has started the process, so that MPI knows of its ranks. */
static bool is_launched(void)
{
    return getenv(signs[0]) || getenv(signs[1]);
}

static yk_status not_launched(void)
{
    return yk_set_error(YK_ERROR_UNSUPPORTED,
                        "the mpi backend was built for %s, whose launcher has not started this "
                        "process: use %s or srun --mpi",
                        LIBRARY, LAUNCHER);
}

/* Open MPI's waiting ranks give way to others where there are more ranks than cores. */
static void yield_if_crowded(const yk_backend_site *site)
{
    cpu_set_t cores;
    int here = 0;
    for (int r = 0; r < site->ranks; r++)
        here += strcmp(site->members[r].machine, site->members[site->rank].machine) == 0;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0 && here > CPU_COUNT(&cores))
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
}

/* Returns a code of MPI. */
static int initialise(void)
{
    int given = 0, provided = 0, code = MPI_Initialized(&given);
    /*
     * Open MPI asks the receiver before it sends more than 64 KiB over TCP. A small call of 64 KiB
     * is just beyond that, and took 1.35 times as long as MPI_Allreduce; now it takes as long.
     */
    setenv("OMPI_MCA_btl_tcp_eager_limit", "81920", 0);
    if (code == MPI_SUCCESS)
        code = given ? MPI_Query_thread(&provided)
                     : MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    several_threads = provided == MPI_THREAD_MULTIPLE;
    if (code == MPI_SUCCESS)
        code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS)
        code = mpi_engine_create_operations();
    if (code == MPI_SUCCESS && !given)
        on_exit(finalise, NULL);
    return code;
}

static void *run_initialise(void *unused)
{
    int code = initialise();
    pthread_mutex_lock(&mpi_lock);
    init_code = code;
    initialising = STARTED;
    pthread_cond_broadcast(&initialised);
    pthread_mutex_unlock(&mpi_lock);
    return unused;
}

/* With mpi_lock held. */
static yk_status start_initialising(void)
{
    pthread_t thread;
    if (initialising != UNUSED)
        return YK_OK;
    int error = pthread_create(&thread, NULL, run_initialise, NULL);
    if (error)
        return yk_set_error(YK_ERROR_OUT_OF_MEMORY, "cannot start a thread for MPI_Init: %s",
                            strerror(error));
    pthread_detach(thread);
    initialising = STARTING;
    return YK_OK;
}

/* Waits for MPI_Init, which nobody can interrupt, at most so long. */
static yk_status ensure_initialised(double timeout_s)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(timeout_s < LONGEST_INIT_S ? timeout_s : LONGEST_INIT_S) + 1;
    pthread_mutex_lock(&mpi_lock);
    yk_status status = start_initialising();
    while (status == YK_OK && initialising == STARTING)
        if (pthread_cond_clockwait(&initialised, &mpi_lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT)
            status = yk_set_error(YK_ERROR_TIMEOUT,
                                  "MPI_Init of %s has not returned: it waits for all ranks that "
                                  "%s has started, and one has not called it",
                                  LIBRARY, LAUNCHER);
    if (status == YK_OK && init_code != MPI_SUCCESS)
        status = mpi_engine_failed("starting MPI", init_code);
    pthread_mutex_unlock(&mpi_lock);
    return status;
}

static yk_status check_threads(void)
{
    if (several_threads)
        return YK_OK;
    return yk_set_error(YK_ERROR_UNSUPPORTED,
                        "%s does not let several threads call it (MPI_THREAD_MULTIPLE), which "
                        "the mpi backend needs",
                        LIBRARY);
}

static yk_status check_world(int ranks)
{
    int size;
    TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    if (size >= ranks)
        return YK_OK;
    return yk_set_error(YK_ERROR_UNSUPPORTED,
                        "%s knows of %d %s, but the job has %d: start them all with one %s",
                        LIBRARY, size, size == 1 ? "rank" : "ranks", ranks, LAUNCHER);
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool always_missing(const void *wait, int rank)
{
    (void)wait, (void)rank;
    return true;
}

/*
 * The tag of the creation of a communicator tells apart those that are created at the same time.
 * Each rank of MPI_COMM_WORLD has a range of tags for the groups that it leads, so that those of
 * different leaders never have the same one. A leader uses a tag again after all others.
 */
static yk_status choose_tag(int *tag, int world_rank)
{
    int world, found, *largest;
    TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &world));
    TRY_MPI(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &found));
    unsigned range = (unsigned)(*largest > world ? *largest / world : 1);
    pthread_mutex_lock(&mpi_lock);
    *tag = (int)((unsigned)world_rank * range + created++ % range);
    pthread_mutex_unlock(&mpi_lock);
    return YK_OK;
}

/* The ranks tell each other who they are in MPI_COMM_WORLD, and rank 0 a tag for this group. */
static yk_status meet(mpi_engine *engine, const yk_backend_site *site)
{
    char key[32];
    int card[2];
    TRY_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &card[0]));
    TRY(choose_tag(&card[1], card[0]));
    snprintf(key, sizeof key, "mpi/%d", site->rank);
    TRY(site->set(site->context, key, card, sizeof card));
    for (int r = site->ranks - 1; r >= 0; r--) {
        snprintf(key, sizeof key, "mpi/%d", r);
        TRY(yki_engine_get(site, r, key, card, sizeof card, LIBRARY));
        engine->world_ranks[r] = card[0];
    }
    engine->leader_tag = card[1];
    return YK_OK;
}

static yk_status create_communicator(mpi_engine *engine)
{
    MPI_Group all, ours;
    TRY_MPI(MPI_Comm_group(MPI_COMM_WORLD, &all));
    TRY_MPI(MPI_Group_incl(all, engine->common.ranks, engine->world_ranks, &ours));
    TRY_MPI(MPI_Comm_create_group(MPI_COMM_WORLD, ours, engine->leader_tag, &engine->comm));
    MPI_Group_free(&ours);
    MPI_Group_free(&all);
    TRY_MPI(MPI_Comm_set_errhandler(engine->comm, MPI_ERRORS_RETURN));
    return YK_OK;
}

static yk_status run_call(void *context, yk_backend_call *call)
{
    mpi_engine *engine = context;
    if (engine->stage == INITIALISES) { /* run_stage knows how long to wait */
        TRY(ensure_initialised(LONGEST_INIT_S));
        TRY(check_threads());
        return check_world(engine->common.ranks);
    }
    if (engine->stage == CREATES)
        return create_communicator(engine);
    return yki_engine_run(&engine->common, call);
}

/* Runs a stage of opening on the engine's thread and looks at the other ranks until it is done. */
static yk_status run_stage(mpi_engine *engine, const yk_backend_site *site, int stage)
{
    yk_backend_call call = {.what.operation = YK_OPERATION_BARRIER};
    yk_backend_work *work;
    engine->stage = stage;
    TRY(yk_backend_thread_post(engine->common.thread, &call, &work));
    for (;;) {
        bool done;
        yk_status status = yk_backend_thread_test(engine->common.thread, work, 0.02, &done);
        if (done)
            return status;
        status = site->look(site->context, always_missing, NULL);
        if (status != YK_OK) {
            engine->common.abandoned = !yk_backend_thread_cancel(engine->common.thread, work, 0);
            return status;
        }
    }
}

static yk_status set_up(mpi_engine *engine, const yk_backend_site *site)
{
    TRY(yk_backend_thread_create(&engine->common.thread, "yoke-mpi", run_call, engine));
    TRY(run_stage(engine, site, INITIALISES));
    TRY(meet(engine, site));
    TRY(run_stage(engine, site, CREATES));
    engine->stage = RUNS;
    return YK_OK;
}

static void free_engine(mpi_engine *engine)
{
    yk_backend_thread_destroy(engine->common.thread, engine->common.abandoned);
    if (engine->common.abandoned)
        return;
    yki_engine_fini(&engine->common);
    free(engine->world_ranks);
    free(engine->requests);
    free(engine->transfers);
    free(engine->channels);
    free(engine);
}

static mpi_engine *allocate_engine(const yk_backend_site *site)
{
    size_t ranks = (size_t)site->ranks, small = 0;
    if (site->ranks > 1 && site->ranks <= SMALL_RANKS)
        small = SMALL_BYTES / (ranks - 1);
    mpi_engine *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    const char *largest = getenv("YOKE_TEST_MPI_COUNT");
    made->comm = MPI_COMM_NULL;
    made->largest = largest ? strtoul(largest, NULL, 10) : LARGEST_COUNT;
    made->world_ranks = calloc(ranks, sizeof *made->world_ranks);
    made->requests = calloc(2 * ranks, sizeof(MPI_Request));
    made->channels = calloc(2 * ranks, sizeof *made->channels);
    if (yki_engine_init(&made->common, site, &mpi_engine_calls, small) == YK_OK &&
        made->world_ranks && made->requests && made->channels)
        return made;
    free_engine(made);
    return NULL;
}

extern const yk_backend_ops yk_backend_module;

static yk_status open_backend(yk_backend **backend, const yk_backend_site *site)
{
    *backend = NULL;
    if (!is_launched())
        return not_launched();
    mpi_engine *engine = allocate_engine(site);
    if (!engine)
        return yk_set_error(YK_ERROR_OUT_OF_MEMORY, "no memory for the mpi backend");
    yield_if_crowded(site);
    yk_status status = set_up(engine, site);
    pthread_mutex_lock(&mpi_lock);
    broken = broken || status != YK_OK;
    open_engines += status == YK_OK;
    pthread_mutex_unlock(&mpi_lock);
    if (status != YK_OK) {
        free_engine(engine);
        return status;
    }
    engine->common.base.ops = &yk_backend_module;
    *backend = &engine->common.base;
    return YK_OK;
}

/* ---- meeting through MPI --------------------------------------------------------------------- */

__attribute__((visibility("default"))) yk_backend_share_text_function yk_backend_share_text;

/* Waits for a request until *deadline_s have passed, of which it takes what it has waited. */
static yk_status await_for(MPI_Request *request, double *deadline_s)
{
    const double nap_s = 1e-3;
    for (int done = 0;; *deadline_s -= nap_s) {
        TRY_MPI(MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done)
            return YK_OK;
        if (*deadline_s <= 0)
            return yk_set_error(YK_ERROR_TIMEOUT, "not all ranks that %s has started have come",
                                LAUNCHER);
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * nap_s)}, NULL);
    }
}

/* The text is in memory that stays where a rank has given up waiting, since MPI may still write. */
yk_status yk_backend_share_text(char *text, size_t size, double timeout_s)
{
    if (!is_launched())
        return not_launched();
    TRY(ensure_initialised(timeout_s));
    char *shared = malloc(size);
    if (!shared)
        return yk_set_error(YK_ERROR_OUT_OF_MEMORY, "no memory for the place of the store");
    memcpy(shared, text, size);
    MPI_Request request;
    TRY_MPI(MPI_Ibcast(shared, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD, &request));
    TRY(await_for(&request, &timeout_s));
    memcpy(text, shared, size);
    free(shared);
    /* Messages in both directions: MPICH's MPI_Finalize hangs on a connection that is half made. */
    TRY_MPI(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    return await_for(&request, &timeout_s);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Those that stay until the process ends. */
static mpi_engine *kept;

/*
 * After an error or a cancelled call, MPI may still write to what it was given, even when the
 * engine is closed: another group's call may move the message of a rank that was only late.
 */
static void close_backend(yk_backend *backend)
{
    mpi_engine *engine = (mpi_engine *)backend;
    bool stays = atomic_load(&engine->cancelled) || engine->pending > 0;
    pthread_mutex_lock(&mpi_lock);
    open_engines--;
    broken = broken || stays;
    if (stays) {
        engine->next_kept = kept;
        kept = engine;
    }
    pthread_mutex_unlock(&mpi_lock);
    yk_backend_thread_destroy(engine->common.thread, stays && engine->common.abandoned);
    engine->common.thread = NULL;
    if (stays)
        return;
    MPI_Comm_free(&engine->comm);
    free_engine(engine);
}

static void cancel(yk_backend *backend, yk_backend_work *work)
{
    mpi_engine *engine = (mpi_engine *)backend;
    atomic_store(&engine->cancelled, true);
    yki_engine_drop(&engine->common, work, CANCELLED_CALL_S);
}

__attribute__((visibility("default"))) const yk_backend_ops yk_backend_module = {
    .version = YK_BACKEND_VERSION,
    .size = sizeof(yk_backend_ops),
    .name = "mpi",
    .max_works = 4,
    .open = open_backend,
    .close = close_backend,
    .post = yki_engine_post,
    .test = yki_engine_test,
    .cancel = cancel,
};
