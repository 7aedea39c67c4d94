/* Scopes: prefixes of names, and modes of what is built; the versions of their modules. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void yk_scope_push(yk_graph *graph, const char *name)
{
    if (!graph)
        return;
    if (!name) {
        yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT, "%sthe name of a scope is NULL",
                       graph->scope);
        name = "";
    }
    const int deepest = (int)(sizeof graph->scope_begin / sizeof *graph->scope_begin);
    size_t length = strlen(graph->scope);
    if (length + strlen(name) + 2 > sizeof graph->scope) {
        yki_graph_fail(
            graph, YK_ERROR_INVALID_ARGUMENT,
            "the scope \"%.64s\" in \"%s\" makes a prefix of %zu characters; at most %zu are "
            "possible: does an earlier yk_scope_push lack its yk_scope_pop?",
            name, graph->scope, length + strlen(name) + 1, sizeof graph->scope - 1);
        return;
    }
    if (graph->scope_depth == deepest) {
        yki_graph_fail(
            graph, YK_ERROR_INVALID_ARGUMENT,
            "the scope \"%.64s\" in \"%s\" would be the %dth that has not ended; at most %d are "
            "possible: does an earlier yk_scope_push lack its yk_scope_pop?",
            name, graph->scope, deepest + 1, deepest);
        return;
    }
    graph->scope_begin[graph->scope_depth++] = (uint8_t)length;
    if (name[0]) /* otherwise the prefix stays */
        snprintf(graph->scope + length, sizeof graph->scope - length, "%s.", name);
}

void yk_scope_reuse(yk_graph *graph, const char *name)
{
    yk_scope_push(graph, name);
    if (graph && graph->reuse_depth == 0)
        graph->reuse_depth = graph->scope_depth;
}

void yk_scope_pop(yk_graph *graph)
{
    if (!graph)
        return;
    if (graph->scope_depth == 0) {
        yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT,
                       "yk_scope_pop without a yk_scope_push before it");
        return;
    }
    graph->scope[graph->scope_begin[--graph->scope_depth]] = '\0';
    if (graph->scope_depth < graph->reuse_depth)
        graph->reuse_depth = 0;
}

void yk_eval_push(yk_graph *graph)
{
    if (graph)
        graph->eval_depth++;
}

void yk_eval_pop(yk_graph *graph)
{
    if (!graph)
        return;
    if (graph->eval_depth == 0)
        yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT,
                       "yk_eval_pop without a yk_eval_push before it");
    else
        graph->eval_depth--;
}

yk_status yki_scope_check_ended(const yk_graph *graph)
{
    if (graph->scope_depth > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the scope \"%.*s\" has not ended: its yk_scope_push lacks a yk_scope_pop",
                         (int)strlen(graph->scope) - (graph->scope[0] != '\0'), graph->scope);
    if (graph->eval_depth > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "a yk_eval_push lacks its yk_eval_pop");
    return YK_OK;
}

/* ---- versions -------------------------------------------------------------------------------- */

static yki_scope_version *find_version(const yk_graph *graph, const char *scope, size_t length)
{
    for (size_t i = 0; i < graph->version_count; i++)
        if (strncmp(graph->versions[i].scope, scope, length) == 0 &&
            graph->versions[i].scope[length] == '\0')
            return &graph->versions[i];
    return NULL;
}

int yki_scope_version_of(const yk_graph *graph, const char *scope, size_t length)
{
    const yki_scope_version *said = find_version(graph, scope, length);
    return said ? said->version : 1;
}

void yk_scope_version(yk_graph *graph, int version)
{
    if (!graph)
        return;
    if (version < 1 || graph->state == YKI_GRAPH_OWNED) {
        yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT,
                       "%syk_scope_version: expected 1 or more, not %d", graph->scope, version);
        return;
    }
    yki_scope_version *said = find_version(graph, graph->scope, strlen(graph->scope));
    if (said) {
        said->version = version;
        return;
    }
    char *scope = yki_strdup(graph->scope);
    if (!scope || !yki_reserve(&graph->versions, graph->version_count + 1, &graph->version_capacity,
                               sizeof *graph->versions)) {
        free(scope);
        yki_graph_out_of_memory(graph);
        return;
    }
    graph->versions[graph->version_count++] = (yki_scope_version){scope, version};
}
