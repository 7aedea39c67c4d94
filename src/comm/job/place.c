/*
 * The sources of a process's place, in the order in which they are asked.
 *
 * Launchers nest: torchrun starts ranks inside a step of Slurm, and mpirun inside an allocation.
 * The variables of the outer one are then still set and mean something else. They come later in the
 * table, and differ without contradiction. RANK and WORLD_SIZE that a user has set, without a
 * launcher, must agree with what mpirun or srun say about the same process.
 *
 * Slurm sets its variables in a batch script too, which is a single process: SLURM_PROCID is 0 and
 * SLURM_NTASKS is what srun would start. Only srun makes a step, so SLURM_STEP_NUM_TASKS, the tasks
 * of this step, decides. The steps of batch scripts, of salloc's shell and of helpers have special
 * numbers (slurm.h: SLURM_PENDING_STEP down to SLURM_INTERACTIVE_STEP).
 */
#include "comm/job/place.h"

#include <yoke/group.h>

#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "comm/job/slurm.h"

typedef enum kind { KIND_PLAIN, KIND_MPI, KIND_SLURM, KIND_KUBERNETES } kind;

typedef struct source {
    kind kind;
    const char *name, *rank, *size, *local_rank, *local_size;
} source;

static const source sources[] = {
    {KIND_PLAIN, "the environment", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {KIND_MPI, "mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {KIND_MPI, "mpirun of MVAPICH2", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
    {KIND_MPI, "mpiexec of MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {KIND_SLURM, "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL},
    {KIND_KUBERNETES, "an indexed Job of Kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", NULL,
     NULL},
    {KIND_KUBERNETES, "an indexed Job of Kubernetes", "JOB_COMPLETION_INDEX", "PET_NNODES", NULL,
     NULL},
};

enum { SOURCES = sizeof sources / sizeof *sources };

/* What a source tells; -1 for what it does not. */
typedef struct found {
    int rank, size, local_rank, local_size;
} found;

static int number_in(const char *name)
{
    long number;
    const char *text = name ? getenv(name) : NULL;
    return text && yki_parse_int(text, 0, YKI_MAX_WORLD, &number) ? (int)number : -1;
}

static bool is_set(const char *name)
{
    const char *text = getenv(name);
    return text && *text;
}

static bool complete(const found *f)
{
    return f->rank >= 0 && f->size > 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* RANK and WORLD_SIZE are the user's business: a malformed one is an error. */
static yk_status read_plain(found *f, int given_rank, int given_size)
{
    long rank = given_rank, size = given_size, local_rank = -1, local_size = -1;
    bool set;
    if (rank < 0)
        YK_TRY(yki_env_int("RANK", 0, YKI_MAX_WORLD - 1, &rank, &set));
    if (size < 0)
        YK_TRY(yki_env_int("WORLD_SIZE", 1, YKI_MAX_WORLD, &size, &set));
    YK_TRY(yki_env_int("LOCAL_RANK", 0, YKI_MAX_WORLD - 1, &local_rank, &set));
    YK_TRY(yki_env_int("LOCAL_WORLD_SIZE", 1, YKI_MAX_WORLD, &local_size, &set));
    *f = (found){(int)rank, (int)size, (int)local_rank, (int)local_size};
    if (local_size > 0 && local_rank >= local_size)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "LOCAL_RANK %ld: expected less than LOCAL_WORLD_SIZE, %ld", local_rank,
                         local_size);
    return YK_OK;
}

static found read_source(const source *s)
{
    found f = {number_in(s->rank), number_in(s->size), number_in(s->local_rank),
               number_in(s->local_size)};
    if (s->kind != KIND_SLURM)
        return f;
    if (!yki_slurm_in_step())
        return (found){-1, -1, -1, -1};
    f.local_size = yki_slurm_local_tasks();
    return f;
}

/* ---- agreement ------------------------------------------------------------------------------- */

/* Whether a launcher inside the others has set RANK and WORLD_SIZE. */
static bool has_launcher(void)
{
    return is_set("TORCHELASTIC_RUN_ID") || is_set("YOKE_USE_LAUNCHER_STORE");
}

/* Whether `outer` may tell something else, because it has started a launcher, not this process. */
static bool nests(const source *inner, const source *outer, bool given)
{
    if (inner->kind == KIND_PLAIN)
        return given || has_launcher();
    return outer->kind > inner->kind;
}

static yk_status contradict(const source *a, const found *fa, const source *b, const found *fb)
{
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "%s says rank %d of %d (%s, %s), but %s says rank %d of %d (%s, %s): unset "
                     "those that are wrong",
                     a->name, fa->rank, fa->size, a->rank, a->size, b->name, fb->rank, fb->size,
                     b->rank, b->size);
}

/* Adds what a source that agrees about rank and size knows besides. */
static void supplement(yki_place *place, const source *s, const found *f)
{
    if (place->local_rank < 0)
        place->local_rank = f->local_rank;
    if (place->local_world < 0)
        place->local_world = f->local_size;
    place->slurm = place->slurm || s->kind == KIND_SLURM;
    place->mpi = place->mpi || s->kind == KIND_MPI;
    place->kubernetes = place->kubernetes || s->kind == KIND_KUBERNETES;
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* The first source that knows rank and size, -1 if none does. A single task is no job. */
static int choose(const found all[SOURCES])
{
    for (int i = 0; i < SOURCES; i++)
        if (complete(&all[i]) && (i == 0 || all[i].size > 1))
            return i;
    return -1;
}

/* RANK without WORLD_SIZE, or the reverse: another source must tell the rest, and agree. */
static yk_status check_half(const found all[SOURCES], int chosen)
{
    const found *plain = &all[0], *f = &all[chosen < 0 ? 0 : chosen];
    if (chosen == 0 || (plain->rank < 0 && plain->size < 0))
        return YK_OK;
    if (chosen < 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s is set but %s is not",
                         plain->rank >= 0 ? "RANK" : "WORLD_SIZE",
                         plain->rank >= 0 ? "WORLD_SIZE" : "RANK");
    bool agree =
        (plain->rank < 0 || plain->rank == f->rank) && (plain->size < 0 || plain->size == f->size);
    if (agree)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s is %d, but %s says rank %d of %d (%s, %s)",
                     plain->rank >= 0 ? "RANK" : "WORLD_SIZE",
                     plain->rank >= 0 ? plain->rank : plain->size, sources[chosen].name, f->rank,
                     f->size, sources[chosen].rank, sources[chosen].size);
}

/* In pods of PyTorchJob and Kubeflow Trainer, RANK may count pods that run several processes. */
static yk_status check_pods(const yki_place *place)
{
    int processes = number_in("PET_NPROC_PER_NODE"), pods = number_in("PET_NNODES");
    bool counts_pods = place->kubernetes || (pods > 0 && place->world == pods * processes);
    if (processes <= 1 || !counts_pods || has_launcher() || is_set("LOCAL_RANK"))
        return YK_OK;
    return yki_error(
        YK_ERROR_INVALID_ARGUMENT,
        "each pod of this job is to run %d processes (PET_NPROC_PER_NODE=%d), but this "
        "one was started alone: start it with `yoke run PROGRAM`, which starts them",
        processes, processes);
}

static yk_status settle(yki_place *place, const found all[SOURCES], int chosen, bool given)
{
    const source *s = &sources[chosen];
    const found *f = &all[chosen];
    *place = (yki_place){.source = given ? "the options" : s->name,
                         .rank_name = s->rank,
                         .size_name = s->size,
                         .rank = f->rank,
                         .world = f->size,
                         .local_rank = all[0].local_rank,
                         .local_world = all[0].local_size};
    if (f->rank >= f->size)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "rank %d of a world of %d: %s counts from 0, %s from 1", f->rank, f->size,
                         s->rank, s->size);
    supplement(place, s, f);
    for (int i = 0; i < SOURCES; i++) {
        if (i == chosen || !complete(&all[i]) || all[i].size == 1)
            continue;
        if (all[i].rank == f->rank && all[i].size == f->size)
            supplement(place, &sources[i], &all[i]);
        else if (!nests(s, &sources[i], given))
            return contradict(s, f, &sources[i], &all[i]);
    }
    return check_pods(place);
}

