/* Which parameters are trained; see yk_graph_set_trainable. */
#define _GNU_SOURCE
#include <fnmatch.h>

#include "graph/graph.h"

yk_status yk_graph_set_trainable(yk_graph *graph, const char *pattern, bool trainable,
                                 size_t *count)
{
    size_t matches = 0;
    if (count)
        *count = 0;
    YKI_NOT_NULL(graph);
    YKI_NOT_NULL(pattern);
    if (graph->state != YKI_GRAPH_OPEN)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the model of this graph exists already: freeze parameters before");
    for (size_t i = 0; i < graph->value_count; i++) {
        yk_value *value = graph->values[i];
        if (value->kind != YKI_PARAMETER || !value->name || fnmatch(pattern, value->name, 0) != 0)
            continue;
        value->frozen = !trainable;
        matches++;
    }
    if (count)
        *count = matches;
    return matches ? YK_OK
                   : yki_error(YK_ERROR_NOT_FOUND, "no parameter has a name like \"%s\"", pattern);
}
