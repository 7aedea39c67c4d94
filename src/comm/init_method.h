/* The rendezvous of a job: where its store is, and which process serves it. */
#ifndef YKI_INIT_METHOD_H
#define YKI_INIT_METHOD_H

#include <stdbool.h>

#include "comm/rendezvous.h"

enum { YKI_INIT_METHOD_PATH = 4096 };

typedef struct yki_init_method {
    char host[256], secret[256];
    char path[YKI_INIT_METHOD_PATH]; /* of the file that holds port and secret; else "" */
    int port;
    double start, deadline;
    bool noticed; /* a warning about missing ranks has been logged */
} yki_init_method;

/* Sets the job's timeout, rank and world size, and the local ones. */
yk_status yki_init_method_read_ranks(yki_job *job, const yk_group_options *options);
/* For a job of one rank, which needs no rendezvous: whether the init method is valid. */
yk_status yki_init_method_check(const yk_group_options *options);
/* Reads address or path, secret, and whether the launcher serves the store. */
yk_status yki_init_method_read(yki_init_method *m, yki_job *job, const yk_group_options *options);
/* Rank 0's part of a rendezvous through a file: serves the store and writes the file. */
yk_status yki_init_method_serve(yki_init_method *m, yki_job *job);
/* The other ranks' part: returns false until there is a valid file, written by this user. */
bool yki_init_method_read_file(yki_init_method *m);

#endif