yk_status yki_place_read(yki_place *place, int given_rank, int given_world)
{
    found all[SOURCES];
    const char *separate = getenv("YOKE_SEPARATE");
    int count = separate && strcmp(separate, "1") == 0 ? 1 : SOURCES;
    *place = (yki_place){.world = 1, .local_rank = -1, .local_world = -1};
    YK_TRY(read_plain(&all[0], given_rank, given_world));
    for (int i = 1; i < SOURCES; i++)
        all[i] = i < count ? read_source(&sources[i]) : (found){-1, -1, -1, -1};
    int chosen = choose(all);
    YK_TRY(check_half(all, chosen));
    return chosen < 0 ? YK_OK : settle(place, all, chosen, given_rank >= 0 && given_world >= 0);
}

yk_status yk_group_place(yk_place *place)
{
    yki_place read;
    YKI_NOT_NULL(place);
    *place = (yk_place){.world_size = 1, .local_world_size = 1};
    YK_TRY(yki_place_read(&read, -1, -1));
    *place = (yk_place){.source = read.source,
                        .rank = read.rank,
                        .world_size = read.world,
                        .local_rank = read.local_rank >= 0 ? read.local_rank : read.rank,
                        .local_world_size = read.local_world > 0 ? read.local_world : read.world};
    return YK_OK;
}
