/*
 * MPI_Finalize, without the hang that MPICH has in it, and at most for ten seconds.
 *
 * MPICH over UCX first closes the connections to all ranks. Each answers the others in its progress
 * engine and, when its own connections are closed, waits in a barrier of the launcher, where it
 * answers no more. Before MPICH 4.2, a rank that was slower to begin then waited for ever. It must
 * therefore not answer before it closes its connections itself: all ranks stop calling MPI, meet in
 * a barrier of the launcher, as MPICH 4.2 and later do, and then finalise.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mpi_engine.h"

enum { TAG_FAREWELL = 0x7f01 };

/* In case a rank never comes. All the work is done by then. */
static void *end_a_hang(void *unused)
{
    static const char text[] =
        "yoke: MPI_Finalize did not return within 10 s; it waits for all ranks of the job; "
        "exiting without it\n";
    nanosleep(&(struct timespec){.tv_sec = 10}, NULL);
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(1);
    _exit(0);
    return unused;
}

#ifndef OPEN_MPI

static bool closes_without_meeting(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length, major = 0, minor = 0;
    if (MPI_Get_library_version(version, &length) != MPI_SUCCESS)
        return false;
    return sscanf(version, "MPICH Version: %d.%d", &major, &minor) == 2 && major == 4 &&
           minor < 2 && strstr(version, "ch4:ucx");
}

/* Asks the launcher and awaits its answer, both a line of text, as MPICH does (PMI 1). */
static void ask_launcher(int launcher, const char *line)
{
    char c = 0;
    if (write(launcher, line, strlen(line)) != (ssize_t)strlen(line))
        return;
    while (c != '\n' && read(launcher, &c, 1) == 1)
        ;
}

/* Empty messages between all pairs of ranks. Afterwards no connection is half made: one that was
 * only used in one direction is completed when it is closed, which takes both ranks. */
static bool complete_connections(void)
{
    int rank, ranks, count = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Request *requests = calloc(2 * (size_t)ranks, sizeof *requests);
    bool done = requests;
    for (int r = 0; done && r < ranks; r++)
        if (r != rank)
            done = MPI_Irecv(NULL, 0, MPI_BYTE, r, TAG_FAREWELL, MPI_COMM_WORLD,
                             &requests[count++]) == MPI_SUCCESS &&
                   MPI_Isend(NULL, 0, MPI_BYTE, r, TAG_FAREWELL, MPI_COMM_WORLD,
                             &requests[count++]) == MPI_SUCCESS;
    for (int i = 0; done && i < count; i++)
        done = MPI_Wait(&requests[i], MPI_STATUS_IGNORE) == MPI_SUCCESS;
    free(requests);
    return done;
}

/*
 * In the launcher's barrier no rank moves what others still wait for. When MPI's barrier is over,
 * everything has arrived that was sent before it, and its own messages are not held up because
 * their connections exist.
 */
static void meet_without_mpi(int launcher)
{
    if (complete_connections() && MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS)
        ask_launcher(launcher, "cmd=barrier_in\n");
}

/*
 * Ranks that MPI has only told where to meet have had all of its messages since then. Nothing is
 * left to be closed in agreement with others, so such a rank does not wait for them: it tells the
 * launcher, as the last act of MPI_Finalize, that it ends in order.
 */
static bool ends_at_launcher(bool only_met)
{
    const char *launcher = getenv("PMI_FD");
    if (!launcher || !closes_without_meeting())
        return false;
    if (only_met)
        ask_launcher(atoi(launcher), "cmd=finalize\n");
    else
        meet_without_mpi(atoi(launcher));
    return only_met;
}

#endif

void mpi_engine_finalise(bool only_met)
{
    pthread_t watchdog;
    if (pthread_create(&watchdog, NULL, end_a_hang, NULL))
        return;
#ifdef OPEN_MPI
    (void)only_met;
#else
    if (ends_at_launcher(only_met))
        return;
#endif
    MPI_Finalize();
}
