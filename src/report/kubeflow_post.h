/* Sends the status of a TrainJob: kubeflow_post.c, or kubeflow_post_missing.c in a build without
 * libcurl. */
#ifndef YKI_KUBEFLOW_POST_H
#define YKI_KUBEFLOW_POST_H

#include "base/error.h"

/* What the controller has put into the environment. */
typedef struct yki_kubeflow_server {
    const char *url;
    const char *token; /* path of a file that is replaced now and then */
    const char *ca;    /* path of the certificates that the server's is signed by */
} yki_kubeflow_server;

/* Blocks for 5 s at most. */
yk_status yki_kubeflow_post(const yki_kubeflow_server *server, const char *json);

#endif
