/* See unruly_mpi.c. A test opens it and looks these up. */
#ifndef UNRULY_MPI_H
#define UNRULY_MPI_H

/* The next MPI_Test fails; what it was to test goes on. */
void unruly_mpi_fail(void);
/* The next MPI_Isend with this tag says that it has sent a message of at most 1 MiB, which it keeps
 * until it is delivered. */
void unruly_mpi_withhold(int tag);
int unruly_mpi_deliver(void);
/* Lets MPI work. */
void unruly_mpi_progress(void);
/* The tag with which the last communicator was created. */
int unruly_mpi_creation(void);
/* Counts the sends and receives that are under way at once, from now on, when there are none; the
 * most that there have been. */
void unruly_mpi_count(void);
int unruly_mpi_most(void);

#endif
