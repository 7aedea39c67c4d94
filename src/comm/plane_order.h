/*
 * The order of collectives on one GPU. The kernels of a collective wait for those of other ranks,
 * and occupy the GPU meanwhile. If two communicators have collectives that may run in either order,
 * one rank's GPU can begin with the first and another's with the second, and neither ever ends:
 * NCCL therefore asks programs to order them, equally on all ranks. (Its own
 * NCCL_LAUNCH_ORDER_IMPLICIT is off by default, newer than the oldest NCCL that yoke uses, and does
 * not order one CUDA graph with another.)
 *
 * So the collectives of all planes of a GPU follow each other by events, in the order in which the
 * host enters them. Since the ranks of a group compare each call before they enter it, two ranks
 * enter the collectives that they share in the same order, as long as one thread does so. A program
 * with several threads on a GPU has to see to that order itself.
 */
#ifndef YKI_PLANE_ORDER_H
#define YKI_PLANE_ORDER_H

#include "device/memory.h"

/* A plane's place in the order. */
typedef struct yki_plane_turn {
    struct yki_plane_turn *next;
    yki_device *device;
    yki_event *last;    /* the end of the collectives entered last */
    yki_stream *marked; /* where that is; NULL: there were none yet */
} yki_plane_turn;

yk_status yki_plane_turn_begin(yki_plane_turn *turn, yki_device *device);
/* Accepts one that has not begun. */
void yki_plane_turn_end(yki_plane_turn *turn);

/* What is entered in the stream from now on follows the collectives of all planes of the GPU. The
 * stream must not be under recording. */
yk_status yki_plane_turn_take(const yki_plane_turn *turn, yki_stream *stream);
/* The plane's collectives end at this point of the stream. */
yk_status yki_plane_turn_pass(yki_plane_turn *turn, yki_stream *stream);

#endif
