/* Which parameters are trained; see yk_graph_set_trainable. */
#define _GNU_SOURCE
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

static const char *parameter_name(const yk_graph *graph, size_t i)
{
    return graph->values[i]->kind == YKI_PARAMETER ? graph->values[i]->name : NULL;
}

/* How much of a pattern some parameter's name starts with, up to a dot and before any wildcard. */
static size_t shared_prefix(const yk_graph *graph, const char *pattern)
{
    for (size_t length = strcspn(pattern, "*?[\\"); length > 0; length--)
        for (size_t i = 0; pattern[length - 1] == '.' && i < graph->value_count; i++) {
            const char *name = parameter_name(graph, i);
            if (name && strncmp(name, pattern, length) == 0)
                return length;
        }
    return 0;
}

/* The names and the parts of the network that are nearest to a pattern: "layer1.*, layer2.*", or
 * "fc.weight, fc.bias" for "fc.weights". */
static void list_near(const yk_graph *graph, const char *pattern, char *text, size_t size)
{
    const size_t prefix = shared_prefix(graph, pattern);
    const char *last = "";
    size_t used = 0, last_length = 0;
    for (size_t i = 0; i < graph->value_count && used < size; i++) {
        const char *name = parameter_name(graph, i);
        if (!name || strncmp(name, pattern, prefix) != 0)
            continue;
        size_t length = prefix + strcspn(name + prefix, ".");
        if (length == last_length && strncmp(name, last, length) == 0)
            continue;
        last = name;
        last_length = length;
        used += (size_t)snprintf(text + used, size - used, "%s%.*s%s", used ? ", " : "",
                                 (int)length, name, name[length] ? ".*" : "");
    }
    if (used >= size)
        memcpy(text + size - sizeof "...", "...", sizeof "...");
}

yk_status yki_graph_no_parameter(const yk_graph *graph, const char *pattern)
{
    char near[256] = "none";
    list_near(graph, pattern, near, sizeof near);
    return yki_error(YK_ERROR_NOT_FOUND, "no parameter has a name like \"%s\"; there are %s",
                     pattern, near);
}

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
        value->frozen = !trainable || value->fixed;
        matches++;
    }
    if (count)
        *count = matches;
    return matches ? YK_OK : yki_graph_no_parameter(graph, pattern);
}
