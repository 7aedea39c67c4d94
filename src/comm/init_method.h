/* Where the ranks of a job meet: the address of its store, and who serves it. */
#ifndef YKI_INIT_METHOD_H
#define YKI_INIT_METHOD_H

#include <stdbool.h>

#include "comm/rendezvous.h"

enum { YKI_INIT_METHOD_PATH = 4096 };

typedef struct yki_init_method {
    char host[256], secret[256];
    char path[YKI_INIT_METHOD_PATH]; /* of the file that tells host, port and secret; else "" */
    int port;
    double start, deadline;
    bool noticed; /* that somebody is missing */
} yki_init_method;

/* The job's timeout, rank, world size and local ones. */
yk_status yki_init_method_read_ranks(yki_job *job, const yk_group_options *options);
/* For a rank alone, who meets nobody: whether the init method makes sense. */
yk_status yki_init_method_check(const yk_group_options *options);
/* Address or path, secret, and whether the store is the launcher's. */
yk_status yki_init_method_read(yki_init_method *m, yki_job *job, const yk_group_options *options);
/* Rank 0's part in a meeting over a file: serves the store and writes the file. */
yk_status yki_init_method_serve(yki_init_method *m, yki_job *job);
/* The others': false while there is no file of this user's rank 0 that makes sense. */
bool yki_init_method_read_file(yki_init_method *m);

#endif
