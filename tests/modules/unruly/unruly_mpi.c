/*
 * Open MPI with a function that fails and messages that are late, when a test says so. It stands
 * before the real functions, which MPI also offers under other names (PMPI_...) for such purposes.
 */
#include <string.h>

#include <mpi.h>

#include "unruly_mpi.h"

static int failing, withheld_tag = -1, creation_tag = -1;
static int under_way, most;

/* The message that is withheld. */
static char data[1 << 20];
static struct {
    int count, to, tag;
    MPI_Datatype type;
    MPI_Comm comm;
    MPI_Request request;
} late;

void unruly_mpi_fail(void)
{
    failing = 1;
}

void unruly_mpi_withhold(int tag)
{
    withheld_tag = tag;
}

int unruly_mpi_deliver(void)
{
    return PMPI_Isend(data, late.count, late.type, late.to, late.tag, late.comm, &late.request);
}

void unruly_mpi_progress(void)
{
    int found;
    PMPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
}

int unruly_mpi_creation(void)
{
    return creation_tag;
}

int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made)
{
    creation_tag = tag;
    return PMPI_Comm_create_group(comm, group, tag, made);
}

void unruly_mpi_count(void)
{
    under_way = most = 0;
}

int unruly_mpi_most(void)
{
    return most;
}

static void count_one(void)
{
    under_way++;
    most = most > under_way ? most : under_way;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    int code, none = *request == MPI_REQUEST_NULL;
    if (failing) {
        failing = 0;
        return MPI_ERR_OTHER;
    }
    code = PMPI_Test(request, flag, status);
    under_way -= code == MPI_SUCCESS && *flag && !none;
    return code;
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    count_one();
    return PMPI_Irecv(buffer, count, type, from, tag, comm, request);
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    int width;
    count_one();
    if (tag != withheld_tag)
        return PMPI_Isend(buffer, count, type, to, tag, comm, request);
    PMPI_Type_size(type, &width);
    memcpy(data, buffer, (size_t)count * (size_t)width);
    late.count = count;
    late.type = type;
    late.to = to;
    late.tag = tag;
    late.comm = comm;
    withheld_tag = -1;
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}
