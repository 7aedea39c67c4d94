/* The rendezvous of a job: where its store is, and which process serves it. */
#ifndef YKI_INIT_METHOD_H
#define YKI_INIT_METHOD_H

#include "comm/job/meeting_point.h"
#include "comm/job/rendezvous.h"

enum { YKI_INIT_METHOD_PATH = 4096 };

typedef struct yki_init_method {
    char secret[512];
    char path[YKI_INIT_METHOD_PATH]; /* of the file that holds port and secret; else "" */
    yki_meeting_point at;
    int rest[YKI_MEETING_HOSTS];  /* attempts until a host's name is looked up again */
    double deadline, next_notice; /* when to log again for whom this rank waits */
    char found[256];              /* the host at which the store was found, at this port: */
    int found_port;
} yki_init_method;

/* Sets the job's timeout, rank and world size, and the local ones, which are -1 if unknown. */
yk_status yki_init_method_read_ranks(yki_job *job, yki_place *place,
                                     const yk_group_options *options);
/* For a job of one rank, which needs no rendezvous: whether the init method is valid, and env:// if
 * nothing says that there is only one. */
yk_status yki_init_method_check(const yk_group_options *options, const yki_place *place);
/* Whether a launcher has started this process, and serves a store. */
bool yki_init_method_has_launcher(void);
/* Reads address or path, secret, and whether the launcher serves the store. */
yk_status yki_init_method_read(yki_init_method *m, yki_job *job, const yki_place *place,
                               const yk_group_options *options);
/* Rank 0's part: serves the store, and writes the file of a rendezvous through a file. */
yk_status yki_init_method_serve(yki_init_method *m, yki_job *job);
/*
 * One attempt to connect to the store. YK_ERROR_TIMEOUT means that it is not there yet, and
 * YK_ERROR_NOT_FOUND that the name of its host is not known yet; the error line tells more.
 */
yk_status yki_init_method_connect(yki_init_method *m, yki_job *job);
/* Where the ranks meet, in words: "at HOST:PORT". */
void yki_init_method_describe(const yki_init_method *m, char *text, size_t size);

#endif
