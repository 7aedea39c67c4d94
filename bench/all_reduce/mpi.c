/* The peer MPI: MPI_Allreduce in place, on memory from MPI_Alloc_mem. Start it with mpirun. */
#define _GNU_SOURCE
#include <mpi.h>

#include "measure.h"

/* MPI's default error handler ends the job with a message. */
static void all_reduce(float *data, size_t count)
{
    MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank, world;
    void *memory;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    MPI_Alloc_mem(MEASURED_MAX_BYTES, MPI_INFO_NULL, &memory);
    measure_all_sizes(all_reduce, memory, rank, world);
    MPI_Free_mem(memory);
    MPI_Finalize();
    return 0;
}
