/* See kubeflow_post.h. */
#include "report/kubeflow_post.h"

yk_status yki_kubeflow_post(const yki_kubeflow_server *server, const char *json)
{
    (void)server, (void)json;
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "this build cannot send it: install libcurl (Debian: libcurl4-openssl-dev), "
                     "then configure with -DYOKE_DOWNLOAD=ON and build again");
}
